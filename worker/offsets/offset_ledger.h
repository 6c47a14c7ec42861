/* offset_ledger - which records of one partition are finished, and which offset to commit.
 *
 *     finished  |  ? ? F ? F ? ?  |  not received
 *               base              next
 *
 * Records finish in any order (F: finished, ?: unfinished). The offset to commit is base, the
 * lowest unfinished offset. The commit's metadata (worker/offsets/ledger_metadata.h) lists the
 * finished offsets above base and the starts of each unfinished one, so that after a restart
 * finished requests do not run again and a request that crashes workers is recognised. An offset
 * that never arrives (compaction, a transaction marker) is treated as finished once a later offset
 * has arrived. The design follows Confluent's parallel-consumer (PartitionState,
 * OffsetMapCodecManager), with one bitmap instead of three encodings.
 *
 * For each record the ledger counts `attempts` (starts of its request) and `crashes` (workers that
 * crashed while they ran the request). A request that a worker stops on purpose, in a revocation or
 * drain, counts no crash. A start is marked accompanied when another request runs in the same
 * worker, then or later, and apart when the request is a suspect (worker/intake/flight.h). These
 * marks show the next owner whether only this request can have caused a crash: it ran
 * unaccompanied, or apart.
 *
 * Owner:  intake thread. Pure: no clock, no I/O. Memory: span_max slots of 3 bytes in _create.
 * Errors: MR_NOMEM from _create. */
#ifndef MR_WORKER_OFFSETS_OFFSET_LEDGER_H
#define MR_WORKER_OFFSETS_OFFSET_LEDGER_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most offsets that a ledger spans; a bitmap of them takes half of the metadata. Must be the same
 * in all workers of a group: recovery draws conclusions from it (worker/offsets/recovery.h). */
#define MR_LEDGER_SPAN_MAX 12288u

/* Most bytes of a commit's metadata before base64, which makes 4,088 of them: a broker accepts
 * 4,096 (offset.metadata.max.bytes). The ledger takes and starts no more records than fit, so that
 * every start is in the next commit: 350 started and unfinished records with the largest span,
 * about 720 with a span of 1,000. */
#define MR_LEDGER_METADATA_RAW_MAX 3066u

struct mr_offset_ledger;

enum mr_ledger_verdict {
    MR_LEDGER_NEW,      /* a new record: run the request */
    MR_LEDGER_FINISHED, /* the request was finished before a restart: skip the record */
    MR_LEDGER_SEEN,     /* received already since the last reset: ignore the record */
    /* the offset is below base: the log was replaced; call _reset, then receive the record again */
    MR_LEDGER_BACKWARD,
    /* the offset is too far above base, or the metadata is full: put the record back until base has
     * moved */
    MR_LEDGER_FULL
};

struct mr_ledger_history {
    uint8_t attempts; /* earlier starts of the request */
    uint8_t crashes;  /* workers that crashed while they ran it */
    bool crashed;     /* according to the commits the last attempt ended with a crash */
    bool alone;       /* only this request can have caused the last crash */
};

/* span_max: largest distance between base and next, in offsets; at most MR_LEDGER_SPAN_MAX. */
enum mr_status mr_offset_ledger_create(struct mr_offset_ledger **out, uint32_t span_max,
                                       struct mr_error *err);
void mr_offset_ledger_destroy(struct mr_offset_ledger *ledger);

/* Empties the ledger, which then begins at `offset`; -1: it begins at the next record received. */
void mr_offset_ledger_reset(struct mr_offset_ledger *ledger, int64_t offset);

/* Call for each record that arrives. *history is filled for MR_LEDGER_NEW. */
enum mr_ledger_verdict mr_offset_ledger_receive(struct mr_offset_ledger *ledger, int64_t offset,
                                                struct mr_ledger_history *history);
/* The records in [next, offset) are treated as finished from now on; entries restored from a commit
 * for `offset` and later records are kept. `offset` must be in the ledger's span unless nothing
 * that was received is unfinished. */
void mr_offset_ledger_pass(struct mr_offset_ledger *ledger, int64_t offset);
/* Whether one more start of this record, which was received, fits into the metadata. If not, call
 * again when another request of the partition has finished. */
bool mr_offset_ledger_may_start(struct mr_offset_ledger *ledger, int64_t offset);
/* Counts one attempt: the engine starts the record's request. notes: MR_LEDGER_SLOT_ACCOMPANIED,
 * MR_LEDGER_SLOT_APART or both. Like the functions below, ignores offsets that were not received
 * since the last reset and finished ones. */
void mr_offset_ledger_start(struct mr_offset_ledger *ledger, int64_t offset, uint8_t notes);
/* Another request starts while this one runs. */
void mr_offset_ledger_accompany(struct mr_offset_ledger *ledger, int64_t offset);
/* Call when the record's request is finished: its terminal records (result, reply, dead letter) are
 * acknowledged. */
void mr_offset_ledger_finish(struct mr_offset_ledger *ledger, int64_t offset);
/* Call when recovery has found the result or dead letter of an offset that was not received yet:
 * _receive will return MR_LEDGER_FINISHED for it. Offsets below next or beyond the span are
 * ignored. */
void mr_offset_ledger_found(struct mr_offset_ledger *ledger, int64_t offset);
/* Whether the offset, not received yet, is finished according to a commit or to recovery. */
bool mr_offset_ledger_is_listed(const struct mr_offset_ledger *ledger, int64_t offset);
/* Discards the entries from a commit and from recovery for offsets that were not received yet. */
void mr_offset_ledger_forget(struct mr_offset_ledger *ledger);
/* Replaces the attempts and crashes of a record that was received and not started, because Redis
 * has newer ones. No effect if they do not fit into the metadata; Redis still has them. */
void mr_offset_ledger_learn(struct mr_offset_ledger *ledger, int64_t offset,
                            struct mr_ledger_history history);
/* Undoes mr_offset_ledger_release: the same attempt continues. */
void mr_offset_ledger_resume(struct mr_offset_ledger *ledger, int64_t offset);
/* Call after a commit was restored. The worker that wrote it has ended, so each request that it
 * lists as running counts one crash, unless was_released returns true for its offset and attempt.
 * was_released NULL: every one counts a crash. */
void mr_offset_ledger_take_over(struct mr_offset_ledger *ledger,
                                bool (*was_released)(void *context, int64_t offset,
                                                     uint8_t attempt),
                                void *context);
/* The worker stops the unfinished request on purpose (revocation, drain): no crash is counted. */
void mr_offset_ledger_release(struct mr_offset_ledger *ledger, int64_t offset);

/* Returns the offset to commit; -1 before any record was received or any commit restored. */
int64_t mr_offset_ledger_base(const struct mr_offset_ledger *ledger);
/* The offset of the next record to read: the highest received + 1; -1: unknown. */
int64_t mr_offset_ledger_next(const struct mr_offset_ledger *ledger);
/* False when more than 75 % of the span is used or the metadata is full: take no more records of
 * this partition. */
bool mr_offset_ledger_has_room(const struct mr_offset_ledger *ledger);
/* The number of records received and not finished. */
uint32_t mr_offset_ledger_unfinished(const struct mr_offset_ledger *ledger);
/* A number that changes whenever the offset or metadata to commit changes. */
uint64_t mr_offset_ledger_version(const struct mr_offset_ledger *ledger);
/* Asserts every invariant of the ledger; takes O(span_max) time. */
void mr_offset_ledger_check(const struct mr_offset_ledger *ledger);

/* ---- for worker/offsets/ledger_metadata.c ---- */

struct mr_ledger_slot {
    uint8_t flags; /* bit set of MR_LEDGER_SLOT_ values */
    uint8_t attempts, crashes;
};
#define MR_LEDGER_SLOT_FINISHED    1u
#define MR_LEDGER_SLOT_RUNNING     2u
#define MR_LEDGER_SLOT_ACCOMPANIED 4u /* the running attempt; see the top of this file */
#define MR_LEDGER_SLOT_APART       8u
#define MR_LEDGER_SLOT_CRASHED     16u /* the last attempt ended with a crash */
#define MR_LEDGER_SLOT_ALONE       32u /* only this request can have caused the last crash */

/* The slot of an offset in [base, base + span_max). */
struct mr_ledger_slot *mr_offset_ledger_slot(struct mr_offset_ledger *ledger, int64_t offset);
/* Sets such a slot from a commit's metadata. False: the offset is finished already. An entry that
 * does not fit is ignored: it is of an older version, whose entries are smaller. */
bool mr_offset_ledger_restore_slot(struct mr_offset_ledger *ledger, int64_t offset,
                                   struct mr_ledger_slot slot);
uint32_t mr_offset_ledger_span(const struct mr_offset_ledger *ledger);
/* Number of slots, counted from base, that may hold a received record or an entry of a commit. */
uint32_t mr_offset_ledger_extent(const struct mr_offset_ledger *ledger);

#endif
