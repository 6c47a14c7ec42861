/* intake_resume - what intake asks Redis about each record before it submits it
 * (worker/redis/resume.h): how often it was begun, how many workers that took down, which tokens it
 * had got to.
 *
 * A ticket that waits for the answer is parked, for MR_INTAKE_ASK_WAIT_NS at most; then it goes on
 * as if nothing were known, and until that answer comes others do not ask. One that the commit says
 * was begun before waits for as long as the question lives: its answer is worth more than the time.
 * The answer is joined with what the commit's metadata says: who knows of more attempts is right
 * about them and about the crashes.
 *
 * Owner:  the intake thread. Memory: the records of tickets that wait, at most
 *         MR_INTAKE_ASKING_BYTES_MAX and one more. Errors: none; what cannot be asked is not known.
 */
#ifndef MR_WORKER_INTAKE_INTAKE_RESUME_H
#define MR_WORKER_INTAKE_INTAKE_RESUME_H

#include "worker/kafka/kafka_record.h"
#include "worker/redis/resume.h"

#define MR_INTAKE_ASKING_BYTES_MAX ((size_t)16 << 20) /* then nothing more is taken */
#define MR_INTAKE_ASK_WAIT_NS      ((uint64_t)30000000)

struct mr_intake;

/* ticket->asked is set when there will be an answer. Its prompt must be encoded. */
void mr_intake_ask(struct mr_intake *intake, struct mr_ticket *ticket,
                   const struct mr_kafka_record *record);
/* The answer, which is freed; its ticket is looked at again in the next round. */
void mr_intake_found(struct mr_intake *intake, struct mr_found_mail *found);
/* The ticket is about to end or to be refused: nobody waits for the answer. */
void mr_intake_stop_asking(struct mr_intake *intake, struct mr_ticket *ticket);
/* Gives up what was waited for too long; those tickets are looked at again in the next round. */
void mr_intake_expire_asking(struct mr_intake *intake, uint64_t now_ns);
/* Frees the answers that are here; none comes any more. */
void mr_intake_end_asking(struct mr_intake *intake);

#endif
