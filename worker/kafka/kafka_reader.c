#include "worker/kafka/kafka_reader.h"

#include "worker/base/clock.h"
#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_errors.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_kafka_reader {
    /* must be the first field: callbacks in kafka_conf.c read it */
    const struct mr_kafka_options *kafka;
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    rd_kafka_message_t *taken;
    bool until_end; /* librdkafka reports the end of each partition */
    struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX];
    /* The partitions that existed at _create and still have unread records of that time. Field
     * offset: the end of the partition at _create. */
    rd_kafka_topic_partition_list_t *unread;
    struct mr_error failure; /* of the last topic that could not be read */
    bool is_unknown;         /* because the broker reported it as unknown */
    bool is_gone;            /* and a second query did not find the topic either */
};

struct listing {
    const struct mr_kafka_reader_options *options;
    rd_kafka_topic_partition_list_t *list;
};

static void list_topic(void *context, const char *topic, int32_t partition_count)
{
    struct listing *listing = context;
    const struct mr_kafka_reader_options *options = listing->options;
    const int32_t first = options->one_partition ? options->partition : 0;
    const int32_t last = options->one_partition ? options->partition : partition_count - 1;
    if (last >= partition_count) return;
    for (size_t i = 0; i < options->topic_count; i++)
        if (strcmp(options->topics[i], topic) == 0)
            rd_kafka_topic_partition_list_add_range(listing->list, topic, first, last);
}

static enum mr_status list_partitions(struct mr_kafka_reader *reader,
                                      const struct mr_kafka_reader_options *options,
                                      rd_kafka_topic_partition_list_t *list, struct mr_error *err)
{
    struct listing listing = {options, list};
    enum mr_status status =
        mr_kafka_client_topics(reader->rk, options->timeout_ms, list_topic, &listing, err);
    if (status != MR_OK || list->cnt > 0) return status;
    return mr_fail(err, MR_BAD_CONFIG, "topic %s does not exist%s", options->topics[0],
                   options->one_partition ? ", or has no such partition" : "");
}

/* Sets where to start in one partition: at its current first offset or end. The end is resolved
 * here, because librdkafka would resolve RD_KAFKA_OFFSET_END later and miss the records that arrive
 * meanwhile. */
static enum mr_status start_at(struct mr_kafka_reader *reader, enum mr_kafka_from from,
                               uint32_t timeout_ms, rd_kafka_topic_partition_t *element,
                               struct mr_error *err)
{
    struct mr_kafka_ends ends;
    enum mr_status status = mr_kafka_client_ends(reader->rk, element->topic, element->partition,
                                                 timeout_ms, &ends, err);
    if (status == MR_OK) element->offset = from == MR_KAFKA_FROM_BEGINNING ? ends.begin : ends.end;
    return status;
}

/* An offset above the end is one of an earlier log of that name. */
static enum mr_status start_at_offset(struct mr_kafka_reader *reader,
                                      const struct mr_kafka_reader_options *options,
                                      rd_kafka_topic_partition_t *element, struct mr_error *err)
{
    struct mr_kafka_ends ends;
    enum mr_status status = mr_kafka_client_ends(reader->rk, element->topic, element->partition,
                                                 options->timeout_ms, &ends, err);
    if (status != MR_OK) return status;
    const size_t index = (size_t)element->partition;
    const int64_t from = index < options->offset_count ? options->offsets[index] : 0;
    element->offset = from > ends.begin && from <= ends.end ? from : ends.begin;
    return MR_OK;
}

static rd_kafka_resp_err_t start_by_time(struct mr_kafka_reader *reader, int64_t since_ms,
                                         uint32_t timeout_ms, rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = since_ms;
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(reader->rk, list, (int)timeout_ms);
    for (int i = 0; i < list->cnt; i++) {
        if (!code) code = list->elems[i].err;
        if (code || list->elems[i].offset == since_ms) list->elems[i].offset = RD_KAFKA_OFFSET_END;
    }
    return code;
}

/* Sets where to start in each partition: at its first record since since_ms. With until_end,
 * partitions without such a record are removed from the list. */
static enum mr_status start_since(struct mr_kafka_reader *reader,
                                  const struct mr_kafka_reader_options *options,
                                  rd_kafka_topic_partition_list_t *list, struct mr_error *err)
{
    rd_kafka_resp_err_t code = start_by_time(reader, options->since_ms, options->timeout_ms, list);
    if (code)
        return mr_fail(err, MR_UNREACHABLE, "cannot look up offsets by time: %s",
                       rd_kafka_err2str(code));
    for (int i = list->cnt - 1; i >= 0 && options->until_end; i--)
        if (list->elems[i].offset < 0) rd_kafka_topic_partition_list_del_by_idx(list, i);
    return MR_OK;
}

static enum mr_status choose_start(struct mr_kafka_reader *reader,
                                   const struct mr_kafka_reader_options *options,
                                   rd_kafka_topic_partition_list_t *list, struct mr_error *err)
{
    enum mr_kafka_from from = options->from;
    if (from == MR_KAFKA_FROM_TIME && options->kafka->embedded)
        /* the embedded test broker cannot look up offsets by time */
        from = MR_KAFKA_FROM_BEGINNING;
    if (from == MR_KAFKA_FROM_TIME) return start_since(reader, options, list, err);
    if (from == MR_KAFKA_FROM_AGE)
        start_by_time(reader, mr_clock_unix_ms() - (int64_t)options->age_ms, options->timeout_ms,
                      list);
    for (int i = 0; i < list->cnt; i++) {
        if (list->elems[i].offset >= 0) continue;
        enum mr_status status =
            from == MR_KAFKA_FROM_OFFSETS
                ? start_at_offset(reader, options, &list->elems[i], err)
                : start_at(reader, from, options->timeout_ms, &list->elems[i], err);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

/* Stores the current end offset of each partition that has records after the start position. */
static void note_ends(struct mr_kafka_reader *reader, const struct mr_kafka_reader_options *options,
                      const rd_kafka_topic_partition_list_t *list)
{
    reader->unread = rd_kafka_topic_partition_list_new(list->cnt);
    if (options->from == MR_KAFKA_FROM_END) return;
    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *element = &list->elems[i];
        struct mr_kafka_ends ends;
        if (mr_kafka_client_ends(reader->rk, element->topic, element->partition,
                                 options->timeout_ms, &ends, NULL) != MR_OK)
            continue;
        int64_t from = element->offset > ends.begin ? element->offset : ends.begin;
        if (from >= ends.end) continue;
        rd_kafka_topic_partition_list_add(reader->unread, element->topic, element->partition)
            ->offset = ends.end;
    }
}

static void note_taken(struct mr_kafka_reader *reader, const rd_kafka_message_t *message)
{
    const char *topic = rd_kafka_topic_name(message->rkt);
    const rd_kafka_topic_partition_t *element =
        rd_kafka_topic_partition_list_find(reader->unread, topic, message->partition);
    if (element && !reader->until_end && message->offset + 1 >= element->offset)
        rd_kafka_topic_partition_list_del(reader->unread, topic, message->partition);
}

bool mr_kafka_reader_is_behind(void *self)
{
    const struct mr_kafka_reader *reader = self;
    return reader->unread->cnt > 0;
}

static enum mr_status assign(struct mr_kafka_reader *reader,
                             const struct mr_kafka_reader_options *options, struct mr_error *err)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    enum mr_status status = list_partitions(reader, options, list, err);
    if (status == MR_OK) status = choose_start(reader, options, list, err);
    if (status == MR_OK) {
        if (options->until_end)
            reader->unread = rd_kafka_topic_partition_list_copy(list);
        else
            note_ends(reader, options, list);
    }
    if (status == MR_OK && list->cnt > 0) {
        rd_kafka_resp_err_t code = rd_kafka_assign(reader->rk, list);
        if (code)
            status = mr_fail(err, MR_UNREACHABLE, "cannot assign partitions to the reader: %s",
                             rd_kafka_err2str(code));
    }
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static enum mr_kafka_role role_of(const struct mr_kafka_reader_options *options)
{
    if (!options->until_end) return MR_KAFKA_READER;
    return options->uncommitted ? MR_KAFKA_SCANNER_UNCOMMITTED : MR_KAFKA_SCANNER;
}

/* Keeps lasting failures: reading is not allowed, or the broker does not know a topic or partition.
 */
static void note_failure(struct mr_kafka_reader *reader, int code, const char *reason)
{
    if (mr_kafka_status(code) != MR_BAD_CONFIG) return;
    mr_fail(&reader->failure, MR_BACKEND, "cannot read %s", reason);
    reader->is_unknown = code != RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED &&
                         code != RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
}

/* librdkafka reports a partition that is gone here, and a refused fetch as a message. */
static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    note_failure(opaque, code, reason);
    mr_kafka_conf_report(rk, code, reason, opaque);
}

/* Handles a message that is not a record: an error, or the end of a partition. */
static void note_error(struct mr_kafka_reader *reader, const rd_kafka_message_t *message)
{
    char reason[400];
    const char *topic = message->rkt ? rd_kafka_topic_name(message->rkt) : "";
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        rd_kafka_topic_partition_list_del(reader->unread, topic, message->partition);
    snprintf(reason, sizeof reason, "topic %s: %s", topic, rd_kafka_err2str(message->err));
    note_failure(reader, message->err, reason);
}

/* Looks for the topics that are read. False: the broker has all of them, or does not answer. */
static bool find_gone(struct mr_kafka_reader *reader, uint32_t timeout_ms)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    const char *before = "";
    if (rd_kafka_assignment(reader->rk, &list)) return false;
    for (int i = 0; i < list->cnt && !reader->is_gone; before = list->elems[i++].topic) {
        const char *topic = list->elems[i].topic;
        uint32_t count = 0;
        if (strcmp(topic, before) == 0) continue;
        if (mr_kafka_client_partitions(reader->rk, topic, timeout_ms, &count, NULL) != MR_OK) break;
        if (count > 0) continue;
        reader->is_gone = true;
        mr_fail(&reader->failure, MR_BACKEND, "topic %s no longer exists", topic);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return reader->is_gone;
}

enum mr_status mr_kafka_reader_failure(struct mr_kafka_reader *reader, uint32_t timeout_ms,
                                       struct mr_error *err)
{
    if (reader->failure.status == MR_OK) return MR_OK;
    if (reader->is_unknown && !find_gone(reader, timeout_ms)) {
        reader->failure.status = MR_OK;
        return MR_OK;
    }
    *err = reader->failure;
    return err->status;
}

enum mr_status mr_kafka_reader_create(struct mr_kafka_reader **out,
                                      const struct mr_kafka_reader_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return mr_fail(err, MR_NOMEM, "no memory for a reader");
    reader->kafka = options->kafka;
    reader->until_end = options->until_end;
    rd_kafka_conf_t *conf = NULL;
    enum mr_kafka_role role = role_of(options);
    enum mr_status status = mr_kafka_conf_create(&conf, role, options->kafka, reader, err);
    if (status == MR_OK) rd_kafka_conf_set_error_cb(conf, on_error);
    if (status == MR_OK) status = mr_kafka_conf_open(&reader->rk, conf, role, err);
    if (status != MR_OK) {
        free(reader);
        return status;
    }
    rd_kafka_poll_set_consumer(reader->rk);
    reader->queue = rd_kafka_queue_get_consumer(reader->rk);
    if (options->wake) {
        uint64_t one = 1;
        rd_kafka_queue_io_event_enable(reader->queue, options->wake->fd, &one, sizeof one);
    }
    status = assign(reader, options, err);
    if (status != MR_OK) {
        mr_kafka_reader_destroy(reader);
        return status;
    }
    *out = reader;
    return MR_OK;
}

void mr_kafka_reader_destroy(void *self)
{
    struct mr_kafka_reader *reader = self;
    if (!reader) return;
    rd_kafka_queue_io_event_enable(reader->queue, -1, NULL, 0);
    if (reader->is_gone) {
        /* librdkafka 2.0.2 never ends a consumer of a topic that was deleted: rd_kafka_destroy
         * waits for a thread forever. So the consumer stays, and its callbacks do nothing. */
        reader->kafka = NULL;
        return;
    }
    if (reader->taken) rd_kafka_message_destroy(reader->taken);
    rd_kafka_queue_destroy(reader->queue);
    rd_kafka_consumer_close(reader->rk);
    mr_kafka_conf_close(reader->rk, true);
    if (reader->unread) rd_kafka_topic_partition_list_destroy(reader->unread);
    free(reader);
}

bool mr_kafka_reader_take(struct mr_kafka_reader *reader, uint32_t timeout_ms,
                          struct mr_kafka_record *record)
{
    if (reader->taken) rd_kafka_message_destroy(reader->taken);
    /* librdkafka rings the wake only for a message that arrives in an empty queue. So without a
     * timeout skip messages that are not records until the queue is empty or a record is found. */
    while ((reader->taken = rd_kafka_consumer_poll(reader->rk, (int)timeout_ms)) &&
           reader->taken->err) {
        note_error(reader, reader->taken);
        rd_kafka_message_destroy(reader->taken);
        reader->taken = NULL;
        if (timeout_ms > 0) return false;
    }
    if (!reader->taken) return false;
    note_taken(reader, reader->taken);
    mr_kafka_client_describe(reader->taken, reader->headers, record);
    return true;
}

/* ---- the port ---- */

static bool port_take(void *self, struct mr_kafka_record *record)
{
    return mr_kafka_reader_take(self, 0, record);
}

static enum mr_status port_ends(void *self, const char *topic, int32_t partition,
                                uint32_t timeout_ms, struct mr_kafka_ends *ends,
                                struct mr_error *err)
{
    const struct mr_kafka_reader *reader = self;
    return mr_kafka_client_ends(reader->rk, topic, partition, timeout_ms, ends, err);
}

enum mr_status mr_kafka_reader_open_port(void *context,
                                         const struct mr_kafka_reader_options *options,
                                         struct mr_kafka_reader_port *out, struct mr_error *err)
{
    (void)context;
    *out = (struct mr_kafka_reader_port){NULL, port_take, mr_kafka_reader_is_behind, port_ends,
                                         mr_kafka_reader_destroy};
    struct mr_kafka_reader *reader = NULL;
    enum mr_status status = mr_kafka_reader_create(&reader, options, err);
    out->self = reader;
    return status;
}
