#include "tests/sim/fleet/rules.h"

#include "tests/sim/fleet/clients.h"
#include "worker/offsets/ownership.h"

void rules_assigned(struct sim_wire *wire, uint32_t mask)
{
    wire->rules.owned |= mask;
    for (uint32_t i = 0; i < BROKER_GROUPED_MAX; i++)
        if (mask >> i & 1) wire->rules.owned_since_ns[i] = platform_ns();
}

static uint32_t unreported(const struct sim_rules *rules)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < BROKER_GROUPED_MAX; i++)
        mask |= (uint32_t)(rules->unreported[i] > 0) << i;
    return mask;
}

void rules_revoking(struct sim_wire *wire, uint32_t mask)
{
    wire->rules.revoked_ns = platform_ns();
    wire->rules.committed = false;
    if (unreported(&wire->rules) & mask) broker_cover(wire->broker, COVER_REVOKED_UNREPORTED);
}

void rules_lost(struct sim_wire *wire, uint32_t mask)
{
    wire->rules.owned &= ~mask;
}

void rules_revoked(struct sim_wire *wire, uint32_t mask, bool lost)
{
    struct sim_rules *rules = &wire->rules;
    uint32_t late = rules->committed ? rules->unreported_at_commit : unreported(rules);
    rules->owned &= ~mask;
    if (!rules->judged || lost || (late & mask) == 0 ||
        platform_ns() >= rules->revoked_ns + MR_REVOKE_HOLD_NS)
        return;
    broker_accuse(wire->broker, "revoked: a worker does not wait for the results it has produced");
}

void rules_commit(struct sim_wire *wire, uint32_t group_index)
{
    struct sim_rules *rules = &wire->rules;
    rules->unreported_at_commit = unreported(rules);
    rules->committed = true;
    if (rules->judged && !(rules->owned >> group_index & 1))
        broker_accuse(wire->broker, "commit: of partition %u of the group, which is given up",
                      group_index);
}

int rules_write(struct sim_wire *wire, const struct mr_ticket_part *part, bool transactional)
{
    struct sim_rules *rules = &wire->rules;
    if (!rules->judged || part->kind == MR_PART_TOKENS) return -1;
    const struct mr_ticket *ticket = part->ticket;
    size_t topic = broker_find_topic(wire->broker, ticket->topic);
    int index = broker_group_index(wire->broker, (uint32_t)topic, ticket->partition);
    if (transactional) return index;
    if (!(rules->owned >> index & 1))
        broker_accuse(wire->broker, "written: the answer of %s/%d/%lld, which is given up",
                      ticket->topic, ticket->partition, (long long)ticket->offset);
    rules->unreported[index]++;
    return index;
}

void rules_reported(struct sim_wire *wire, int group_index, bool transactional)
{
    if (group_index >= 0 && !transactional) wire->rules.unreported[group_index]--;
}

void rules_begin_transaction(struct sim_wire *wire)
{
    if (wire->rules.fenced)
        broker_accuse(wire->broker, "fenced: %s is another worker's, and its loser goes on",
                      wire->transactional_id);
}
