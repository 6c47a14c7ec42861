#include "worker/kafka/kafka_backlog.h"

#include "worker/base/clock.h"
#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_errors.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS ((uint64_t)1000000)

struct mr_kafka_backlog {
    /* must be the first field: callbacks in kafka_conf.c read it */
    const struct mr_kafka_options *kafka;
    rd_kafka_t *rk;
    struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX];
};

enum mr_status mr_kafka_backlog_open(struct mr_kafka_backlog **out,
                                     const struct mr_kafka_options *kafka, struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_backlog *backlog = calloc(1, sizeof *backlog);
    if (!backlog) return mr_fail(err, MR_NOMEM, "no memory for a Kafka client");
    backlog->kafka = kafka;
    rd_kafka_conf_t *conf = NULL;
    enum mr_status status = mr_kafka_conf_create(&conf, MR_KAFKA_OBSERVER, kafka, backlog, err);
    if (status == MR_OK) status = mr_kafka_conf_open(&backlog->rk, conf, MR_KAFKA_OBSERVER, err);
    if (status != MR_OK) {
        free(backlog);
        return status;
    }
    rd_kafka_poll_set_consumer(backlog->rk);
    *out = backlog;
    return MR_OK;
}

void mr_kafka_backlog_close(struct mr_kafka_backlog *backlog)
{
    if (!backlog) return;
    rd_kafka_consumer_close(backlog->rk);
    mr_kafka_conf_close(backlog->rk, true);
    free(backlog);
}

/* ---- offsets ---- */

struct listing {
    const struct mr_kafka_topics *topics;
    rd_kafka_topic_partition_list_t *list;
};

static void list_topic(void *context, const char *topic, int32_t partition_count)
{
    struct listing *listing = context;
    for (size_t i = 0; i < listing->topics->count; i++)
        if (strcmp(listing->topics->names[i], topic) == 0)
            rd_kafka_topic_partition_list_add_range(listing->list, topic, 0, partition_count - 1);
}

static size_t index_of(const struct mr_kafka_topics *topics, const char *topic)
{
    size_t i = 0;
    while (i < topics->count && strcmp(topics->names[i], topic) != 0)
        i++;
    return i;
}

/* The offsets at one end of each partition, in one request to each leader: the special timestamps
 * RD_KAFKA_OFFSET_BEGINNING and RD_KAFKA_OFFSET_END of a lookup by time mean the ends. */
static rd_kafka_resp_err_t look_up_ends(struct mr_kafka_backlog *backlog, int64_t end,
                                        uint32_t timeout_ms, rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = end;
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(backlog->rk, list, (int)timeout_ms);
    if (!code) code = (rd_kafka_resp_err_t)mr_kafka_client_list_error(list);
    for (int i = 0; !code && i < list->cnt; i++)
        if (list->elems[i].offset < 0) code = RD_KAFKA_RESP_ERR__NO_OFFSET;
    return code;
}

enum mr_status mr_kafka_backlog_read(struct mr_kafka_backlog *backlog,
                                     const struct mr_kafka_topics *topics, uint32_t timeout_ms,
                                     void (*visit)(void *context,
                                                   const struct mr_kafka_backlog_partition *at),
                                     void *context, struct mr_error *err)
{
    rd_kafka_topic_partition_list_t *commits = rd_kafka_topic_partition_list_new(16);
    rd_kafka_topic_partition_list_t *begins = NULL, *ends = NULL;
    struct listing listing = {topics, commits};
    enum mr_status status =
        mr_kafka_client_topics(backlog->rk, timeout_ms, list_topic, &listing, err);
    if (status != MR_OK || commits->cnt == 0) goto destroy_commits;
    begins = rd_kafka_topic_partition_list_copy(commits);
    ends = rd_kafka_topic_partition_list_copy(commits);
    rd_kafka_resp_err_t code = rd_kafka_committed(backlog->rk, commits, (int)timeout_ms);
    if (!code) code = (rd_kafka_resp_err_t)mr_kafka_client_list_error(commits);
    if (code) {
        status = mr_fail(err, MR_UNREACHABLE, "the committed offsets of group %.64s: %s",
                         backlog->kafka->group, rd_kafka_err2str(code));
        goto destroy_ends;
    }
    code = look_up_ends(backlog, RD_KAFKA_OFFSET_BEGINNING, timeout_ms, begins);
    if (!code) code = look_up_ends(backlog, RD_KAFKA_OFFSET_END, timeout_ms, ends);
    if (code) {
        status =
            mr_fail(err, MR_UNREACHABLE, "the ends of the partitions: %s", rd_kafka_err2str(code));
        goto destroy_ends;
    }
    for (int i = 0; i < commits->cnt; i++) {
        const rd_kafka_topic_partition_t *commit = &commits->elems[i];
        const struct mr_kafka_backlog_partition at = {
            .topic = index_of(topics, commit->topic),
            .partition = commit->partition,
            .begin = begins->elems[i].offset,
            .end = ends->elems[i].offset,
            .committed = commit->offset >= 0 ? commit->offset : -1,
            .metadata = {commit->metadata, commit->metadata_size}};
        visit(context, &at);
    }
destroy_ends:
    rd_kafka_topic_partition_list_destroy(begins);
    rd_kafka_topic_partition_list_destroy(ends);
destroy_commits:
    rd_kafka_topic_partition_list_destroy(commits);
    return status;
}

/* ---- records ---- */

static bool is_done(const struct mr_kafka_range *range)
{
    return range->next >= range->to;
}

/* *hint: where the search begins; records of one partition come in runs. */
static struct mr_kafka_range *find_range(const struct mr_kafka_scan *scan,
                                         const rd_kafka_message_t *message, size_t *hint)
{
    const char *topic = rd_kafka_topic_name(message->rkt);
    for (size_t n = 0; n < scan->count; n++, *hint = (*hint + 1) % scan->count) {
        struct mr_kafka_range *range = &scan->ranges[*hint];
        if (range->partition == message->partition && strcmp(range->topic, topic) == 0)
            return range;
    }
    return NULL;
}

/* True: the visitor wants more. *left: number of ranges that are not read to their end. */
static bool take_message(struct mr_kafka_backlog *backlog, const struct mr_kafka_scan *scan,
                         rd_kafka_message_t *message, size_t *hint, size_t *left)
{
    struct mr_kafka_range *range = message->rkt ? find_range(scan, message, hint) : NULL;
    bool more = true;
    if (!range || is_done(range)) return true;
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        range->next = range->to;
    } else if (!message->err && message->offset >= range->to) {
        range->next = range->to;
    } else if (!message->err) {
        struct mr_kafka_record record;
        mr_kafka_client_describe(message, backlog->headers, &record);
        more = scan->visit(scan->context, *hint, &record);
        if (more) range->next = message->offset + 1;
    }
    *left -= is_done(range);
    return more;
}

static enum mr_status read_ranges(struct mr_kafka_backlog *backlog,
                                  const struct mr_kafka_scan *scan, struct mr_error *err)
{
    const uint64_t until_ns = mr_clock_ns() + scan->timeout_ms * MS_NS;
    size_t left = scan->count, hint = 0;
    enum mr_status status = MR_OK;
    bool more = true;
    while (status == MR_OK && more && left > 0) {
        uint32_t left_ms = mr_clock_left_ms(mr_clock_ns(), until_ns);
        rd_kafka_message_t *message =
            left_ms > 0 ? rd_kafka_consumer_poll(backlog->rk, (int)left_ms) : NULL;
        if (!message) break;
        if (message->err && mr_kafka_status(message->err) == MR_BAD_CONFIG)
            status = mr_fail(err, MR_UNREACHABLE, "topic %.100s: %s",
                             message->rkt ? rd_kafka_topic_name(message->rkt) : "",
                             rd_kafka_err2str(message->err));
        else
            more = take_message(backlog, scan, message, &hint, &left);
        rd_kafka_message_destroy(message);
    }
    return status;
}

enum mr_status mr_kafka_backlog_scan(struct mr_kafka_backlog *backlog,
                                     const struct mr_kafka_scan *scan, struct mr_error *err)
{
    if (scan->count == 0) return MR_OK;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)scan->count);
    for (size_t i = 0; i < scan->count; i++) {
        struct mr_kafka_range *range = &scan->ranges[i];
        range->next = range->from;
        rd_kafka_topic_partition_list_add(list, range->topic, range->partition)->offset =
            range->from;
    }
    rd_kafka_resp_err_t code = rd_kafka_assign(backlog->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code)
        return mr_fail(err, MR_UNREACHABLE, "records cannot be read: %s", rd_kafka_err2str(code));
    enum mr_status status = read_ranges(backlog, scan, err);
    rd_kafka_assign(backlog->rk, NULL);
    return status;
}
