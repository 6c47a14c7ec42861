#include "codec/check.h"
#include "tests/sim/fleet/broker.h"
#include "tests/sim/fleet/clients.h"

#include <string.h>

/* a group whose first member has just joined waits this long for others */
#define INITIAL_DELAY_NS (200 * MS)

int broker_group_index(const struct broker *broker, uint32_t topic, int32_t partition)
{
    int first = broker->topics[topic].group_index;
    return first < 0 ? -1 : first + partition;
}

void broker_group_place(const struct broker *broker, uint32_t group_index, uint32_t *topic,
                        int32_t *partition)
{
    for (uint32_t i = 0; i < broker->topic_count; i++) {
        int first = broker->topics[i].group_index;
        if (first < 0 || (int)group_index < first) continue;
        if ((int)group_index - first >= (int)broker->topics[i].partition_count) continue;
        *topic = i;
        *partition = (int32_t)group_index - first;
        return;
    }
    MR_ASSERT(false);
}

static struct broker_member *find_member(struct broker *broker, uint32_t id)
{
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX && id > 0; i++)
        if (broker->group.members[i].consumer && broker->group.members[i].id == id)
            return &broker->group.members[i];
    return NULL;
}

static uint32_t count_members(const struct broker_group *group)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++)
        count += group->members[i].consumer != NULL;
    return count;
}

/* ---- rebalances ---- */

static void prepare(struct broker *broker)
{
    struct broker_group *group = &broker->group;
    if (group->state == GROUP_PREPARING) {
        broker_cover(broker, COVER_REBALANCE_DURING_REBALANCE);
        return;
    }
    group->prepared_ns = platform_ns();
    if (group->state == GROUP_EMPTY) group->prepared_ns += INITIAL_DELAY_NS;
    group->state = GROUP_PREPARING;
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++)
        group->members[i].joined = false;
    broker_note(broker, "group: rebalance begins");
}

/* Assigns every partition to the member with the fewest; ties go to the first in the table. sticky:
 * a member keeps its partitions as far as the result stays balanced. */
static void assign(struct broker_group *group, bool sticky)
{
    uint32_t count = count_members(group), counts[BROKER_MEMBERS_MAX] = {0}, given = 0;
    uint32_t most = (group->partition_count + count - 1) / count;
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++) {
        struct broker_member *member = &group->members[i];
        member->assigned = 0;
        for (uint32_t p = 0; member->consumer && sticky && p < group->partition_count; p++) {
            if (!(member->owned >> p & 1) || given >> p & 1 || counts[i] >= most) continue;
            member->assigned |= 1u << p;
            given |= 1u << p;
            counts[i]++;
        }
    }
    for (uint32_t p = 0; p < group->partition_count; p++) {
        uint32_t best = BROKER_MEMBERS_MAX;
        for (uint32_t i = 0; i < BROKER_MEMBERS_MAX && !(given >> p & 1); i++)
            if (group->members[i].consumer &&
                (best == BROKER_MEMBERS_MAX || counts[i] < counts[best]))
                best = i;
        if (best == BROKER_MEMBERS_MAX) continue;
        group->members[best].assigned |= 1u << p;
        counts[best]++;
    }
}

/* The cooperative protocol does not assign partitions that another member still owns. */
static void withhold_owned(struct broker_group *group)
{
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++)
        for (uint32_t k = 0; k < BROKER_MEMBERS_MAX; k++)
            if (i != k && group->members[i].consumer && group->members[k].consumer)
                group->members[i].assigned &= ~group->members[k].owned;
}

static void complete(struct broker *broker)
{
    struct broker_group *group = &broker->group;
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++)
        if (!group->members[i].joined) group->members[i].consumer = NULL;
    group->generation++;
    group->state = count_members(group) > 0 ? GROUP_STABLE : GROUP_EMPTY;
    if (group->state == GROUP_EMPTY) return;
    assign(group, group->cooperative);
    if (group->cooperative) withhold_owned(group);
    broker_cover(broker, group->cooperative ? COVER_REBALANCE_COOPERATIVE : COVER_REBALANCE_EAGER);
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++) {
        struct broker_member *member = &group->members[i];
        if (!member->consumer) continue;
        member->heard_ns = platform_ns();
        broker_note(broker, "group: generation %d: member %u gets %x", group->generation,
                    member->id, member->assigned);
        broker_mix(broker, member->assigned);
        sim_consumer_assign(member->consumer, member->id, group->generation, member->assigned);
    }
}

static void complete_if_joined(struct broker *broker)
{
    struct broker_group *group = &broker->group;
    if (group->state != GROUP_PREPARING || platform_ns() < group->prepared_ns) return;
    bool all = true;
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++)
        all = all && (!group->members[i].consumer || group->members[i].joined);
    if (all || platform_ns() >= group->prepared_ns + group->rebalance_ns) complete(broker);
}

uint32_t broker_join(struct broker *broker, struct sim_consumer *consumer, uint32_t id,
                     uint32_t owned)
{
    struct broker_group *group = &broker->group;
    struct broker_member *member = find_member(broker, id);
    if (id > 0 && !member) return 0; /* UNKNOWN_MEMBER_ID */
    for (uint32_t i = 0; !member && i < BROKER_MEMBERS_MAX; i++)
        if (!group->members[i].consumer) member = &group->members[i];
    MR_ASSERT(member);
    if (id == 0) *member = (struct broker_member){.consumer = consumer, .id = ++group->next_id};
    prepare(broker);
    member->joined = true;
    member->owned = group->cooperative ? owned : 0;
    member->heard_ns = platform_ns();
    broker_note(broker, "group: member %u joins with %x", member->id, owned);
    complete_if_joined(broker);
    return member->id;
}

static void remove_member(struct broker *broker, struct broker_member *member)
{
    member->consumer = NULL;
    member->joined = false;
    if (count_members(&broker->group) == 0)
        broker->group.state = GROUP_EMPTY;
    else
        prepare(broker);
}

void broker_leave(struct broker *broker, uint32_t id)
{
    struct broker_member *member = find_member(broker, id);
    if (!member) return;
    broker_note(broker, "group: member %u leaves", id);
    remove_member(broker, member);
    complete_if_joined(broker);
}

enum broker_answer broker_heartbeat(struct broker *broker, uint32_t id, int32_t generation)
{
    const struct broker_group *group = &broker->group;
    struct broker_member *member = find_member(broker, id);
    if (!member) return ANSWER_UNKNOWN;
    member->heard_ns = platform_ns();
    if (group->state == GROUP_PREPARING) return ANSWER_REBALANCE;
    return generation == group->generation ? ANSWER_OK : ANSWER_OLD;
}

void broker_group_tick(struct broker *broker)
{
    struct broker_group *group = &broker->group;
    for (uint32_t i = 0; i < BROKER_MEMBERS_MAX; i++) {
        struct broker_member *member = &group->members[i];
        if (!member->consumer || platform_ns() < member->heard_ns + group->session_ns) continue;
        /* a member whose join is pending does not expire while its connection is open */
        if (group->state == GROUP_PREPARING && member->joined &&
            sim_consumer_is_connected(member->consumer))
            continue;
        broker_note(broker, "group: session of member %u expired", member->id);
        broker_cover(broker, COVER_SESSION_EXPIRED);
        remove_member(broker, member);
    }
    complete_if_joined(broker);
}

/* ---- commits ---- */

enum broker_answer broker_may_commit(struct broker *broker, uint32_t id, int32_t generation)
{
    struct broker_member *member = find_member(broker, id);
    if (!member) return ANSWER_UNKNOWN;
    if (generation != broker->group.generation) {
        broker_cover(broker, COVER_COMMIT_OF_OLD_GENERATION);
        return ANSWER_OLD;
    }
    if (broker->group.state == GROUP_PREPARING) broker_cover(broker, COVER_COMMIT_DURING_REBALANCE);
    member->heard_ns = platform_ns();
    return ANSWER_OK;
}

void broker_commit(struct broker *broker, struct broker_offset *offset)
{
    struct broker_group *group = &broker->group;
    int index = broker_group_index(broker, offset->topic, offset->partition);
    MR_ASSERT(index >= 0);
    offset->next = NULL;
    offset->time_ms = platform_unix_ms();
    group->committed[index] = offset;
    *group->commits_end = offset;
    group->commits_end = &offset->next;
    broker_mix(broker, (uint64_t)offset->offset);
    broker_note(broker, "group: commit %s/%d = %lld %s", broker->topics[offset->topic].name,
                offset->partition, (long long)offset->offset, offset->metadata);
}
