/* intake - the thread that consumes request records, submits requests to the engine and commits
 * offsets. worker/intake/README.md describes its modules.
 *
 * A record is taken only when there is space for its request: in its tenant's share of the engine's
 * queue (by count, bytes and predicted KV), in publish's mailbox, in the partition's offset ledger,
 * and among the requests in flight. Otherwise the record stays with the broker, and the Kafka
 * consumer is still polled. Each record taken gets a ticket (worker/ticket/ticket.h) and ends in
 * one of four ways: with a result, with a refusal, with a dead letter, or returned without a
 * commit.
 *
 * The thread's body is mr_intake_step (worker/base/thread.h). The step itself does not block. It
 * calls Kafka and the engine through structs of function pointers; the Kafka consumer may block
 * (worker/kafka/kafka_in.h). Creating, opening and ending are in worker/intake/intake_open.c.
 *
 * Threads: the worker's main thread calls all functions; any thread may call _stats and
 *          _oldest_requests. The intake thread sleeps until a record, a message or a rebalance
 *          arrives, or a commit is due.
 * Memory:  at most as many tickets as intake_open.c computes from --queue-requests and
 *          --max-sequences.
 * Errors:  returned by _create, _open and _start; later the intake thread calls `failed` once. */
#ifndef MR_WORKER_INTAKE_INTAKE_H
#define MR_WORKER_INTAKE_INTAKE_H

#include "worker/base/clock.h"
#include "worker/base/log.h"
#include "worker/base/mailbox.h"
#include "worker/config/config.h"
#include "worker/intake/oldest.h"
#include "worker/intake/prompt.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_consumer_port.h"
#include "worker/kafka/kafka_reader_port.h"
#include "worker/metrics/metrics.h"
#include "worker/offsets/handover.h"
#include "worker/publish/transactions.h"
#include "worker/resume/resume.h"
#include "worker/ticket/engine_port.h"
#include "worker/trace/tracer.h"

#include <stdatomic.h>

#define MR_INTAKE_IDS_MAX 16384u

struct mr_intake;

struct mr_intake_options {
    const struct mr_config *config;
    const struct mr_kafka_options *kafka;
    /* Open the Kafka consumer and the readers of the cancel topic and of recovery. NULL: librdkafka
     * (worker/kafka/kafka_in.h, kafka_reader.h). */
    mr_kafka_consumer_open open_consumer;
    mr_kafka_reader_open open_reader;
    void *open_context;
    /* true: join the consumer group; false: the worker is the only one and takes all partitions
     * (demo) */
    bool join_group;
    /* number of cancelled ids, and of ended requests, to remember; 0: MR_INTAKE_IDS_MAX */
    uint32_t ids_max;
    struct mr_handover *handover; /* borrowed; NULL: no handover */
    struct mr_tracer *tracer;     /* borrowed; NULL: no spans */
    struct mr_log *log;
    void (*failed)(void *context, const struct mr_error *err);
    void *context;
};

/* The modules that intake calls or sends to, passed to mr_intake_open. */
struct mr_intake_targets {
    struct mr_engine_port engine;
    struct mr_prompt_options prompt;
    struct mr_mailbox *publish;
    struct mr_metrics *metrics;
    struct mr_resume *resume;     /* borrowed; NULL: no Redis */
    struct mr_adapters *adapters; /* borrowed; NULL: none */
    /* transactions thread of exactly-once delivery; owned by intake once _start has succeeded;
     * NULL: at-least-once delivery */
    struct mr_transactions *transactions;
};

struct mr_intake_stats {
    uint64_t records, refused, dead_lettered, duplicates, redelivered, finished_before, cancelled;
    uint64_t commits, commit_failures, rebalances;
    uint64_t backlog; /* records in the owned partitions after the last one taken */
    uint32_t in_flight, parked, partitions;
    bool assigned; /* the group has assigned partitions, and this worker has not lost them since */
    uint64_t heard_ns; /* when a broker last answered; 0: not yet */
    struct mr_transactions_stats transactions;
};

/* Creates intake with its mailbox; does not connect to Kafka and does not start the thread. */
enum mr_status mr_intake_create(struct mr_intake **out, const struct mr_intake_options *options,
                                struct mr_error *err);
struct mr_mailbox *mr_intake_mailbox(struct mr_intake *intake);
const struct mr_wake *mr_intake_wake(const struct mr_intake *intake);
/* The variable in which publish stores the time of its oldest unacknowledged result
 * (worker/publish/publish.h). */
atomic_int_least64_t *mr_intake_oldest(struct mr_intake *intake);

/* The variable that the engine thread sets when one of its steps fails
 * (worker/engine/engine_thread.h). */
atomic_bool *mr_intake_step_failed(struct mr_intake *intake);

/* _open connects and joins the consumer group; the caller then calls mr_intake_step. _start opens
 * and starts the thread. */
enum mr_status mr_intake_open(struct mr_intake *intake, const struct mr_intake_targets *targets,
                              struct mr_error *err);
enum mr_status mr_intake_start(struct mr_intake *intake, const struct mr_intake_targets *targets,
                               struct mr_error *err);
/* Does all work that is due now; returns the time of the next call. */
uint64_t mr_intake_step(struct mr_intake *intake, struct mr_time now);
/* Stops the taking of records and the submission of requests; acknowledgements and commits
 * continue. Both have stopped when this returns, unless intake's step was blocked for all of
 * timeout_ns. */
void mr_intake_drain(struct mr_intake *intake, uint64_t timeout_ns);
/* Call after _drain and before the engine ends: intake no longer calls the engine. */
void mr_intake_forget_engine(struct mr_intake *intake);
/* Handles the acknowledgements that have arrived, commits, leaves the group, ends the thread and
 * frees everything. The engine and publish must have ended. False: the broker did not answer within
 * timeout_ms. The thread may then still run, so nothing that intake uses may be freed, and the
 * process should end soon. May be called without _open. intake may be NULL. */
bool mr_intake_destroy(struct mr_intake *intake, uint32_t timeout_ms);
struct mr_intake_stats mr_intake_stats(struct mr_intake *intake);
/* Copies the list of the requests that have been in this worker longest, at most two seconds old.
 * Threads: any. */
void mr_intake_oldest_requests(struct mr_intake *intake, struct mr_oldest *oldest);

#endif
