/* buffer - a byte buffer that grows up to a maximum.
 *
 * Owner:  the caller, one thread at a time. Memory: one malloc'ed block that doubles when it is
 * full and is kept by _clear. Errors: an append that does not fit returns false and leaves the
 * buffer unchanged. */
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
/* Frees the memory of the buffer. */
void mr_buffer_drop(struct mr_buffer *buffer);
/* Sets the length to 0 and keeps the memory. */
void mr_buffer_clear(struct mr_buffer *buffer);
bool mr_buffer_append(struct mr_buffer *buffer, struct mr_text text);
/* Returns memory for `bytes` more bytes after the last one, NULL when they do not fit. Bytes
 * written there become part of the buffer with mr_buffer_commit. */
char *mr_buffer_reserve(struct mr_buffer *buffer, size_t bytes);
void mr_buffer_commit(struct mr_buffer *buffer, size_t bytes);
/* Why an append or reserve of `bytes` bytes failed: MR_RECORD_TOO_LARGE above bytes_max, otherwise
 * MR_NOMEM. */
enum mr_status mr_buffer_error(const struct mr_buffer *buffer, size_t bytes);
struct mr_text mr_buffer_text(const struct mr_buffer *buffer);

#endif
