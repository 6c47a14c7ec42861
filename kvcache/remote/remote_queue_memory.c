/* The memory of operations: one block made in _create, from which pieces of any size are taken and
 * to which they return in any order. First fit by address; adjacent free pieces are merged during
 * the search. There are few pieces, mostly returned in the order in which they were taken. Pages
 * that are never needed are never touched. */
#include "kvcache/remote/remote_queue_state.h"

#include "codec/check.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GRID ((size_t)64)

/* Header in front of each piece of the memory block, for pieces in use and free pieces alike. */
struct piece {
    alignas(max_align_t) size_t bytes; /* size of the piece with this header; a multiple of GRID */
    bool used;
};

struct mr_queue_memory {
    size_t bytes;
    unsigned char *pieces;
};

enum mr_status mr_queue_memory_create(struct mr_queue_memory **out, size_t bytes,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_queue_memory *memory = calloc(1, sizeof *memory);
    if (!memory) goto no_memory;
    memory->bytes = (bytes + GRID - 1) / GRID * GRID;
    MR_ASSERT(memory->bytes > 0);
    memory->pieces = malloc(memory->bytes);
    if (!memory->pieces) goto no_pieces;
    *(struct piece *)(void *)memory->pieces = (struct piece){.bytes = memory->bytes};
    *out = memory;
    return MR_OK;

no_pieces:
    free(memory);
no_memory:
    return mr_fail(err, MR_NOMEM, "no memory for the operations of the remote cache");
}

void mr_queue_memory_destroy(struct mr_queue_memory *memory)
{
    if (!memory) return;
    free(memory->pieces);
    free(memory);
}

static struct piece *piece_at(const struct mr_queue_memory *memory, size_t at)
{
    return at < memory->bytes ? (struct piece *)(void *)(memory->pieces + at) : NULL;
}

/* Merges the free piece at offset `at` with the free pieces that directly follow. */
static void merge(const struct mr_queue_memory *memory, struct piece *piece, size_t at)
{
    struct piece *next;
    while ((next = piece_at(memory, at + piece->bytes)) != NULL && !next->used)
        piece->bytes += next->bytes;
}

void *mr_queue_memory_take(struct mr_queue_memory *memory, size_t bytes)
{
    if (bytes > memory->bytes) return NULL;
    size_t wanted = (bytes + sizeof(struct piece) + GRID - 1) / GRID * GRID, at = 0;
    for (struct piece *piece; (piece = piece_at(memory, at)) != NULL; at += piece->bytes) {
        if (piece->used) continue;
        merge(memory, piece, at);
        if (piece->bytes < wanted) continue;
        if (piece->bytes > wanted)
            *piece_at(memory, at + wanted) = (struct piece){.bytes = piece->bytes - wanted};
        *piece = (struct piece){.bytes = wanted, .used = true};
        return memset(piece + 1, 0, bytes);
    }
    return NULL;
}

void mr_queue_memory_give(struct mr_queue_memory *memory, void *bytes)
{
    struct piece *piece = (struct piece *)bytes - 1;
    size_t at = (size_t)((unsigned char *)piece - memory->pieces);
    MR_ASSERT(at < memory->bytes && at % GRID == 0 && piece->used);
    piece->used = false;
}

size_t mr_queue_memory_check(const struct mr_queue_memory *memory)
{
    size_t at = 0, used = 0;
    for (const struct piece *piece; (piece = piece_at(memory, at)) != NULL; at += piece->bytes) {
        MR_ASSERT(piece->bytes >= GRID && piece->bytes % GRID == 0);
        if (piece->used) used += piece->bytes;
    }
    MR_ASSERT(at == memory->bytes);
    return used;
}
