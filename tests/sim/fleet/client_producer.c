#include "codec/check.h"
#include "tests/sim/fleet/clients.h"

#include <stdlib.h>
#include <string.h>

/* A record in flight, and then its delivery report. */
struct sim_report {
    struct sim_report *next;
    struct sim_producer *producer;
    struct mr_kafka_record record;
    void *opaque;
    enum mr_status status;
    int group_index; /* index of the request's partition; -1: a token record */
    uint64_t owned_since_ns;
};

static bool is_gone(const struct sim_producer *producer)
{
    return producer->closed || producer->wire->machine->dead;
}

static void report(struct sim_producer *producer, struct sim_report *report)
{
    report->next = NULL;
    *producer->reports_end = report;
    producer->reports_end = &report->next;
    if (!producer->unattended) mr_wake_ring(producer->user.wake);
}

static void on_report(struct broker *broker, void *context, uint64_t value)
{
    struct sim_report *arrived = context;
    (void)broker, (void)value;
    if (!is_gone(arrived->producer)) report(arrived->producer, arrived);
}

/* ---- records ---- */

static void note_lost_tokens(struct broker *broker, const struct mr_kafka_record *record)
{
    struct broker_lost *lost = broker_memory(broker, sizeof *lost);
    lost->id = broker_text(broker, record->key.bytes, record->key.length);
    lost->next = broker->lost;
    broker->lost = lost;
}

bool sim_lost_tokens(const struct broker *broker, const char *id)
{
    for (const struct broker_lost *lost = broker->lost; lost; lost = lost->next)
        if (strcmp(lost->id, id) == 0) return true;
    return false;
}

static struct broker_record *append(struct broker *broker, const struct sim_report *sent,
                                    struct broker_transaction *transaction)
{
    const struct broker_topic *topic =
        &broker->topics[broker_find_topic(broker, sent->record.topic)];
    int64_t offset = broker_append(broker, &sent->record, transaction);
    struct broker_record *record = topic->logs[sent->record.partition].records[offset];
    record->owned_since_ns = sent->owned_since_ns;
    return record;
}

/* True for a worker that continues although the group has removed it. */
static bool is_zombie(const struct sim_producer *producer)
{
    const struct broker *broker = producer->wire->broker;
    if (is_gone(producer)) return false;
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++) {
        const struct sim_consumer *consumer = broker->group.members[i].consumer;
        if (consumer && consumer->wire == producer->wire) return false;
    }
    return true;
}

/* The record reaches the broker. */
static void on_record(struct broker *broker, void *context, uint64_t value)
{
    struct sim_report *sent = context;
    struct sim_producer *producer = sent->producer;
    (void)value;
    if (is_gone(producer)) {
        /* records that were in the socket may still arrive, in order; later ones do not */
        producer->cut = producer->cut || sim_chance(&broker->random, 30);
        if (producer->cut) return;
        broker_cover(broker, COVER_RECORD_BEFORE_CRASH);
    }
    bool refused = sim_chance(&broker->random, broker->refuse_percent);
    bool lost = !refused && sim_chance(&broker->random, broker->lose_percent);
    if (refused) {
        broker_cover(broker, COVER_PRODUCE_REFUSED);
        sent->status = sim_chance(&broker->random, 50) ? MR_AGAIN : MR_TIMEOUT;
        note_lost_tokens(broker, &sent->record);
    } else {
        struct broker_record *record = append(broker, sent, NULL);
        record->of_zombie = is_zombie(producer);
        if (record->of_zombie) broker_cover(broker, COVER_RECORD_OF_ZOMBIE);
    }
    if (lost) {
        broker_cover(broker, COVER_PRODUCE_ANSWER_LOST);
        sent->status = MR_TIMEOUT;
        note_lost_tokens(broker, &sent->record);
    }
    broker_schedule(broker, broker_latency(broker), false, on_report, sent, 0);
}

static struct mr_text copy_text(struct broker *broker, struct mr_text text)
{
    if (!text.bytes) return text;
    return (struct mr_text){broker_text(broker, text.bytes, text.length), text.length};
}

/* The copy of a record that is being sent. */
static struct sim_report *copy_record(struct sim_producer *producer,
                                      const struct mr_kafka_record *record, uint32_t partition)
{
    struct broker *broker = producer->wire->broker;
    struct sim_report *sent = broker_memory(broker, sizeof *sent);
    *sent = (struct sim_report){.producer = producer, .record = *record};
    struct mr_kafka_header *headers = broker_memory(broker, record->header_count * sizeof *headers);
    for (size_t i = 0; i < record->header_count; i++) {
        const struct mr_kafka_header *from = &record->headers[i];
        headers[i].name = broker_text(broker, from->name, strlen(from->name));
        headers[i].length = from->length;
        if (from->value) headers[i].value = broker_text(broker, from->value, from->length);
    }
    sent->record.topic = broker->topics[broker_find_topic(broker, record->topic)].name;
    sent->record.partition = (int32_t)partition;
    sent->record.headers = headers;
    sent->record.key = copy_text(broker, record->key);
    sent->record.value = copy_text(broker, record->value);
    sent->record.timestamp_ms = mr_clock_unix_ms();
    return sent;
}

/* In a transaction the record reaches the broker at once. */
static void append_now(struct sim_producer *producer, struct sim_report *sent)
{
    struct broker *broker = producer->wire->broker;
    bool open = producer->transaction && producer->transaction->state == BROKER_OPEN;
    if (!open || sim_chance(&broker->random, broker->refuse_percent)) {
        sent->status = MR_AGAIN;
        producer->failed = true;
    } else {
        append(broker, sent, producer->transaction);
    }
    report(producer, sent);
}

static enum mr_status port_fatal(void *self, struct mr_error *err)
{
    const struct sim_producer *producer = self;
    if (!producer->wire->producer_broken) return MR_OK;
    return mr_fail(err, MR_BACKEND, "a fatal error of the producer");
}

static enum mr_status port_produce(void *self, const struct mr_kafka_record *record, void *opaque,
                                   struct mr_error *err)
{
    struct sim_producer *producer = self;
    struct broker *broker = producer->wire->broker;
    if (is_gone(producer) || sim_crash_point(producer->wire))
        return mr_fail(err, MR_FULL, "the machine is dead");
    size_t at = broker_find_topic(broker, record->topic);
    if (at == SIZE_MAX) return mr_fail(err, MR_BAD_CONFIG, "no such topic");
    if (producer->wire->producer_broken && !producer->transactional) {
        note_lost_tokens(broker, record);
        return port_fatal(self, err);
    }
    const struct broker_topic *topic = &broker->topics[at];
    if (record->partition >= (int32_t)topic->partition_count)
        return mr_fail(err, MR_BAD_CONFIG, "no such partition");
    if (record->value.length > producer->wire->record_bytes_max)
        return mr_fail(err, MR_RECORD_TOO_LARGE, "too large");
    if (producer->pending >= producer->wire->producer_room) {
        broker_cover(broker, COVER_PRODUCE_QUEUE_FULL);
        return mr_fail(err, MR_FULL, "the queue is full");
    }
    uint32_t partition = record->partition >= 0 ? (uint32_t)record->partition
                                                : broker_partition_of(topic, record->key);
    struct sim_report *sent = copy_record(producer, record, partition);
    sent->opaque = opaque;
    sent->group_index = rules_write(producer->wire, opaque, producer->transactional);
    if (sent->group_index >= 0)
        sent->owned_since_ns = producer->wire->rules.owned_since_ns[sent->group_index];
    producer->pending++;
    if (producer->transactional) {
        append_now(producer, sent);
        return MR_OK;
    }
    uint64_t due_ns = platform_ns() + broker_latency(broker);
    if (due_ns < producer->send_ns) due_ns = producer->send_ns;
    producer->send_ns = due_ns;
    broker_schedule(broker, due_ns - platform_ns(), true, on_record, sent, 0);
    return MR_OK;
}

static void port_serve(void *self)
{
    struct sim_producer *producer = self;
    while (!is_gone(producer) && producer->reports) {
        struct sim_report *arrived = producer->reports;
        producer->reports = arrived->next;
        if (!producer->reports) producer->reports_end = &producer->reports;
        producer->pending--;
        rules_reported(producer->wire, arrived->group_index, producer->transactional);
        producer->user.reported(producer->user.context, arrived->opaque, arrived->status,
                                arrived->status == MR_OK ? "" : "refused by the simulation");
    }
}

static bool port_attend(void *self, bool on)
{
    struct sim_producer *producer = self;
    producer->unattended = !on;
    return on && producer->reports;
}

static uint32_t port_pending(void *self)
{
    const struct sim_producer *producer = self;
    return is_gone(producer) ? 0 : producer->pending;
}

static void on_lookup(struct broker *broker, void *context, uint64_t value)
{
    struct sim_producer *producer = context;
    (void)broker, (void)value;
    if (!is_gone(producer)) mr_wake_ring(producer->user.wake);
}

static enum mr_status port_partitions(void *self, const char *topic, uint32_t *count,
                                      struct mr_error *err)
{
    struct sim_producer *producer = self;
    struct broker *broker = producer->wire->broker;
    *count = 0;
    if (is_gone(producer)) return mr_fail(err, MR_AGAIN, "the machine is dead");
    if (!producer->asked || strcmp(producer->asked, topic) != 0) {
        uint64_t latency_ns = 2 * broker_latency(broker);
        producer->asked = broker_text(broker, topic, strlen(topic));
        producer->asked_ns = platform_ns() + latency_ns;
        broker_schedule(broker, latency_ns, true, on_lookup, producer, 0);
    }
    if (platform_ns() < producer->asked_ns || broker_is_down(broker))
        return mr_fail(err, MR_AGAIN, "asked");
    size_t at = broker_find_topic(broker, topic);
    if (at != SIZE_MAX) *count = broker->topics[at].partition_count;
    return MR_OK;
}

static void port_close(void *self)
{
    ((struct sim_producer *)self)->closed = true;
}

static struct sim_producer *open_producer(struct sim_wire *wire,
                                          const struct mr_producer_user *user)
{
    struct sim_producer *producer = broker_memory(wire->broker, sizeof *producer);
    producer->wire = wire;
    producer->user = *user;
    producer->reports_end = &producer->reports;
    producer->next = wire->broker->producers;
    wire->broker->producers = producer;
    return producer;
}

static struct mr_producer_port port_of(struct sim_producer *producer)
{
    return (struct mr_producer_port){.self = producer,
                                     .produce = port_produce,
                                     .serve = port_serve,
                                     .attend = port_attend,
                                     .pending = port_pending,
                                     .partitions = port_partitions,
                                     .fatal = port_fatal,
                                     .close = port_close};
}

static enum mr_status open_port(void *context, const struct mr_producer_user *user,
                                struct mr_producer_port *port, struct mr_error *err)
{
    struct sim_wire *wire = context;
    if (broker_is_down(wire->broker)) return mr_fail(err, MR_UNREACHABLE, "the broker is down");
    *port = port_of(open_producer(wire, user));
    return MR_OK;
}

struct mr_producer_opener sim_producer_opener(struct sim_wire *wire)
{
    return (struct mr_producer_opener){wire, open_port};
}

/* ---- transactions ---- */

#define RENEWALS 3u

struct transactor {
    struct sim_producer *producer;
    const char *id;
    uint32_t epoch, renewals;
    uint64_t began_ns;
    bool broken, fenced;
};

static bool is_dead(const struct transactor *transactor)
{
    return transactor->producer->wire->machine->dead;
}

static enum mr_status txn_begin(void *self, struct mr_error *err)
{
    struct transactor *transactor = self;
    struct broker *broker = transactor->producer->wire->broker;
    if (is_dead(transactor)) return mr_fail(err, MR_AGAIN, "the machine is dead");
    rules_begin_transaction(transactor->producer->wire);
    if (transactor->broken) return mr_fail(err, MR_BACKEND, "the producer is broken");
    transactor->began_ns = platform_ns();
    transactor->producer->failed = false;
    transactor->producer->transaction = NULL;
    if (broker_is_current(broker, transactor->id, transactor->epoch))
        transactor->producer->transaction = broker_begin(broker, transactor->id, transactor->epoch);
    return MR_OK;
}

/* A fatal error of the producer. librdkafka drops the delivery reports when the producer is
 * replaced. */
static enum mr_status break_down(struct transactor *transactor, const char *why,
                                 struct mr_error *err)
{
    transactor->broken = true;
    transactor->producer->reports = NULL;
    transactor->producer->reports_end = &transactor->producer->reports;
    transactor->producer->pending = 0;
    broker_note(transactor->producer->wire->broker, "%s: %s", transactor->id, why);
    return mr_fail(err, MR_BACKEND, "%s", why);
}

/* Whether another producer has taken the id, or the coordinator has ended its transaction. */
static bool is_fenced(struct transactor *transactor)
{
    struct broker *broker = transactor->producer->wire->broker;
    const struct broker_transaction *transaction = transactor->producer->transaction;
    if (transaction && transaction->state == BROKER_OPEN &&
        broker_is_current(broker, transactor->id, transactor->epoch))
        return false;
    transactor->fenced = true;
    broker_cover(broker, COVER_TRANSACTION_FENCED);
    return true;
}

static enum mr_status txn_abort(void *self, struct mr_error *err)
{
    struct transactor *transactor = self;
    if (is_dead(transactor)) return mr_fail(err, MR_AGAIN, "the machine is dead");
    if (is_fenced(transactor)) return break_down(transactor, "fenced", err);
    port_serve(transactor->producer); /* librdkafka does the same before it ends a transaction */
    broker_end(transactor->producer->wire->broker, transactor->producer->transaction, false);
    broker_cover(transactor->producer->wire->broker, COVER_TRANSACTION_ABORTED);
    return mr_fail(err, MR_AGAIN, "aborted");
}

static struct broker_offset *add_offset(struct transactor *transactor,
                                        const struct mr_kafka_commit *commit)
{
    struct broker *broker = transactor->producer->wire->broker;
    struct broker_offset *offset = broker_memory(broker, sizeof *offset);
    /* the topics of the group come first, in the order of the configuration */
    *offset = (struct broker_offset){
        .topic = (uint32_t)commit->topic_index,
        .partition = commit->partition,
        .offset = commit->offset,
        .metadata = broker_text(broker, commit->metadata, strlen(commit->metadata))};
    return offset;
}

/* TxnOffsetCommit. False: the group no longer has this member or generation. */
static bool send_offsets(struct transactor *transactor,
                         const struct mr_transaction_offsets *offsets)
{
    struct broker *broker = transactor->producer->wire->broker;
    const struct mr_kafka_membership *membership = offsets->membership;
    if (offsets->count == 0) return true;
    if (broker_may_commit(broker, membership->id, membership->generation) != ANSWER_OK) {
        broker_cover(broker, COVER_TRANSACTION_OLD_GENERATION);
        return false;
    }
    for (size_t i = 0; i < offsets->count; i++) {
        struct broker_offset *offset = add_offset(transactor, &offsets->commits[i]);
        offset->next = transactor->producer->transaction->offsets;
        transactor->producer->transaction->offsets = offset;
    }
    return true;
}

static enum mr_status txn_commit(void *self, const struct mr_transaction_offsets *offsets,
                                 struct mr_error *err)
{
    struct transactor *transactor = self;
    struct sim_producer *producer = transactor->producer;
    struct broker *broker = producer->wire->broker;
    if (is_dead(transactor) || sim_crash_point(producer->wire))
        return mr_fail(err, MR_AGAIN, "the machine is dead");
    if (is_fenced(transactor)) return break_down(transactor, "fenced", err);
    port_serve(producer);
    if (producer->failed || !send_offsets(transactor, offsets)) return txn_abort(self, err);
    if (producer->wire->dies_with_offsets && offsets->count > 0) {
        broker_cover(broker, COVER_CRASH_INSIDE_STEP);
        producer->wire->machine->dead = true;
    }
    if (sim_crash_point(producer->wire)) return mr_fail(err, MR_AGAIN, "the machine is dead");
    if (sim_chance(&broker->random, broker->transaction_fail_percent)) {
        uint32_t kind = sim_below(&broker->random, 3);
        if (kind == 0) return txn_abort(self, err);
        if (kind == 1) return break_down(transactor, "a fatal error before the commit", err);
        broker_end(broker, producer->transaction, true);
        broker_cover(broker, COVER_TRANSACTION_ANSWER_LOST);
        return break_down(transactor, "a fatal error after the commit", err);
    }
    broker_end(broker, producer->transaction, true);
    broker_cover(broker, COVER_TRANSACTION_COMMITTED);
    transactor->renewals = 0;
    return MR_OK;
}

static bool has_any(struct transactor *transactor, const struct mr_transaction_offsets *offsets)
{
    struct broker *broker = transactor->producer->wire->broker;
    for (size_t i = 0; i < offsets->count; i++) {
        const struct broker_offset *wanted = add_offset(transactor, &offsets->commits[i]);
        int index = broker_group_index(broker, wanted->topic, wanted->partition);
        const struct broker_offset *found = broker->group.committed[index];
        if (found && found->offset == wanted->offset &&
            strcmp(found->metadata, wanted->metadata) == 0)
            return true;
    }
    return false;
}

static enum mr_status txn_renew(void *self, const struct mr_transaction_offsets *offsets,
                                bool *committed, struct mr_error *err)
{
    struct transactor *transactor = self;
    struct broker *broker = transactor->producer->wire->broker;
    *committed = false;
    if (is_dead(transactor)) return mr_fail(err, MR_UNREACHABLE, "the machine is dead");
    if (broker_is_down(broker)) return mr_fail(err, MR_UNREACHABLE, "the broker is down");
    if (transactor->fenced &&
        platform_ns() - transactor->began_ns < broker->options.transaction_ns) {
        transactor->producer->wire->rules.fenced = true;
        return mr_fail(err, MR_BACKEND, "another worker uses this worker's id");
    }
    if (transactor->renewals++ >= RENEWALS) return mr_fail(err, MR_BACKEND, "too many renewals");
    transactor->epoch = broker_init_transactions(broker, transactor->id);
    transactor->broken = transactor->fenced = false;
    *committed = has_any(transactor, offsets);
    return MR_OK;
}

static struct mr_producer_port txn_producer(void *self)
{
    return port_of(((struct transactor *)self)->producer);
}

static uint64_t txn_call_ns(const void *self)
{
    (void)self;
    return 0;
}

static void txn_free_membership(void *self, struct mr_kafka_membership *membership)
{
    (void)self;
    free(membership);
}

static void txn_close(void *self)
{
    struct transactor *transactor = self;
    struct sim_producer *producer = transactor->producer;
    if (!is_dead(transactor) && producer->transaction &&
        producer->transaction->state == BROKER_OPEN)
        broker_end(producer->wire->broker, producer->transaction, false);
    producer->closed = true;
}

static enum mr_status open_transactions(void *context, const struct mr_transactions_user *user,
                                        struct mr_transactions_port *port, struct mr_error *err)
{
    struct sim_wire *wire = context;
    if (broker_is_down(wire->broker)) return mr_fail(err, MR_UNREACHABLE, "the broker is down");
    struct transactor *transactor = broker_memory(wire->broker, sizeof *transactor);
    transactor->producer = open_producer(wire, &user->producer);
    transactor->producer->transactional = true;
    transactor->id = wire->transactional_id;
    transactor->epoch = broker_init_transactions(wire->broker, transactor->id);
    *port = (struct mr_transactions_port){.self = transactor,
                                          .producer = txn_producer,
                                          .begin = txn_begin,
                                          .commit = txn_commit,
                                          .abort = txn_abort,
                                          .renew = txn_renew,
                                          .call_ns = txn_call_ns,
                                          .free_membership = txn_free_membership,
                                          .close = txn_close};
    return MR_OK;
}

struct mr_transactions_opener sim_transactions_opener(struct sim_wire *wire)
{
    return (struct mr_transactions_opener){wire, open_transactions};
}
