#include "worker/lag/lag_reader.h"

#include "codec/hash.h"
#include "codec/records/reply.h"
#include "worker/intake/decode.h"
#include "worker/kafka/header_names.h"
#include "worker/kafka/kafka_admin.h"

#include <stdlib.h>
#include <string.h>

#define RESULT_ARENA_BYTES ((size_t)64 << 20)
#define RECORD_BYTES_MAX   ((size_t)64 << 20)

/* One partition of the results topic. */
struct results {
    int32_t partition;
    int64_t begin, end, next;
    bool skipped; /* results before `next` were deleted or passed over, not read */
};

struct mr_lag_reader {
    const struct mr_config *config;
    struct mr_kafka_options kafka;
    struct mr_kafka_admin *admin;
    struct mr_kafka_backlog *backlog;
    const char *topics[MR_LIST_MAX + 1]; /* the request topics, then the results topic */
    uint64_t queue_limits_ns[MR_LIST_MAX];
    struct mr_lag_partition *partitions; /* [partition_count] */
    size_t partition_count;
    struct results *results; /* [results_count] */
    size_t results_count;
    struct mr_kafka_range *ranges; /* scratch: of partitions, then of results */
    size_t *sources;               /* scratch: index of the partition or results of each range */
    size_t request_ranges, range_count;
    struct mr_offset_ledger *scratch;
    struct mr_lag_rates *rates;
    struct mr_lag_figures figures[MR_LIST_MAX];
    struct mr_lag_forecast forecast;
    size_t kept; /* requests of all partitions */
    int64_t now_ms;
    bool memory_lost;
};

enum mr_status mr_lag_reader_open(struct mr_lag_reader **out, const struct mr_config *config,
                                  uint32_t timeout_ms, struct mr_error *err)
{
    *out = NULL;
    struct mr_lag_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return mr_fail(err, MR_NOMEM, "no memory for the reader of the lag");
    reader->config = config;
    reader->kafka = (struct mr_kafka_options){.brokers = config->brokers,
                                              .group = config->group,
                                              .client_id = "millrace-lag",
                                              .properties = &config->kafka};
    for (size_t i = 0; i < config->request_topic_count; i++) {
        reader->topics[i] = config->request_topics[i].name;
        reader->queue_limits_ns[i] = config->request_topics[i].queue_limit_ns;
    }
    reader->topics[config->request_topic_count] = config->results_topic;
    enum mr_status status = mr_kafka_conf_check(&reader->kafka, err);
    if (status == MR_OK) status = mr_kafka_admin_open(&reader->admin, &reader->kafka, err);
    if (status == MR_OK)
        status = mr_kafka_admin_probe(reader->admin, timeout_ms, &reader->kafka.embedded, err);
    if (status == MR_OK) status = mr_kafka_backlog_open(&reader->backlog, &reader->kafka, err);
    if (status == MR_OK)
        status = mr_offset_ledger_create(&reader->scratch, MR_LEDGER_SPAN_MAX, err);
    if (status == MR_OK)
        status = mr_lag_rates_create(&reader->rates, config->request_topic_count, err);
    if (status != MR_OK) {
        mr_lag_reader_close(reader);
        return status;
    }
    *out = reader;
    return MR_OK;
}

void mr_lag_reader_close(struct mr_lag_reader *reader)
{
    if (!reader) return;
    for (size_t i = 0; i < reader->partition_count; i++)
        mr_lag_partition_free(&reader->partitions[i]);
    free(reader->partitions);
    free(reader->results);
    free(reader->ranges);
    free(reader->sources);
    if (reader->scratch) mr_offset_ledger_destroy(reader->scratch);
    mr_lag_rates_destroy(reader->rates);
    mr_kafka_backlog_close(reader->backlog);
    mr_kafka_admin_close(reader->admin);
    free(reader);
}

/* ---- partitions ---- */

/* Returns the array with room for one more element; NULL: no memory, and the array is unchanged.
 * Its capacity is the next power of two. */
static void *grow(void *array, size_t count, size_t size)
{
    if (count & (count - 1)) return array;
    return realloc(array, (count > 0 ? 2 * count : 1) * size);
}

static void visit_requests(struct mr_lag_reader *reader,
                           const struct mr_kafka_backlog_partition *at)
{
    size_t i = 0;
    while (i < reader->partition_count && (reader->partitions[i].topic != at->topic ||
                                           reader->partitions[i].partition != at->partition))
        i++;
    if (i == reader->partition_count) {
        struct mr_lag_partition *more = grow(reader->partitions, i, sizeof *more);
        reader->memory_lost |= !more;
        if (!more) return;
        reader->partitions = more;
        mr_lag_partition_init(&reader->partitions[i], at->topic, at->partition,
                              MR_LAG_REQUESTS_MAX);
        reader->partition_count++;
    }
    mr_lag_partition_update(&reader->partitions[i], at, reader->scratch);
}

static void visit_results(struct mr_lag_reader *reader, const struct mr_kafka_backlog_partition *at)
{
    size_t i = 0;
    while (i < reader->results_count && reader->results[i].partition != at->partition)
        i++;
    if (i == reader->results_count) {
        struct results *more = grow(reader->results, i, sizeof *more);
        reader->memory_lost |= !more;
        if (!more) return;
        reader->results = more;
        reader->results[i] = (struct results){.partition = at->partition};
        reader->results_count++;
    }
    reader->results[i].begin = at->begin;
    reader->results[i].end = at->end;
}

static void visit_partition(void *context, const struct mr_kafka_backlog_partition *at)
{
    struct mr_lag_reader *reader = context;
    if (at->topic == reader->config->request_topic_count)
        visit_results(reader, at);
    else
        visit_requests(reader, at);
}

static enum mr_status read_ends(struct mr_lag_reader *reader, uint32_t timeout_ms,
                                struct mr_error *err)
{
    const struct mr_kafka_topics topics = {reader->topics, reader->config->request_topic_count + 1};
    enum mr_status status =
        mr_kafka_backlog_read(reader->backlog, &topics, timeout_ms, visit_partition, reader, err);
    if (status != MR_OK) return status;
    if (reader->memory_lost) return mr_fail(err, MR_NOMEM, "no memory for the partitions");
    for (size_t topic = 0; topic < reader->config->request_topic_count; topic++) {
        size_t i = 0;
        while (i < reader->partition_count && reader->partitions[i].topic != topic)
            i++;
        if (i == reader->partition_count)
            return mr_fail(err, MR_BAD_CONFIG, "topic %.100s does not exist",
                           reader->topics[topic]);
    }
    return MR_OK;
}

/* ---- records ---- */

static struct mr_text text_of(const struct mr_kafka_header *header)
{
    if (!header || !header->value) return (struct mr_text){NULL, 0};
    return (struct mr_text){header->value, header->length};
}

/* Decodes the record as a worker does, which knows more limits and may still reject it. */
static struct mr_lag_request request_of(const struct mr_kafka_record *record, int64_t now_ms)
{
    const struct mr_decode_options options = {
        .default_max_tokens = UINT32_MAX, .record_bytes_max = RECORD_BYTES_MAX, .now_ms = now_ms};
    struct mr_envelope envelope;
    struct mr_decoded decoded;
    struct mr_error err;
    mr_envelope_read(&envelope, record, NULL);
    enum mr_status status = mr_decode_record(&decoded, &envelope, record, &options, &err);
    struct mr_lag_request request = {.offset = record->offset,
                                     .timestamp_ms = record->timestamp_ms,
                                     .deadline_ms = decoded.deadline_ms,
                                     .rejected = status != MR_OK};
    if (status != MR_OK) return request;
    const uint64_t most = (uint64_t)decoded.request->max_tokens * decoded.request->choice_count;
    request.answer_tokens_max = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    mr_request_destroy(decoded.request);
    return request;
}

static bool take_request(struct mr_lag_reader *reader, struct mr_lag_partition *partition,
                         const struct mr_kafka_record *record)
{
    /* workers skip a null value */
    if (!record->value.bytes) {
        mr_lag_partition_advance(partition, record->offset + 1);
        return true;
    }
    if (reader->kept >= MR_LAG_REQUESTS_MAX) return false;
    const size_t before = partition->count;
    const struct mr_lag_request request = request_of(record, reader->now_ms);
    if (!mr_lag_partition_add(partition, &request)) return false;
    reader->kept += partition->count - before;
    return true;
}

static size_t topic_of(const struct mr_lag_reader *reader, struct mr_text name)
{
    size_t i = 0;
    while (i < reader->config->request_topic_count && !mr_text_is(name, reader->topics[i]))
        i++;
    return i;
}

static void add_sample(struct mr_lag_reader *reader, const struct mr_kafka_record *record,
                       const struct mr_result *result)
{
    struct mr_lag_sample sample = {
        .worker = mr_hash_bytes(0, result->worker.bytes, result->worker.length),
        .topic = topic_of(reader, result->source_topic),
        .end_ms = record->timestamp_ms,
        .run_ms = result->total_ms - result->queue_ms,
        .prompt_tokens = result->prompt_tokens - result->cached_tokens};
    if (sample.topic == reader->config->request_topic_count) return;
    if (result->cached_tokens > result->prompt_tokens) sample.prompt_tokens = 0;
    for (size_t i = 0; i < result->choice_count; i++)
        sample.answer_tokens += result->choices[i].completion_tokens;
    mr_lag_rates_add(reader->rates, &sample);
}

/* A record that is not a result of the group is ignored. */
static void take_result(struct mr_lag_reader *reader, struct results *results,
                        const struct mr_kafka_record *record)
{
    struct mr_result result;
    enum mr_encoding encoding;
    if (results->skipped) mr_lag_rates_skip(reader->rates, record->timestamp_ms);
    results->skipped = false;
    if (!record->value.bytes ||
        !mr_text_is(text_of(mr_kafka_record_header(record, MR_HEADER_GROUP)),
                    reader->config->group) ||
        mr_encoding_detect(text_of(mr_kafka_record_header(record, MR_HEADER_CONTENT_TYPE)),
                           record->value, &encoding, NULL) != MR_OK)
        return;
    struct mr_arena *arena = mr_arena_create(RESULT_ARENA_BYTES);
    if (!arena) return;
    if (mr_result_decode(&result, record->value, encoding, arena, NULL) == MR_OK)
        add_sample(reader, record, &result);
    mr_arena_destroy(arena);
}

static bool take_record(void *context, size_t range, const struct mr_kafka_record *record)
{
    struct mr_lag_reader *reader = context;
    const size_t source = reader->sources[range];
    if (range < reader->request_ranges)
        return take_request(reader, &reader->partitions[source], record);
    take_result(reader, &reader->results[source], record);
    return true;
}

/* ---- what to read ---- */

static void add_range(struct mr_lag_reader *reader, struct mr_kafka_range range, size_t source)
{
    reader->ranges[reader->range_count] = range;
    reader->sources[reader->range_count++] = source;
}

static void add_request_ranges(struct mr_lag_reader *reader)
{
    reader->kept = 0;
    for (size_t i = 0; i < reader->partition_count; i++)
        reader->kept += reader->partitions[i].count;
    for (size_t i = 0; i < reader->partition_count && reader->kept < MR_LAG_REQUESTS_MAX; i++) {
        const struct mr_lag_partition *partition = &reader->partitions[i];
        if (!mr_lag_partition_has_unread(partition)) continue;
        add_range(reader,
                  (struct mr_kafka_range){.topic = reader->topics[partition->topic],
                                          .partition = partition->partition,
                                          .from = partition->next,
                                          .to = partition->end},
                  i);
    }
    reader->request_ranges = reader->range_count;
}

/* Only the last results are read, as many as there are samples. */
static void add_result_ranges(struct mr_lag_reader *reader)
{
    const int64_t most =
        (int64_t)(MR_LAG_SAMPLES_MAX / (reader->results_count > 0 ? reader->results_count : 1)) + 1;
    for (size_t i = 0; i < reader->results_count; i++) {
        struct results *results = &reader->results[i];
        int64_t from = results->next;
        if (from > results->end) from = 0; /* the topic was recreated */
        if (from < results->begin) from = results->begin;
        if (from < results->end - most) from = results->end - most;
        results->skipped |= from != results->next;
        results->next = from;
        if (from >= results->end) continue;
        add_range(reader,
                  (struct mr_kafka_range){.topic = reader->config->results_topic,
                                          .partition = results->partition,
                                          .from = from,
                                          .to = results->end},
                  i);
    }
}

static enum mr_status read_records(struct mr_lag_reader *reader, uint32_t read_ms,
                                   struct mr_error *err)
{
    const size_t most = reader->partition_count + reader->results_count;
    free(reader->ranges);
    free(reader->sources);
    reader->range_count = 0;
    reader->ranges = calloc(most, sizeof *reader->ranges);
    reader->sources = calloc(most, sizeof *reader->sources);
    if (!reader->ranges || !reader->sources)
        return mr_fail(err, MR_NOMEM, "no memory for the ranges to read");
    add_request_ranges(reader);
    add_result_ranges(reader);
    const struct mr_kafka_scan scan = {.ranges = reader->ranges,
                                       .count = reader->range_count,
                                       .timeout_ms = read_ms,
                                       .visit = take_record,
                                       .context = reader};
    enum mr_status status = mr_kafka_backlog_scan(reader->backlog, &scan, err);
    if (status != MR_OK) return status;
    for (size_t i = 0; i < reader->range_count; i++) {
        const size_t source = reader->sources[i];
        if (i < reader->request_ranges)
            mr_lag_partition_advance(&reader->partitions[source], reader->ranges[i].next);
        else
            reader->results[source].next = reader->ranges[i].next;
    }
    return MR_OK;
}

/* ---- the forecast ---- */

/* False: the number of members is not known, because the broker does not describe groups, as the
 * embedded one, or the right is missing. */
static bool count_workers(struct mr_lag_reader *reader, uint32_t timeout_ms, uint32_t *workers)
{
    struct mr_kafka_group group = {.is_known = false};
    if (mr_kafka_admin_group(reader->admin, reader->config->group, "", timeout_ms, &group, NULL) !=
        MR_OK)
        return false;
    *workers = group.members;
    return group.is_known;
}

static enum mr_status forecast_now(struct mr_lag_reader *reader, uint32_t timeout_ms,
                                   struct mr_error *err)
{
    struct mr_lag_question question = {.partitions = reader->partitions,
                                       .partition_count = reader->partition_count,
                                       .queue_limits_ns = reader->queue_limits_ns,
                                       .topic_count = reader->config->request_topic_count,
                                       .rates = reader->rates,
                                       .now_ms = reader->now_ms,
                                       .target_s = (double)reader->config->lag_target_ns / 1e9,
                                       .start_s = (double)reader->config->lag_start_ns / 1e9};
    uint64_t unfinished = 0;
    for (size_t i = 0; i < reader->partition_count; i++)
        unfinished += reader->partitions[i].count + mr_lag_partition_unread(&reader->partitions[i]);
    mr_lag_rates_learn(reader->rates, unfinished > 0, reader->now_ms);
    question.workers_known = count_workers(reader, timeout_ms, &question.workers);
    reader->forecast.topics = reader->figures;
    return mr_lag_forecast_make(&reader->forecast, &question, err);
}

enum mr_status mr_lag_reader_refresh(struct mr_lag_reader *reader, struct mr_time now,
                                     uint32_t timeout_ms, uint32_t read_ms,
                                     const struct mr_lag_forecast **forecast, struct mr_error *err)
{
    *forecast = NULL;
    reader->now_ms = now.unix_ms;
    enum mr_status status = read_ends(reader, timeout_ms, err);
    if (status == MR_OK) status = read_records(reader, read_ms, err);
    if (status == MR_OK) status = forecast_now(reader, timeout_ms, err);
    if (status == MR_OK) *forecast = &reader->forecast;
    return status;
}
