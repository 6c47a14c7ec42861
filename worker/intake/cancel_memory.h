/* cancel_memory - ids that were cancelled before their request was consumed (SPEC K5), kept for
 * keep_ns.
 *
 * Owner:  intake thread. Pure: now_ns is passed in. Memory: count_max ids in _create; when full,
 * the oldest is forgotten. Errors: _create MR_NOMEM. */
#ifndef MR_WORKER_INTAKE_CANCEL_MEMORY_H
#define MR_WORKER_INTAKE_CANCEL_MEMORY_H

#include "codec/limits.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_cancel_memory;

#define MR_CANCEL_SKEW_MS 10000 /* between the clocks of two producers */

enum mr_status mr_cancel_memory_create(struct mr_cancel_memory **out, uint32_t count_max,
                                       uint64_t keep_ns, struct mr_error *err);
void mr_cancel_memory_destroy(struct mr_cancel_memory *memory);
/* id: 1 to MR_ID_BYTES_MAX bytes; others are ignored. An id that is kept already is kept for
 * keep_ns from now.
 * stamp_ms: the cancel record's timestamp, 0 unknown. */
void mr_cancel_memory_add(struct mr_cancel_memory *memory, struct mr_text id, int64_t stamp_ms,
                          uint64_t now_ns);
/* True when the id was cancelled less than keep_ns ago, by a record not older than the request's
 * (stamp_ms, 0 unknown) by more than MR_CANCEL_SKEW_MS: an id may be used again after its cancel.
 * The id is then forgotten. */
bool mr_cancel_memory_take(struct mr_cancel_memory *memory, struct mr_text id, int64_t stamp_ms,
                           uint64_t now_ns);
/* Ids remembered. */
uint32_t mr_cancel_memory_count(const struct mr_cancel_memory *memory);
void mr_cancel_memory_check(const struct mr_cancel_memory *memory);

#endif
