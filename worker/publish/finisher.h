/* finisher - brings a request to its end once its terminal message (result or refusal) has arrived:
 * waits for the request's token records, then for the partition's write gate, has the terminal
 * records (result, reply, dead letter) written, and returns the ticket to intake.
 *
 * The result is the last record of a request: it is written when its token records, its reply and
 * its dead letter are acknowledged, so that whoever finds a result knows that the other records are
 * there (worker/offsets/recovery.h). No terminal record is handed to the producer once the
 * partition may belong to another worker (worker/ticket/write_gate.h): the gate is asked before the
 * first record of a request, and before every one produced after that.
 *
 * A reply holds its result back until it is acknowledged or given up: at most MR_TERMINAL_REPLY_NS
 * (worker/publish/terminal.h).
 *
 * With exactly-once delivery the ticket returns to intake before its terminal records are written:
 * the transactions thread writes them (worker/publish/transactions.h).
 *
 * Owner:  publish's thread. Memory: lists that link the tickets. Errors: none. */
#ifndef MR_WORKER_PUBLISH_FINISHER_H
#define MR_WORKER_PUBLISH_FINISHER_H

#include "worker/base/clock.h"
#include "worker/publish/writer.h"

struct mr_finisher {
    struct mr_writer *writer;
    struct mr_mailbox *intake; /* mailbox of intake, to which tickets are returned */
    bool exactly_once;
    /* Set to the time at which the oldest ticket of the list below got its terminal message: unix
     * ms, 0 when the list is empty. May be NULL. */
    atomic_int_least64_t *oldest_ms;
    /* list of the tickets that have a terminal message (result or refusal), by age */
    struct mr_ticket *oldest, *newest;
    /* tickets that wait until their partition's write gate opens or closes for good */
    struct mr_ticket *held;
};

/* Call when the ticket's terminal message (result or refusal) has arrived. The ticket owns the
 * message from now on. */
void mr_finisher_begin(struct mr_finisher *finisher, struct mr_ticket *ticket,
                       struct mr_mail *terminal, int64_t unix_ms);
/* Moves every ticket to its next phase where that is possible now. Call after delivery reports were
 * handled, and every MR_FINISHER_HELD_NS while `held` is not NULL. */
void mr_finisher_advance(struct mr_finisher *finisher);

/* Returns the tickets of refusals that were not written (MR_MAIL_RETURNED): nobody but publish has
 * them. The other tickets stay with intake's table of submitted requests. */
void mr_finisher_return_refused(struct mr_finisher *finisher);

#define MR_FINISHER_HELD_NS ((uint64_t)20000000)

#endif
