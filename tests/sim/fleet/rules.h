/* rules - the rules for a worker and its partitions, checked at its calls of the Kafka ports.
 *
 *   - It writes results, replies and dead letters only for partitions that it owns: from the
 *     assignment until it completes the revocation or is notified that the assignment is lost. From
 *     then on another worker may run the same requests. (A transaction may be open then. The broker
 *     refuses it because of its offsets.)
 *   - It commits offsets only for partitions that it owns.
 *   - When it completes a revocation, all its results were acknowledged before its last commit,
 *     which therefore lists them; or it has waited MR_REVOKE_HOLD_NS.
 *   - It begins no transaction after the broker has reported that another worker has its id.
 *
 * In the records most of these violations show only if a second fault follows at the right moment.
 *
 * Owner: a wire (clients.h). Memory: none. Errors: the first violation of a run is kept in the
 * broker (broker_accuse). */
#ifndef MR_TESTS_SIM_FLEET_RULES_H
#define MR_TESTS_SIM_FLEET_RULES_H

#include "tests/sim/fleet/broker.h"
#include "worker/ticket/ticket.h"

struct sim_wire;

/* Masks have one bit for each partition of the group. */
struct sim_rules {
    bool judged; /* false: the opaque pointers of records do not come from the product */
    uint32_t owned;
    uint64_t owned_since_ns[BROKER_GROUPED_MAX];
    /* terminal records whose delivery is not reported yet */
    uint32_t unreported[BROKER_GROUPED_MAX];
    /* the revocation in progress: when it began, and the partitions that had unreported records at
     * its last commit */
    uint64_t revoked_ns;
    uint32_t unreported_at_commit;
    bool committed, fenced;
};

void rules_assigned(struct sim_wire *wire, uint32_t mask);
/* The worker is notified of a revocation. */
void rules_revoking(struct sim_wire *wire, uint32_t mask);
/* It is notified that the assignment is lost. */
void rules_lost(struct sim_wire *wire, uint32_t mask);
/* It completes the revocation. */
void rules_revoked(struct sim_wire *wire, uint32_t mask, bool lost);
/* It commits an offset of a partition. */
void rules_commit(struct sim_wire *wire, uint32_t group_index);
/* It produces a record. Returns the partition of the request, -1: a token record. */
int rules_write(struct sim_wire *wire, const struct mr_ticket_part *part, bool transactional);
/* It gets the delivery report for the record of rules_write. */
void rules_reported(struct sim_wire *wire, int group_index, bool transactional);
void rules_begin_transaction(struct sim_wire *wire);

#endif
