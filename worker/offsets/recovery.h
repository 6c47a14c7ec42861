/* recovery - finds the requests that a partition's last owner finished but did not commit. Their
 * results are on the broker, so they must not run again.
 *
 * A worker may crash between the acknowledgement of a result and the commit that lists the request
 * as finished. A commit carries a lower bound on the timestamps of the results that it does not
 * list (worker/offsets/ledger_metadata.h). The next owner reads the results and dead-letter topics
 * from that time to their end and marks the requests of its group and partition that these records
 * end. This is the "scan" of a partition. No record of the partition is taken before the scan is
 * done. A separate thread reads, so that intake can serve the Kafka consumer at the same time.
 *
 * Scans requested together share one pass over the topics, which ends after timeout_ms. With
 * exactly-once delivery the limit is on the time without any record, because no request may run
 * twice just to save time. An incomplete scan is logged: finished requests that it missed run
 * again.
 *
 * A broker that has lost commits can report a much older one (seen with Kafka 4.3.1). A scan holds
 * MR_LEDGER_SPAN_MAX offsets but can move up: a worker takes no record that many offsets above its
 * lowest unfinished one, so each result proves that all requests that far below it are finished. A
 * proof counts only if it is newer than the commit and its offset exists in the partition;
 * otherwise it may belong to a replaced log.
 *
 * A topic that was deleted and created again has no committed offset either, and results of its old
 * log name offsets that the new log has too. A result at or beyond the end of a partition without a
 * commit shows this, and the scan then finds nothing. With lower offsets the owner compares times
 * (mr_partition_discard_findings).
 *
 * Threads: the thread "recovery" runs _step; intake calls _request, _take and _destroy. A step
 *          blocks only while the reader opens or looks up an offset.
 * Memory:  a scan for each partition that waits, and one reader. Errors: at creation; later errors
 *          are logged. */
#ifndef MR_WORKER_OFFSETS_RECOVERY_H
#define MR_WORKER_OFFSETS_RECOVERY_H

#include "worker/base/clock.h"
#include "worker/base/log.h"
#include "worker/kafka/kafka_reader_port.h"
#include "worker/offsets/offset_ledger.h"

struct mr_recovery;

struct mr_recovery_options {
    const struct mr_kafka_options *kafka;
    mr_kafka_reader_open open_reader;
    void *open_context;
    const char *results_topic, *dlq_topic, *group;
    bool committed_only; /* exactly-once delivery: skip records of aborted transactions */
    /* time limit of one pass over the topics; with committed_only: from one record to the next */
    uint32_t timeout_ms;
    /* wake of the owner thread, rung when scans are done; may be NULL */
    const struct mr_wake *wake;
    struct mr_log *log;
};

/* The scan of one partition. */
struct mr_recovery_scan {
    const char *topic; /* borrowed, outlives the scan */
    size_t topic_index;
    int32_t partition;
    uint64_t epoch;    /* for the owner: the partition's epoch at the request */
    int64_t committed; /* committed offset; -1: none */
    /* All requests below are finished. Starts at `committed`, or without a commit at the
     * partition's first offset, and moves up with each proof. */
    int64_t base;
    int64_t since_ms;  /* unix ms; results older than this are ignored */
    int64_t proofs_ms; /* unix ms; results older than this do not move base */
    bool complete;     /* all results since since_ms were read */
    /* without a commit: the partition's end, and whether a result names an offset at or beyond it
     */
    int64_t end;
    bool replaced;
    /* lowest offset found, unix ms of its last result and of the newest result; 0: none found */
    int64_t first, first_ms, newest_ms;
    uint32_t found; /* number of bits set in `finished` */
    struct mr_recovery_scan *next;
    /* bit o % MR_LEDGER_SPAN_MAX: the request at offset o is finished; for o from base on */
    unsigned char finished[(MR_LEDGER_SPAN_MAX + 7) / 8];
};

enum mr_status mr_recovery_create(struct mr_recovery **out,
                                  const struct mr_recovery_options *options, struct mr_error *err);
enum mr_status mr_recovery_start(struct mr_recovery *recovery, struct mr_error *err);
/* The wake of the recovery thread, for a simulation that calls the step itself. */
const struct mr_wake *mr_recovery_wake(const struct mr_recovery *recovery);
/* Adds a list of scans, linked by `next`, each allocated with calloc; takes ownership. */
void mr_recovery_request(struct mr_recovery *recovery, struct mr_recovery_scan *scans);
/* Returns the finished scans, linked by `next`; the caller frees each with free. NULL: none. */
struct mr_recovery_scan *mr_recovery_take(struct mr_recovery *recovery);
/* Ends the thread when its current step is over. recovery may be NULL. */
void mr_recovery_destroy(struct mr_recovery *recovery);

/* The body of the thread (worker/base/thread.h): reads the records that are available now. */
uint64_t mr_recovery_step(struct mr_recovery *recovery, struct mr_time now);
/* Marks the request that a result or dead letter ends, in the scan of its partition, and moves the
 * scan's base up if the record is a proof. Pure function. */
void mr_recovery_note(struct mr_recovery_scan *scans, const struct mr_kafka_record *record,
                      const char *group);
/* Whether proofs have moved the base above the committed offset. */
bool mr_recovery_has_moved(const struct mr_recovery_scan *scan);
/* Whether the scan has found the request at this offset, which is not below base, finished. */
bool mr_recovery_is_finished(const struct mr_recovery_scan *scan, int64_t offset);

#endif
