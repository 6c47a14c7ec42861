/* publish - the thread that writes: encodes what the engine and intake send, produces it, and tells
 * intake when a request's records are all on the broker.
 *
 * The result is the last record of a request: it is written when all its token records, its reply
 * and its dead letter are acknowledged, so that whoever finds a result knows that the rest is there
 * (worker/intake/recovery.h). The request is done when the result is acknowledged. Nothing that
 * ends a request is written while its partition may be given away, or after
 * (worker/intake/partition.h). With exactly-once delivery publish writes the token records only;
 * then settle has the request (worker/publish/transactions.h).
 *
 * A terminal record that timed out is produced again, for as long as it takes; one
 * that is too large is produced without its text. A token record that is lost for good is counted:
 * the result still has the whole text.
 *
 * Threads: _create, _destroy the worker's main thread; _stats any. The thread sleeps until mail or
 * a delivery report comes. Memory:  the mailbox (bounded), librdkafka's queue (bounded); when both
 * are full the engine waits. Errors:  MR_BAD_CONFIG, MR_NOMEM at creation; afterwards `failed` is
 * called once, from this thread, when nothing can be written any more. */
#ifndef MR_WORKER_PUBLISH_PUBLISH_H
#define MR_WORKER_PUBLISH_PUBLISH_H

#include "worker/base/log.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/metrics/metrics.h"
#include "worker/publish/terminal.h"
#include "worker/redis/resume.h"

struct mr_publish;

struct mr_publish_options {
    const struct mr_kafka_options *kafka;
    struct mr_output_options output;
    struct mr_mailbox *intake; /* where done and ready go */
    bool hand_over;            /* intake gets the request as ready instead of done */
    /* Told when the oldest request whose result is not acknowledged came to its end: unix ms, 0
     * when there is none. May be NULL. */
    atomic_int_least64_t *oldest_ms;
    struct mr_resume *resume; /* where tokens are kept first; borrowed. NULL: nowhere */
    struct mr_log *log;
    struct mr_metrics *metrics;
    void (*failed)(void *context, const struct mr_error *err);
    void *context;
};

struct mr_publish_stats {
    uint64_t token_records, refusals;
    struct mr_terminal_stats terminal;
    uint64_t tokens_lost, resent;
    uint64_t dropped;                    /* requests ended without a record */
    uint64_t delay_ns_sum, delay_ns_max; /* token records: from the step's end to produced */
    uint64_t bytes;
    uint32_t unreported;
};

/* Starts the thread. Primes tokens, results and dead-letter topics, which must exist. */
enum mr_status mr_publish_create(struct mr_publish **out, const struct mr_publish_options *options,
                                 struct mr_error *err);
/* Where the engine and intake post. */
struct mr_mailbox *mr_publish_mailbox(struct mr_publish *publish);
/* Handles all mail, then waits up to timeout_ms for the last reports, ends the thread and frees
 * all. Posters must have stopped. False when records are left unreported. */
bool mr_publish_destroy(struct mr_publish *publish, uint32_t timeout_ms);
struct mr_publish_stats mr_publish_stats(struct mr_publish *publish);

#endif
