/* starts - the start of a request is durable before the engine runs a step with it.
 *
 * If the first step with a request ends the process, the next worker must know that the request was
 * running. So the engine asks before that step (MR_MAIL_STARTING) and goes on with other requests
 * until the ticket's may_start is set:
 *
 *   1. The start is counted in the partition's offset ledger.
 *   2. With Redis the start is appended to the request's list (worker/resume/resume.h). The request
 *      may start when Redis has stored the entry.
 *   3. Without Redis, or when Redis has not answered after MR_START_WAIT_NS, a commit is made at
 *      once. All starts noted since the last commit share this commit, and one commit is in flight
 *      at a time. The request may start when the commit is acknowledged.
 *
 * The note of a start says whether other requests run beside it (accompanied) and whether it is a
 * suspect (apart; worker/intake/flight.h). When a second request starts beside one that runs alone,
 * the note of the first is changed too, and the second waits until both notes are durable.
 *
 * The wait for a commit is as long as the broker takes: without the broker no result could be
 * written either. The request is still in the engine's queue, so its deadline, a cancel and a drain
 * end the wait. A request whose partition is suspended or being revoked waits until the partition
 * is assigned to this worker again, or is dropped.
 *
 * Owner:  intake thread. Memory: fields of the tickets. Errors: none. */
#ifndef MR_WORKER_INTAKE_STARTS_H
#define MR_WORKER_INTAKE_STARTS_H

#include "worker/intake/flight.h"
#include "worker/offsets/commit_schedule.h"
#include "worker/offsets/handover.h"
#include "worker/resume/resume.h"
#include "worker/ticket/ticket.h"

#include <stdatomic.h>

#define MR_START_WAIT_NS ((uint64_t)30000000)
/* least time between the sending of two commits that are made for starts alone */
#define MR_START_COMMIT_NS ((uint64_t)5000000)

struct mr_starts {
    struct mr_commit_schedule *schedule; /* borrowed */
    struct mr_resume *resume;            /* borrowed; NULL: without Redis */
    const struct mr_flight *flight;      /* borrowed */
    uint32_t running;             /* requests whose start was noted and that have not ended */
    struct mr_ticket *lone;       /* the only one of them, noted as unaccompanied; NULL: none */
    struct mr_handover *handover; /* borrowed; NULL: without */
    /* set by the engine thread: a step has failed, so what was running counts as crashed */
    atomic_bool step_failed;
    struct mr_ticket *first; /* starts that are not durable yet, oldest first */
    uint64_t due_ns;         /* when _step has something to do again */
};

/* The engine asks whether the ticket's request may start; call once for each ticket. */
void mr_starts_ask(struct mr_starts *starts, struct mr_ticket *ticket);
/* Takes the answer of Redis to the note of a start, and frees it. */
void mr_starts_answer(struct mr_starts *starts, struct mr_found_mail *note);
/* Sets may_start of the tickets whose start is durable; true if there were any: the engine must be
 * woken. */
bool mr_starts_step(struct mr_starts *starts, uint64_t now_ns);
/* The ticket ends: its start is not awaited any more. */
void mr_starts_stop(struct mr_starts *starts, struct mr_ticket *ticket);
/* The running request is given up on purpose: notes in the ledger and in Redis that it did not
 * crash. No effect on a request that ran when a step of the engine failed: it may be the cause. */
void mr_starts_release(struct mr_starts *starts, struct mr_ticket *ticket);
/* Undoes _release: the partition is back, and the request runs on. */
void mr_starts_resume(struct mr_starts *starts, struct mr_ticket *ticket);
/* Writes a released request into the handover file, because a commit may not say it. */
void mr_starts_hand_over(struct mr_starts *starts, struct mr_ticket *ticket);

#endif
