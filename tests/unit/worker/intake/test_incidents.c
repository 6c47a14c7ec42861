/* Four incidents that users of a library with the same design reported, and why they do not happen
 * here: confluentinc/parallel-consumer #647 (the map of finished offsets grows too large and
 * consumption stalls), #637 (rebalances without end), #857 (consumption halts after a rebalance),
 * #894 (wrong offsets after frequent rebalances). */
#include "tests/unit/worker/intake_rig.h"
#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_in.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- #647 ---- */

static bool may_take(struct intake_rig *rig)
{
    return mr_admission_may_take(&rig->intake->admission, 0, 0);
}

static void a_record_that_never_ends_stops_intake_before_the_map_is_too_large(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_ledger_history history;
    struct mr_kafka_commit commit;
    int64_t offset = 0;
    struct mr_ledger_head head;
    open_intake_rig(&rig);
    struct mr_partition *partition = assign_partition(&rig, 0, "");
    while (may_take(&rig)) {
        assert_int_equal(mr_offset_ledger_receive(partition->ledger, offset, &history),
                         MR_LEDGER_NEW);
        mr_offset_ledger_start(partition->ledger, offset, 0);
        if (offset > 0) mr_offset_ledger_finish(partition->ledger, offset);
        offset++;
    }
    assert_true(offset > 9000);
    assert_true(mr_partition_fill_commit(partition, 1000, &commit));
    assert_int_equal(commit.offset, 0);
    assert_true(strlen(commit.metadata) < 4096);

    /* The metadata is complete: the next owner runs only the one unfinished record. */
    struct mr_offset_ledger *next = NULL;
    assert_int_equal(mr_offset_ledger_create(&next, MR_LEDGER_SPAN_MAX, NULL), MR_OK);
    struct mr_text text = {commit.metadata, strlen(commit.metadata)};
    assert_int_equal(mr_ledger_metadata_restore(next, 0, text, &head, NULL), MR_OK);
    for (int64_t i = 0; i < offset; i++)
        assert_int_equal(mr_offset_ledger_receive(next, i, &history),
                         i == 0 ? MR_LEDGER_NEW : MR_LEDGER_FINISHED);
    mr_offset_ledger_destroy(next);

    mr_partition_committed(partition, true);
    mr_offset_ledger_finish(partition->ledger, 0); /* it ended after all: intake goes on at once */
    assert_true(may_take(&rig));
    assert_true(mr_partition_fill_commit(partition, 1000, &commit));
    assert_int_equal(commit.offset, offset);
    close_intake_rig(&rig);
}

/* ---- #894 ---- */

#define RECORDS 400
#define MEMBERS 3

/* A partition as the broker knows it, and members that own it in turns. */
struct world {
    struct mr_partitions *partitions[MEMBERS];
    struct mr_partition *partition; /* the owner's; NULL: nobody's */
    size_t owner;
    bool taken[RECORDS]; /* by the present owner */
    bool done[RECORDS];  /* its result is on the broker */
    int64_t committed;
    char metadata[MR_LEDGER_METADATA_TEXT_MAX];
    uint32_t seed, again;
};

static uint32_t pick(struct world *world, uint32_t below)
{
    world->seed = world->seed * 1664525u + 1013904223u;
    return (world->seed >> 8) % below;
}

static void assign(struct world *world, size_t member)
{
    struct mr_kafka_claim claim = {.topic = "t",
                                   .committed = world->committed,
                                   .metadata = {world->metadata, strlen(world->metadata)},
                                   .start = world->committed};
    bool resumed = false;
    assert_int_equal(
        mr_partitions_take(world->partitions[member], &claim, &world->partition, &resumed, NULL),
        MR_OK);
    world->owner = member;
    if (!resumed) memset(world->taken, 0, sizeof world->taken);
    for (int64_t i = 0; i < claim.start; i++) /* nothing is passed over */
        assert_true(world->done[i] || (resumed && world->taken[i]));
}

static void take_next(struct world *world)
{
    struct mr_ledger_history history;
    int64_t offset = mr_offset_ledger_next(world->partition->ledger);
    if (offset < 0) offset = world->committed > 0 ? world->committed : 0;
    if (offset >= RECORDS) return;
    enum mr_ledger_verdict verdict =
        mr_offset_ledger_receive(world->partition->ledger, offset, &history);
    world->taken[offset] = verdict == MR_LEDGER_NEW;
    if (verdict == MR_LEDGER_FINISHED) assert_true(world->done[offset]);
    if (verdict == MR_LEDGER_NEW && world->done[offset]) world->again++;
}

static void finish_one(struct world *world)
{
    uint32_t from = pick(world, RECORDS);
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint32_t offset = (from + i) % RECORDS;
        if (!world->taken[offset]) continue;
        world->taken[offset] = false;
        world->done[offset] = true;
        mr_offset_ledger_finish(world->partition->ledger, offset);
        return;
    }
}

/* Only finished records are committed. The broker may refuse the commit, or accept it and the reply
 * is lost. */
static void commit(struct world *world)
{
    struct mr_kafka_commit commit;
    if (!mr_partition_fill_commit(world->partition, 1000, &commit)) return;
    for (int64_t i = 0; i < commit.offset; i++)
        assert_true(world->done[i]);
    uint32_t luck = pick(world, 10);
    if (luck < 8) {
        world->committed = commit.offset;
        snprintf(world->metadata, sizeof world->metadata, "%s", commit.metadata);
    }
    mr_partition_committed(world->partition, luck < 7);
}

/* The partition is suspended, revoked or lost, and assigned again, to the same member or another.
 */
static void rebalance(struct world *world)
{
    uint32_t how = pick(world, 3);
    if (how < 2) commit(world);
    if (how == 0)
        mr_partition_suspend(world->partition);
    else
        mr_partition_forget(world->partition);
    size_t owner = pick(world, MEMBERS);
    if (how == 0 && owner != world->owner) mr_partition_forget(world->partition);
    assign(world, owner);
}

static bool all_done(const struct world *world)
{
    for (size_t i = 0; i < RECORDS; i++)
        if (!world->done[i]) return false;
    return true;
}

static void offsets_stay_right_over_frequent_rebalances(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 200; seed++) {
        struct world world = {.seed = seed, .committed = -1};
        for (size_t i = 0; i < MEMBERS; i++)
            assert_int_equal(mr_partitions_create(&world.partitions[i], NULL), MR_OK);
        assign(&world, 0);
        for (int step = 0; step < 20000 && !all_done(&world); step++) {
            uint32_t what = pick(&world, 20);
            if (what < 9)
                take_next(&world);
            else if (what < 17)
                finish_one(&world);
            else if (what < 19)
                commit(&world);
            else
                rebalance(&world);
            mr_partitions_check(world.partitions[world.owner]);
        }
        assert_true(all_done(&world));
        for (size_t i = 0; i < MEMBERS; i++)
            mr_partitions_destroy(world.partitions[i]);
    }
}

/* ---- #637 and #857: over the embedded broker ---- */

#define PARTITIONS 4

struct member {
    struct mr_kafka_in *in;
    struct mr_wake wake;
    uint32_t assignments, taken[PARTITIONS];
    bool slow; /* has no room: nothing is taken */
};

static void join(struct member *member, struct broker *broker)
{
    static const struct mr_kafka_consumer_topic topic = {"t", 1};
    struct mr_error err = {0};
    *member = (struct member){.in = NULL};
    assert_int_equal(mr_wake_open(&member->wake, NULL), MR_OK);
    struct mr_kafka_consumer_options options = {.kafka = &broker->kafka,
                                                .wake = &member->wake,
                                                .topics = &topic,
                                                .topic_count = 1,
                                                .join_group = true};
    if (mr_kafka_in_create(&member->in, &options, &err) != MR_OK) fail_msg("%s", err.detail);
}

static void leave(struct member *member)
{
    assert_true(mr_kafka_in_close(member->in, 10000));
    mr_wake_close(&member->wake);
    member->in = NULL;
}

static bool has_room(void *context, size_t topic_index, int32_t partition)
{
    (void)topic_index, (void)partition;
    return !((struct member *)context)->slow;
}

static void serve(struct member *member)
{
    struct mr_kafka_event event;
    assert_int_equal(mr_kafka_in_serve(member->in, NULL), MR_OK);
    while (mr_kafka_in_next_event(member->in, &event)) {
        if (event.kind == MR_KAFKA_EVENT_COMMITTED) continue;
        member->assignments += event.kind == MR_KAFKA_EVENT_ASSIGNED;
        mr_kafka_in_complete_rebalance(member->in);
    }
}

static void turn(struct member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mr_kafka_record record;
        size_t index;
        if (!members[i].in) continue;
        serve(&members[i]);
        while (mr_kafka_in_take(members[i].in, has_room, &members[i], &record, &index))
            members[i].taken[record.partition]++;
        mr_wake_wait(&members[i].wake, 10000000u);
    }
}

static size_t partitions_of(const struct member *members, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (members[i].in) sum += mr_kafka_in_partition_count(members[i].in);
    return sum;
}

/* Until every member has a partition and every partition has a member. */
static void balance(struct member *members, size_t count)
{
    for (int i = 0; i < 3000; i++) {
        bool each = true;
        turn(members, count);
        for (size_t k = 0; k < count; k++)
            each &= !members[k].in || mr_kafka_in_partition_count(members[k].in) > 0;
        if (each && partitions_of(members, count) == PARTITIONS) return;
    }
    fail_msg("the group does not come to rest");
}

/* One record to each partition; every record reaches a member. */
static void flows(struct producing *producing, struct member *members, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memset(members[i].taken, 0, sizeof members[i].taken);
    for (int32_t p = 0; p < PARTITIONS; p++)
        produce(producing, "t", p, "k", "v");
    for (int32_t p = 0; p < PARTITIONS; p++) {
        bool here = false;
        for (int i = 0; i < 1000 && !here; i++) {
            turn(members, count);
            for (size_t k = 0; k < count; k++)
                here |= members[k].taken[p] > 0;
        }
        if (!here) fail_msg("partition %d halted", (int)p);
    }
}

static void a_group_comes_to_rest_and_every_partition_flows_after_a_rebalance(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    struct member members[2] = {0};
    open_broker(&broker);
    add_topic(&broker, "t", PARTITIONS);
    open_producing(&producing, &broker);
    join(&members[0], &broker);
    balance(members, 1);
    flows(&producing, members, 1);
    join(&members[1], &broker);
    balance(members, 2);
    flows(&producing, members, 2);

    /* A member without room for longer than its session timeout does not cause a rebalance. */
    uint32_t before = members[0].assignments + members[1].assignments;
    members[0].slow = true;
    uint64_t until_ns = mr_clock_ns() + broker.kafka.session_timeout_ns * 3 / 2;
    while (mr_clock_ns() < until_ns)
        turn(members, 2);
    members[0].slow = false;
    assert_int_equal(members[0].assignments + members[1].assignments, before);
    flows(&producing, members, 2);

    leave(&members[1]);
    balance(members, 2);
    flows(&producing, members, 2);
    leave(&members[0]);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_that_never_ends_stops_intake_before_the_map_is_too_large),
        cmocka_unit_test(offsets_stay_right_over_frequent_rebalances),
        cmocka_unit_test(a_group_comes_to_rest_and_every_partition_flows_after_a_rebalance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
