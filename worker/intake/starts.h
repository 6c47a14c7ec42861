/* starts - makes the start of a request durable before the engine runs a step with it.
 *
 * If the first step with a request crashes the process, the next worker must know that the request
 * was running. So the engine announces that step (MR_MAIL_STARTING) and runs other requests until
 * the ticket's may_start is set:
 *
 *   1. The start is counted in the partition's offset ledger.
 *   2. With Redis the start is appended to the request's list (worker/resume/resume.h). The request
 *      may start when Redis has stored the entry.
 *   3. Without Redis, or when Redis has not answered within MR_START_WAIT_NS, a commit is made at
 *      once. All starts since the last commit share it, and one commit is in flight at a time. The
 *      request may start when the commit is acknowledged.
 *
 * A start is marked accompanied if other requests are running, and apart if the request is a
 * suspect (worker/intake/flight.h). When a second request starts while one runs alone, the first
 * one's start is marked accompanied too, and the second one waits until both marks are durable.
 *
 * A start that no longer fits into the commit's metadata waits until other requests of its
 * partition have finished (mr_offset_ledger_may_start).
 *
 * The wait for a commit has no limit: without the broker no result could be written either. The
 * request is still in the engine's queue, so its deadline, a cancel and a drain end the wait. A
 * request whose partition is suspended or being revoked waits until the partition is assigned to
 * this worker again, or is dropped.
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
/* minimum time between two commits that are made only for starts */
#define MR_START_COMMIT_NS ((uint64_t)5000000)

struct mr_starts {
    struct mr_commit_schedule *schedule; /* borrowed */
    struct mr_resume *resume;            /* borrowed; NULL: no Redis */
    const struct mr_flight *flight;      /* borrowed */
    uint32_t running;       /* requests whose start was counted and that have not ended */
    struct mr_ticket *lone; /* the only running request, if not marked accompanied; else NULL */
    struct mr_handover *handover; /* borrowed; NULL: no handover */
    /* set by the engine thread: a step has failed, so running requests are treated as crashed */
    atomic_bool step_failed;
    struct mr_ticket *first; /* list of starts that are not durable yet, oldest first */
    uint64_t due_ns;         /* when to call _step again */
};

/* The engine wants to run the first step with the ticket's request. Call once for each ticket. */
void mr_starts_add(struct mr_starts *starts, struct mr_ticket *ticket);
/* Applies the message in which Redis confirms a start, and frees it. */
void mr_starts_answer(struct mr_starts *starts, struct mr_found_mail *note);
/* Sets may_start of the tickets whose start is durable. True: there were any, so wake the engine.
 */
bool mr_starts_step(struct mr_starts *starts, uint64_t now_ns);
/* The ticket ends and no longer counts as running. */
void mr_starts_stop(struct mr_starts *starts, struct mr_ticket *ticket);
/* The worker stops the running request on purpose: records in the ledger and in Redis that it did
 * not crash. No effect if the request was running when a step of the engine failed, because it may
 * be the cause. */
void mr_starts_release(struct mr_starts *starts, struct mr_ticket *ticket);
/* Undoes _release: the partition is assigned again and the request continues. */
void mr_starts_resume(struct mr_starts *starts, struct mr_ticket *ticket);
/* Writes a released request to the handover file, because no acknowledged commit has its release.
 */
void mr_starts_hand_over(struct mr_starts *starts, struct mr_ticket *ticket);

#endif
