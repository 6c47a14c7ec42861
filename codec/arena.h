/* arena - a bump allocator with a maximum, freed all at once. Every request has an arena.
 *
 * Owner:  the owner of the request; one thread at a time.
 * Memory: chunks from malloc, together at most bytes_max; freed by _destroy.
 * Errors: _take returns NULL above the maximum or when malloc fails. The caller turns NULL into a
 *         status with a sentence about the allocation that failed. */
#ifndef MR_CODEC_ARENA_H
#define MR_CODEC_ARENA_H

#include <stddef.h>

struct mr_arena;

/* NULL when memory is out. */
struct mr_arena *mr_arena_create(size_t bytes_max);
/* arena may be NULL. */
void mr_arena_destroy(struct mr_arena *arena);

/* Zeroed memory, aligned for any type, valid until _destroy. bytes may be 0. NULL above the
 * maximum. */
void *mr_arena_take(struct mr_arena *arena, size_t bytes);
/* Zeroed memory for count * size bytes, aligned for any type, valid until _destroy. NULL above the
 * maximum or when the product overflows. */
void *mr_arena_take_array(struct mr_arena *arena, size_t count, size_t size);
/* Makes a copy of length bytes of text and a terminating NUL. NULL above the maximum. */
char *mr_arena_copy_text(struct mr_arena *arena, const char *text, size_t length);
/* Bytes allocated so far, including padding. */
size_t mr_arena_bytes(const struct mr_arena *arena);

#endif
