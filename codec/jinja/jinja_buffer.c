#include "codec/jinja/jinja_buffer.h"

#include <string.h>

static bool buffer_room(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer, size_t more)
{
    if (run->status != MR_OK) return false;
    if (more <= buffer->capacity - buffer->length) return true;
    size_t capacity = (buffer->length + more) * 2 + 64;
    char *bytes = mr_jinja_take(run, capacity, 1);
    unsigned char *marks = mr_jinja_take(run, capacity, 1);
    if (!bytes || !marks) return false;
    if (buffer->length) {
        memcpy(bytes, buffer->bytes, buffer->length);
        memcpy(marks, buffer->marks, buffer->length);
    }
    buffer->bytes = bytes;
    buffer->marks = marks;
    buffer->capacity = capacity;
    return true;
}

void mr_jinja_append_bytes(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                           const char *bytes, size_t length, bool marked)
{
    if (!length || !buffer_room(run, buffer, length)) return;
    memcpy(buffer->bytes + buffer->length, bytes, length);
    memset(buffer->marks + buffer->length, marked, length);
    buffer->length += length;
}

void mr_jinja_append(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                     struct mr_jinja_value text)
{
    if (!text.text.length || !buffer_room(run, buffer, text.text.length)) return;
    memcpy(buffer->bytes + buffer->length, text.text.bytes, text.text.length);
    if (text.text.marks) {
        memcpy(buffer->marks + buffer->length, text.text.marks, text.text.length);
    } else {
        memset(buffer->marks + buffer->length, 0, text.text.length);
    }
    buffer->length += text.text.length;
}

struct mr_jinja_value mr_jinja_buffer_text(const struct mr_jinja_buffer *buffer)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_TEXT};
    value.text.bytes = buffer->length ? buffer->bytes : "";
    value.text.marks = buffer->length ? buffer->marks : NULL;
    value.text.length = buffer->length;
    return value;
}
