/* recovery - what the last owner of a partition finished and could not commit any more: its results
 * are on the broker, so its requests are not run again.
 *
 * Between the acknowledgement of a result and the commit that says so a worker may vanish. A commit
 * carries a time that no result it does not speak of is older than
 * (worker/intake/ledger_metadata.h); the next owner reads results and dead letters from that time
 * to their end, and takes note of the records whose headers name its partition and group. For that
 * the partition waits; a thread of its own reads, so that the consumer goes on being served.
 *
 * A look is bounded by time. One that is not complete is said, and those requests may be run again.
 *
 * Threads: one, "recovery"; _ask, _take and _destroy the owner's (intake). Memory: a look for each
 *          partition that waits, and one reader. Errors: at creation; afterwards said in the log.
 */
#ifndef MR_WORKER_INTAKE_RECOVERY_H
#define MR_WORKER_INTAKE_RECOVERY_H

#include "worker/base/log.h"
#include "worker/base/wake.h"
#include "worker/intake/offset_ledger.h"
#include "worker/kafka/kafka_conf.h"

struct mr_recovery;
struct mr_kafka_record;

struct mr_recovery_options {
    const struct mr_kafka_options *kafka;
    const char *results_topic, *dlq_topic, *group;
    bool committed_only;        /* exactly-once delivery: skip what was aborted */
    uint32_t timeout_ms;        /* of one round of looking */
    const struct mr_wake *wake; /* rung when an answer is there */
    struct mr_log *log;
};

/* One partition that is looked for. */
struct mr_recovery_look {
    const char *topic; /* borrowed, outlives the look */
    size_t topic_index;
    int32_t partition;
    uint64_t epoch; /* the owner's, handed back */
    int64_t base;   /* the offset committed; -1, nothing: the first one there is, set by the look */
    int64_t since_ms; /* unix */
    bool complete;    /* everything was read */
    uint32_t found;   /* bits set */
    struct mr_recovery_look *next;
    unsigned char finished[(MR_LEDGER_SPAN_MAX + 7) / 8]; /* bit i: offset base + i */
};

enum mr_status mr_recovery_create(struct mr_recovery **out,
                                  const struct mr_recovery_options *options, struct mr_error *err);
/* Takes the looks, linked by next, each made with calloc. */
void mr_recovery_ask(struct mr_recovery *recovery, struct mr_recovery_look *looks);
/* Looks that are through, linked by next; the caller frees them. NULL: none. */
struct mr_recovery_look *mr_recovery_take(struct mr_recovery *recovery);
/* recovery may be NULL. Waits for a round that is under way. */
void mr_recovery_destroy(struct mr_recovery *recovery);

/* Notes a record in the looks that it concerns. Pure. */
void mr_recovery_note(struct mr_recovery_look *looks, const struct mr_kafka_record *record,
                      const char *group);

#endif
