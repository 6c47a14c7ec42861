/* jinja_buffer - a text that grows, with the marks that say which bytes come from the request.
 *
 * Owner: one rendering. Memory: the run's arena; growing leaves the old bytes there, so texts made
 * from a buffer stay valid. Errors: the first one stays in the run. */
#ifndef MR_CODEC_JINJA_JINJA_BUFFER_H
#define MR_CODEC_JINJA_JINJA_BUFFER_H

#include "codec/jinja/jinja_value.h"

struct mr_jinja_buffer {
    char *bytes;
    unsigned char *marks;
    size_t length, capacity;
};

/* Appends a text with its marks. */
void mr_jinja_append(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                     struct mr_jinja_value text);
/* Appends bytes; marked: they come from the request. */
void mr_jinja_append_bytes(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                           const char *bytes, size_t length, bool marked);
/* The text in the buffer, which must no longer grow. */
struct mr_jinja_value mr_jinja_buffer_text(const struct mr_jinja_buffer *buffer);

#endif
