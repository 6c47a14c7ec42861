#include "worker/kafka/kafka_in.h"

#include "codec/check.h"
#include "worker/base/clock.h"
#include "worker/config/config.h"
#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_in_state.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

#define METADATA_TIMEOUT_MS 10000
#define UNKNOWN_PARTITIONS  256u
#define LOOK_NS             ((uint64_t)1000000000)
/* timeout of the query for deleted topics, and of closing a consumer of one */
#define GONE_MS 1000u

/* ---- opening and closing ---- */

static enum mr_status subscribe(struct mr_kafka_in *in, struct mr_error *err)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)in->options.topic_count);
    for (size_t i = 0; i < in->options.topic_count; i++)
        rd_kafka_topic_partition_list_add(list, in->options.topics[i].name, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(in->rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (!code) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "subscribe: %s", rd_kafka_err2str(code));
}

struct listing {
    const struct mr_kafka_in *in;
    rd_kafka_topic_partition_list_t *list;
};

static void list_topic(void *context, const char *topic, int32_t partition_count)
{
    struct listing *listing = context;
    if (mr_kafka_in_topic_index(listing->in, topic) == SIZE_MAX) return;
    rd_kafka_topic_partition_list_add_range(listing->list, topic, 0, partition_count - 1);
}

static enum mr_status assign_all(struct mr_kafka_in *in, struct mr_error *err)
{
    struct listing listing = {in, rd_kafka_topic_partition_list_new(8)};
    enum mr_status status =
        mr_kafka_client_topics(in->rk, METADATA_TIMEOUT_MS, list_topic, &listing, err);
    if (status == MR_OK) {
        mr_kafka_in_assign_all(in, listing.list);
        mr_wake_ring(in->options.wake);
    } else {
        rd_kafka_topic_partition_list_destroy(listing.list);
    }
    return status;
}

/* A librdkafka callback; librdkafka calls it from rd_kafka_consumer_poll, on the owner's thread. */
static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                         rd_kafka_topic_partition_list_t *list, void *opaque)
{
    (void)rk;
    mr_kafka_in_rebalanced(opaque, code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, list);
}

/* Counts the partitions of all topics, any of which may be assigned to this worker. The count
 * limits the consumer's memory and a client's limits cannot be changed, so another client is used
 * for it. If no broker answers, UNKNOWN_PARTITIONS are assumed. */
static uint32_t count_partitions(struct mr_kafka_in *in)
{
    rd_kafka_t *rk = NULL;
    rd_kafka_conf_t *conf = NULL;
    struct listing listing = {in, rd_kafka_topic_partition_list_new(8)};
    if (mr_kafka_conf_create(&conf, MR_KAFKA_READER, in->kafka, in, NULL) == MR_OK &&
        mr_kafka_conf_open(&rk, conf, MR_KAFKA_READER, NULL) == MR_OK) {
        mr_kafka_client_topics(rk, METADATA_TIMEOUT_MS, list_topic, &listing, NULL);
        mr_kafka_conf_close(rk, false);
    }
    uint32_t count = (uint32_t)listing.list->cnt;
    rd_kafka_topic_partition_list_destroy(listing.list);
    return count > 0 ? count : UNKNOWN_PARTITIONS;
}

/* Called by librdkafka on any of its threads. */
static void on_log(void *context, enum mr_log_level level, const char *text)
{
    struct mr_kafka_in *in = context;
    const struct mr_kafka_options *kafka = in->options.kafka;
    pthread_mutex_lock(&in->log_mutex);
    if (!in->silent && kafka->log) kafka->log(kafka->log_context, level, text);
    pthread_mutex_unlock(&in->log_mutex);
}

/* Called by the calls that poll this consumer. */
static void on_failed(void *context, bool unreachable, const char *reason)
{
    struct mr_kafka_in *in = context;
    const struct mr_kafka_options *kafka = in->options.kafka;
    if (!in->silent && kafka->failed) kafka->failed(kafka->log_context, unreachable, reason);
}

static void free_in(struct mr_kafka_in *in)
{
    pthread_mutex_destroy(&in->log_mutex);
    pthread_mutex_destroy(&in->arrived_mutex);
    for (size_t i = 0; i < MR_LIST_MAX; i++)
        free(in->topics[i].partitions);
    mr_kafka_in_free_commits(in);
    free(in->partitions);
    free(in);
}

/* The librdkafka handle and its threads stay. From now on they use nothing that the owner frees. */
static void abandon(struct mr_kafka_in *in)
{
    pthread_mutex_lock(&in->log_mutex);
    in->silent = true;
    pthread_mutex_unlock(&in->log_mutex);
}

/* Reads from librdkafka's statistics how long ago a broker last sent something: the smallest value
 * of "rxidle", in microseconds; -1: this broker has sent nothing. librdkafka calls this from
 * rd_kafka_consumer_poll, on the owner's thread. */
static int on_stats(rd_kafka_t *rk, char *json, size_t length, void *opaque)
{
    static const char name[] = "\"rxidle\":";
    struct mr_kafka_in *in = opaque;
    uint64_t now_ns = mr_clock_ns();
    (void)rk;
    mr_kafka_stats_read(in->kafka->stats, MR_KAFKA_STATS_CONSUMER, (struct mr_text){json, length});
    for (const char *at = json; (at = strstr(at, name));) {
        at += sizeof name - 1;
        long long idle_us = strtoll(at, NULL, 10);
        if (idle_us < 0 || (uint64_t)idle_us > now_ns / 1000) continue;
        uint64_t heard_ns = now_ns - (uint64_t)idle_us * 1000;
        if (heard_ns > in->heard_ns) in->heard_ns = heard_ns;
    }
    return 0; /* librdkafka frees the text */
}

enum mr_status mr_kafka_in_create(struct mr_kafka_in **out,
                                  const struct mr_kafka_consumer_options *options,
                                  struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_in *in = calloc(1, sizeof *in);
    if (!in) return mr_fail(err, MR_NOMEM, "no memory for a consumer");
    in->options = *options;
    in->own_kafka = *options->kafka;
    in->own_kafka.log = on_log;
    in->own_kafka.failed = on_failed;
    in->own_kafka.log_context = in;
    in->kafka = &in->own_kafka;
    pthread_mutex_init(&in->log_mutex, NULL);
    pthread_mutex_init(&in->arrived_mutex, NULL);
    MR_ASSERT(options->topic_count <= MR_LIST_MAX && MR_LIST_MAX <= MR_TURN_CLASSES_MAX);
    in->turns.class_count = options->topic_count;
    for (size_t i = 0; i < options->topic_count; i++)
        in->turns.classes[i].weight = options->topics[i].weight;
    if (in->own_kafka.prefetch_bytes > 0) in->own_kafka.partition_count = count_partitions(in);
    rd_kafka_conf_t *conf = NULL;
    enum mr_status status = mr_kafka_conf_create(&conf, MR_KAFKA_CONSUMER, in->kafka, in, err);
    if (status != MR_OK) goto fail;
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    rd_kafka_conf_set_stats_cb(conf, on_stats);
    status = mr_kafka_conf_open(&in->rk, conf, MR_KAFKA_CONSUMER, err);
    if (status != MR_OK) goto fail;
    rd_kafka_poll_set_consumer(in->rk);
    in->consumer_queue = rd_kafka_queue_get_consumer(in->rk);
    mr_kafka_in_watch(in, in->consumer_queue);
    status = options->join_group ? subscribe(in, err) : assign_all(in, err);
    if (status != MR_OK) {
        mr_kafka_in_close(in, 1000);
        return status;
    }
    *out = in;
    return MR_OK;
fail:
    free_in(in);
    return status;
}

struct count {
    const struct mr_kafka_in *in;
    size_t topics;
};

static void count_topic(void *context, const char *topic, int32_t partition_count)
{
    struct count *count = context;
    if (partition_count > 0 && mr_kafka_in_topic_index(count->in, topic) != SIZE_MAX)
        count->topics++;
}

/* True if one of the request topics no longer exists; false if no broker answers. */
static bool is_topic_gone(struct mr_kafka_in *in, uint32_t timeout_ms)
{
    struct count count = {in, 0};
    return mr_kafka_client_topics(in->rk, timeout_ms, count_topic, &count, NULL) == MR_OK &&
           count.topics < in->options.topic_count;
}

bool mr_kafka_in_close(void *self, uint32_t timeout_ms)
{
    struct mr_kafka_in *in = self;
    if (!in) return true;
    mr_kafka_in_note_protocol(in);
    in->closing = true;
    /* librdkafka 2.0.2 does not end a consumer of a topic that was deleted, and rd_kafka_destroy
     * then waits for a thread forever. So its handle stays until the process ends. */
    const bool gone = is_topic_gone(in, timeout_ms < GONE_MS ? timeout_ms : GONE_MS);
    if (gone && timeout_ms > GONE_MS) timeout_ms = GONE_MS;
    const uint64_t until_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    if (!mr_kafka_in_end_query(in, until_ns)) {
        abandon(in);
        return false;
    }
    mr_kafka_in_end_rebalances(in);
    rd_kafka_queue_io_event_enable(in->consumer_queue, -1, NULL, 0);
    rd_kafka_queue_destroy(in->consumer_queue);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(in->rk);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(in->rk, queue);
    bool refused = error != NULL; /* after a fatal error librdkafka refuses to leave the group */
    if (error) rd_kafka_error_destroy(error);
    bool closed = refused;
    while (!closed && mr_clock_ns() < until_ns) {
        rd_kafka_queue_poll_callback(queue, 10);
        closed = rd_kafka_consumer_closed(in->rk);
    }
    rd_kafka_queue_destroy(queue);
    /* destroying the librdkafka handle now could hang: it is leaked, and the process ends */
    if (!closed || gone) {
        abandon(in);
        return gone;
    }
    mr_kafka_conf_close(in->rk, !refused);
    free_in(in);
    return true;
}

/* ---- records ---- */

/* Keeps a record that came through the consumer queue, because librdkafka fetched it before its
 * partition had a queue of its own. */
static void hold_stray(struct mr_kafka_in *in, rd_kafka_message_t *message)
{
    struct mr_kafka_in_partition *partition = mr_kafka_in_find(
        in, mr_kafka_in_topic_index(in, rd_kafka_topic_name(message->rkt)), message->partition);
    if (partition && !partition->held) {
        partition->held = message;
        mr_turns_ready(&in->turns, &partition->turn);
        return;
    }
    if (partition) in->stray_lost = true;
    rd_kafka_message_destroy(message);
}

/* Tries blocked partitions again, and once a second all partitions, so that a missed event of
 * librdkafka delays a record by at most a second. */
static void look_again(struct mr_kafka_in *in)
{
    uint64_t now_ns = mr_clock_ns();
    mr_turns_unblock(&in->turns);
    if (now_ns < in->looked_ns + LOOK_NS) return;
    in->looked_ns = now_ns;
    for (size_t i = 0; i < in->partition_count; i++)
        mr_turns_ready(&in->turns, &in->partitions[i]->turn);
}

enum mr_status mr_kafka_in_serve(void *self, struct mr_error *err)
{
    struct mr_kafka_in *in = self;
    rd_kafka_message_t *message;
    look_again(in);
    while ((message = rd_kafka_consumer_poll(in->rk, 0))) {
        if (!message->err) {
            hold_stray(in, message);
            continue;
        }
        mr_kafka_in_warn(in, rd_kafka_message_errstr(message));
        rd_kafka_message_destroy(message);
    }
    char reason[256];
    rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(in->rk, reason, sizeof reason);
    if (fatal == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
        return mr_fail(err, MR_BACKEND,
                       "another worker joined the group as --group-instance %s and replaced this "
                       "one",
                       in->kafka->group_instance);
    if (fatal) return mr_fail(err, MR_BACKEND, "consumer: %s", reason);
    if (in->memory_lost) return mr_fail(err, MR_NOMEM, "consumer: no memory for a rebalance");
    if (in->stray_lost)
        return mr_fail(err, MR_BACKEND, "consumer: a record left its partition's queue");
    return MR_OK;
}

/* Returns the next message of a partition; logs and skips error messages; NULL: the partition has
 * no message. */
static rd_kafka_message_t *next_message(struct mr_kafka_in *in,
                                        struct mr_kafka_in_partition *partition)
{
    rd_kafka_message_t *message = partition->held;
    partition->held = NULL;
    while (!message && (message = rd_kafka_consume_queue(partition->queue, 0)) && message->err) {
        if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
            mr_kafka_in_warn(in, rd_kafka_message_errstr(message));
        rd_kafka_message_destroy(message);
        message = NULL;
    }
    return message;
}

bool mr_kafka_in_take(void *self,
                      bool (*may_take)(void *context, size_t topic_index, int32_t partition),
                      void *context, struct mr_kafka_record *record, size_t *index)
{
    struct mr_kafka_in *in = self;
    mr_kafka_in_drop_taken(in);
    mr_kafka_in_note_arrivals(in);
    for (struct mr_turn *turn; (turn = mr_turns_next(&in->turns)) != NULL;) {
        struct mr_kafka_in_partition *partition = (struct mr_kafka_in_partition *)turn;
        if (!may_take(context, partition->topic_index, partition->partition)) {
            mr_turns_block(&in->turns, turn);
            continue;
        }
        rd_kafka_message_t *message = next_message(in, partition);
        if (!message) {
            mr_turns_idle(&in->turns, turn);
            continue;
        }
        mr_turns_served(&in->turns, turn);
        in->taken = message;
        in->taken_from = partition;
        partition->position = message->offset + 1;
        *index = partition->topic_index;
        mr_kafka_client_describe(message, in->headers, record);
        return true;
    }
    return false;
}

void mr_kafka_in_put_back(void *self)
{
    struct mr_kafka_in *in = self;
    MR_ASSERT(in->taken);
    struct mr_kafka_in_partition *partition = in->taken_from;
    MR_ASSERT(!partition->held);
    partition->held = in->taken;
    partition->position = in->taken->offset;
    in->taken = NULL;
}

/* ---- membership and positions ---- */

struct mr_kafka_membership *mr_kafka_in_membership(void *self)
{
    struct mr_kafka_in *in = self;
    return (struct mr_kafka_membership *)rd_kafka_consumer_group_metadata(in->rk);
}

void mr_kafka_membership_free(struct mr_kafka_membership *membership)
{
    if (membership)
        rd_kafka_consumer_group_metadata_destroy((rd_kafka_consumer_group_metadata_t *)membership);
}

size_t mr_kafka_in_partition_count(void *self)
{
    const struct mr_kafka_in *in = self;
    return in->partition_count;
}

int64_t mr_kafka_in_unread(void *self, size_t topic, int32_t number)
{
    struct mr_kafka_in *in = self;
    int64_t low = 0, high = 0;
    const struct mr_kafka_in_partition *partition = mr_kafka_in_find(in, topic, number);
    if (!partition) return -1;
    rd_kafka_resp_err_t code =
        rd_kafka_get_watermark_offsets(in->rk, in->options.topics[topic].name, number, &low, &high);
    if (code || high < 0) return -1;
    int64_t from = partition->position > low ? partition->position : low;
    return high > from ? high - from : 0;
}

uint64_t mr_kafka_in_backlog(void *self)
{
    struct mr_kafka_in *in = self;
    uint64_t backlog = 0;
    for (size_t i = 0; i < in->partition_count; i++) {
        int64_t unread =
            mr_kafka_in_unread(in, in->partitions[i]->topic_index, in->partitions[i]->partition);
        if (unread > 0) backlog += (uint64_t)unread;
    }
    return backlog;
}

/* ---- the port ---- */

static bool port_is_lost(void *self)
{
    return rd_kafka_assignment_lost(((struct mr_kafka_in *)self)->rk);
}

static uint64_t port_heard_ns(void *self)
{
    return ((struct mr_kafka_in *)self)->heard_ns;
}

enum mr_status mr_kafka_in_open(void *context, const struct mr_kafka_consumer_options *options,
                                struct mr_kafka_consumer_port *out, struct mr_error *err)
{
    (void)context;
    *out = (struct mr_kafka_consumer_port){.serve = mr_kafka_in_serve,
                                           .next_event = mr_kafka_in_next_event,
                                           .complete_rebalance = mr_kafka_in_complete_rebalance,
                                           .is_lost = port_is_lost,
                                           .take = mr_kafka_in_take,
                                           .put_back = mr_kafka_in_put_back,
                                           .commit = mr_kafka_in_commit,
                                           .membership = mr_kafka_in_membership,
                                           .unread = mr_kafka_in_unread,
                                           .backlog = mr_kafka_in_backlog,
                                           .partition_count = mr_kafka_in_partition_count,
                                           .heard_ns = port_heard_ns,
                                           .close = mr_kafka_in_close};
    struct mr_kafka_in *in = NULL;
    enum mr_status status = mr_kafka_in_create(&in, options, err);
    out->self = in;
    return status;
}
