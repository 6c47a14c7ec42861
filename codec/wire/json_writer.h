/* json_writer - writes JSON into a buffer that grows up to a maximum.
 *
 * Calls nest like the document: begin_object, name, value, ..., end. The writer adds commas and
 * escapes text. Bytes that are not valid UTF-8 become U+FFFD, so the output is always valid JSON.
 * After a failure (memory, maximum) all calls do nothing, and _take reports the failure. Misuse is
 * asserted: a value without a name inside an object, an object that is not closed.
 *
 * Owner:  the caller, on its stack. Memory: one malloc'ed buffer, which _take hands over.
 * Errors: MR_NOMEM, MR_RECORD_TOO_LARGE, only from _take. */
#ifndef MR_CODEC_WIRE_JSON_WRITER_H
#define MR_CODEC_WIRE_JSON_WRITER_H

#include "codec/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_JSON_WRITER_DEPTH_MAX 32u

struct mr_json_writer {
    struct mr_buffer bytes;
    enum mr_status status; /* the first failure */
    unsigned depth;
    bool comma;       /* the next element needs a comma in front of it */
    bool has_name;    /* the last call was _name, so a value must follow */
    uint32_t objects; /* bit d: the open container at level d + 1 is an object, not an array */
};

void mr_json_writer_init(struct mr_json_writer *writer, size_t bytes_max);
/* Frees the text of a writer on which _take is not called. */
void mr_json_writer_drop(struct mr_json_writer *writer);
/* Hands the text over: the caller frees *bytes. A NUL follows the text and is not counted in
 * *length. The writer is empty afterwards. On an error *bytes is NULL. */
enum mr_status mr_json_writer_take(struct mr_json_writer *writer, char **bytes, size_t *length,
                                   struct mr_error *err);

void mr_json_begin_object(struct mr_json_writer *writer);
void mr_json_begin_array(struct mr_json_writer *writer);
/* Closes the innermost open object or array. */
void mr_json_end(struct mr_json_writer *writer);
void mr_json_name(struct mr_json_writer *writer, const char *name);
void mr_json_name_text(struct mr_json_writer *writer, struct mr_text name);

void mr_json_put_null(struct mr_json_writer *writer);
void mr_json_put_bool(struct mr_json_writer *writer, bool value);
void mr_json_put_int(struct mr_json_writer *writer, int64_t value);
void mr_json_put_uint(struct mr_json_writer *writer, uint64_t value);
/* Writes a finite double to text: the shortest decimal that reads back as the same value. */
void mr_json_format_double(double value, char text[32]);
/* Writes the shortest text that reads back as the same value; null if the value is not finite. */
void mr_json_put_double(struct mr_json_writer *writer, double value);
void mr_json_put_float(struct mr_json_writer *writer, float value);
void mr_json_put_text(struct mr_json_writer *writer, struct mr_text text);
void mr_json_put_string(struct mr_json_writer *writer, const char *text);
/* Writes a value that is already JSON text. */
void mr_json_put_raw(struct mr_json_writer *writer, struct mr_text json);

#endif
