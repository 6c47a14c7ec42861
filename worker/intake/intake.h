/* intake - the thread that consumes: records become requests in the engine, acknowledged results
 * become committed offsets.
 *
 * Takes a record only when there is room for it: in its tenant's part of the engine's queue (by
 * count, bytes and predicted KV), in publish's mailbox, in the partition's ledger, and among the
 * requests in flight. What there is no room for stays with the broker; the consumer itself is
 * served all the while. Each record taken gets a ticket
 * (worker/ticket/ticket.h) and ends in exactly one of: a result, a refusal, a dead letter, or
 * handed back uncommitted.
 *   - Two records of one id in flight are one request: the second is done when the first is.
 *   - A request that was running when a worker vanished attempts_max - 1 times runs while no other
 *     such request does; after attempts_max it is dead-lettered.
 *   - A partition taken away: its requests are dropped, unless it comes straight back
 *     (worker/intake/partition.h).
 *
 * Threads: _create to _destroy the worker's main thread; _stats any. The thread sleeps until a
 *          record, an acknowledgement, a rebalance, or a commit that is due.
 * Memory:  tickets in flight at most in_flight_max; parked ones among them.
 * Errors:  at creation and start as said; afterwards `failed` is called once from this thread. */
#ifndef MR_WORKER_INTAKE_INTAKE_H
#define MR_WORKER_INTAKE_INTAKE_H

#include "batching/engine.h"
#include "worker/base/log.h"
#include "worker/base/mailbox.h"
#include "worker/config/config.h"
#include "worker/intake/prompt.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/metrics/metrics.h"
#include "worker/publish/transactions.h"
#include "worker/redis/resume.h"

#include <stdatomic.h>

struct mr_intake;

struct mr_intake_options {
    const struct mr_config *config;
    const struct mr_kafka_options *kafka;
    bool join_group; /* false: all partitions at once (one worker, as in the demo) */
    struct mr_log *log;
    void (*failed)(void *context, const struct mr_error *err);
    void *context;
};

/* What it feeds; given at the start. */
struct mr_intake_targets {
    struct mr_engine *engine;
    struct mr_prompt_options prompt;
    struct mr_mailbox *publish;
    struct mr_metrics *metrics;
    struct mr_resume *resume; /* what Redis knows of requests; borrowed. NULL: without Redis */
    struct mr_transactions *settle; /* exactly-once; intake's from _start on. NULL: at-least-once */
};

struct mr_intake_stats {
    uint64_t records, refused, dead_lettered, duplicates, redelivered, finished_before, cancelled;
    uint64_t commits, commit_failures, rebalances;
    uint64_t backlog; /* records behind the last one taken */
    uint32_t in_flight, parked, partitions;
    bool assigned; /* a first assignment has come */
    struct mr_transactions_stats settle;
};

/* Makes the mailbox and the wake. */
enum mr_status mr_intake_create(struct mr_intake **out, const struct mr_intake_options *options,
                                struct mr_error *err);
struct mr_mailbox *mr_intake_mailbox(struct mr_intake *intake);
const struct mr_wake *mr_intake_wake(const struct mr_intake *intake);
/* Bit i: the engine had no room for tenant i when intake looked; cleared by who rings the wake. */
atomic_uint_least64_t *mr_intake_hungry(struct mr_intake *intake);
/* Where publish tells its oldest unacknowledged result (worker/publish/publish.h). */
atomic_int_least64_t *mr_intake_oldest(struct mr_intake *intake);

/* Connects, joins the group, starts the thread. */
enum mr_status mr_intake_start(struct mr_intake *intake, const struct mr_intake_targets *targets,
                               struct mr_error *err);
/* From when it returns on nothing more is taken or submitted; acknowledgements and commits go on.
 */
void mr_intake_drain(struct mr_intake *intake);
/* After _drain, before the engine ends: a partition that goes meanwhile cancels nothing in it. */
void mr_intake_forget_engine(struct mr_intake *intake);
/* Handles the acknowledgements that are here, commits, leaves the group, ends the thread, frees
 * all. The engine and publish must have ended. False when leaving took longer than timeout_ms. May
 * be called without _start. intake may be NULL. */
bool mr_intake_destroy(struct mr_intake *intake, uint32_t timeout_ms);
struct mr_intake_stats mr_intake_stats(struct mr_intake *intake);

#endif
