/* offset_ledger - which records of one partition are finished, and what to commit.
 *
 *     finished  |  ? ? F ? F ? ?  |  not received
 *               base              next
 *
 * Records finish in any order. The offset to commit is base, the lowest one unfinished; which ones
 * above it are finished, and how often each was started, is in the commit's metadata
 * (worker/intake/ledger_metadata.h): after a restart finished requests are not run again, and a
 * request that crashes workers is recognised. An offset that never arrives (compaction, a
 * transaction marker) counts as finished once a later one has arrived. The design follows
 * Confluent's parallel-consumer (PartitionState, OffsetMapCodecManager), with one bitmap instead of
 * three encodings.
 *
 * For each record the ledger counts `attempts`, the starts, and `crashes`, the workers that crashed
 * while they ran it. A request that is handed back on purpose (revocation, drain) was not crashed.
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
    MR_LEDGER_FINISHED, /* finished before a restart: skip it */
    MR_LEDGER_SEEN,     /* received already since the reset: ignore it */
    MR_LEDGER_BACKWARD, /* below base: the log was replaced; _reset, then receive it again */
    MR_LEDGER_FULL      /* too far above base: put it back until base has moved */
};

struct mr_ledger_history {
    uint8_t attempts, crashes; /* so far, before this start */
};

/* span_max: most offsets between base and next, at most MR_LEDGER_SPAN_MAX. */
enum mr_status mr_offset_ledger_create(struct mr_offset_ledger **out, uint32_t span_max,
                                       struct mr_error *err);
void mr_offset_ledger_destroy(struct mr_offset_ledger *ledger);

/* Empties the ledger: the next record is expected at `offset`; -1: at whatever offset it has. */
void mr_offset_ledger_reset(struct mr_offset_ledger *ledger, int64_t offset);

/* A record arrived. history: filled for MR_LEDGER_NEW. */
enum mr_ledger_verdict mr_offset_ledger_receive(struct mr_offset_ledger *ledger, int64_t offset,
                                                struct mr_ledger_history *history);
/* The engine starts the request: attempts + 1. This call and the next ones ignore offsets that were
 * not received since the reset, or are finished. */
void mr_offset_ledger_start(struct mr_offset_ledger *ledger, int64_t offset);
/* The record's request is finished: its terminal records are acknowledged. */
void mr_offset_ledger_finish(struct mr_offset_ledger *ledger, int64_t offset);
/* Recovery found the terminal record of an offset that was not received yet: _receive will return
 * FINISHED for it. Offsets below next or beyond the span are ignored. */
void mr_offset_ledger_found(struct mr_offset_ledger *ledger, int64_t offset);
/* Redis knows more about a record that was received and not started: its attempts and crashes are
 * at least these. */
void mr_offset_ledger_learn(struct mr_offset_ledger *ledger, int64_t offset,
                            struct mr_ledger_history history);
/* Undoes a release: the same attempt continues. */
void mr_offset_ledger_resume(struct mr_offset_ledger *ledger, int64_t offset);
/* The request is handed back unfinished on purpose: no crash is counted for it. */
void mr_offset_ledger_release(struct mr_offset_ledger *ledger, int64_t offset);

/* The offset to commit; -1 before anything was received or restored. */
int64_t mr_offset_ledger_base(const struct mr_offset_ledger *ledger);
/* The offset to read from: the highest received + 1; -1 when unknown. */
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
/* The same slot, to be filled from a commit's metadata. */
struct mr_ledger_slot *mr_offset_ledger_restore_slot(struct mr_offset_ledger *ledger,
                                                     int64_t offset);
uint32_t mr_offset_ledger_span(const struct mr_offset_ledger *ledger);
/* Slots from base that may be in use: received ones and restored ones. */
uint32_t mr_offset_ledger_extent(const struct mr_offset_ledger *ledger);

#endif
