/* cancel_memory - the ids of requests whose cancel record was consumed before the request itself
 * (SPEC K5), each kept for as long as the id memory keeps its notes (worker/intake/id_memory.h).
 *
 * Owner: intake thread. Memory: the caller's id memory. Errors: none. */
#ifndef MR_WORKER_INTAKE_CANCEL_MEMORY_H
#define MR_WORKER_INTAKE_CANCEL_MEMORY_H

#include "worker/intake/id_memory.h"

/* largest clock difference assumed between two producers, milliseconds */
#define MR_CANCEL_SKEW_MS 10000

/* stamp_ms: the cancel record's timestamp, 0: unknown. */
void mr_cancel_memory_add(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                          int64_t stamp_ms, uint64_t now_ns);
/* True when the tenant's id was cancelled by a cancel record that is at most MR_CANCEL_SKEW_MS
 * older than the request's record (stamp_ms; 0: unknown): an older cancel was for an earlier
 * request with the same id. In both cases the id is forgotten. */
bool mr_cancel_memory_take(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                           int64_t stamp_ms, uint64_t now_ns);

#endif
