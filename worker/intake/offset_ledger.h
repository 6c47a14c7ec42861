/* offset_ledger - which records of one partition are finished, and what to commit.
 *
 *     finished  |  ? ? F ? F ? ?  |  not received
 *               base              next
 *
 * Records finish in any order. The offset to commit is base, the lowest one unfinished; which ones
 * above it are finished, and which were started how often, travels in the commit's metadata
 * (worker/intake/ledger_metadata.h), so that nobody runs finished work again after a restart and a
 * request that takes workers down is recognised. Only offsets that were received count: a gap
 * (compaction, a transaction marker) is finished. The design follows Confluent's parallel-consumer
 * (PartitionState, OffsetMapCodecManager), with one bitmap instead of three encodings.
 *
 * Of each record: `attempt`, how often a worker started it (1 at the first start), and `crashes`,
 * how often the worker that ran it vanished. A clean hand-back (revoke, drain) raises only attempt.
 *
 * Owner:  intake thread. Pure: no clock, no I/O. Memory: span_max slots of 3 bytes in _create.
 * Errors: _create, _restore; MR_FULL from _receive. */
#ifndef MR_WORKER_INTAKE_OFFSET_LEDGER_H
#define MR_WORKER_INTAKE_OFFSET_LEDGER_H

#include "codec/status.h"

#include <stddef.h>
#include <stdint.h>

/* 1.5 KiB of bitmap: half of what a broker keeps of metadata by default (offset.metadata.max.bytes
 * 4096, of which base64 takes a quarter). */
#define MR_LEDGER_SPAN_MAX 12288u

struct mr_offset_ledger;

enum mr_ledger_verdict {
    MR_LEDGER_NEW,      /* run it */
    MR_LEDGER_FINISHED, /* was finished before a restart: skip it */
    MR_LEDGER_SEEN,     /* was received already in this life: ignore it */
    MR_LEDGER_BACKWARD, /* below base: the log was replaced; _reset, then receive again */
    MR_LEDGER_FULL      /* too far above base: hold it until base has moved */
};

struct mr_ledger_history {
    uint8_t attempts, crashes; /* so far, before this start */
};

/* span_max: most offsets between base and next, at most MR_LEDGER_SPAN_MAX. */
enum mr_status mr_offset_ledger_create(struct mr_offset_ledger **out, uint32_t span_max,
                                       struct mr_error *err);
void mr_offset_ledger_destroy(struct mr_offset_ledger *ledger);

/* Forgets everything: the next record expected is `offset`, or the first that comes when -1. */
void mr_offset_ledger_reset(struct mr_offset_ledger *ledger, int64_t offset);

/* A record arrived. history: filled for MR_LEDGER_NEW. */
enum mr_ledger_verdict mr_offset_ledger_receive(struct mr_offset_ledger *ledger, int64_t offset,
                                                struct mr_ledger_history *history);
/* The engine is about to compute it for the first time in this life: attempts + 1. Offsets that are
 * not unfinished here (an older life's) are ignored, by the next calls too. */
void mr_offset_ledger_start(struct mr_offset_ledger *ledger, int64_t offset);
/* Its terminal record is acknowledged. */
void mr_offset_ledger_finish(struct mr_offset_ledger *ledger, int64_t offset);
/* Its terminal record was found on the broker before it was received: it will be FINISHED when it
 * is. Offsets below next or beyond the span are ignored. */
void mr_offset_ledger_found(struct mr_offset_ledger *ledger, int64_t offset);
/* Somebody else knows more of a record that was received and not started: attempts and crashes are
 * at least these from now on. */
void mr_offset_ledger_learn(struct mr_offset_ledger *ledger, int64_t offset,
                            struct mr_ledger_history history);
/* It runs on after a release: no new attempt. */
void mr_offset_ledger_resume(struct mr_offset_ledger *ledger, int64_t offset);
/* It was handed back without an end, on purpose: no crash is counted for it. */
void mr_offset_ledger_release(struct mr_offset_ledger *ledger, int64_t offset);

/* What to commit; -1 before anything was received or restored. */
int64_t mr_offset_ledger_base(const struct mr_offset_ledger *ledger);
/* Where to read on: highest received + 1; -1 when unknown. */
int64_t mr_offset_ledger_next(const struct mr_offset_ledger *ledger);
/* False from 75 % of the span on: take nothing more from this partition. */
bool mr_offset_ledger_has_room(const struct mr_offset_ledger *ledger);
/* Records received and not finished. */
uint32_t mr_offset_ledger_unfinished(const struct mr_offset_ledger *ledger);
/* Changes with every change of what would be committed. */
uint64_t mr_offset_ledger_version(const struct mr_offset_ledger *ledger);
/* Asserts every invariant; O(span). */
void mr_offset_ledger_check(const struct mr_offset_ledger *ledger);

/* ---- for worker/intake/ledger_metadata.c ---- */

struct mr_ledger_slot {
    uint8_t flags; /* MR_LEDGER_SLOT_* */
    uint8_t attempts, crashes;
};
#define MR_LEDGER_SLOT_FINISHED 1u
#define MR_LEDGER_SLOT_RUNNING  2u

/* The slot of an offset in [base, base + span). */
struct mr_ledger_slot *mr_offset_ledger_slot(struct mr_offset_ledger *ledger, int64_t offset);
/* The same slot, to be filled with what a commit said. */
struct mr_ledger_slot *mr_offset_ledger_restore_slot(struct mr_offset_ledger *ledger,
                                                     int64_t offset);
uint32_t mr_offset_ledger_span(const struct mr_offset_ledger *ledger);
/* Slots from base on that may say something: received ones and restored ones. */
uint32_t mr_offset_ledger_extent(const struct mr_offset_ledger *ledger);

#endif
