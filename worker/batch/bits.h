/* bits - one bit for each line of a batch's input, by line number.
 *
 * Owner: one thread. Memory: a bit for each line. Errors: _create returns false when memory is
 * out. */
#ifndef MR_WORKER_BATCH_BITS_H
#define MR_WORKER_BATCH_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct mr_bits {
    uint64_t *words;
    uint64_t line_count; /* the bits of lines 1 to line_count */
    uint64_t set_count;
};

static inline bool mr_bits_create(struct mr_bits *bits, uint64_t line_count)
{
    *bits = (struct mr_bits){calloc(line_count / 64 + 1, sizeof *bits->words), line_count, 0};
    return bits->words != NULL;
}

static inline void mr_bits_destroy(struct mr_bits *bits)
{
    free(bits->words);
    bits->words = NULL;
}

static inline bool mr_bits_get(const struct mr_bits *bits, uint64_t line)
{
    return line <= bits->line_count && bits->words[line / 64] >> line % 64 & 1;
}

/* False: the bit was set, or there is no such line. */
static inline bool mr_bits_set(struct mr_bits *bits, uint64_t line)
{
    if (line == 0 || line > bits->line_count || mr_bits_get(bits, line)) return false;
    bits->words[line / 64] |= (uint64_t)1 << line % 64;
    bits->set_count++;
    return true;
}

#endif
