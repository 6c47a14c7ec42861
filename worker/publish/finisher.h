/* finisher - ends a request after its terminal message (result or refusal) has arrived. It waits
 * for the request's token records, then for the partition's write gate, passes the terminal records
 * (result, reply, dead letter) to the writer, and returns the ticket to intake.
 *
 * The result is the last record of a request. It is written when the token records, the reply and
 * the dead letter are acknowledged, so a result proves that the other records are on the broker
 * (worker/offsets/recovery.h). No terminal record is passed to the producer once the partition may
 * belong to another worker: the write gate (worker/ticket/write_gate.h) is read before each one.
 *
 * A result waits for its reply until the reply is acknowledged or abandoned, which takes at most
 * MR_TERMINAL_REPLY_NS (worker/publish/terminal.h).
 *
 * With exactly-once delivery the ticket returns to intake before its terminal records are written,
 * and the transactions thread writes them (worker/publish/transactions.h).
 *
 * Owner:  publish thread. Memory: lists that link the tickets. Errors: none. */
#ifndef MR_WORKER_PUBLISH_FINISHER_H
#define MR_WORKER_PUBLISH_FINISHER_H

#include "worker/base/clock.h"
#include "worker/publish/writer.h"

struct mr_finisher {
    struct mr_writer *writer;
    struct mr_mailbox *intake; /* mailbox of intake, to which tickets are returned */
    bool exactly_once;
    /* where the time (unix ms) is stored at which the oldest ticket of the list below got its
     * terminal message; 0: the list is empty. May be NULL. */
    atomic_int_least64_t *oldest_ms;
    struct mr_ticket *oldest, *newest; /* list of the tickets with a terminal message, by age */
    /* tickets that wait until their partition's write gate opens or their epoch has passed */
    struct mr_ticket *held;
};

/* Call when the ticket's terminal message (result or refusal) has arrived. The ticket then owns the
 * message. */
void mr_finisher_begin(struct mr_finisher *finisher, struct mr_ticket *ticket,
                       struct mr_mail *terminal, int64_t unix_ms);
/* Moves each ticket to its next phase if that is possible. Call after delivery reports were
 * handled, and every MR_FINISHER_HELD_NS while `held` is not NULL. */
void mr_finisher_advance(struct mr_finisher *finisher);

/* Returns the tickets of refusals that were not written (MR_MAIL_RETURNED). Only publish has these
 * tickets. The other tickets are in intake's table of submitted requests. */
void mr_finisher_return_refused(struct mr_finisher *finisher);

#define MR_FINISHER_HELD_NS ((uint64_t)20000000)

#endif
