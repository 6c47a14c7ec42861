/* admission - takes a consumed record through intake to the engine, and ends its ticket.
 *
 * A request is known by (tenant, id). Two records of one tenant and id are the same request when
 * their digests are equal (worker/intake/identity.h): the later one waits for the result of the
 * request in flight. A record with another digest is refused with duplicate_id while the request is
 * in flight and for MR_FLIGHT_KEEP_NS after its end; with --duplicate-id run it runs after that
 * request.
 *
 * Each consumed record gets a ticket (worker/ticket/ticket.h). Way in:
 *   1. envelope (worker/intake/envelope.h) reads the record's headers.
 *   2. decode (worker/intake/decode.h) makes a validated request or the reason for the rejection.
 *   3. checks: a request is refused if its id is in use, it was cancelled, has expired, names
 *      another model, or has crashed too many workers ("poison"). The prompt is encoded, and Redis
 *      is queried for earlier attempts (worker/intake/lookups.h).
 *   4. submit: the engine gets the request, or the request waits in intake ("parked",
 *      worker/intake/flight.h) and is submitted later.
 *
 * A refusal of a record whose id another request uses is posted when that request has ended.
 *
 * A ticket ends in one of three ways: its terminal records (result, reply, dead letter) are
 * acknowledged; it is dropped because its partition was lost; or the engine returns it unstarted
 * while the worker drains.
 *
 * Owner:  intake thread. Memory: tickets are created and freed here.
 * Errors: the producer gets an answer that describes the error in the record. Any other failure is
 *         raised in the fault and ends the worker. */
#ifndef MR_WORKER_INTAKE_ADMISSION_H
#define MR_WORKER_INTAKE_ADMISSION_H

#include "worker/adapters/adapters.h"
#include "worker/base/clock.h"
#include "worker/base/fault.h"
#include "worker/base/log.h"
#include "worker/intake/cancel_memory.h"
#include "worker/intake/engine_link.h"
#include "worker/intake/flight.h"
#include "worker/intake/lookups.h"
#include "worker/intake/partition_requests.h"
#include "worker/intake/prompt.h"
#include "worker/intake/quota.h"
#include "worker/offsets/exactly_once.h"
#include "worker/trace/tracer.h"

struct mr_admission_stats {
    /* duplicates: records answered by the result of an equal record in flight */
    uint64_t records, refused, dead_lettered, duplicates, redelivered, finished_before, cancelled;
};

/* All pointers are borrowed. */
struct mr_admission {
    const struct mr_config *config;
    struct mr_log *log;
    struct mr_metrics *metrics;
    struct mr_fault *fault;
    struct mr_partitions *partitions;
    struct mr_commit_schedule *schedule;
    struct mr_flight *flight;
    struct mr_lookups *lookups;
    struct mr_starts *starts;
    const struct mr_partition_requests *requests;
    struct mr_id_memory *cancelled; /* ids whose cancel record was consumed before the request */
    struct mr_sha256 *hash;
    struct mr_prompt *prompt;
    struct mr_tracer *tracer;     /* NULL: no spans */
    struct mr_adapters *adapters; /* NULL: none */
    struct mr_mailbox *publish;
    struct mr_engine_link engine;
    struct mr_quota quota;
    /* bit i: the engine's queue has space for tenant i, as last read, and its quota allows more */
    uint64_t room;
    uint64_t now_ns; /* time of the current step */
    bool draining;   /* requests are no longer submitted to the engine or refused */
    struct mr_admission_stats stats;
};

/* Whether a record of the partition may be taken: the engine's queue has space for the tenant, the
 * tenant is within its quota, not too many records of the tenant wait for other requests
 * (worker/intake/flight.h), the partition's ledger has space, and the partition is neither being
 * revoked nor recovering. context: struct mr_admission. */
bool mr_admission_may_take(void *context, size_t topic_index, int32_t partition);
/* Takes one record. False: the ledger of the record's partition is full; put the record back. */
bool mr_admission_accept(struct mr_admission *admission, const struct mr_kafka_record *record,
                         size_t topic_index, const struct mr_time *now);
/* Submits, refuses or parks again every request that waits in intake. */
void mr_admission_retry_parked(struct mr_admission *admission, const struct mr_time *now);
/* Answers a request that the engine does not have with an error, without a dead letter. */
void mr_admission_refuse(struct mr_admission *admission, struct mr_ticket *ticket,
                         const struct mr_error *err);
/* The terminal records of the ticket are on the broker, or the ticket was dropped. Frees the
 * ticket. */
void mr_admission_done(struct mr_admission *admission, struct mr_ticket *ticket);
/* The engine or publish returned the ticket without a result. Frees the ticket and the duplicates
 * that waited for its result. */
void mr_admission_returned(struct mr_admission *admission, struct mr_ticket *ticket);

/* _done and _returned, for worker/offsets/exactly_once.h. */
struct mr_ticket_sink mr_admission_sink(struct mr_admission *admission);

/* Frees every remaining ticket, submitted or parked. */
void mr_admission_drop_all(struct mr_admission *admission);

#endif
