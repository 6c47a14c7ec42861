/* id_memory - remembers 16 bytes (the note) for each of the last count_max request ids (tenant,
 * id), for keep_ns. When it is full the oldest id is removed.
 *
 * Owner:  intake thread. Pure: now_ns is passed in. Memory: count_max entries, allocated in
 * _create. Errors: _create MR_NOMEM. */
#ifndef MR_WORKER_INTAKE_ID_MEMORY_H
#define MR_WORKER_INTAKE_ID_MEMORY_H

#include "codec/limits.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_ID_NOTE_BYTES ((size_t)16)

struct mr_id_memory;

enum mr_status mr_id_memory_create(struct mr_id_memory **out, uint32_t count_max, uint64_t keep_ns,
                                   struct mr_error *err);
/* memory may be NULL. */
void mr_id_memory_destroy(struct mr_id_memory *memory);
/* Stores the note of an id for keep_ns from now, replacing an older one. id: 1 to MR_ID_BYTES_MAX
 * bytes; other ids are ignored. */
void mr_id_memory_put(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                      const unsigned char note[MR_ID_NOTE_BYTES], uint64_t now_ns);
/* Copies the note of an id. False: there is none, or it has expired. */
bool mr_id_memory_get(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                      unsigned char note[MR_ID_NOTE_BYTES], uint64_t now_ns);
/* Removes the note of an id, if there is one. */
void mr_id_memory_remove(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id);
/* Number of ids stored, expired ones included. */
uint32_t mr_id_memory_count(const struct mr_id_memory *memory);
void mr_id_memory_check(const struct mr_id_memory *memory);

/* The hash of a request's name for tables of requests: tenant and id. */
uint64_t mr_id_hash(uint32_t tenant_index, struct mr_text id);

#endif
