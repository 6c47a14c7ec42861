/* cancel_memory - the ids of requests whose cancel record was consumed before the request itself
 * (SPEC K5), each kept for keep_ns.
 *
 * Owner:  intake thread. Pure: now_ns is passed in. Memory: space for count_max ids, allocated in
 * _create; when full, the oldest id is forgotten. Errors: _create MR_NOMEM. */
#ifndef MR_WORKER_INTAKE_CANCEL_MEMORY_H
#define MR_WORKER_INTAKE_CANCEL_MEMORY_H

#include "codec/limits.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_cancel_memory;

/* largest clock difference assumed between two producers, milliseconds */
#define MR_CANCEL_SKEW_MS 10000

enum mr_status mr_cancel_memory_create(struct mr_cancel_memory **out, uint32_t count_max,
                                       uint64_t keep_ns, struct mr_error *err);
void mr_cancel_memory_destroy(struct mr_cancel_memory *memory);
/* id: 1 to MR_ID_BYTES_MAX bytes; other ids are ignored. Adding an id again keeps the id for
 * keep_ns from now. stamp_ms: the cancel record's timestamp, 0: unknown. */
void mr_cancel_memory_add(struct mr_cancel_memory *memory, struct mr_text id, int64_t stamp_ms,
                          uint64_t now_ns);
/* True when the id was cancelled less than keep_ns ago, by a cancel record that is at most
 * MR_CANCEL_SKEW_MS older than the request's record (stamp_ms; 0: unknown): an older cancel was for
 * an earlier request with the same id. On true the id is forgotten. */
bool mr_cancel_memory_take(struct mr_cancel_memory *memory, struct mr_text id, int64_t stamp_ms,
                           uint64_t now_ns);
/* The number of cancelled ids that are kept. */
uint32_t mr_cancel_memory_count(const struct mr_cancel_memory *memory);
void mr_cancel_memory_check(const struct mr_cancel_memory *memory);

#endif
