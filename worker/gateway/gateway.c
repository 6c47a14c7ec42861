#include "worker/gateway/gateway.h"

#include "worker/base/clock.h"
#include "worker/config/value_file.h"
#include "worker/gateway/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#define OPEN_MS          10000u
#define ANSWER_MS        2000u
#define REPLY_PARTITIONS 8u
#define FILES_SPARE      256u /* descriptors that are not connections of clients */

struct mr_gateway {
    const struct mr_config *config;
    struct mr_log *log;
    struct mr_kafka_options kafka;
    struct mr_wake wake; /* of the Kafka thread */
    struct mr_gateway_counts counts;
    struct mr_exchanges exchanges;
    struct mr_fleet fleet;
    struct mr_keys *keys;
    struct mr_link link;
    struct mr_server *server;
    uint32_t reply_partition;
};

/* Connects to the cluster, creates the reply topic, and chooses the partition. */
static enum mr_status prepare_topics(struct mr_gateway *gateway, struct mr_error *err)
{
    static const struct mr_kafka_setting settings[] = {{"retention.ms", "86400000"},
                                                       {"cleanup.policy", "delete"}};
    const struct mr_kafka_topic_plan plan = {.partitions = REPLY_PARTITIONS,
                                             .replicas = gateway->config->replicas,
                                             .settings = settings,
                                             .setting_count = 2};
    const char *topic = gateway->config->reply_topics.values[0];
    const char *requests = gateway->config->request_topics[0].name;
    struct mr_kafka_admin *admin = NULL;
    uint32_t count = 0, random = 0;
    bool created = false;
    enum mr_status status = mr_kafka_admin_open(&admin, &gateway->kafka, err);
    if (status != MR_OK) return status;
    status = mr_kafka_admin_probe(admin, OPEN_MS, &gateway->kafka.embedded, err);
    if (status == MR_OK) status = mr_kafka_admin_partitions(admin, requests, OPEN_MS, &count, err);
    if (status == MR_OK && count == 0)
        status = mr_fail(err, MR_BACKEND,
                         "topic %.100s does not exist: check --prefix, start a worker, or run "
                         "millrace topics create",
                         requests);
    if (status == MR_OK)
        status = mr_kafka_admin_create(admin, topic, &plan, OPEN_MS, &created, err);
    if (status == MR_OK) status = mr_kafka_admin_partitions(admin, topic, OPEN_MS, &count, err);
    mr_kafka_admin_close(admin);
    if (status != MR_OK) return status;
    (void)!getrandom(&random, sizeof random, 0);
    gateway->reply_partition = gateway->config->reply_partition;
    if (gateway->reply_partition == MR_OPTION_AUTO)
        gateway->reply_partition = random % (count > 0 ? count : 1);
    if (gateway->reply_partition < count) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "--reply-partition %u: topic %.100s has %u partitions",
                   gateway->reply_partition, topic, count);
}

static enum mr_status start_link(struct mr_gateway *gateway, struct mr_error *err)
{
    const struct mr_config *config = gateway->config;
    gateway->link = (struct mr_link){.kafka = &gateway->kafka,
                                     .requests_topic = config->request_topics[0].name,
                                     .cancel_topic = config->cancel_topic,
                                     .reply_topic = config->reply_topics.values[0],
                                     .reply_partition = gateway->reply_partition,
                                     .log = gateway->log,
                                     .exchanges = &gateway->exchanges,
                                     .fleet = &gateway->fleet,
                                     .counts = &gateway->counts,
                                     .resume = mr_server_resume,
                                     .wake = &gateway->wake};
    return mr_link_open(&gateway->link, err);
}

/* Raises the limit on open files to what the connections need, as far as it may. */
static void raise_files(const struct mr_gateway *gateway)
{
    struct rlimit limit;
    const rlim_t need = (rlim_t)gateway->config->connections + FILES_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need) return;
    limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < need)
        mr_log_warn(gateway->log,
                    "the limit on open files is %llu: fewer than --connections %u fit",
                    (unsigned long long)limit.rlim_cur, gateway->config->connections);
}

/* The text of a PEM file; the caller frees it. */
static enum mr_status read_pem(char **out, const char *path, struct mr_error *err)
{
    size_t length;
    *out = calloc(1, MR_VALUE_FILE_BYTES);
    if (!*out) return mr_fail(err, MR_NOMEM, "no memory for %.100s", path);
    return mr_value_file_read(path, *out, &length, err);
}

static enum mr_status start_server(struct mr_gateway *gateway, struct mr_error *err)
{
    const struct mr_config *config = gateway->config;
    struct mr_server_options options = {.address =
                                            config->listen[0] ? config->listen : "127.0.0.1:8000",
                                        .link = &gateway->link,
                                        .exchanges = &gateway->exchanges,
                                        .keys = gateway->keys,
                                        .fleet = &gateway->fleet,
                                        .counts = &gateway->counts,
                                        .rules = {.fleet = &gateway->fleet,
                                                  .topic = config->request_topics[0].name,
                                                  .timeout_ns = config->request_timeout_ns,
                                                  .record_bytes_max = config->max_record_bytes,
                                                  .waits_for_workers = config->wait_for_workers},
                                        .body_bytes_max = config->max_record_bytes,
                                        .connections_max = config->connections,
                                        .cors_origin = config->cors_origin};
    enum mr_status status = MR_OK;
    if (config->tls_cert[0]) status = read_pem(&options.certificate, config->tls_cert, err);
    if (status == MR_OK && config->tls_cert[0])
        status = read_pem(&options.private_key, config->tls_key, err);
    raise_files(gateway);
    if (status == MR_OK) status = mr_server_start(&gateway->server, &options, err);
    free(options.certificate);
    if (options.private_key) explicit_bzero(options.private_key, MR_VALUE_FILE_BYTES);
    free(options.private_key);
    return status;
}

enum mr_status mr_gateway_start(struct mr_gateway **out, const struct mr_config *config,
                                struct mr_log *log, struct mr_error *err)
{
    *out = NULL;
    struct mr_gateway *gateway = calloc(1, sizeof *gateway);
    if (!gateway) return mr_fail(err, MR_NOMEM, "no memory for the gateway");
    gateway->config = config;
    gateway->log = log;
    gateway->kafka = (struct mr_kafka_options){.brokers = config->brokers,
                                               .client_id = "millrace-gateway",
                                               .properties = &config->kafka,
                                               .mock_wait_ms = 2};
    mr_gateway_counts_open(&gateway->counts);
    enum mr_status status = mr_wake_open(&gateway->wake, err);
    if (status != MR_OK) goto free_gateway;
    status = mr_exchanges_open(&gateway->exchanges, &gateway->wake, config->connections,
                               (size_t)config->buffer_bytes, err);
    if (status != MR_OK) goto close_wake;
    if (config->key_file[0])
        status = mr_keys_open(&gateway->keys, config->key_file, mr_clock_ns(), err);
    if (status == MR_OK) status = mr_kafka_conf_check(&gateway->kafka, err);
    if (status == MR_OK) status = prepare_topics(gateway, err);
    if (status != MR_OK) goto close_keys;
    status = mr_fleet_start(&gateway->fleet, &gateway->kafka, config->request_topics[0].name, err);
    if (status != MR_OK) goto close_keys;
    status = start_link(gateway, err);
    if (status != MR_OK) goto stop_fleet;
    status = start_server(gateway, err);
    if (status != MR_OK) goto close_link;
    *out = gateway;
    return MR_OK;
close_link:
    mr_link_close(&gateway->link);
stop_fleet:
    mr_fleet_stop(&gateway->fleet);
close_keys:
    mr_keys_close(gateway->keys);
    mr_exchanges_close(&gateway->exchanges);
close_wake:
    mr_wake_close(&gateway->wake);
free_gateway:
    mr_gateway_counts_close(&gateway->counts);
    free(gateway);
    return status;
}

uint16_t mr_gateway_port(const struct mr_gateway *gateway)
{
    return mr_server_port(gateway->server);
}

uint32_t mr_gateway_reply_partition(const struct mr_gateway *gateway)
{
    return gateway->reply_partition;
}

void mr_gateway_reload(struct mr_gateway *gateway)
{
    struct mr_error err = {0};
    size_t count = 0;
    if (!gateway->keys) return;
    if (mr_keys_reload(gateway->keys, mr_clock_ns(), &count, &err) == MR_OK)
        mr_log_info(gateway->log, "key file read again: %zu keys", count);
    else
        mr_log_error(gateway->log, "key file not changed: %s", err.detail);
}

void mr_gateway_stop(struct mr_gateway *gateway, uint32_t drain_ms)
{
    if (!gateway) return;
    mr_server_drain(gateway->server, drain_ms);
    mr_link_stop(&gateway->link);
    mr_link_fail_all(&gateway->link);
    mr_link_drop_posted(&gateway->link);
    mr_server_drain(gateway->server, ANSWER_MS); /* the errors reach their clients */
    mr_server_stop(gateway->server);
    mr_link_drop_posted(&gateway->link);
    mr_link_close(&gateway->link);
    mr_fleet_stop(&gateway->fleet);
    mr_keys_close(gateway->keys);
    mr_exchanges_close(&gateway->exchanges);
    mr_wake_close(&gateway->wake);
    mr_gateway_counts_close(&gateway->counts);
    free(gateway);
}
