#include "worker/client/replay.h"

#include "worker/kafka/header_names.h"

#include <stdio.h>
#include <string.h>

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_left_out(const char *name)
{
    static const char *const names[] = {MR_HEADER_WORKER, MR_HEADER_SOURCE, MR_HEADER_GROUP,
                                        MR_HEADER_DEADLINE, MR_HEADER_VALUE_BYTES};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return begins_with(name, "__connect.errors.") || begins_with(name, "kafka_dlt-");
}

static struct mr_text header_text(const struct mr_kafka_record *record, const char *name)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, name);
    if (!header || !header->value) return (struct mr_text){"", 0};
    return (struct mr_text){header->value, header->length};
}

bool mr_replay_wants(const struct mr_replay_options *options, const struct mr_kafka_record *record)
{
    if (options->from_ms > 0 && record->timestamp_ms < options->from_ms) return false;
    if (options->until_ms > 0 && record->timestamp_ms >= options->until_ms) return false;
    struct mr_text key = record->key.bytes ? record->key : (struct mr_text){"", 0};
    struct mr_text id = header_text(record, MR_HEADER_ID);
    for (size_t i = 0; i < options->id_count; i++)
        if (mr_text_is(key, options->ids[i]) || mr_text_is(id, options->ids[i])) return true;
    return options->id_count == 0;
}

/* Where the record goes: the given topic, else the one that a dead letter came from, else its own.
 */
static void choose_topic(struct mr_replay_plan *plan, const struct mr_replay_options *options,
                         const struct mr_kafka_record *record)
{
    struct mr_text origin = header_text(record, MR_HEADER_CONNECT_TOPIC);
    if (options->to[0])
        snprintf(plan->topic, sizeof plan->topic, "%s", options->to);
    else if (origin.length > 0 && origin.length < sizeof plan->topic)
        snprintf(plan->topic, sizeof plan->topic, "%.*s", (int)origin.length, origin.bytes);
    else
        snprintf(plan->topic, sizeof plan->topic, "%s", record->topic);
}

void mr_replay_plan(struct mr_replay_plan *plan, const struct mr_replay_options *options,
                    const struct mr_kafka_record *record)
{
    plan->refusal = NULL;
    plan->record = (struct mr_kafka_record){.topic = plan->topic,
                                            .partition = -1,
                                            .key = record->key,
                                            .value = record->value,
                                            .headers = plan->headers};
    choose_topic(plan, options, record);
    for (size_t i = 0; i < record->header_count; i++)
        if (!is_left_out(record->headers[i].name))
            plan->headers[plan->record.header_count++] = record->headers[i];
    if (mr_kafka_record_header(record, MR_HEADER_VALUE_BYTES))
        plan->refusal = "the dead letter has no value, because the record was too large; its "
                        "headers name its place";
    else if (!record->value.bytes)
        plan->refusal = "it has no value";
}

uint64_t mr_replay_due_ns(double speed, int64_t first_ms, int64_t record_ms)
{
    if (speed <= 0 || record_ms <= first_ms) return 0;
    return (uint64_t)((double)(record_ms - first_ms) * 1e6 / speed);
}
