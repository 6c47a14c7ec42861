/* json_writer - JSON into a growing buffer with a hard maximum.
 *
 * Calls nest like the document: begin_object, name, value, ..., end. Commas are placed here. Text
 * is escaped; bytes that are not valid UTF-8 become U+FFFD, so the output is always valid JSON.
 * A failure (memory, maximum) is remembered and reported once by _take; the calls after it do
 * nothing. Misuse (a value without a name inside an object, an unclosed object) is asserted.
 *
 * Owner:  the caller, on its stack. Memory: one malloc'ed buffer, handed over by _take.
 * Errors: MR_NOMEM, MR_RECORD_TOO_LARGE, only from _take. */
#ifndef MR_CODEC_WIRE_JSON_WRITER_H
#define MR_CODEC_WIRE_JSON_WRITER_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_JSON_WRITER_DEPTH_MAX 32u

struct mr_json_writer {
    char *bytes;
    size_t length, capacity, bytes_max;
    enum mr_status status;
    unsigned depth;
    bool comma;     /* the next element needs one before it */
    bool has_name;  /* a name was written, its value comes next */
    uint32_t kinds; /* bit d: level d + 1 is an object */
};

void mr_json_writer_init(struct mr_json_writer *writer, size_t bytes_max);
void mr_json_writer_drop(struct mr_json_writer *writer);
/* Hands over the buffer (free() it; a NUL that is not counted follows the text) and leaves the
 * writer empty. On an error nothing is handed over. */
enum mr_status mr_json_writer_take(struct mr_json_writer *writer, char **bytes, size_t *length,
                                   struct mr_error *err);

void mr_json_begin_object(struct mr_json_writer *writer);
void mr_json_begin_array(struct mr_json_writer *writer);
void mr_json_end(struct mr_json_writer *writer); /* the innermost open one */
void mr_json_name(struct mr_json_writer *writer, const char *name);
void mr_json_name_text(struct mr_json_writer *writer, struct mr_text name);

void mr_json_put_null(struct mr_json_writer *writer);
void mr_json_put_bool(struct mr_json_writer *writer, bool value);
void mr_json_put_int(struct mr_json_writer *writer, int64_t value);
void mr_json_put_uint(struct mr_json_writer *writer, uint64_t value);
/* The shortest text that reads back as the same value; null when not finite. */
void mr_json_put_double(struct mr_json_writer *writer, double value);
void mr_json_put_float(struct mr_json_writer *writer, float value);
void mr_json_put_text(struct mr_json_writer *writer, struct mr_text text);
void mr_json_put_string(struct mr_json_writer *writer, const char *text);
/* One value that is JSON already, verbatim. */
void mr_json_put_raw(struct mr_json_writer *writer, struct mr_text json);
/* A part of one value that is JSON already; the first part through _put_raw. */
void mr_json_append_raw(struct mr_json_writer *writer, struct mr_text json);

#endif
