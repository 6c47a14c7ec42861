/* intake_settle - exactly-once delivery in intake: requests that are ready wait here; at every
 * commit they are sealed and go to settle (worker/publish/transactions.h) with the offsets.
 *
 * Sealing is the barrier: the ledger calls a request finished only in the same moment in which its
 * records join the transaction, and no commit goes another way. A request whose partition is about
 * to be given away waits; one whose partition is gone is dropped.
 *
 * Owner:  the intake thread. Memory: the job, and the commits it points to. Errors: a transaction
 *         that is broken for good goes to mr_intake_fail. */
#ifndef MR_WORKER_INTAKE_INTAKE_TRANSACTIONS_H
#define MR_WORKER_INTAKE_INTAKE_TRANSACTIONS_H

#include <stdint.h>

struct mr_intake;
struct mr_ticket;

/* Publish has written its token records. */
void mr_intake_ready(struct mr_intake *intake, struct mr_ticket *ticket);
/* Seals what is ready and what is to be committed. With timeout_ms the job that runs, and then this
 * one, are waited for. */
void mr_intake_settle(struct mr_intake *intake, uint32_t timeout_ms);
/* Acts on a job that is done, if one is, after waiting up to timeout_ms. */
void mr_intake_settled(struct mr_intake *intake, uint32_t timeout_ms);
/* Frees what is left of it. settle has ended. */
void mr_intake_drop_ready(struct mr_intake *intake);

#endif
