#include "codec/buffer.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY ((size_t)256)

void mr_buffer_init(struct mr_buffer *buffer, size_t bytes_max)
{
    *buffer = (struct mr_buffer){.bytes_max = bytes_max};
}

void mr_buffer_drop(struct mr_buffer *buffer)
{
    free(buffer->bytes);
    mr_buffer_init(buffer, buffer->bytes_max);
}

void mr_buffer_clear(struct mr_buffer *buffer)
{
    buffer->length = 0;
}

char *mr_buffer_reserve(struct mr_buffer *buffer, size_t bytes)
{
    if (bytes > buffer->bytes_max - buffer->length) return NULL;
    size_t need = buffer->length + bytes;
    if (need > buffer->capacity || !buffer->bytes) {
        size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
        while (capacity < need)
            capacity = capacity > buffer->bytes_max / 2 ? buffer->bytes_max : capacity * 2;
        char *grown = realloc(buffer->bytes, capacity);
        if (!grown) return NULL;
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    return buffer->bytes + buffer->length;
}

void mr_buffer_commit(struct mr_buffer *buffer, size_t bytes)
{
    MR_ASSERT(bytes <= buffer->capacity - buffer->length);
    buffer->length += bytes;
}

bool mr_buffer_append(struct mr_buffer *buffer, struct mr_text text)
{
    char *place = mr_buffer_reserve(buffer, text.length);
    if (!place) return false;
    if (text.length > 0) memcpy(place, text.bytes, text.length);
    buffer->length += text.length;
    return true;
}

enum mr_status mr_buffer_error(const struct mr_buffer *buffer, size_t bytes)
{
    return bytes > buffer->bytes_max - buffer->length ? MR_RECORD_TOO_LARGE : MR_NOMEM;
}

struct mr_text mr_buffer_text(const struct mr_buffer *buffer)
{
    return (struct mr_text){buffer->bytes ? buffer->bytes : "", buffer->length};
}
