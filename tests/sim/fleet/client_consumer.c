#include "codec/check.h"
#include "tests/sim/fleet/clients.h"

#include <stdlib.h>
#include <string.h>

/* interval at which a stopped client checks whether it continues */
#define PAUSE_NS (100 * MS)

bool sim_crash_point(struct sim_wire *wire)
{
    if (wire->machine->dead) return true;
    if (wire->crash_countdown == 0 || --wire->crash_countdown > 0) return false;
    wire->machine->dead = true;
    broker_cover(wire->broker, COVER_CRASH_INSIDE_STEP);
    broker_note(wire->broker, "crash inside a step");
    return true;
}

static bool is_gone(const struct sim_consumer *consumer)
{
    return consumer->closed || consumer->wire->machine->dead;
}

bool sim_consumer_is_connected(const struct sim_consumer *consumer)
{
    return !is_gone(consumer) && platform_ns() >= consumer->wire->machine->paused_until_ns;
}

static void ring(const struct sim_consumer *consumer)
{
    if (!is_gone(consumer)) mr_wake_ring(consumer->options.wake);
}

/* Postpones an event of the client itself while its process is stopped. True: it was postponed. */
static bool put_off(struct sim_consumer *consumer,
                    void (*run)(struct broker *broker, void *context, uint64_t value),
                    uint64_t value)
{
    uint64_t until_ns = consumer->wire->machine->paused_until_ns, now_ns = platform_ns();
    if (now_ns >= until_ns) return false;
    uint64_t left_ns = until_ns - now_ns + 1000;
    broker_schedule(consumer->wire->broker, left_ns < PAUSE_NS ? left_ns : PAUSE_NS, false, run,
                    consumer, value);
    return true;
}

/* ---- membership ---- */

static void push_rebalance(struct sim_consumer *consumer, bool assigned, enum mr_kafka_revoke how,
                           uint32_t mask)
{
    MR_ASSERT(consumer->rebalance_count < CONSUMER_EVENTS_MAX);
    consumer->rebalances[consumer->rebalance_count++] = (struct sim_rebalance){assigned, how, mask};
    ring(consumer);
}

static void lose(struct sim_consumer *consumer);

static void on_join(struct broker *broker, void *context, uint64_t id)
{
    struct sim_consumer *consumer = context;
    if (is_gone(consumer)) return;
    uint32_t given = broker_join(broker, consumer, (uint32_t)id, consumer->owned);
    if (id > 0 && given == 0) { /* the session has expired during the pause */
        consumer->joining = false;
        lose(consumer);
        return;
    }
    consumer->id = given;
}

static void send_join(struct sim_consumer *consumer)
{
    consumer->joining = true;
    consumer->wants_join = false;
    broker_schedule(consumer->wire->broker, broker_latency(consumer->wire->broker), true, on_join,
                    consumer, consumer->id);
}

static bool is_rebalancing(const struct sim_consumer *consumer)
{
    return consumer->joining || consumer->rebalance_count > 0;
}

/* The coordinator requires the member to join again. */
static void rejoin(struct sim_consumer *consumer)
{
    if (is_rebalancing(consumer)) return;
    if (consumer->wire->broker->options.cooperative || consumer->owned == 0) {
        send_join(consumer);
        return;
    }
    consumer->wants_join = true;
    push_rebalance(consumer, false, MR_KAFKA_REVOKE_PAUSE, consumer->owned);
}

/* The partitions that the member owns, and those assigned to it that it has not taken yet. */
static uint32_t assigned_to(const struct sim_consumer *consumer)
{
    uint32_t mask = consumer->owned;
    for (uint32_t i = 0; i < consumer->rebalance_count; i++)
        if (consumer->rebalances[i].assigned) mask |= consumer->rebalances[i].mask;
    return mask;
}

/* The coordinator has removed the member. */
static void lose(struct sim_consumer *consumer)
{
    consumer->id = 0;
    consumer->wants_join = true;
    consumer->added = 0;
    if (assigned_to(consumer) > 0) consumer->lost = true;
    if (consumer->rebalance_count > 0) return; /* _complete goes on */
    if (consumer->owned > 0) {
        broker_cover(consumer->wire->broker, COVER_LOST);
        consumer->wire->broker->lost_assignments++;
        push_rebalance(consumer, false, MR_KAFKA_REVOKE_LOST, consumer->owned);
    } else {
        send_join(consumer);
    }
}

/* value: the generation of the heartbeat, and the answer. A member ignores the answer to a
 * heartbeat of an earlier generation, because on one connection that answer arrives before the next
 * assignment. */
static void on_heartbeat_answer(struct broker *broker, void *context, uint64_t value)
{
    struct sim_consumer *consumer = context;
    uint32_t answer = (uint32_t)value;
    (void)broker;
    if (is_gone(consumer) || put_off(consumer, on_heartbeat_answer, value)) return;
    if (value >> 32 != (uint32_t)consumer->generation) return;
    if (answer == ANSWER_UNKNOWN && consumer->id > 0) {
        consumer->joining = false; /* the event that it waits for never arrives */
        lose(consumer);
    }
    if (consumer->joining) return;
    if (answer == ANSWER_REBALANCE) rejoin(consumer);
    if (answer == ANSWER_OLD && consumer->id > 0) lose(consumer);
}

static void on_heartbeat(struct broker *broker, void *context, uint64_t value)
{
    struct sim_consumer *consumer = context;
    if (is_gone(consumer)) return;
    uint32_t id = (uint32_t)(value >> 32);
    int32_t generation = (int32_t)(value & UINT32_MAX);
    enum broker_answer answer = broker_heartbeat(broker, id, generation);
    if (id != consumer->id || generation != consumer->generation) return;
    broker_schedule(broker, broker_latency(broker), false, on_heartbeat_answer, consumer,
                    (value << 32) | answer);
}

static void beat(struct broker *broker, void *context, uint64_t value)
{
    struct sim_consumer *consumer = context;
    if (is_gone(consumer) || put_off(consumer, beat, value)) return;
    uint64_t member = (uint64_t)consumer->id << 32 | (uint32_t)consumer->generation;
    if (consumer->id > 0)
        broker_schedule(broker, broker_latency(broker), true, on_heartbeat, consumer, member);
    broker_schedule(broker, broker->options.session_ns / 10, false, beat, consumer, 0);
}

struct assignment {
    struct sim_consumer *consumer;
    uint32_t id, mask;
    int32_t generation;
};

static void on_assignment(struct broker *broker, void *context, uint64_t value)
{
    struct assignment *assignment = context;
    struct sim_consumer *consumer = assignment->consumer;
    (void)value;
    if (is_gone(consumer)) return;
    if (!sim_consumer_is_connected(consumer)) {
        broker_schedule(broker, PAUSE_NS, false, on_assignment, context, 0);
        return;
    }
    if (!consumer->joining || consumer->id != assignment->id) return;
    consumer->joining = false;
    consumer->generation = assignment->generation;
    uint32_t gone = consumer->owned & ~assignment->mask;
    uint32_t added = assignment->mask & ~consumer->owned;
    if (!broker->options.cooperative || gone == 0) {
        push_rebalance(consumer, true, MR_KAFKA_REVOKE_PAUSE, added);
        return;
    }
    broker_cover(broker, COVER_REVOKED);
    consumer->added = added;
    consumer->wants_join = true;
    push_rebalance(consumer, false, MR_KAFKA_REVOKE_GONE, gone);
}

void sim_consumer_assign(struct sim_consumer *consumer, uint32_t id, int32_t generation,
                         uint32_t mask)
{
    struct broker *broker = consumer->wire->broker;
    struct assignment *assignment = broker_memory(broker, sizeof *assignment);
    *assignment = (struct assignment){consumer, id, mask, generation};
    broker_schedule(broker, broker_latency(broker), false, on_assignment, assignment, 0);
}

/* ---- events ---- */

static enum mr_status port_serve(void *self, struct mr_error *err)
{
    (void)self, (void)err;
    return MR_OK;
}

/* The claim for one of the group's partitions, without a committed offset. */
static struct mr_kafka_claim claim_of(const struct sim_consumer *consumer, uint32_t index)
{
    uint32_t topic;
    struct mr_kafka_claim claim = {.committed = -1, .start = -1};
    broker_group_place(consumer->wire->broker, index, &topic, &claim.partition);
    claim.topic = consumer->wire->broker->topics[topic].name;
    while (strcmp(consumer->options.topics[claim.topic_index].name, claim.topic) != 0)
        claim.topic_index++;
    return claim;
}

/* Fills the claims with the committed offsets. False: the broker has not answered yet. */
static bool fill_claims(struct sim_consumer *consumer, const struct sim_rebalance *rebalance,
                        struct mr_kafka_event *event)
{
    struct broker *broker = consumer->wire->broker;
    if (rebalance->assigned && broker_is_down(broker)) return false;
    for (uint32_t i = 0; i < broker->group.partition_count; i++) {
        if (!(rebalance->mask >> i & 1)) continue;
        if (rebalance->assigned && broker_is_unstable(broker, i)) {
            broker_cover(broker, COVER_OFFSETS_UNSTABLE);
            return false;
        }
        struct mr_kafka_claim *claim = &consumer->claims[event->claim_count++];
        const struct broker_offset *committed = broker->group.committed[i];
        *claim = claim_of(consumer, i);
        claim->generation = consumer->generation;
        if (!committed) continue;
        claim->committed = claim->start = committed->offset;
        claim->metadata = (struct mr_text){committed->metadata, strlen(committed->metadata)};
    }
    return true;
}

/* Takes the outcome of the oldest commit that has one. */
static void take_outcome(struct sim_consumer *consumer, struct mr_kafka_event *event)
{
    *event = (struct mr_kafka_event){.kind = MR_KAFKA_EVENT_COMMITTED,
                                     .claims = consumer->refused,
                                     .number = consumer->outcomes[0].number,
                                     .status = consumer->outcomes[0].status,
                                     .reason = consumer->outcomes[0].reason};
    for (uint32_t i = 0; i < consumer->wire->broker->group.partition_count; i++)
        if (consumer->outcomes[0].refused >> i & 1)
            consumer->refused[event->claim_count++] = claim_of(consumer, i);
    memmove(&consumer->outcomes[0], &consumer->outcomes[1],
            --consumer->outcome_count * sizeof consumer->outcomes[0]);
}

static bool port_next_event(void *self, struct mr_kafka_event *event)
{
    struct sim_consumer *consumer = self;
    if (is_gone(consumer)) return false;
    if (consumer->outcome_count > 0) {
        take_outcome(consumer, event);
        return true;
    }
    *event = (struct mr_kafka_event){.claims = consumer->claims, .reason = ""};
    if (consumer->rebalance_count == 0 || consumer->in_progress) return false;
    const struct sim_rebalance *rebalance = &consumer->rebalances[0];
    if (!fill_claims(consumer, rebalance, event)) return false;
    if (sim_crash_point(consumer->wire)) return false;
    consumer->in_progress = true;
    consumer->taken = -1;
    event->kind = rebalance->assigned ? MR_KAFKA_EVENT_ASSIGNED : MR_KAFKA_EVENT_REVOKED;
    event->how = consumer->lost && !rebalance->assigned ? MR_KAFKA_REVOKE_LOST : rebalance->how;
    if (event->how == MR_KAFKA_REVOKE_LOST && !rebalance->assigned)
        rules_lost(consumer->wire, rebalance->mask);
    else if (!rebalance->assigned)
        rules_revoking(consumer->wire, rebalance->mask);
    return true;
}

static void begin_fetching(struct sim_consumer *consumer, uint32_t mask)
{
    struct broker *broker = consumer->wire->broker;
    uint32_t claim = 0;
    for (uint32_t i = 0; i < broker->group.partition_count; i++) {
        if (!(mask >> i & 1)) continue;
        uint32_t topic;
        int32_t partition;
        int64_t start = consumer->claims[claim++].start;
        broker_group_place(broker, i, &topic, &partition);
        /* without a position librdkafka requests the committed offset, and then the first one */
        if (start < 0 && broker->group.committed[i]) start = broker->group.committed[i]->offset;
        if (start < 0) start = broker->topics[topic].logs[partition].begin;
        consumer->positions[i] = start;
        consumer->ready_ns[i] = platform_ns() + broker_latency(broker);
        sim_clients_notify(broker, topic, partition);
    }
}

static void port_complete_rebalance(void *self)
{
    struct sim_consumer *consumer = self;
    if (is_gone(consumer)) return;
    MR_ASSERT(consumer->in_progress && consumer->rebalance_count > 0);
    struct sim_rebalance done = consumer->rebalances[0];
    memmove(&consumer->rebalances[0], &consumer->rebalances[1],
            --consumer->rebalance_count * sizeof done);
    consumer->in_progress = false;
    consumer->taken = -1;
    if (done.assigned) {
        consumer->owned |= done.mask;
        rules_assigned(consumer->wire, done.mask);
        begin_fetching(consumer, done.mask);
    } else {
        consumer->owned &= ~done.mask;
        rules_revoked(consumer->wire, done.mask,
                      consumer->lost || done.how == MR_KAFKA_REVOKE_LOST);
        if (assigned_to(consumer) == 0) consumer->lost = false;
    }
    if (consumer->added && !consumer->lost) push_rebalance(consumer, true, 0, consumer->added);
    consumer->added = 0;
    if (consumer->rebalance_count > 0) {
        ring(consumer);
    } else if (consumer->lost && consumer->owned > 0) {
        push_rebalance(consumer, false, MR_KAFKA_REVOKE_LOST, consumer->owned);
    } else if (consumer->wants_join) {
        send_join(consumer);
    }
}

static bool port_is_lost(void *self)
{
    const struct sim_consumer *consumer = self;
    if (consumer->lost && consumer->in_progress && !consumer->rebalances[0].assigned)
        rules_lost(consumer->wire, consumer->rebalances[0].mask);
    return consumer->lost;
}

/* ---- records ---- */

static bool port_take(void *self,
                      bool (*may_take)(void *context, size_t topic_index, int32_t partition),
                      void *context, struct mr_kafka_record *record, size_t *topic_index)
{
    struct sim_consumer *consumer = self;
    struct broker *broker = consumer->wire->broker;
    uint32_t count = broker->group.partition_count;
    uint64_t arrived_ns = platform_ns() - broker->options.latency_ns;
    if (is_gone(consumer)) return false;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = (consumer->turn + k) % count, topic;
        int32_t partition;
        if (!(consumer->owned >> i & 1) || platform_ns() < consumer->ready_ns[i]) continue;
        broker_group_place(broker, i, &topic, &partition);
        *topic_index = 0;
        while (strcmp(consumer->options.topics[*topic_index].name, broker->topics[topic].name))
            ++*topic_index;
        if (!may_take(context, *topic_index, partition)) continue;
        int64_t position = consumer->positions[i];
        const struct broker_record *found =
            broker_read(&broker->topics[topic].logs[partition], &position, true, arrived_ns);
        if (!found || sim_crash_point(consumer->wire)) continue;
        consumer->taken = (int)i;
        consumer->taken_position = found->record.offset;
        consumer->positions[i] = position;
        consumer->turn = i + 1;
        *record = found->record;
        return true;
    }
    return false;
}

static void port_put_back(void *self)
{
    struct sim_consumer *consumer = self;
    if (is_gone(consumer)) return;
    MR_ASSERT(consumer->taken >= 0);
    consumer->positions[consumer->taken] = consumer->taken_position;
    consumer->taken = -1;
}

/* ---- commits ---- */

struct commit_request {
    struct sim_consumer *consumer;
    struct broker_offset *offsets;
    uint32_t id;
    int32_t generation;
    uint64_t number;
    enum mr_status status;
    uint32_t sent, refused; /* bit masks of the group's partitions */
};

static void on_commit_answer(struct broker *broker, void *context, uint64_t value)
{
    struct commit_request *request = context;
    struct sim_consumer *consumer = request->consumer;
    (void)broker, (void)value;
    if (is_gone(consumer)) return;
    MR_ASSERT(consumer->outcome_count < CONSUMER_EVENTS_MAX);
    consumer->outcomes[consumer->outcome_count].number = request->number;
    consumer->outcomes[consumer->outcome_count].status = request->status;
    consumer->outcomes[consumer->outcome_count].refused = request->refused;
    consumer->outcomes[consumer->outcome_count++].reason =
        request->status == MR_OK ? "" : "the simulated coordinator refused";
    ring(consumer);
}

/* kafka_in sends a request for each topic. All of them fail, or only one. */
static void on_commit(struct broker *broker, void *context, uint64_t value)
{
    struct commit_request *request = context;
    const struct sim_consumer *consumer = request->consumer;
    bool may = broker_may_commit(broker, request->id, request->generation) == ANSWER_OK;
    bool fails = sim_chance(&broker->random, broker->commit_fail_percent);
    bool lost = fails && sim_chance(&broker->random, 50);
    bool all = !fails || sim_chance(&broker->random, 50);
    size_t one = all ? 0 : sim_below(&broker->random, (uint32_t)consumer->options.topic_count);
    (void)value;
    for (struct broker_offset *offset = request->offsets, *next; offset; offset = next) {
        next = offset->next;
        bool hit = fails && (all || offset->topic == one);
        if (hit || !may)
            request->refused |= 1u << broker_group_index(broker, offset->topic, offset->partition);
        if (may && (!hit || lost)) broker_commit(broker, offset);
    }
    if (request->refused) request->status = lost ? MR_TIMEOUT : MR_AGAIN;
    if (fails && request->refused)
        broker_cover(broker, lost ? COVER_COMMIT_ANSWER_LOST : COVER_COMMIT_FAILED);
    if (request->refused && request->refused != request->sent)
        broker_cover(broker, COVER_COMMIT_PARTIAL);
    if (request->status == MR_OK && consumer->wire->machine->dead)
        broker_cover(broker, COVER_COMMITTED_AND_CRASHED);
    broker_schedule(broker, broker_latency(broker), false, on_commit_answer, request, 0);
}

static struct broker_offset *copy_offset(struct sim_consumer *consumer,
                                         const struct mr_kafka_commit *commit)
{
    struct broker *broker = consumer->wire->broker;
    struct broker_offset *offset = broker_memory(broker, sizeof *offset);
    *offset = (struct broker_offset){
        .topic =
            (uint32_t)broker_find_topic(broker, consumer->options.topics[commit->topic_index].name),
        .partition = commit->partition,
        .offset = commit->offset,
        .metadata = broker_text(broker, commit->metadata, strlen(commit->metadata))};
    return offset;
}

static enum mr_status port_commit(void *self, const struct mr_kafka_commit *commits, size_t count,
                                  uint64_t number, struct mr_error *err)
{
    struct sim_consumer *consumer = self;
    struct broker *broker = consumer->wire->broker;
    if (is_gone(consumer)) return mr_fail(err, MR_AGAIN, "the machine is dead");
    if (sim_crash_point(consumer->wire)) return mr_fail(err, MR_AGAIN, "the machine is dead");
    struct commit_request *request = broker_memory(broker, sizeof *request);
    *request = (struct commit_request){.consumer = consumer,
                                       .id = consumer->id,
                                       .generation = consumer->generation,
                                       .number = number};
    for (size_t i = count; i > 0; i--) {
        struct broker_offset *offset = copy_offset(consumer, &commits[i - 1]);
        int index = broker_group_index(broker, offset->topic, offset->partition);
        rules_commit(consumer->wire, (uint32_t)index);
        request->sent |= 1u << index;
        offset->next = request->offsets;
        request->offsets = offset;
    }
    uint64_t due_ns = platform_ns() + broker_latency(broker);
    if (due_ns < consumer->commit_ns) due_ns = consumer->commit_ns;
    consumer->commit_ns = due_ns;
    broker_schedule(broker, due_ns - platform_ns(), true, on_commit, request, 0);
    return MR_OK;
}

static struct mr_kafka_membership *port_membership(void *self)
{
    const struct sim_consumer *consumer = self;
    struct mr_kafka_membership *membership = malloc(sizeof *membership);
    MR_ASSERT(membership);
    *membership = (struct mr_kafka_membership){consumer->id, consumer->generation};
    return membership;
}

/* ---- the rest of the port ---- */

static int64_t unread_of(const struct sim_consumer *consumer, uint32_t index)
{
    uint32_t topic;
    int32_t partition;
    broker_group_place(consumer->wire->broker, index, &topic, &partition);
    const struct broker_log *log = &consumer->wire->broker->topics[topic].logs[partition];
    return log->end > consumer->positions[index] ? log->end - consumer->positions[index] : 0;
}

static int64_t port_unread(void *self, size_t topic_index, int32_t partition)
{
    const struct sim_consumer *consumer = self;
    size_t topic =
        broker_find_topic(consumer->wire->broker, consumer->options.topics[topic_index].name);
    return unread_of(
        consumer, (uint32_t)broker_group_index(consumer->wire->broker, (uint32_t)topic, partition));
}

static uint64_t port_backlog(void *self)
{
    const struct sim_consumer *consumer = self;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < consumer->wire->broker->group.partition_count; i++)
        if (consumer->owned >> i & 1) sum += (uint64_t)unread_of(consumer, i);
    return sum;
}

static size_t port_partition_count(void *self)
{
    return (size_t)__builtin_popcount(((struct sim_consumer *)self)->owned);
}

static void on_leave(struct broker *broker, void *context, uint64_t id)
{
    (void)context;
    broker_leave(broker, (uint32_t)id);
}

static bool port_close(void *self, uint32_t timeout_ms)
{
    struct sim_consumer *consumer = self;
    struct broker *broker = consumer->wire->broker;
    (void)timeout_ms;
    if (!is_gone(consumer) && consumer->id > 0)
        broker_schedule(broker, broker_latency(broker), true, on_leave, NULL, consumer->id);
    consumer->closed = true;
    return !broker_is_down(broker);
}

enum mr_status sim_open_consumer(void *wire, const struct mr_kafka_consumer_options *options,
                                 struct mr_kafka_consumer_port *out, struct mr_error *err)
{
    struct broker *broker = ((struct sim_wire *)wire)->broker;
    struct sim_consumer *consumer = broker_memory(broker, sizeof *consumer);
    (void)err;
    consumer->wire = wire;
    consumer->options = *options;
    consumer->taken = -1;
    consumer->next = broker->consumers;
    broker->consumers = consumer;
    send_join(consumer);
    broker_schedule(broker, broker->options.session_ns / 10, false, beat, consumer, 0);
    *out = (struct mr_kafka_consumer_port){
        consumer,        port_serve,  port_next_event, port_complete_rebalance,
        port_is_lost,    port_take,   port_put_back,   port_commit,
        port_membership, port_unread, port_backlog,    port_partition_count,
        port_close,      NULL};
    return MR_OK;
}
