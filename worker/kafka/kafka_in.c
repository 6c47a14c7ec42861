#include "worker/kafka/kafka_in.h"

#include "codec/check.h"
#include "worker/config/config.h"
#include "worker/kafka/kafka_client.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

#define COMMITTED_TIMEOUT_MS 5000
#define COMMITTED_TRIES      3
#define METADATA_TIMEOUT_MS  10000
#define CREDIT_SCALE         4096      /* a turn is shared by the partitions of a topic */
#define GIVE_UP_MS           10000     /* how often a broker looks for transactions to give up */
#define MEMBERSHIP_MAGIC     "CGMDv2:" /* of a written membership; the generation follows */

struct partition {
    rd_kafka_queue_t *queue;
    rd_kafka_message_t *held; /* put back, or strayed into the consumer queue */
    size_t topic_index;
    int32_t partition;
    int64_t position; /* behind the last record taken, -1 unknown */
    int64_t credit;   /* of the weighted round robin */
};

struct mr_kafka_in {
    const struct mr_kafka_options *kafka; /* first: kafka_conf's callbacks look here */
    struct mr_kafka_in_options options;
    rd_kafka_t *rk;
    rd_kafka_queue_t *consumer_queue;
    struct partition *partitions;
    size_t partition_count;
    rd_kafka_message_t *taken; /* lent out by _take */
    size_t taken_from;
    struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX];
    bool stray_lost, commits_unknown;
    bool cooperative; /* the group's protocol, as of its last event */
    bool closing;
};

static size_t topic_index(const struct mr_kafka_in *in, const char *topic)
{
    for (size_t i = 0; i < in->options.topic_count; i++)
        if (strcmp(in->options.topics[i].name, topic) == 0) return i;
    return SIZE_MAX;
}

static struct partition *find(struct mr_kafka_in *in, size_t topic, int32_t partition)
{
    for (size_t i = 0; i < in->partition_count; i++)
        if (in->partitions[i].topic_index == topic && in->partitions[i].partition == partition)
            return &in->partitions[i];
    return NULL;
}

/* ---- taking and giving up partitions ---- */

static void drop_taken(struct mr_kafka_in *in)
{
    if (in->taken) rd_kafka_message_destroy(in->taken);
    in->taken = NULL;
}

static void watch(struct mr_kafka_in *in, rd_kafka_queue_t *queue)
{
    uint64_t one = 1;
    rd_kafka_queue_io_event_enable(queue, in->options.wake->fd, &one, sizeof one);
}

static void open_partition(struct mr_kafka_in *in, const struct mr_kafka_claim *claim)
{
    struct partition *partition = &in->partitions[in->partition_count++];
    *partition = (struct partition){
        .topic_index = claim->topic_index, .partition = claim->partition, .position = claim->start};
    partition->queue = rd_kafka_queue_get_partition(in->rk, claim->topic, claim->partition);
    rd_kafka_queue_forward(partition->queue, NULL);
    watch(in, partition->queue);
}

static void close_partition(struct mr_kafka_in *in, struct partition *partition)
{
    if (partition->held) rd_kafka_message_destroy(partition->held);
    rd_kafka_queue_io_event_enable(partition->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(partition->queue);
    *partition = in->partitions[--in->partition_count];
}

/* A transaction that a worker left open hides what is committed until the broker gives it up. */
static uint64_t committed_tries(const struct mr_kafka_in *in)
{
    uint64_t open_ms = in->kafka->transaction_timeout_ns / 1000000;
    uint64_t session_ms = in->kafka->session_timeout_ns / 1000000;
    return COMMITTED_TRIES + (open_ms + GIVE_UP_MS + session_ms) / COMMITTED_TIMEOUT_MS;
}

/* What was committed, into the list. Without an answer the offsets stay unknown and librdkafka asks
 * again by itself: finished records may be run twice, none is lost. With transactions that would
 * break what was promised, unless the partitions are lost meanwhile: then they are taken next. */
static void ask_committed(struct mr_kafka_in *in, rd_kafka_topic_partition_list_t *list)
{
    uint64_t tries = in->kafka->transaction_timeout_ns > 0 ? committed_tries(in) : COMMITTED_TRIES;
    for (uint64_t i = 0; i < tries; i++)
        if (!rd_kafka_committed(in->rk, list, COMMITTED_TIMEOUT_MS)) return;
    in->commits_unknown =
        in->kafka->transaction_timeout_ns > 0 && !rd_kafka_assignment_lost(in->rk);
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = RD_KAFKA_OFFSET_INVALID;
}

/* Older versions tell it only inside a membership's binary form, which begins the same in 2.0.2 and
 * 2.16. -1 when there is no membership, or its form is another one. */
static int32_t generation_of(rd_kafka_t *rk)
{
    const size_t magic = sizeof MEMBERSHIP_MAGIC - 1;
    int32_t generation = -1;
    void *text = NULL;
    size_t length = 0;
    rd_kafka_consumer_group_metadata_t *membership = rd_kafka_consumer_group_metadata(rk);
    if (!membership) return -1;
    rd_kafka_error_t *error = rd_kafka_consumer_group_metadata_write(membership, &text, &length);
    rd_kafka_consumer_group_metadata_destroy(membership);
    if (error) {
        rd_kafka_error_destroy(error);
        return -1;
    }
    if (length >= magic + sizeof generation && memcmp(text, MEMBERSHIP_MAGIC, magic) == 0)
        memcpy(&generation, (const char *)text + magic, sizeof generation);
    rd_kafka_mem_free(rk, text);
    return generation;
}

static struct mr_kafka_claim claim_of(const struct mr_kafka_in *in,
                                      const rd_kafka_topic_partition_t *element)
{
    int64_t offset = element->offset >= 0 ? element->offset : -1;
    return (struct mr_kafka_claim){
        .topic = element->topic,
        .topic_index = topic_index(in, element->topic),
        .partition = element->partition,
        .committed = offset,
        .metadata = {element->metadata, element->metadata ? element->metadata_size : 0},
        .start = offset,
        .generation = -1};
}

/* The library counts a terminating NUL of the metadata in some versions. */
static void trim_metadata(struct mr_kafka_claim *claim)
{
    while (claim->metadata.length > 0 && claim->metadata.bytes[claim->metadata.length - 1] == '\0')
        claim->metadata.length--;
}

static void take_partitions(struct mr_kafka_in *in, rd_kafka_topic_partition_list_t *list)
{
    size_t count = (size_t)list->cnt;
    int32_t generation = in->options.join_group ? generation_of(in->rk) : -1;
    struct mr_kafka_claim *claims = calloc(count + 1, sizeof *claims);
    struct partition *grown =
        realloc(in->partitions, (in->partition_count + count + 1) * sizeof *grown);
    MR_ASSERT(claims && grown);
    in->partitions = grown;
    ask_committed(in, list);
    for (size_t i = 0; i < count; i++) {
        claims[i] = claim_of(in, &list->elems[i]);
        claims[i].generation = generation;
        trim_metadata(&claims[i]);
    }
    in->options.events.assigned(in->options.events.context, claims, count);
    for (size_t i = 0; i < count; i++) {
        list->elems[i].offset = claims[i].start >= 0 ? claims[i].start : RD_KAFKA_OFFSET_INVALID;
        open_partition(in, &claims[i]);
    }
    free(claims);
}

static void give_partitions(struct mr_kafka_in *in, const rd_kafka_topic_partition_list_t *list,
                            enum mr_kafka_revoke how)
{
    struct mr_kafka_claim *claims = calloc((size_t)list->cnt + 1, sizeof *claims);
    MR_ASSERT(claims);
    size_t count = 0;
    for (int i = 0; i < list->cnt; i++) {
        claims[count] = claim_of(in, &list->elems[i]);
        if (find(in, claims[count].topic_index, claims[count].partition)) count++;
    }
    drop_taken(in);
    if (count > 0) in->options.events.revoked(in->options.events.context, claims, count, how);
    for (size_t i = 0; i < count; i++)
        close_partition(in, find(in, claims[i].topic_index, claims[i].partition));
    free(claims);
}

static void say(struct mr_kafka_in *in, const char *text)
{
    if (in->kafka->log) in->kafka->log(in->kafka->log_context, MR_LOG_WARN, text);
}

/* Not from within a callback of the close: the library may wait for itself there. */
static void note_protocol(struct mr_kafka_in *in)
{
    const char *protocol = rd_kafka_rebalance_protocol(in->rk);
    in->cooperative = protocol && strcmp(protocol, "COOPERATIVE") == 0;
}

/* What the library is told: the whole list of partitions, or what is more or less of them. */
static void change_assignment(struct mr_kafka_in *in, const rd_kafka_topic_partition_list_t *list,
                              bool more)
{
    if (!in->cooperative) {
        rd_kafka_resp_err_t code = rd_kafka_assign(in->rk, more ? list : NULL);
        if (code) say(in, rd_kafka_err2str(code));
        return;
    }
    rd_kafka_error_t *error = more ? rd_kafka_incremental_assign(in->rk, list)
                                   : rd_kafka_incremental_unassign(in->rk, list);
    if (!error) return;
    say(in, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

/* librdkafka's, called from within rd_kafka_consumer_poll on the owner's thread. */
static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                         rd_kafka_topic_partition_list_t *list, void *opaque)
{
    struct mr_kafka_in *in = opaque;
    bool more = code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    if (!in->closing) note_protocol(in);
    if (more) {
        take_partitions(in, list);
    } else {
        enum mr_kafka_revoke how = in->cooperative ? MR_KAFKA_REVOKE_GONE : MR_KAFKA_REVOKE_PAUSE;
        give_partitions(in, list, rd_kafka_assignment_lost(rk) ? MR_KAFKA_REVOKE_LOST : how);
    }
    change_assignment(in, list, more);
}

static void on_commit(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                      rd_kafka_topic_partition_list_t *list, void *opaque);

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
    if (topic_index(listing->in, topic) == SIZE_MAX) return;
    rd_kafka_topic_partition_list_add_range(listing->list, topic, 0, partition_count - 1);
}

/* Where nothing was committed; the library finds it too, later. */
static void find_begins(struct mr_kafka_in *in, rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_topic_partition_t *element = &list->elems[i];
        struct mr_kafka_ends ends;
        if (element->offset < 0 && mr_kafka_client_ends(in->rk, element->topic, element->partition,
                                                        COMMITTED_TIMEOUT_MS, &ends, NULL) == MR_OK)
            element->offset = ends.begin;
    }
}

static enum mr_status assign_all(struct mr_kafka_in *in, struct mr_error *err)
{
    struct listing listing = {in, rd_kafka_topic_partition_list_new(8)};
    enum mr_status status =
        mr_kafka_client_topics(in->rk, METADATA_TIMEOUT_MS, list_topic, &listing, err);
    if (status == MR_OK) {
        take_partitions(in, listing.list);
        find_begins(in, listing.list);
        rd_kafka_resp_err_t code = rd_kafka_assign(in->rk, listing.list);
        if (code) status = mr_fail(err, MR_UNREACHABLE, "assign: %s", rd_kafka_err2str(code));
    }
    rd_kafka_topic_partition_list_destroy(listing.list);
    return status;
}

enum mr_status mr_kafka_in_create(struct mr_kafka_in **out,
                                  const struct mr_kafka_in_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_in *in = calloc(1, sizeof *in);
    if (!in) return mr_fail(err, MR_NOMEM, "no memory for a consumer");
    in->options = *options;
    in->kafka = options->kafka;
    rd_kafka_conf_t *conf = NULL;
    enum mr_status status = mr_kafka_conf_create(&conf, MR_KAFKA_CONSUMER, options->kafka, in, err);
    if (status != MR_OK) goto fail;
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    rd_kafka_conf_set_offset_commit_cb(conf, on_commit);
    status = mr_kafka_conf_open(&in->rk, conf, MR_KAFKA_CONSUMER, err);
    if (status != MR_OK) goto fail;
    rd_kafka_poll_set_consumer(in->rk);
    in->consumer_queue = rd_kafka_queue_get_consumer(in->rk);
    watch(in, in->consumer_queue);
    status = options->join_group ? subscribe(in, err) : assign_all(in, err);
    if (status != MR_OK) {
        mr_kafka_in_close(in, 1000);
        return status;
    }
    *out = in;
    return MR_OK;
fail:
    free(in);
    return status;
}

/* The revoke event for everything still held, before the library's own: queues must be gone when
 * the consumer closes. */
static void give_all(struct mr_kafka_in *in)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)in->partition_count + 1);
    for (size_t i = 0; i < in->partition_count; i++)
        rd_kafka_topic_partition_list_add(list,
                                          in->options.topics[in->partitions[i].topic_index].name,
                                          in->partitions[i].partition);
    give_partitions(in, list,
                    rd_kafka_assignment_lost(in->rk) ? MR_KAFKA_REVOKE_LOST : MR_KAFKA_REVOKE_GONE);
    rd_kafka_topic_partition_list_destroy(list);
}

bool mr_kafka_in_close(struct mr_kafka_in *in, uint32_t timeout_ms)
{
    if (!in) return true;
    note_protocol(in);
    in->closing = true;
    give_all(in);
    rd_kafka_queue_io_event_enable(in->consumer_queue, -1, NULL, 0);
    rd_kafka_queue_destroy(in->consumer_queue);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(in->rk);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(in->rk, queue);
    bool refused = error != NULL; /* after a fatal error there is no leaving the group */
    if (error) rd_kafka_error_destroy(error);
    bool closed = refused;
    for (uint32_t waited = 0; !closed && waited < timeout_ms; waited += 10) {
        rd_kafka_queue_poll_callback(queue, 10);
        closed = rd_kafka_consumer_closed(in->rk);
    }
    rd_kafka_queue_destroy(queue);
    if (!closed) return false; /* destroying it now could hang: the process ends without it */
    rd_kafka_destroy_flags(in->rk, refused ? RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE : 0);
    free(in->partitions);
    free(in);
    return true;
}

/* ---- records ---- */

/* A record in the consumer queue: fetched before its queue was split off. */
static void hold_stray(struct mr_kafka_in *in, rd_kafka_message_t *message)
{
    struct partition *partition =
        find(in, topic_index(in, rd_kafka_topic_name(message->rkt)), message->partition);
    if (partition && !partition->held) {
        partition->held = message;
        return;
    }
    if (partition) in->stray_lost = true;
    rd_kafka_message_destroy(message);
}

enum mr_status mr_kafka_in_serve(struct mr_kafka_in *in, struct mr_error *err)
{
    rd_kafka_message_t *message;
    while ((message = rd_kafka_consumer_poll(in->rk, 0))) {
        if (!message->err) {
            hold_stray(in, message);
            continue;
        }
        say(in, rd_kafka_message_errstr(message));
        rd_kafka_message_destroy(message);
    }
    char reason[256];
    rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(in->rk, reason, sizeof reason);
    if (fatal == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
        return mr_fail(err, MR_BACKEND,
                       "another worker joined the group as --group-instance %s and has taken the "
                       "place of this one",
                       in->kafka->group_instance);
    if (fatal) return mr_fail(err, MR_BACKEND, "consumer: %s", reason);
    if (in->commits_unknown)
        return mr_fail(err, MR_BACKEND, "consumer: the broker does not say what is committed");
    if (in->stray_lost)
        return mr_fail(err, MR_BACKEND, "consumer: a record left its partition's queue");
    return MR_OK;
}

/* The next message of a partition, errors reported and skipped; NULL when it has none. */
static rd_kafka_message_t *next_message(struct mr_kafka_in *in, struct partition *partition)
{
    rd_kafka_message_t *message = partition->held;
    partition->held = NULL;
    while (!message && (message = rd_kafka_consume_queue(partition->queue, 0)) && message->err) {
        if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
            say(in, rd_kafka_message_errstr(message));
        rd_kafka_message_destroy(message);
        message = NULL;
    }
    return message;
}

/* Smooth weighted round robin: everyone gains its weight, the richest pays for all. */
static size_t richest(struct mr_kafka_in *in, const bool *empty)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < in->partition_count; i++)
        if (!empty[i] &&
            (best == SIZE_MAX || in->partitions[i].credit > in->partitions[best].credit))
            best = i;
    return best;
}

static void pay(struct mr_kafka_in *in, size_t winner, const bool *empty)
{
    uint32_t busy[MR_LIST_MAX] = {0}; /* partitions of each topic with records */
    for (size_t i = 0; i < in->partition_count; i++)
        if (!empty[i]) busy[in->partitions[i].topic_index]++;
    int64_t sum = 0;
    for (size_t i = 0; i < in->partition_count; i++) {
        if (empty[i]) continue;
        size_t topic = in->partitions[i].topic_index;
        int64_t weight = (int64_t)in->options.topics[topic].weight * CREDIT_SCALE / busy[topic];
        in->partitions[i].credit += weight;
        sum += weight;
    }
    in->partitions[winner].credit -= sum;
}

bool mr_kafka_in_take(struct mr_kafka_in *in,
                      bool (*may_take)(void *context, size_t topic_index, int32_t partition),
                      struct mr_kafka_record *record, size_t *index)
{
    bool empty[1024];
    MR_ASSERT(in->partition_count <= sizeof empty);
    drop_taken(in);
    for (size_t i = 0; i < in->partition_count; i++)
        empty[i] = !may_take(in->options.events.context, in->partitions[i].topic_index,
                             in->partitions[i].partition);
    for (;;) {
        size_t best = richest(in, empty);
        if (best == SIZE_MAX) return false;
        rd_kafka_message_t *message = next_message(in, &in->partitions[best]);
        if (message) {
            pay(in, best, empty);
            in->taken = message;
            in->taken_from = best;
            in->partitions[best].position = message->offset + 1;
            *index = in->partitions[best].topic_index;
            mr_kafka_client_describe(message, in->headers, record);
            return true;
        }
        empty[best] = true;
        in->partitions[best].credit = 0;
    }
}

void mr_kafka_in_put_back(struct mr_kafka_in *in)
{
    MR_ASSERT(in->taken);
    struct partition *partition = &in->partitions[in->taken_from];
    MR_ASSERT(!partition->held);
    partition->held = in->taken;
    partition->position = in->taken->offset;
    in->taken = NULL;
}

/* ---- commits ---- */

static rd_kafka_resp_err_t first_error(const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; list && i < list->cnt; i++)
        if (list->elems[i].err) return list->elems[i].err;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static void on_commit(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                      rd_kafka_topic_partition_list_t *list, void *opaque)
{
    (void)rk;
    struct mr_kafka_in *in = opaque;
    if (!code) code = first_error(list);
    in->options.events.committed(in->options.events.context, mr_kafka_status(code),
                                 code ? rd_kafka_err2str(code) : "");
}

/* The answer to one waiting commit. */
struct commit_answer {
    bool here;
    rd_kafka_resp_err_t code;
};

static void on_commit_answer(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                             rd_kafka_topic_partition_list_t *list, void *opaque)
{
    (void)rk;
    struct commit_answer *answer = opaque;
    answer->here = true;
    answer->code = code ? code : first_error(list);
}

/* On a queue of its own, so that a coordinator that is away holds us no longer than timeout_ms. */
static rd_kafka_resp_err_t commit_and_wait(struct mr_kafka_in *in,
                                           const rd_kafka_topic_partition_list_t *list,
                                           uint32_t timeout_ms)
{
    struct commit_answer answer = {.code = RD_KAFKA_RESP_ERR__TIMED_OUT};
    rd_kafka_queue_t *queue = rd_kafka_queue_new(in->rk);
    rd_kafka_resp_err_t code =
        rd_kafka_commit_queue(in->rk, list, queue, on_commit_answer, &answer);
    for (uint32_t waited = 0; !code && !answer.here && waited < timeout_ms; waited += 10)
        rd_kafka_queue_poll_callback(queue, 10);
    rd_kafka_queue_destroy(queue);
    return code ? code : answer.code;
}

enum mr_status mr_kafka_in_commit(struct mr_kafka_in *in, const struct mr_kafka_commit *commits,
                                  size_t count, uint32_t timeout_ms, struct mr_error *err)
{
    if (count == 0) return MR_OK;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
    for (size_t i = 0; i < count; i++)
        mr_kafka_client_add_offset(list, in->options.topics[commits[i].topic_index].name,
                                   &commits[i]);
    rd_kafka_resp_err_t code =
        timeout_ms > 0 ? commit_and_wait(in, list, timeout_ms) : rd_kafka_commit(in->rk, list, 1);
    rd_kafka_topic_partition_list_destroy(list);
    if (!code) return MR_OK;
    return mr_fail(err, mr_kafka_status(code), "commit: %s", rd_kafka_err2str(code));
}

struct mr_kafka_membership *mr_kafka_in_membership(struct mr_kafka_in *in)
{
    return (struct mr_kafka_membership *)rd_kafka_consumer_group_metadata(in->rk);
}

void mr_kafka_membership_free(struct mr_kafka_membership *membership)
{
    if (membership)
        rd_kafka_consumer_group_metadata_destroy((rd_kafka_consumer_group_metadata_t *)membership);
}

size_t mr_kafka_in_partition_count(const struct mr_kafka_in *in)
{
    return in->partition_count;
}

int64_t mr_kafka_in_unread(struct mr_kafka_in *in, size_t topic, int32_t number)
{
    int64_t low = 0, high = 0;
    const struct partition *partition = find(in, topic, number);
    if (!partition) return -1;
    rd_kafka_resp_err_t code =
        rd_kafka_get_watermark_offsets(in->rk, in->options.topics[topic].name, number, &low, &high);
    if (code || high < 0) return -1;
    int64_t from = partition->position > low ? partition->position : low;
    return high > from ? high - from : 0;
}

uint64_t mr_kafka_in_backlog(struct mr_kafka_in *in)
{
    uint64_t backlog = 0;
    for (size_t i = 0; i < in->partition_count; i++) {
        int64_t unread =
            mr_kafka_in_unread(in, in->partitions[i].topic_index, in->partitions[i].partition);
        if (unread > 0) backlog += (uint64_t)unread;
    }
    return backlog;
}
