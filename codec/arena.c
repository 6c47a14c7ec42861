#include "codec/arena.h"

#include "codec/check.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES_MIN ((size_t)4096)

struct chunk {
    struct chunk *next;
    size_t used, size;
    alignas(max_align_t) unsigned char bytes[];
};

struct mr_arena {
    struct chunk *chunks; /* memory blocks, newest first */
    size_t used_bytes, bytes_max;
};

struct mr_arena *mr_arena_create(size_t bytes_max)
{
    struct mr_arena *arena = calloc(1, sizeof *arena);
    if (arena) arena->bytes_max = bytes_max;
    return arena;
}

void mr_arena_destroy(struct mr_arena *arena)
{
    if (!arena) return;
    for (struct chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(arena);
}

static struct chunk *add_chunk(struct mr_arena *arena, size_t bytes)
{
    size_t size = bytes > CHUNK_BYTES_MIN ? bytes : CHUNK_BYTES_MIN;
    struct chunk *chunk = malloc(sizeof *chunk + size);
    if (!chunk) return NULL;
    chunk->next = arena->chunks;
    chunk->used = 0;
    chunk->size = size;
    arena->chunks = chunk;
    return chunk;
}

void *mr_arena_take(struct mr_arena *arena, size_t bytes)
{
    const size_t align = alignof(max_align_t);
    if (bytes > arena->bytes_max) return NULL;
    size_t padded = (bytes + align - 1) / align * align;
    if (padded > arena->bytes_max - arena->used_bytes) return NULL;
    struct chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < padded) chunk = add_chunk(arena, padded);
    if (!chunk) return NULL;
    void *taken = chunk->bytes + chunk->used;
    chunk->used += padded;
    arena->used_bytes += padded;
    return memset(taken, 0, padded);
}

void *mr_arena_take_array(struct mr_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return mr_arena_take(arena, bytes);
}

char *mr_arena_copy_text(struct mr_arena *arena, const char *text, size_t length)
{
    if (length == (size_t)-1) return NULL;
    char *copy = mr_arena_take(arena, length + 1);
    if (copy && length) memcpy(copy, text, length);
    return copy;
}

size_t mr_arena_bytes(const struct mr_arena *arena)
{
    return arena->used_bytes;
}
