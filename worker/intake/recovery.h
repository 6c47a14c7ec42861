/* recovery - finds the requests that the last owner of a partition finished but did not commit:
 * their results are on the broker, so they are not run again.
 *
 * A worker may crash between the acknowledgement of a result and the commit that lists it. A commit
 * carries a lower bound on the timestamps of the results it does not list
 * (worker/intake/ledger_metadata.h). The next owner reads results and dead letters from that time
 * to their end, and notes the records whose headers name its partition and group. Nothing is taken
 * from the partition until then; a thread of its own reads, so that the consumer stays served.
 *
 * Scans requested together share one reading, which ends after timeout_ms. One that is not complete
 * then is logged: requests that it missed are run again.
 *
 * Threads: one, "recovery", runs _step; _request, _take and _destroy the owner's (intake). A step
 *          blocks only inside the port's open and first. Memory: a scan for each partition that
 *          waits, and one reader. Errors: at creation; afterwards logged. */
#ifndef MR_WORKER_INTAKE_RECOVERY_H
#define MR_WORKER_INTAKE_RECOVERY_H

#include "worker/base/clock.h"
#include "worker/base/log.h"
#include "worker/intake/offset_ledger.h"
#include "worker/kafka/kafka_reader_port.h"

struct mr_recovery;

struct mr_recovery_options {
    const struct mr_kafka_options *kafka;
    mr_kafka_reader_open open_reader;
    void *open_context;
    const char *results_topic, *dlq_topic, *group;
    bool committed_only;        /* exactly-once delivery: ignore aborted transactions */
    uint32_t timeout_ms;        /* of one reading */
    const struct mr_wake *wake; /* the owner's, rung when scans are done; may be NULL */
    struct mr_log *log;
};

/* What is looked for in one partition. */
struct mr_recovery_scan {
    const char *topic; /* borrowed, outlives the scan */
    size_t topic_index;
    int32_t partition;
    uint64_t epoch;   /* the owner's, for its own use */
    int64_t base;     /* the committed offset; -1, none: the scan sets the partition's first one */
    int64_t since_ms; /* unix; older results are ignored */
    bool complete;    /* everything was read */
    uint32_t found;   /* bits set */
    struct mr_recovery_scan *next;
    unsigned char finished[(MR_LEDGER_SPAN_MAX + 7) / 8]; /* bit i: offset base + i */
};

enum mr_status mr_recovery_create(struct mr_recovery **out,
                                  const struct mr_recovery_options *options, struct mr_error *err);
enum mr_status mr_recovery_start(struct mr_recovery *recovery, struct mr_error *err);
/* Takes the scans, linked by next, each allocated with calloc. */
void mr_recovery_request(struct mr_recovery *recovery, struct mr_recovery_scan *scans);
/* Scans that are done, linked by next; the caller frees them. NULL: none. */
struct mr_recovery_scan *mr_recovery_take(struct mr_recovery *recovery);
/* Ends the thread after its present step. recovery may be NULL. */
void mr_recovery_destroy(struct mr_recovery *recovery);

/* Reads what is here now of the scans requested (worker/base/thread.h). */
uint64_t mr_recovery_step(struct mr_recovery *recovery, struct mr_time now);
/* Notes a result or dead letter in the scan that it concerns. Pure. */
void mr_recovery_note(struct mr_recovery_scan *scans, const struct mr_kafka_record *record,
                      const char *group);

#endif
