/* publish - the thread that encodes and produces the messages of the engine and of intake. It
 * returns a request's ticket to intake when all records of the request are on the broker.
 *
 * One call of the step handles delivery reports, records to produce again, and messages
 * (worker/publish/writer.h produces records, worker/publish/finisher.h ends a request). The step
 * never blocks. It
 *
 *     takes messages     only when the earlier ones are handled; the mailbox is bounded, so the
 *                        engine waits when the producer's queue is full
 *     holds messages     while Redis stores the tokens in them (worker/resume/resume.h)
 *     handles messages   in order; when the producer's queue is full, the next message waits
 *     drains             after mr_publish_drain, until no record is in flight or the deadline
 *                        passes
 *
 * A request is done when its result is acknowledged. With exactly-once delivery publish writes the
 * token records only; worker/publish/transactions.h writes the others.
 *
 * Before each attempt to produce a terminal record (result, reply, dead letter) the partition's
 * write gate is read. Token records need no gate, because readers ignore those of an older attempt.
 *
 * The loss of a token record is only counted, because the result still has the whole text.
 *
 * Threads: the worker's main thread calls _create, _start, _drain and _destroy; any thread calls
 *          _stats; the publish thread calls _step (or a simulation, which does not call _start).
 * Memory:  the mailbox, the messages taken from it and the producer's queue, all bounded.
 * Errors:  MR_BAD_CONFIG, MR_NOMEM at creation; later the step calls `failed` once, when writing
 *          is no longer possible. */
#ifndef MR_WORKER_PUBLISH_PUBLISH_H
#define MR_WORKER_PUBLISH_PUBLISH_H

#include "worker/base/clock.h"
#include "worker/publish/writer.h"
#include "worker/resume/resume.h"

struct mr_publish;

struct mr_publish_options {
    struct mr_producer_opener producer; /* opens the producer; called by _create */
    struct mr_output_options output;
    struct mr_mailbox *intake; /* mailbox of intake, to which tickets are returned */
    /* true: tickets are returned as MR_MAIL_READY, before their terminal records are written */
    bool exactly_once;
    /* where publish stores the time (unix ms) at which the oldest request with an unacknowledged
     * result got that result; 0: there is none. May be NULL. */
    atomic_int_least64_t *oldest_ms;
    struct mr_resume *resume; /* stores tokens in Redis; borrowed. NULL: tokens are not stored */
    struct mr_log *log;
    struct mr_metrics *metrics;
    struct mr_heartbeats *heartbeats; /* watches the thread; NULL: not watched */
    void (*failed)(void *context, const struct mr_error *err);
    void *context;
};

/* Opens the producer and fetches the partition leaders of the tokens, results and dead-letter
 * topics, which must exist. */
enum mr_status mr_publish_create(struct mr_publish **out, const struct mr_publish_options *options,
                                 struct mr_error *err);
/* Starts the publish thread. */
enum mr_status mr_publish_start(struct mr_publish *publish, struct mr_error *err);
/* The mailbox to which the engine and intake post their messages. */
struct mr_mailbox *mr_publish_mailbox(struct mr_publish *publish);
/* The body of the publish thread; for its return value see worker/base/thread.h. */
uint64_t mr_publish_step(struct mr_publish *publish, struct mr_time now);
/* The wake of the publish thread, for a simulation that calls the step itself. */
const struct mr_wake *mr_publish_wake(const struct mr_publish *publish);
/* Starts draining: the step handles the messages in the mailbox until every record is reported, or
 * until deadline_ns. From then on no thread may post messages. */
void mr_publish_drain(struct mr_publish *publish, uint64_t deadline_ns);
/* True when draining has ended; the step then does nothing. */
bool mr_publish_is_drained(const struct mr_publish *publish);
/* If the thread was started: drains for at most timeout_ms and ends the thread. Frees everything.
 * False: the delivery of some records is unknown. publish may be NULL. */
bool mr_publish_destroy(struct mr_publish *publish, uint32_t timeout_ms);
struct mr_publish_stats mr_publish_stats(struct mr_publish *publish);

#endif
