/* fuzz - shared by all fuzz targets. A target is a file fuzz_NAME.c that defines
 * LLVMFuzzerTestOneInput and asserts its properties with MR_ASSERT.
 *
 * Threads: one. Memory: the input belongs to the caller; cursors and parts borrow it. */
#ifndef MR_TESTS_FUZZ_FUZZ_H
#define MR_TESTS_FUZZ_FUZZ_H

#include "codec/check.h"
#include "codec/text.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads an input from its front. Reads past the end return 0 and empty texts. */
struct fuzz_cursor {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t fuzz_u8(struct fuzz_cursor *cursor)
{
    if (cursor->left == 0) return 0;
    cursor->left--;
    return *cursor->at++;
}

static inline uint32_t fuzz_u16(struct fuzz_cursor *cursor)
{
    uint32_t low = fuzz_u8(cursor);
    return low | (uint32_t)fuzz_u8(cursor) << 8;
}

/* The next bytes: `length` of them, or all that are left. */
static inline struct mr_text fuzz_take(struct fuzz_cursor *cursor, size_t length)
{
    if (length > cursor->left) length = cursor->left;
    struct mr_text text = {(const char *)cursor->at, length};
    cursor->at += length;
    cursor->left -= length;
    return text;
}

static inline struct mr_text fuzz_rest(struct fuzz_cursor *cursor)
{
    return fuzz_take(cursor, cursor->left);
}

/* The bytes before the next byte of value 0, which is skipped, or all bytes if there is none. */
static inline struct mr_text fuzz_part(struct fuzz_cursor *cursor)
{
    const uint8_t *end = cursor->left ? memchr(cursor->at, 0, cursor->left) : NULL;
    struct mr_text text = fuzz_take(cursor, end ? (size_t)(end - cursor->at) : cursor->left);
    fuzz_u8(cursor);
    return text;
}

#endif
