/* lag_partition - the unfinished requests of one partition of a requests topic, derived from the
 * ends of the partition, the group's last commit, and the records that were read.
 *
 *     finished  |  ? ? F ? S ?  |  unread ? F ?  |
 *              base            next             end
 *
 * base is the committed offset, or the first offset if that is higher or nothing is committed. The
 * commit lists which requests above base are finished (F) or started (S; worker/offsets/
 * ledger_metadata.h). Every record in [base, next) was read; of these the partition keeps the
 * requests that the commit does not list as finished. An offset without a record (a transaction
 * marker, a null value) is therefore not counted. In [next, end) each offset that is not listed as
 * finished is counted as a request.
 *
 * Owner:  one thread. Pure: no clock, no I/O. Memory: 3 KiB, and 32 bytes for each kept request, at
 *         most those of _init. Errors: none; without memory a record is not read. */
#ifndef MR_WORKER_LAG_LAG_PARTITION_H
#define MR_WORKER_LAG_LAG_PARTITION_H

#include "worker/kafka/kafka_backlog.h"
#include "worker/offsets/offset_ledger.h"

/* A request that waits or runs. */
struct mr_lag_request {
    int64_t offset;
    int64_t timestamp_ms; /* unix ms, of the record */
    int64_t deadline_ms;  /* unix ms; 0: none */
    /* Most tokens that its answer has, over all choices; 0: it has none. UINT32_MAX: not limited by
     * the record. */
    uint32_t answer_tokens_max;
    bool rejected; /* a worker rejects it, so it computes nothing */
};

struct mr_lag_partition {
    size_t topic; /* index among the request topics */
    int32_t partition;
    int64_t base, next, end;
    struct mr_lag_request *requests; /* [count], by offset */
    size_t count, capacity, max;
    /* bit o of the offset base_of_bits + o */
    int64_t base_of_bits;
    unsigned char finished[MR_LEDGER_SPAN_MAX / 8], started[MR_LEDGER_SPAN_MAX / 8];
};

/* max: most requests that it keeps. The partition's state is empty until _update. */
void mr_lag_partition_init(struct mr_lag_partition *partition, size_t topic, int32_t number,
                           size_t max);
void mr_lag_partition_free(struct mr_lag_partition *partition);

/* Applies the newest state of the partition. scratch: a ledger of MR_LEDGER_SPAN_MAX, overwritten.
 * A commit whose metadata is of another application lists no request. If the log was replaced or
 * the committed offset moves back, all requests that were read are discarded. */
void mr_lag_partition_update(struct mr_lag_partition *partition,
                             const struct mr_kafka_backlog_partition *state,
                             struct mr_offset_ledger *scratch);
/* Whether records can be read: [next, end) is not empty and there is room for more requests. */
bool mr_lag_partition_has_unread(const struct mr_lag_partition *partition);
/* Adds the request of a record that was read; offsets rise. False: there is no room, so the record
 * was not read. */
bool mr_lag_partition_add(struct mr_lag_partition *partition, const struct mr_lag_request *request);
/* Every record below `next` was read. */
void mr_lag_partition_advance(struct mr_lag_partition *partition, int64_t next);
/* Number of offsets in [next, end) that are not listed as finished. */
uint64_t mr_lag_partition_unread(const struct mr_lag_partition *partition);
/* Whether the commit lists the request as started. */
bool mr_lag_partition_is_started(const struct mr_lag_partition *partition, int64_t offset);
/* Asserts the invariants. */
void mr_lag_partition_check(const struct mr_lag_partition *partition);

#endif
