/* cancel_memory - the ids of requests whose cancel record was consumed before the request. An id is
 * kept as long as the id memory keeps its entries (worker/intake/id_memory.h).
 *
 * Owner: intake thread. Memory: the caller's id memory. Errors: none. */
#ifndef MR_WORKER_INTAKE_CANCEL_MEMORY_H
#define MR_WORKER_INTAKE_CANCEL_MEMORY_H

#include "worker/intake/id_memory.h"

/* largest clock difference assumed between two producers, milliseconds */
#define MR_CANCEL_SKEW_MS 10000

/* stamp_ms: timestamp of the cancel record, unix ms; 0: unknown. */
void mr_cancel_memory_add(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                          int64_t stamp_ms, uint64_t now_ns);
/* True when a cancel record cancels the request with this id. stamp_ms: timestamp of the request's
 * record; 0: unknown. A cancel record that is more than MR_CANCEL_SKEW_MS older was for an earlier
 * request of the same id. The id is removed in either case. */
bool mr_cancel_memory_take(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                           int64_t stamp_ms, uint64_t now_ns);

#endif
