#include "worker/batch/lines.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)128 << 10)

static const char byte_order_mark[] = "\xef\xbb\xbf";

enum mr_status mr_lines_open(struct mr_lines *lines, struct mr_unpacked *file, size_t bytes_max,
                             struct mr_sha256 *digest, struct mr_error *err)
{
    *lines = (struct mr_lines){.file = file, .digest = digest, .bytes_max = bytes_max};
    return mr_unpacked_rewind(file, err);
}

void mr_lines_close(struct mr_lines *lines)
{
    free(lines->buffer);
    lines->buffer = NULL;
}

/* Makes room for a chunk after `end`: moves the unread bytes to the front, or enlarges the buffer.
 */
static bool make_room(struct mr_lines *lines)
{
    if (lines->capacity - lines->end >= CHUNK_BYTES) return true;
    if (lines->start > 0) {
        memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
        lines->end -= lines->start;
        lines->start = 0;
        if (lines->capacity - lines->end >= CHUNK_BYTES) return true;
    }
    const size_t capacity = 2 * lines->capacity + 2 * CHUNK_BYTES;
    char *buffer = realloc(lines->buffer, capacity);
    if (!buffer) return false;
    lines->buffer = buffer;
    lines->capacity = capacity;
    return true;
}

static enum mr_status read_more(struct mr_lines *lines, struct mr_error *err)
{
    size_t length;
    if (!make_room(lines)) return mr_fail(err, MR_NOMEM, "no memory for a line");
    char *bytes = lines->buffer + lines->end;
    enum mr_status status = mr_unpacked_read(lines->file, bytes, CHUNK_BYTES, &length, err);
    if (status != MR_OK) return status;
    if (lines->digest) mr_sha256_add(lines->digest, bytes, length);
    lines->end += length;
    lines->is_ended = length == 0;
    return MR_OK;
}

/* Drops the bytes of a line after bytes_max, up to its line feed. */
static enum mr_status skip_rest(struct mr_lines *lines, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    while (status == MR_OK) {
        char *kept = lines->buffer + lines->start + lines->bytes_max;
        char *end = lines->buffer + lines->end;
        const char *feed = memchr(kept, '\n', (size_t)(end - kept));
        if (feed) memmove(kept, feed, (size_t)(end - feed));
        lines->end = (size_t)(kept - lines->buffer) + (feed ? (size_t)(end - feed) : 0);
        if (feed || lines->is_ended) break;
        status = read_more(lines, err);
    }
    return status;
}

/* Reads until the buffer has a whole line, from `start`; *length: without its line feed. */
static enum mr_status find_line(struct mr_lines *lines, size_t *length, bool *is_too_long,
                                struct mr_error *err)
{
    size_t scanned = 0;
    *is_too_long = false;
    for (;;) {
        const size_t unread = lines->end - lines->start;
        const char *from = lines->buffer + lines->start;
        const char *feed = unread > scanned ? memchr(from + scanned, '\n', unread - scanned) : NULL;
        *length = feed ? (size_t)(feed - from) : unread;
        if (*length > lines->bytes_max) {
            *is_too_long = true;
            enum mr_status status = skip_rest(lines, err);
            *length = lines->bytes_max;
            return status;
        }
        if (feed || lines->is_ended) return MR_OK;
        scanned = unread;
        enum mr_status status = read_more(lines, err);
        if (status != MR_OK) return status;
    }
}

enum mr_status mr_lines_next(struct mr_lines *lines, struct mr_line *line, struct mr_error *err)
{
    size_t length;
    *line = (struct mr_line){0};
    for (;;) {
        enum mr_status status = find_line(lines, &length, &line->is_too_long, err);
        if (status != MR_OK) return status;
        if (lines->start == lines->end && lines->is_ended) return MR_OK;
        struct mr_text text = {lines->buffer + lines->start, length};
        lines->start += length + (lines->start + length < lines->end); /* and the line feed */
        lines->number++;
        if (lines->number == 1 && length >= 3 && memcmp(text.bytes, byte_order_mark, 3) == 0)
            text = mr_text_part(text, 3, length);
        line->text = mr_text_trim(text);
        if (line->text.length == 0) continue;
        line->number = lines->number;
        return MR_OK;
    }
}
