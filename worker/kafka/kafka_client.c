#include "worker/kafka/kafka_client.h"

#include "worker/base/clock.h"
#include "worker/kafka/kafka_errors.h"

#include <librdkafka/rdkafka.h>
#include <string.h>
#include <time.h>

/* pause before the next request for the end offsets of a partition without a leader */
#define PAUSE_MS       200u
#define MILLISECOND_NS ((uint64_t)1000000)
/* Most partitions of a commit request after an earlier request was too large. Their metadata, at
 * most 4 KiB each, is a quarter of the largest record batch that a broker accepts by default
 * (message.max.bytes, 1 MiB). */
#define PARTITIONS_TOGETHER 64u

static size_t read_headers(rd_kafka_message_t *message,
                           struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX])
{
    rd_kafka_headers_t *list = NULL;
    size_t count = 0;
    if (rd_kafka_message_headers(message, &list)) return 0;
    while (count < MR_KAFKA_HEADERS_MAX &&
           !rd_kafka_header_get_all(list, count, &headers[count].name, &headers[count].value,
                                    &headers[count].length))
        count++;
    return count;
}

void mr_kafka_client_describe(struct rd_kafka_message_s *message,
                              struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX],
                              struct mr_kafka_record *record)
{
    rd_kafka_timestamp_type_t kind;
    int64_t timestamp = rd_kafka_message_timestamp(message, &kind);
    *record = (struct mr_kafka_record){.topic = rd_kafka_topic_name(message->rkt),
                                       .partition = message->partition,
                                       .offset = message->offset,
                                       .timestamp_ms =
                                           kind == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? 0 : timestamp,
                                       .append_time = kind == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME,
                                       .key = {message->key, message->key_len},
                                       .value = {message->payload, message->len},
                                       .headers = headers,
                                       .header_count = read_headers(message, headers)};
}

enum mr_status mr_kafka_client_topics(struct rd_kafka_s *rk, uint32_t timeout_ms,
                                      void (*visit)(void *context, const char *topic,
                                                    int32_t partition_count),
                                      void *context, struct mr_error *err)
{
    /* Request the metadata of all topics: a metadata request for one topic by name could create
     * that topic. */
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(rk, 1, NULL, &metadata, (int)timeout_ms);
    if (code)
        return mr_fail(err, MR_UNREACHABLE, "cannot list the topics: %s", rd_kafka_err2str(code));
    for (int i = 0; i < metadata->topic_cnt; i++)
        if (!metadata->topics[i].err)
            visit(context, metadata->topics[i].topic, metadata->topics[i].partition_cnt);
    rd_kafka_metadata_destroy(metadata);
    return MR_OK;
}

struct search {
    const char *topic;
    uint32_t count;
};

static void compare(void *context, const char *topic, int32_t partition_count)
{
    struct search *search = context;
    if (strcmp(topic, search->topic) == 0) search->count = (uint32_t)partition_count;
}

enum mr_status mr_kafka_client_partitions(struct rd_kafka_s *rk, const char *topic,
                                          uint32_t timeout_ms, uint32_t *count,
                                          struct mr_error *err)
{
    struct search search = {topic, 0};
    enum mr_status status = mr_kafka_client_topics(rk, timeout_ms, compare, &search, err);
    *count = search.count;
    return status;
}

enum mr_status mr_kafka_client_ask(struct rd_kafka_s *rk, const char *topic, uint32_t timeout_ms,
                                   uint32_t *count, struct mr_error *err)
{
    const struct rd_kafka_metadata *metadata = NULL;
    *count = 0;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    rd_kafka_resp_err_t code = handle ? RD_KAFKA_RESP_ERR_NO_ERROR : rd_kafka_last_error();
    if (handle) code = rd_kafka_metadata(rk, 0, handle, &metadata, (int)timeout_ms);
    if (!code && metadata->topic_cnt == 1) {
        *count = (uint32_t)metadata->topics[0].partition_cnt;
        if (*count == 0) code = metadata->topics[0].err;
    }
    if (metadata) rd_kafka_metadata_destroy(metadata);
    if (handle) rd_kafka_topic_destroy(handle);
    if (mr_kafka_verdict(code) != MR_KAFKA_RETRY) return MR_OK;
    return mr_fail(err, MR_UNREACHABLE, "topic %s: %s", topic, rd_kafka_err2str(code));
}

enum mr_status mr_kafka_client_ends(rd_kafka_t *rk, const char *topic, int32_t partition,
                                    uint32_t timeout_ms, struct mr_kafka_ends *ends,
                                    struct mr_error *err)
{
    const uint64_t until_ns = mr_clock_ns() + timeout_ms * MILLISECOND_NS;
    rd_kafka_resp_err_t code;
    for (;;) {
        uint32_t left_ms = mr_clock_left_ms(mr_clock_ns(), until_ns);
        code = rd_kafka_query_watermark_offsets(rk, topic, partition, &ends->begin, &ends->end,
                                                (int)left_ms);
        if (!code) return MR_OK;
        /* a broker that has just started may not know the partitions of a topic yet */
        bool passes =
            code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION || mr_kafka_status(code) == MR_AGAIN;
        if (!passes || mr_clock_ns() + PAUSE_MS * MILLISECOND_NS >= until_ns) break;
        mr_clock_sleep_ms(PAUSE_MS);
    }
    return mr_fail(err, MR_UNREACHABLE, "cannot read the end offsets of topic %s: %s", topic,
                   rd_kafka_err2str(code));
}

int mr_kafka_client_list_error(const struct rd_kafka_topic_partition_list_s *list)
{
    for (int i = 0; list && i < list->cnt; i++)
        if (list->elems[i].err) return list->elems[i].err;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

uint32_t mr_kafka_client_request_max(uint32_t most, int code, int count)
{
    const bool together = code == RD_KAFKA_RESP_ERR_INVALID_COMMIT_OFFSET_SIZE;
    if (!together && code != RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE) return most;
    const uint32_t wanted =
        together && (uint32_t)count > PARTITIONS_TOGETHER ? PARTITIONS_TOGETHER : 1;
    return most == 0 || wanted < most ? wanted : most;
}

void mr_kafka_client_add_offset(struct rd_kafka_topic_partition_list_s *list, const char *topic,
                                const struct mr_kafka_commit *commit)
{
    rd_kafka_topic_partition_t *element =
        rd_kafka_topic_partition_list_add(list, topic, commit->partition);
    element->offset = commit->offset;
    /* a copy: rd_kafka_topic_partition_list_destroy frees the metadata */
    element->metadata = strdup(commit->metadata);
    element->metadata_size = element->metadata ? strlen(commit->metadata) : 0;
}
