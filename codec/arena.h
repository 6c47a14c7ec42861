/* arena - bump memory with a hard cap, freed all at once. One per request.
 *
 * Owner:  whoever holds the request; one thread at a time.
 * Memory: chunks from malloc, never more than bytes_max in all; freed by _destroy.
 * Errors: _take returns NULL when the cap or malloc says no; the caller turns that into a status
 *         that names what did not fit. */
#ifndef MR_CODEC_ARENA_H
#define MR_CODEC_ARENA_H

#include <stddef.h>

struct mr_arena;

/* NULL when memory is out. */
struct mr_arena *mr_arena_create(size_t bytes_max);
/* arena may be NULL. */
void mr_arena_destroy(struct mr_arena *arena);

/* Zeroed, aligned for any type, valid until _destroy. bytes may be 0. NULL at the cap. */
void *mr_arena_take(struct mr_arena *arena, size_t bytes);
/* count * size with overflow checked. */
void *mr_arena_take_array(struct mr_arena *arena, size_t count, size_t size);
/* A NUL-terminated copy of length bytes. NULL at the cap. */
char *mr_arena_copy_text(struct mr_arena *arena, const char *text, size_t length);
/* Bytes handed out so far, padding included. */
size_t mr_arena_bytes(const struct mr_arena *arena);

#endif
