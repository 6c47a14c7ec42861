/* topic - creates topics. Kafka's own tool takes 1.5 s for each.
 *
 *     topic BROKERS PARTITIONS NAME...
 *
 * Exits 1 when a topic could not be created or exists. */
#include "worker/kafka/kafka_admin.h"

#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_MS 30000

int main(int argc, char *argv[])
{
    struct mr_error err = {0};
    struct mr_kafka_admin *admin = NULL;
    if (argc < 4) {
        fprintf(stderr, "usage: topic BROKERS PARTITIONS NAME...\n");
        return 1;
    }
    const struct mr_kafka_options options = {.brokers = argv[1], .client_id = "topic"};
    const struct mr_kafka_topic_plan plan = {.partitions = (uint32_t)strtoul(argv[2], NULL, 10)};
    enum mr_status status = mr_kafka_admin_open(&admin, &options, &err);
    bool created = true;
    for (int i = 3; i < argc && status == MR_OK && created; i++) {
        status = mr_kafka_admin_create(admin, argv[i], &plan, TIMEOUT_MS, &created, &err);
        if (status == MR_OK && !created) fprintf(stderr, "topic: %s exists\n", argv[i]);
    }
    if (status != MR_OK) fprintf(stderr, "topic: %s\n", err.detail);
    mr_kafka_admin_close(admin);
    return status == MR_OK && created ? 0 : 1;
}
