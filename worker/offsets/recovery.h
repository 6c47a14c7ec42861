/* recovery - finds the requests that the last owner of a partition finished but did not commit:
 * their results are on the broker, so the requests are not run again.
 *
 * A worker may crash between the acknowledgement of a result and the commit that lists the request
 * as finished. A commit carries a lower bound on the timestamps of the results it does not list
 * (worker/offsets/ledger_metadata.h). The next owner reads the results and dead-letter topics from
 * that time to their end, and notes the records whose headers name its partition and group (a
 * "scan" of the partition). Until the scan is done no record of the partition is taken. A separate
 * thread reads, so that the Kafka consumer is polled meanwhile.
 *
 * Scans requested together share one reading, which ends after timeout_ms; with exactly-once
 * delivery only when nothing has been read for so long, since a request must not run twice to save
 * time. A scan that is not complete by then is logged: finished requests that it missed run again.
 *
 * The broker can have lost commits, and report one from long ago (seen with Kafka 4.3.1). A scan
 * holds MR_LEDGER_SPAN_MAX offsets, but moves up: a worker takes no record so many offsets above
 * its lowest unfinished one, so a result proves that all requests so far below it are finished.
 * Such a proof has to be younger than the commit, and its offset to be one that the partition has:
 * else it may be of a log that was replaced.
 *
 * A topic that was deleted and created again has no committed offset either, and the results of its
 * old log name offsets that the new one has too. Results at or beyond the end of a log without a
 * commit are of another log: the scan then finds nothing. With fewer of them the owner compares
 * times (mr_partition_doubt).
 *
 * Threads: the thread "recovery" runs _step; intake calls _request, _take and _destroy. A step
 *          blocks only while the reader opens or looks up an offset. Memory: a scan for each
 *          partition that waits, and one reader. Errors: at creation; later errors are logged. */
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
    /* most time for one reading of the results; with committed_only, from one result to the next */
    uint32_t timeout_ms;
    /* wake of the owner thread, notified when scans are done; may be NULL */
    const struct mr_wake *wake;
    struct mr_log *log;
};

/* One partition's search for offsets whose requests are finished but not committed. */
struct mr_recovery_scan {
    const char *topic; /* borrowed, outlives the scan */
    size_t topic_index;
    int32_t partition;
    uint64_t epoch;    /* not used here: the owner's epoch of the partition */
    int64_t committed; /* offset; -1: none */
    /* All requests below are finished: the committed offset or a later one that results prove. At
     * first `committed`; without one recovery sets this to the partition's first offset. */
    int64_t base;
    int64_t since_ms;  /* unix ms; results older than this are ignored */
    int64_t proofs_ms; /* unix ms; results older than this do not move base */
    bool complete;     /* all results since since_ms were read */
    /* Without a commit: the partition's end, and whether a result names an offset beyond. */
    int64_t end;
    bool replaced;
    /* lowest offset found, unix ms of its last result, and of the newest of all; 0: none found */
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
/* Takes ownership of a list of scans to do, linked by next, each allocated with calloc. */
void mr_recovery_request(struct mr_recovery *recovery, struct mr_recovery_scan *scans);
/* Returns the list of scans that are done, linked by next; the caller frees each with free. NULL:
 * none. */
struct mr_recovery_scan *mr_recovery_take(struct mr_recovery *recovery);
/* Ends the thread when its present step is over. recovery may be NULL. */
void mr_recovery_destroy(struct mr_recovery *recovery);

/* Reads the result records available now for the requested scans; the body of the thread
 * (worker/base/thread.h). */
uint64_t mr_recovery_step(struct mr_recovery *recovery, struct mr_time now);
/* Sets the bit of the request that a result or dead letter ends, in the scan of its partition, and
 * moves the scan's base where this proves something. Pure function. */
void mr_recovery_note(struct mr_recovery_scan *scans, const struct mr_kafka_record *record,
                      const char *group);
/* Whether results have moved the base above the committed offset. */
bool mr_recovery_has_moved(const struct mr_recovery_scan *scan);
/* Whether the scan has found the request at this offset, which is not below base, finished. */
bool mr_recovery_is_finished(const struct mr_recovery_scan *scan, int64_t offset);

#endif
