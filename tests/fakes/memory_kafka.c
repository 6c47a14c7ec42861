#include "tests/fakes/memory_kafka.h"

#include "codec/check.h"

#include <string.h>

void memory_kafka_init(struct memory_kafka *kafka)
{
    memset(kafka, 0, sizeof *kafka);
    for (int i = 0; i < MEMORY_PARTITIONS; i++)
        kafka->partitions[i].committed = -1;
}

void memory_kafka_produce(struct memory_kafka *kafka, int32_t partition, const char *value,
                          int64_t timestamp_ms)
{
    struct memory_partition *log = &kafka->partitions[partition];
    MR_ASSERT(log->end < MEMORY_RECORDS);
    log->records[log->end++] = (struct memory_record){value, timestamp_ms};
}

static struct mr_kafka_event *push(struct memory_kafka *kafka, enum mr_kafka_event_kind kind)
{
    struct mr_kafka_event *event = &kafka->events[kafka->end++ % MEMORY_EVENTS];
    MR_ASSERT(kafka->end - kafka->first <= MEMORY_EVENTS);
    *event = (struct mr_kafka_event){.kind = kind, .reason = ""};
    return event;
}

static void push_claims(struct memory_kafka *kafka, struct mr_kafka_event *event, int32_t first,
                        int32_t count)
{
    event->claims = kafka->claims[(kafka->end - 1) % MEMORY_EVENTS];
    event->claim_count = (size_t)count;
    for (int32_t i = 0; i < count; i++)
        event->claims[i] =
            (struct mr_kafka_claim){.topic = "r", .partition = first + i, .generation = 1};
}

void memory_kafka_assign(struct memory_kafka *kafka, int32_t first, int32_t count)
{
    push_claims(kafka, push(kafka, MR_KAFKA_EVENT_ASSIGNED), first, count);
}

void memory_kafka_revoke(struct memory_kafka *kafka, int32_t first, int32_t count,
                         enum mr_kafka_revoke how)
{
    struct mr_kafka_event *event = push(kafka, MR_KAFKA_EVENT_REVOKED);
    push_claims(kafka, event, first, count);
    event->how = how;
    if (how == MR_KAFKA_REVOKE_LOST) kafka->lost = true;
}

void memory_kafka_answer(struct memory_kafka *kafka, enum mr_status status)
{
    MR_ASSERT(kafka->commits_held > 0);
    struct mr_kafka_event *event = push(kafka, MR_KAFKA_EVENT_COMMITTED);
    event->number = kafka->held[0];
    memmove(kafka->held, kafka->held + 1, --kafka->commits_held * sizeof kafka->held[0]);
    event->status = status;
    event->reason = status == MR_OK ? "" : "refused by the test";
}

/* ---- the consumer's port ---- */

static enum mr_status serve(void *self, struct mr_error *err)
{
    (void)self, (void)err;
    return MR_OK;
}

/* The commits of the group at the time of the assignment. */
static void fill_committed(struct memory_kafka *kafka, struct mr_kafka_claim *claim)
{
    const struct memory_partition *log = &kafka->partitions[claim->partition];
    claim->committed = claim->start = log->committed;
    claim->metadata = (struct mr_text){log->metadata, strlen(log->metadata)};
}

static bool next_event(void *self, struct mr_kafka_event *event)
{
    struct memory_kafka *kafka = self;
    unsigned at = kafka->first;
    while (at != kafka->end && kafka->in_progress &&
           kafka->events[at % MEMORY_EVENTS].kind != MR_KAFKA_EVENT_COMMITTED)
        at++;
    if (at == kafka->end) return false;
    *event = kafka->events[at % MEMORY_EVENTS];
    for (; at != kafka->first; at--) /* the events that this one overtakes */
        kafka->events[at % MEMORY_EVENTS] = kafka->events[(at - 1) % MEMORY_EVENTS];
    kafka->first++;
    if (event->kind == MR_KAFKA_EVENT_COMMITTED) return true;
    for (size_t i = 0; i < event->claim_count && event->kind == MR_KAFKA_EVENT_ASSIGNED; i++)
        fill_committed(kafka, &event->claims[i]);
    kafka->rebalance = *event;
    kafka->in_progress = true;
    return true;
}

static void complete_rebalance(void *self)
{
    struct memory_kafka *kafka = self;
    const struct mr_kafka_event *event = &kafka->rebalance;
    MR_ASSERT(kafka->in_progress);
    for (size_t i = 0; i < event->claim_count; i++) {
        const struct mr_kafka_claim *claim = &event->claims[i];
        struct memory_partition *log = &kafka->partitions[claim->partition];
        log->assigned = event->kind == MR_KAFKA_EVENT_ASSIGNED;
        if (log->assigned) log->position = claim->start >= 0 ? claim->start : 0;
    }
    kafka->in_progress = false;
    kafka->lost = false;
    kafka->completed++;
}

static bool is_lost(void *self)
{
    return ((struct memory_kafka *)self)->lost;
}

static bool take(void *self, bool (*may_take)(void *context, size_t topic_index, int32_t partition),
                 void *context, struct mr_kafka_record *record, size_t *topic_index)
{
    struct memory_kafka *kafka = self;
    *topic_index = 0;
    for (int32_t i = 0; i < MEMORY_PARTITIONS; i++) {
        struct memory_partition *log = &kafka->partitions[i];
        if (!log->assigned || log->position == log->end || !may_take(context, 0, i)) continue;
        const struct memory_record *from = &log->records[log->position];
        *record = (struct mr_kafka_record){.topic = "r",
                                           .partition = i,
                                           .offset = log->position++,
                                           .timestamp_ms = from->timestamp_ms,
                                           .value = {from->value, strlen(from->value)}};
        return true;
    }
    return false;
}

static void put_back(void *self)
{
    (void)self;
    MR_ASSERT(false); /* no test fills a ledger through this port */
}

static enum mr_status commit(void *self, const struct mr_kafka_commit *commits, size_t count,
                             uint64_t number, struct mr_error *err)
{
    struct memory_kafka *kafka = self;
    if (kafka->refuse != MR_OK) return mr_fail(err, kafka->refuse, "refused by the test");
    MR_ASSERT(count <= MEMORY_PARTITIONS);
    for (size_t i = 0; i < count; i++) {
        struct memory_partition *log = &kafka->partitions[commits[i].partition];
        size_t length = strlen(commits[i].metadata);
        MR_ASSERT(length < sizeof log->metadata);
        log->committed = commits[i].offset;
        memcpy(log->metadata, commits[i].metadata, length + 1);
        kafka->last[i] = commits[i];
        kafka->last[i].metadata = log->metadata;
    }
    kafka->last_count = count;
    kafka->commits++;
    MR_ASSERT(kafka->commits_held < MEMORY_EVENTS);
    kafka->held[kafka->commits_held++] = number;
    if (!kafka->hold_commits) memory_kafka_answer(kafka, MR_OK);
    return MR_OK;
}

static struct mr_kafka_membership *membership(void *self)
{
    (void)self;
    return NULL;
}

static int64_t unread(void *self, size_t topic_index, int32_t partition)
{
    (void)topic_index;
    const struct memory_partition *log = &((struct memory_kafka *)self)->partitions[partition];
    return log->end - log->position;
}

static uint64_t backlog(void *self)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < MEMORY_PARTITIONS; i++)
        if (((struct memory_kafka *)self)->partitions[i].assigned)
            sum += (uint64_t)unread(self, 0, i);
    return sum;
}

static size_t partition_count(void *self)
{
    size_t count = 0;
    for (int32_t i = 0; i < MEMORY_PARTITIONS; i++)
        count += ((struct memory_kafka *)self)->partitions[i].assigned;
    return count;
}

static bool close_consumer(void *self, uint32_t timeout_ms)
{
    (void)timeout_ms;
    ((struct memory_kafka *)self)->closed = true;
    return true;
}

enum mr_status memory_kafka_open_consumer(void *context,
                                          const struct mr_kafka_consumer_options *options,
                                          struct mr_kafka_consumer_port *out, struct mr_error *err)
{
    (void)options, (void)err;
    *out = (struct mr_kafka_consumer_port){
        context,    serve,  next_event, complete_rebalance, is_lost,        take, put_back, commit,
        membership, unread, backlog,    partition_count,    close_consumer, NULL};
    return MR_OK;
}

/* ---- a reader of an empty topic ---- */

static bool read_nothing(void *self, struct mr_kafka_record *record)
{
    (void)self, (void)record;
    return false;
}

static bool is_behind(void *self)
{
    (void)self;
    return false;
}

static enum mr_status ends_of(void *self, const char *topic, int32_t partition, uint32_t timeout_ms,
                              struct mr_kafka_ends *ends, struct mr_error *err)
{
    (void)self, (void)topic, (void)partition, (void)timeout_ms, (void)err;
    *ends = (struct mr_kafka_ends){0, 0};
    return MR_OK;
}

static void close_reader(void *self)
{
    (void)self;
}

enum mr_status memory_kafka_open_reader(void *context,
                                        const struct mr_kafka_reader_options *options,
                                        struct mr_kafka_reader_port *out, struct mr_error *err)
{
    (void)options, (void)err;
    *out = (struct mr_kafka_reader_port){context, read_nothing, is_behind, ends_of, close_reader};
    return MR_OK;
}
