/* intake_record - a record's way through intake: decoded, examined, submitted to the engine,
 * refused, parked or cancelled; and back, when the engine or publish is through with it.
 *
 * Owner:  the intake thread. Memory: every ticket is freed here; the number in flight is counted.
 * Errors: what a record gets wrong is answered; the rest goes to mr_intake_fail. */
#ifndef MR_WORKER_INTAKE_INTAKE_RECORD_H
#define MR_WORKER_INTAKE_INTAKE_RECORD_H

#include "worker/kafka/kafka_record.h"

struct mr_intake;
struct mr_ticket;

bool mr_intake_may_take(void *context, size_t topic_index, int32_t partition);
/* Turns one record into a ticket. False: it was put back. */
bool mr_intake_accept(struct mr_intake *intake, const struct mr_kafka_record *record,
                      size_t topic_index);
/* Submits, attaches to another ticket of the same id, or parks. */
void mr_intake_place_ticket(struct mr_intake *intake, struct mr_ticket *ticket);
void mr_intake_retry_parked(struct mr_intake *intake);
/* A cancel record. */
void mr_intake_cancel(struct mr_intake *intake, const struct mr_kafka_record *record);
/* Publish or the engine is through with the ticket. */
void mr_intake_done(struct mr_intake *intake, struct mr_ticket *ticket);
void mr_intake_returned(struct mr_intake *intake, struct mr_ticket *ticket);
void mr_intake_started(struct mr_intake *intake, struct mr_ticket *ticket);
/* Frees every ticket that is left. */
void mr_intake_drop_all(struct mr_intake *intake);

#endif
