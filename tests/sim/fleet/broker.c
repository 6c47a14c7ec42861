#include "tests/sim/fleet/broker.h"

#include "codec/check.h"
#include "codec/hash.h"
#include "tests/sim/fleet/clients.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 << 10)
#define TICK_NS     (100 * MS)
/* interval at which the transaction coordinator searches for expired transactions:
 * transaction.abort.timed.out.transaction.cleanup.interval.ms */
#define EXPIRE_NS (10 * SECOND)

struct broker_chunk {
    struct broker_chunk *next;
    size_t used, bytes;
    _Alignas(16) char data[];
};

/* ---- memory, trace ---- */

void *broker_memory(struct broker *broker, size_t bytes)
{
    struct broker_chunk *chunk = broker->chunks;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!chunk || chunk->bytes - chunk->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        chunk = malloc(sizeof *chunk + size);
        MR_ASSERT(chunk);
        *chunk = (struct broker_chunk){.next = broker->chunks, .bytes = size};
        broker->chunks = chunk;
    }
    void *memory = chunk->data + chunk->used;
    chunk->used += bytes;
    return memset(memory, 0, bytes);
}

const char *broker_text(struct broker *broker, const char *text, size_t length)
{
    char *copy = broker_memory(broker, length + 1);
    if (length > 0) memcpy(copy, text, length);
    return copy;
}

void broker_note(struct broker *broker, const char *format, ...)
{
    if (!broker->trace) return;
    va_list arguments;
    printf("%10.6f  ", (double)(platform_ns() - PLATFORM_START_NS) / 1e9);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

void broker_accuse(struct broker *broker, const char *format, ...)
{
    if (broker->wrong[0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(broker->wrong, sizeof broker->wrong, format, arguments);
    va_end(arguments);
    broker_note(broker, "against the rules: %s", broker->wrong);
}

void broker_mix(struct broker *broker, uint64_t value)
{
    broker->hash = (broker->hash ^ value) * 0x9e3779b97f4a7c15u;
    broker->hash ^= broker->hash >> 29;
}

void broker_cover(struct broker *broker, enum coverage_kind kind)
{
    broker->coverage->counts[kind]++;
}

/* ---- events ---- */

static bool is_before(const struct broker_event *a, const struct broker_event *b)
{
    return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->order < b->order);
}

static void push_event(struct broker *broker, struct broker_event event)
{
    MR_ASSERT(broker->event_count < BROKER_EVENTS_MAX);
    uint32_t at = broker->event_count++;
    while (at > 0 && is_before(&event, &broker->events[(at - 1) / 2])) {
        broker->events[at] = broker->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    broker->events[at] = event;
}

static struct broker_event pop_event(struct broker *broker)
{
    struct broker_event top = broker->events[0];
    struct broker_event last = broker->events[--broker->event_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= broker->event_count) break;
        if (child + 1 < broker->event_count &&
            is_before(&broker->events[child + 1], &broker->events[child]))
            child++;
        if (!is_before(&broker->events[child], &last)) break;
        broker->events[at] = broker->events[child];
        at = child;
    }
    broker->events[at] = last;
    return top;
}

void broker_schedule(struct broker *broker, uint64_t delay_ns, bool remote,
                     void (*run)(struct broker *broker, void *context, uint64_t value),
                     void *context, uint64_t value)
{
    push_event(broker, (struct broker_event){.due_ns = platform_ns() + delay_ns,
                                             .order = broker->event_order++,
                                             .run = run,
                                             .context = context,
                                             .value = value,
                                             .remote = remote});
}

uint64_t broker_next_ns(const struct broker *broker)
{
    return broker->event_count > 0 ? broker->events[0].due_ns : UINT64_MAX;
}

void broker_run(struct broker *broker)
{
    while (broker->event_count > 0 && broker->events[0].due_ns <= platform_ns()) {
        struct broker_event event = pop_event(broker);
        if (event.remote && broker_is_down(broker)) {
            /* the client sends it again, in the same order */
            event.due_ns = broker->down_until_ns;
            push_event(broker, event);
            continue;
        }
        event.run(broker, event.context, event.value);
    }
}

uint64_t broker_latency(struct broker *broker)
{
    struct sim_random *random = &broker->random;
    uint64_t least = broker->options.latency_ns;
    uint64_t latency = sim_between(random, least, 2 * least);
    if (sim_below(random, 16) == 0) latency += sim_between(random, 0, 10 * least);
    if (platform_ns() < broker->slow_until_ns) latency += sim_between(random, 50 * MS, 900 * MS);
    return latency;
}

bool broker_is_down(const struct broker *broker)
{
    return platform_ns() < broker->down_until_ns;
}

void broker_stop(struct broker *broker, uint64_t for_ns)
{
    struct broker_group *group = &broker->group;
    uint64_t until_ns = platform_ns() + for_ns;
    if (until_ns > broker->down_until_ns) broker->down_until_ns = until_ns;
    /* a coordinator that starts begins a new session for every member */
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++)
        if (group->members[i].consumer) group->members[i].heard_ns = until_ns;
    if (group->state == GROUP_PREPARING) group->prepared_ns = until_ns;
}

static void tick(struct broker *broker, void *context, uint64_t value)
{
    (void)context, (void)value;
    if (platform_ns() - broker->expired_ns >= EXPIRE_NS) broker_expire(broker);
    broker_group_tick(broker);
    broker_schedule(broker, TICK_NS, true, tick, NULL, 0);
}

/* ---- creating ---- */

struct broker *broker_create(const struct broker_options *options, struct coverage *coverage)
{
    struct broker *broker = calloc(1, sizeof *broker);
    MR_ASSERT(broker);
    broker->options = *options;
    broker->random.state = options->seed ^ 0x62726f6b6572u;
    broker->coverage = coverage;
    broker->group.cooperative = options->cooperative;
    broker->group.session_ns = options->session_ns;
    broker->group.rebalance_ns = options->rebalance_ns;
    broker->group.commits_end = &broker->group.commits;
    broker_schedule(broker, TICK_NS, true, tick, NULL, 0);
    return broker;
}

void broker_destroy(struct broker *broker)
{
    for (struct broker_chunk *chunk = broker->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(broker);
}

uint32_t broker_add_topic(struct broker *broker, const char *name, uint32_t partitions,
                          bool grouped)
{
    MR_ASSERT(broker->topic_count < BROKER_TOPICS_MAX && partitions <= BROKER_PARTITIONS_MAX);
    struct broker_topic *topic = &broker->topics[broker->topic_count];
    topic->name = name;
    topic->partition_count = partitions;
    topic->group_index = grouped ? (int)broker->group.partition_count : -1;
    if (grouped) broker->group.partition_count += partitions;
    MR_ASSERT(broker->group.partition_count <= BROKER_GROUPED_MAX);
    return broker->topic_count++;
}

/* ---- records ---- */

size_t broker_find_topic(const struct broker *broker, const char *name)
{
    for (size_t i = 0; i < broker->topic_count; i++)
        if (strcmp(broker->topics[i].name, name) == 0) return i;
    return SIZE_MAX;
}

uint32_t broker_partition_of(const struct broker_topic *topic, struct mr_text key)
{
    uint64_t hash = mr_hash_bytes(MR_HASH_START, key.bytes ? key.bytes : "", key.length);
    return (uint32_t)(hash >> 32) % topic->partition_count;
}

static struct mr_text copy_text(struct broker *broker, struct mr_text text)
{
    if (!text.bytes) return text;
    return (struct mr_text){broker_text(broker, text.bytes, text.length), text.length};
}

static void copy_headers(struct broker *broker, struct mr_kafka_record *record)
{
    if (record->header_count == 0) return;
    struct mr_kafka_header *headers = broker_memory(broker, record->header_count * sizeof *headers);
    for (size_t i = 0; i < record->header_count; i++) {
        const struct mr_kafka_header *from = &record->headers[i];
        headers[i].name = broker_text(broker, from->name, strlen(from->name));
        headers[i].length = from->length;
        if (from->value) headers[i].value = broker_text(broker, from->value, from->length);
    }
    record->headers = headers;
}

static struct broker_record *add_record(struct broker *broker, struct broker_log *log)
{
    if (log->end == log->max) {
        int64_t max = log->max > 0 ? 2 * log->max : 32;
        struct broker_record **records = broker_memory(broker, (size_t)max * sizeof *records);
        if (log->end > 0) memcpy(records, log->records, (size_t)log->end * sizeof *records);
        log->records = records;
        log->max = max;
    }
    struct broker_record *record = broker_memory(broker, sizeof *record);
    log->records[log->end++] = record;
    record->appended_ns = platform_ns();
    record->appended_ms = platform_unix_ms();
    return record;
}

int64_t broker_append(struct broker *broker, const struct mr_kafka_record *record,
                      struct broker_transaction *transaction)
{
    struct broker_topic *topic = &broker->topics[broker_find_topic(broker, record->topic)];
    struct broker_log *log = &topic->logs[record->partition];
    int64_t offset = log->end;
    struct broker_record *made = add_record(broker, log);
    made->transaction = transaction;
    made->record = *record;
    made->record.topic = topic->name;
    made->record.offset = offset;
    made->record.key = copy_text(broker, record->key);
    made->record.value = copy_text(broker, record->value);
    if (made->record.timestamp_ms == 0) made->record.timestamp_ms = made->appended_ms;
    copy_headers(broker, &made->record);
    broker_mix(broker, mr_hash_bytes(MR_HASH_START, record->value.bytes ? record->value.bytes : "",
                                     record->value.length));
    broker_note(broker, "broker: %s/%d/%lld = %.*s%s", topic->name, record->partition,
                (long long)offset, (int)(record->value.length < 160 ? record->value.length : 160),
                record->value.bytes ? record->value.bytes : "(null)",
                transaction ? " (in a transaction)" : "");
    sim_clients_notify(broker, (uint32_t)(topic - broker->topics), record->partition);
    return offset;
}

int64_t broker_stable(const struct broker_log *log)
{
    for (int64_t i = log->begin; i < log->end; i++) {
        const struct broker_transaction *transaction = log->records[i]->transaction;
        if (transaction && transaction->state == BROKER_OPEN) return i;
    }
    return log->end;
}

const struct broker_record *broker_read(const struct broker_log *log, int64_t *offset,
                                        bool committed_only, uint64_t arrived_ns)
{
    if (*offset < log->begin) *offset = log->begin; /* auto.offset.reset = earliest */
    for (; *offset < log->end; ++*offset) {
        const struct broker_record *record = log->records[*offset];
        const struct broker_transaction *transaction = record->transaction;
        if (record->appended_ns > arrived_ns) return NULL;
        if (committed_only && transaction && transaction->state == BROKER_OPEN) return NULL;
        if (record->marker || record->removed) continue;
        if (committed_only && transaction && transaction->state == BROKER_ABORTED) continue;
        ++*offset;
        return record;
    }
    return NULL;
}

int64_t broker_find_time(const struct broker_log *log, int64_t since_ms)
{
    for (int64_t i = log->begin; i < log->end; i++)
        if (log->records[i]->record.timestamp_ms >= since_ms) return i;
    return -1;
}

void broker_delete_before(struct broker *broker, uint32_t topic, int32_t partition, int64_t offset)
{
    struct broker_log *log = &broker->topics[topic].logs[partition];
    if (offset > log->end) offset = log->end;
    for (int64_t i = log->begin; i < offset; i++)
        log->records[i]->removed = true;
    if (offset > log->begin) log->begin = offset;
    broker_note(broker, "broker: %s/%d begins at %lld", broker->topics[topic].name, partition,
                (long long)log->begin);
}

static bool same_key(const struct broker_record *a, const struct broker_record *b)
{
    struct mr_text x = a->record.key, y = b->record.key;
    return x.bytes && y.bytes && x.length == y.length && memcmp(x.bytes, y.bytes, x.length) == 0;
}

void broker_compact(struct broker *broker, uint32_t topic)
{
    for (uint32_t p = 0; p < broker->topics[topic].partition_count; p++) {
        struct broker_log *log = &broker->topics[topic].logs[p];
        int64_t stable = broker_stable(log);
        for (int64_t i = log->begin; i < stable; i++)
            for (int64_t k = i + 1; k < stable && !log->records[i]->removed; k++) {
                const struct broker_transaction *by = log->records[k]->transaction;
                if (by && by->state == BROKER_ABORTED) continue;
                if (same_key(log->records[i], log->records[k])) log->records[i]->removed = true;
            }
    }
}

/* ---- transactions ---- */

/* The newest transaction of the id, which holds its epoch. */
static struct broker_transaction *newest_of(const struct broker *broker, const char *id)
{
    for (struct broker_transaction *one = broker->transactions; one; one = one->next)
        if (strcmp(one->id, id) == 0) return one;
    return NULL;
}

static struct broker_transaction *add_transaction(struct broker *broker, const char *id,
                                                  uint32_t epoch, enum broker_state state)
{
    struct broker_transaction *made = broker_memory(broker, sizeof *made);
    *made = (struct broker_transaction){.next = broker->transactions,
                                        .id = broker_text(broker, id, strlen(id)),
                                        .epoch = epoch,
                                        .state = state,
                                        .began_ns = platform_ns(),
                                        .timeout_ns = broker->options.transaction_ns};
    broker->transactions = made;
    return made;
}

uint32_t broker_init_transactions(struct broker *broker, const char *id)
{
    struct broker_transaction *before = newest_of(broker, id);
    if (before && before->state == BROKER_OPEN) {
        broker_cover(broker, COVER_TRANSACTION_LEFT_OPEN);
        broker_end(broker, before, false);
    }
    uint32_t epoch = before ? before->epoch + 1 : 0;
    add_transaction(broker, id, epoch, BROKER_ABORTED);
    broker_note(broker, "broker: %s has epoch %u", id, epoch);
    return epoch;
}

struct broker_transaction *broker_begin(struct broker *broker, const char *id, uint32_t epoch)
{
    return add_transaction(broker, id, epoch, BROKER_OPEN);
}

bool broker_is_current(const struct broker *broker, const char *id, uint32_t epoch)
{
    const struct broker_transaction *newest = newest_of(broker, id);
    return newest && newest->epoch == epoch;
}

static void write_markers(struct broker *broker, struct broker_transaction *transaction)
{
    for (uint32_t t = 0; t < broker->topic_count; t++)
        for (uint32_t p = 0; p < broker->topics[t].partition_count; p++) {
            struct broker_log *log = &broker->topics[t].logs[p];
            bool took_part = false;
            for (int64_t i = log->begin; i < log->end && !took_part; i++)
                took_part = log->records[i]->transaction == transaction;
            if (!took_part) continue;
            struct broker_record *marker = add_record(broker, log);
            marker->marker = true;
            marker->record.timestamp_ms = marker->appended_ms;
            sim_clients_notify(broker, t, (int32_t)p);
        }
}

void broker_end(struct broker *broker, struct broker_transaction *transaction, bool commit)
{
    MR_ASSERT(transaction->state == BROKER_OPEN);
    transaction->state = commit ? BROKER_COMMITTED : BROKER_ABORTED;
    write_markers(broker, transaction);
    broker_note(broker, "broker: transaction of %s %s", transaction->id,
                commit ? "committed" : "aborted");
    broker_mix(broker, commit);
    for (struct broker_offset *offset = transaction->offsets, *next; offset && commit;
         offset = next) {
        next = offset->next;
        broker_commit(broker, offset);
    }
}

bool broker_is_unstable(const struct broker *broker, uint32_t group_index)
{
    for (const struct broker_transaction *one = broker->transactions; one; one = one->next) {
        if (one->state != BROKER_OPEN) continue;
        for (const struct broker_offset *offset = one->offsets; offset; offset = offset->next)
            if (broker_group_index(broker, offset->topic, offset->partition) == (int)group_index)
                return true;
    }
    return false;
}

void broker_expire(struct broker *broker)
{
    broker->expired_ns = platform_ns();
    for (struct broker_transaction *one = broker->transactions; one; one = one->next) {
        if (one->state != BROKER_OPEN || platform_ns() < one->began_ns + one->timeout_ns) continue;
        broker_end(broker, one, false);
        broker_cover(broker, COVER_TRANSACTION_TIMED_OUT);
        /* the coordinator raises the epoch, which fences the producer */
        add_transaction(broker, one->id, one->epoch + 1, BROKER_ABORTED);
    }
}
