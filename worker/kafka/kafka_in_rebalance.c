#include "codec/check.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_in_state.h"

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMITTED_TIMEOUT_MS 2500
#define QUERY_PAUSE_NS       ((uint64_t)1000000000)
#define ENDS_TIMEOUT_MS      5000
/* first bytes of librdkafka's serialized group metadata; the generation follows them */
#define MEMBERSHIP_MAGIC "CGMDv2:"

size_t mr_kafka_in_topic_index(const struct mr_kafka_in *in, const char *topic)
{
    for (size_t i = 0; i < in->options.topic_count; i++)
        if (strcmp(in->options.topics[i].name, topic) == 0) return i;
    return SIZE_MAX;
}

struct mr_kafka_in_partition *mr_kafka_in_find(struct mr_kafka_in *in, size_t topic_index,
                                               int32_t partition)
{
    if (topic_index >= in->options.topic_count || partition < 0) return NULL;
    const struct mr_kafka_in_topic *topic = &in->topics[topic_index];
    return (size_t)partition < topic->count ? topic->partitions[partition] : NULL;
}

void mr_kafka_in_warn(struct mr_kafka_in *in, const char *text)
{
    if (in->kafka->log) in->kafka->log(in->kafka->log_context, MR_LOG_WARN, text);
}

void mr_kafka_in_drop_taken(struct mr_kafka_in *in)
{
    if (in->taken) rd_kafka_message_destroy(in->taken);
    in->taken = NULL;
}

void mr_kafka_in_watch(struct mr_kafka_in *in, rd_kafka_queue_t *queue)
{
    uint64_t one = 1;
    rd_kafka_queue_io_event_enable(queue, in->options.wake->fd, &one, sizeof one);
}

/* Records whether the group uses the cooperative protocol. Must not be called from a callback that
 * librdkafka runs while the consumer closes: librdkafka can deadlock there. */
void mr_kafka_in_note_protocol(struct mr_kafka_in *in)
{
    const char *protocol = rd_kafka_rebalance_protocol(in->rk);
    in->cooperative = protocol && strcmp(protocol, "COOPERATIVE") == 0;
}

/* ---- the queues of partitions ---- */

/* Records a failed allocation: the next _serve then returns an error. */
static void *keep(struct mr_kafka_in *in, void *memory)
{
    in->memory_lost |= !memory;
    return memory;
}

/* Called by librdkafka, on any of its threads, when a record arrives in an empty queue. */
static void on_arrival(rd_kafka_t *rk, void *opaque)
{
    (void)rk;
    struct mr_kafka_in_partition *partition = opaque;
    struct mr_kafka_in *in = partition->in;
    pthread_mutex_lock(&in->arrived_mutex);
    if (!partition->has_arrived) {
        partition->has_arrived = true;
        partition->arrived_next = in->arrived;
        in->arrived = partition;
    }
    pthread_mutex_unlock(&in->arrived_mutex);
    mr_wake_ring(in->options.wake);
}

void mr_kafka_in_note_arrivals(struct mr_kafka_in *in)
{
    pthread_mutex_lock(&in->arrived_mutex);
    for (struct mr_kafka_in_partition *next; in->arrived; in->arrived = next) {
        next = in->arrived->arrived_next;
        in->arrived->has_arrived = false;
        mr_turns_ready(&in->turns, &in->arrived->turn);
    }
    pthread_mutex_unlock(&in->arrived_mutex);
}

/* Makes room for one more partition, with this number. False: out of memory. */
static bool make_room(struct mr_kafka_in *in, const struct mr_kafka_claim *claim)
{
    struct mr_kafka_in_topic *topic = &in->topics[claim->topic_index];
    struct mr_kafka_in_partition **grown =
        keep(in, realloc(in->partitions, (in->partition_count + 1) * sizeof *grown));
    if (!grown) return false;
    in->partitions = grown;
    size_t count = (size_t)claim->partition + 1;
    if (count <= topic->count) return true;
    grown = keep(in, realloc(topic->partitions, count * sizeof *grown));
    if (!grown) return false;
    memset(grown + topic->count, 0, (count - topic->count) * sizeof *grown);
    topic->partitions = grown;
    topic->count = count;
    return true;
}

static bool open_partition(struct mr_kafka_in *in, const struct mr_kafka_claim *claim)
{
    struct mr_kafka_in_partition *partition = NULL;
    if (make_room(in, claim)) partition = keep(in, malloc(sizeof *partition));
    if (!partition) return false;
    *partition = (struct mr_kafka_in_partition){.turn = {.class_index = claim->topic_index},
                                                .in = in,
                                                .topic_index = claim->topic_index,
                                                .partition = claim->partition,
                                                .position = claim->start,
                                                .index = in->partition_count};
    in->partitions[in->partition_count++] = partition;
    in->topics[claim->topic_index].partitions[claim->partition] = partition;
    partition->queue = rd_kafka_queue_get_partition(in->rk, claim->topic, claim->partition);
    rd_kafka_queue_forward(partition->queue, NULL);
    rd_kafka_queue_cb_event_enable(partition->queue, on_arrival, partition);
    mr_turns_ready(&in->turns, &partition->turn);
    return true;
}

static void close_partition(struct mr_kafka_in *in, struct mr_kafka_in_partition *partition)
{
    if (partition->held) rd_kafka_message_destroy(partition->held);
    /* on_arrival runs under the queue's lock, so it does not run after this */
    rd_kafka_queue_cb_event_enable(partition->queue, NULL, NULL);
    rd_kafka_queue_destroy(partition->queue);
    mr_kafka_in_note_arrivals(in); /* this partition must not stay in the list of arrivals */
    mr_turns_idle(&in->turns, &partition->turn);
    in->topics[partition->topic_index].partitions[partition->partition] = NULL;
    in->partitions[partition->index] = in->partitions[--in->partition_count];
    in->partitions[partition->index]->index = partition->index;
    free(partition);
}

/* ---- committed offsets ---- */

/* A query for committed offsets. librdkafka's call blocks while the group's coordinator is
 * unreachable, so a thread makes it, and the owner continues with its partitions. */
struct mr_kafka_in_query {
    pthread_t thread;
    rd_kafka_t *rk;
    struct mr_wake wake;                   /* a copy of the owner's; rung when done */
    rd_kafka_topic_partition_list_t *list; /* a copy; the thread's until done */
    rd_kafka_resp_err_t code;              /* valid when done */
    atomic_bool done;
    bool stale; /* the query is for an assignment that has been lost */
};

static void *run_query(void *context)
{
    struct mr_kafka_in_query *query = context;
    query->code = rd_kafka_committed(query->rk, query->list, COMMITTED_TIMEOUT_MS);
    if (!query->code) query->code = (rd_kafka_resp_err_t)mr_kafka_client_list_error(query->list);
    atomic_store(&query->done, true);
    mr_wake_ring(&query->wake);
    return NULL;
}

static void start_query(struct mr_kafka_in *in, const rd_kafka_topic_partition_list_t *list)
{
    const atomic_bool *ending = in->kafka->ending;
    if (mr_clock_ns() < in->query_ns || (ending && atomic_load(ending))) return;
    struct mr_kafka_in_query *query = keep(in, calloc(1, sizeof *query));
    if (!query) return;
    query->rk = in->rk;
    query->wake = *in->options.wake;
    query->list = rd_kafka_topic_partition_list_copy(list);
    if (pthread_create(&query->thread, NULL, run_query, query) == 0) {
        in->query = query;
        return;
    }
    in->memory_lost = true;
    rd_kafka_topic_partition_list_destroy(query->list);
    free(query);
}

/* Ends the query, whose thread is done, and returns its list; the caller destroys it. */
static rd_kafka_topic_partition_list_t *take_query(struct mr_kafka_in *in)
{
    struct mr_kafka_in_query *query = in->query;
    rd_kafka_topic_partition_list_t *list = query->list;
    pthread_join(query->thread, NULL);
    free(query);
    in->query = NULL;
    return list;
}

bool mr_kafka_in_end_query(struct mr_kafka_in *in, uint64_t until_ns)
{
    while (in->query && !atomic_load(&in->query->done) && mr_clock_ns() < until_ns)
        mr_clock_sleep_ms(10);
    if (in->query && !atomic_load(&in->query->done)) return false;
    if (in->query) rd_kafka_topic_partition_list_destroy(take_query(in));
    return true;
}

/* Replaces the list by one with the committed offsets, or repeats the query later. False: some
 * offsets are unknown. An unknown offset must not be read as "nothing committed", because all
 * requests would then run again. While a transaction of a crashed worker is open, the broker does
 * not return the offsets until it has aborted that transaction. */
static bool query_committed(struct mr_kafka_in *in, rd_kafka_topic_partition_list_t **list)
{
    char text[160];
    if (!in->query) start_query(in, *list);
    if (!in->query || !atomic_load(&in->query->done)) return false;
    const bool stale = in->query->stale;
    const rd_kafka_resp_err_t code = in->query->code;
    rd_kafka_topic_partition_list_t *found = take_query(in);
    if (!stale && !code) {
        rd_kafka_topic_partition_list_destroy(*list);
        *list = found;
        return true;
    }
    rd_kafka_topic_partition_list_destroy(found);
    if (stale) return query_committed(in, list);
    snprintf(text, sizeof text, "committed offsets are not known yet; the query is repeated: %s",
             rd_kafka_err2str(code));
    mr_kafka_in_warn(in, text);
    in->query_ns = mr_clock_ns() + QUERY_PAUSE_NS;
    return false;
}

/* Returns the generation of this worker's group membership, or -1 if there is no membership or its
 * form is unknown. Older versions of librdkafka have it only in the serialized form of the
 * membership, whose beginning is the same in 2.0.2 and 2.16. */
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
    struct mr_kafka_claim claim = {
        .topic = element->topic,
        .topic_index = mr_kafka_in_topic_index(in, element->topic),
        .partition = element->partition,
        .committed = offset,
        .metadata = {element->metadata, element->metadata ? element->metadata_size : 0},
        .start = offset,
        .generation = -1};
    /* Cut off trailing NULs: some versions of librdkafka count the terminating NUL in
     * metadata_size. */
    while (claim.metadata.length > 0 && claim.metadata.bytes[claim.metadata.length - 1] == '\0')
        claim.metadata.length--;
    return claim;
}

/* ---- events ---- */

static void append(struct mr_kafka_in_pending **list, struct mr_kafka_in_pending *pending)
{
    while (*list)
        list = &(*list)->next;
    *list = pending;
}

static struct mr_kafka_in_pending *create_pending(struct mr_kafka_in *in)
{
    return keep(in, calloc(1, sizeof(struct mr_kafka_in_pending)));
}

static void destroy_pending(struct mr_kafka_in_pending *pending)
{
    if (!pending) return;
    if (pending->list) rd_kafka_topic_partition_list_destroy(pending->list);
    free(pending->claims);
    free(pending);
}

void mr_kafka_in_assign_all(struct mr_kafka_in *in, rd_kafka_topic_partition_list_t *list)
{
    struct mr_kafka_in_pending *pending = create_pending(in);
    if (!pending) {
        rd_kafka_topic_partition_list_destroy(list);
        return;
    }
    pending->assigned = true;
    pending->list = list;
    append(&in->rebalances, pending);
}

/* False: there is no memory, or the committed offsets are not known yet. */
static bool make_claims(struct mr_kafka_in *in, struct mr_kafka_in_pending *pending)
{
    int32_t generation = -1;
    pending->claims = keep(in, calloc((size_t)pending->list->cnt + 1, sizeof *pending->claims));
    if (!pending->claims) return false;
    if (pending->assigned && !query_committed(in, &pending->list)) {
        /* no partition of a lost assignment is claimed: another assignment follows */
        if (rd_kafka_assignment_lost(in->rk)) {
            if (in->query) in->query->stale = true;
            return true;
        }
        free(pending->claims);
        pending->claims = NULL;
        return false;
    }
    if (pending->assigned && in->options.join_group) generation = generation_of(in->rk);
    for (int i = 0; i < pending->list->cnt; i++) {
        struct mr_kafka_claim *claim = &pending->claims[pending->claim_count];
        *claim = claim_of(in, &pending->list->elems[i]);
        claim->generation = generation;
        if (pending->assigned || mr_kafka_in_find(in, claim->topic_index, claim->partition))
            pending->claim_count++;
    }
    return true;
}

bool mr_kafka_in_next_event(void *self, struct mr_kafka_event *event)
{
    struct mr_kafka_in *in = self;
    if (mr_kafka_in_next_outcome(in, event)) return true;
    struct mr_kafka_in_pending *pending = in->rebalances;
    if (!pending || in->in_progress || in->memory_lost) return false;
    mr_kafka_in_drop_taken(in);
    if (!make_claims(in, pending)) return false;
    in->in_progress = true;
    *event = (struct mr_kafka_event){.kind = pending->assigned ? MR_KAFKA_EVENT_ASSIGNED
                                                               : MR_KAFKA_EVENT_REVOKED,
                                     .claims = pending->claims,
                                     .claim_count = pending->claim_count,
                                     .how = pending->how};
    return true;
}

/* ---- completing a rebalance ---- */

/* Sets the first offset of each partition without a committed offset. librdkafka would find that
 * offset too, but later. */
static void find_begins(struct mr_kafka_in *in, rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_topic_partition_t *element = &list->elems[i];
        struct mr_kafka_ends ends;
        if (element->offset < 0 && mr_kafka_client_ends(in->rk, element->topic, element->partition,
                                                        ENDS_TIMEOUT_MS, &ends, NULL) == MR_OK)
            element->offset = ends.begin;
    }
}

/* Passes the new assignment to librdkafka: with the cooperative protocol the added or removed
 * partitions, with the eager protocol the whole assignment. */
static void change_assignment(struct mr_kafka_in *in, const rd_kafka_topic_partition_list_t *list,
                              bool assigned)
{
    if (!in->cooperative) {
        rd_kafka_resp_err_t code = rd_kafka_assign(in->rk, assigned ? list : NULL);
        if (code) mr_kafka_in_warn(in, rd_kafka_err2str(code));
        return;
    }
    rd_kafka_error_t *error = assigned ? rd_kafka_incremental_assign(in->rk, list)
                                       : rd_kafka_incremental_unassign(in->rk, list);
    if (!error) return;
    mr_kafka_in_warn(in, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

static bool open_partitions(struct mr_kafka_in *in, const struct mr_kafka_in_pending *pending)
{
    for (size_t i = 0; i < pending->claim_count; i++) {
        int64_t start = pending->claims[i].start;
        pending->list->elems[i].offset = start >= 0 ? start : RD_KAFKA_OFFSET_INVALID;
        if (!open_partition(in, &pending->claims[i])) return false;
    }
    if (!in->options.join_group) find_begins(in, pending->list);
    return true;
}

void mr_kafka_in_complete_rebalance(void *self)
{
    struct mr_kafka_in *in = self;
    struct mr_kafka_in_pending *pending = in->rebalances;
    MR_ASSERT(pending && in->in_progress);
    mr_kafka_in_drop_taken(in);
    bool changes = true;
    if (pending->assigned)
        changes = open_partitions(in, pending);
    else
        for (size_t i = 0; i < pending->claim_count; i++)
            close_partition(in, mr_kafka_in_find(in, pending->claims[i].topic_index,
                                                 pending->claims[i].partition));
    if (changes) change_assignment(in, pending->list, pending->assigned);
    in->rebalances = pending->next;
    in->in_progress = false;
    destroy_pending(pending);
    if (in->rebalances) mr_wake_ring(in->options.wake);
}

void mr_kafka_in_rebalanced(struct mr_kafka_in *in, bool assigned,
                            const rd_kafka_topic_partition_list_t *list)
{
    if (in->closing) {
        change_assignment(in, list, assigned);
        return;
    }
    mr_kafka_in_note_protocol(in);
    struct mr_kafka_in_pending *pending = create_pending(in);
    if (!pending) {
        mr_wake_ring(in->options.wake);
        return;
    }
    pending->assigned = assigned;
    pending->list = rd_kafka_topic_partition_list_copy(list);
    pending->how = in->cooperative ? MR_KAFKA_REVOKE_GONE : MR_KAFKA_REVOKE_PAUSE;
    if (!assigned && rd_kafka_assignment_lost(in->rk)) pending->how = MR_KAFKA_REVOKE_LOST;
    append(&in->rebalances, pending);
}

void mr_kafka_in_end_rebalances(struct mr_kafka_in *in)
{
    mr_kafka_in_drop_taken(in);
    while (in->partition_count > 0)
        close_partition(in, in->partitions[0]);
    for (struct mr_kafka_in_pending *next; in->rebalances; in->rebalances = next) {
        next = in->rebalances->next;
        change_assignment(in, in->rebalances->list, in->rebalances->assigned);
        destroy_pending(in->rebalances);
    }
}
