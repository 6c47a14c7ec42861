/* intake_claims - what intake does when partitions come and go, and when a commit is answered.
 *
 * Owner:  the intake thread: the first three are events of worker/kafka/kafka_in.h, context the
 * intake. Memory: none of its own. Errors: a lane that cannot be made, and metadata of another
 * application unless that is to be ignored, go to mr_intake_fail. */
#ifndef MR_WORKER_INTAKE_INTAKE_CLAIMS_H
#define MR_WORKER_INTAKE_INTAKE_CLAIMS_H

#include "worker/kafka/kafka_in.h"

struct mr_intake;
struct mr_partition;

void mr_intake_assigned(void *context, struct mr_kafka_claim *claims, size_t count);
void mr_intake_revoked(void *context, const struct mr_kafka_claim *claims, size_t count,
                       enum mr_kafka_revoke how);
void mr_intake_committed(void *context, enum mr_status status, const char *reason);
/* --on-revoke drain: lets end what runs of these partitions now, for at most --revoke-timeout; what
 * has not started is not waited for. Partitions that stay go on meanwhile. */
void mr_intake_revoke_drain(struct mr_intake *intake, const struct mr_kafka_claim *claims,
                            size_t count);
/* Recovery has looked: lanes that waited for it go on. */
void mr_intake_recovered(struct mr_intake *intake);
/* Nothing of this lane's present life counts any more: its tickets are dropped. */
void mr_intake_forget_lane(struct mr_intake *intake, struct mr_partition *lane);
/* What runs of all lanes counts as handed back, not as crashed. */
void mr_intake_release_all(struct mr_intake *intake);

#endif
