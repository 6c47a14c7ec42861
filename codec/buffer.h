/* buffer - bytes that grow up to a maximum, reused from text to text.
 *
 * Owner:  whoever holds it, usually a scratch. Memory: one block, doubled; never above bytes_max.
 * Errors: an append that does not fit returns false and leaves the buffer as it was. */
#ifndef MR_CODEC_BUFFER_H
#define MR_CODEC_BUFFER_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_buffer {
    char *bytes;
    size_t length, capacity, bytes_max;
};

void mr_buffer_init(struct mr_buffer *buffer, size_t bytes_max);
void mr_buffer_drop(struct mr_buffer *buffer);
/* Empties it and keeps the block. */
void mr_buffer_clear(struct mr_buffer *buffer);
bool mr_buffer_append(struct mr_buffer *buffer, struct mr_text text);
/* Room for that many more bytes: a place to write them, NULL when they do not fit. What was written
 * counts after mr_buffer_commit. */
char *mr_buffer_reserve(struct mr_buffer *buffer, size_t bytes);
void mr_buffer_commit(struct mr_buffer *buffer, size_t bytes);
struct mr_text mr_buffer_text(const struct mr_buffer *buffer);

#endif
