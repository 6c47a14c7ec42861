#include "codec/wire/json_writer.h"

#include "codec/check.h"
#include "codec/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mr_json_writer_init(struct mr_json_writer *writer, size_t bytes_max)
{
    *writer = (struct mr_json_writer){.bytes = {.bytes_max = bytes_max}};
}

void mr_json_writer_drop(struct mr_json_writer *writer)
{
    mr_buffer_drop(&writer->bytes);
    mr_json_writer_init(writer, writer->bytes.bytes_max);
}

static void append(struct mr_json_writer *writer, const char *bytes, size_t length)
{
    if (writer->status != MR_OK) return;
    if (!mr_buffer_append(&writer->bytes, (struct mr_text){bytes, length}))
        writer->status = mr_buffer_error(&writer->bytes, length);
}

/* Writes a NUL after the text. It does not count towards bytes_max. */
static void terminate(struct mr_json_writer *writer)
{
    writer->bytes.bytes_max++;
    append(writer, "", 1);
    writer->bytes.bytes_max--;
}

enum mr_status mr_json_writer_take(struct mr_json_writer *writer, char **bytes, size_t *length,
                                   struct mr_error *err)
{
    *bytes = NULL;
    *length = 0;
    size_t bytes_max = writer->bytes.bytes_max;
    MR_ASSERT(writer->status != MR_OK || (writer->depth == 0 && writer->bytes.length > 0));
    terminate(writer);
    enum mr_status status = writer->status;
    if (status != MR_OK) {
        mr_json_writer_drop(writer);
        if (status == MR_NOMEM) return mr_fail(err, status, "no memory to write JSON");
        return mr_fail(err, status, "JSON output above its limit of %zu bytes", bytes_max);
    }
    *bytes = writer->bytes.bytes;
    *length = writer->bytes.length - 1;
    mr_json_writer_init(writer, bytes_max);
    return MR_OK;
}

static bool in_object(const struct mr_json_writer *writer)
{
    return writer->depth > 0 && (writer->objects >> (writer->depth - 1)) & 1u;
}

/* Writes the comma in front of a value, where one is needed. */
static void start_value(struct mr_json_writer *writer)
{
    MR_ASSERT(writer->has_name == in_object(writer));
    MR_ASSERT(writer->depth > 0 || !writer->comma);
    if (writer->comma && !writer->has_name) append(writer, ",", 1);
    writer->has_name = false;
    writer->comma = true;
}

static void begin(struct mr_json_writer *writer, const char *bracket, bool object)
{
    start_value(writer);
    MR_ASSERT(writer->depth < MR_JSON_WRITER_DEPTH_MAX);
    uint32_t bit = 1u << writer->depth;
    writer->objects = object ? writer->objects | bit : writer->objects & ~bit;
    writer->depth++;
    writer->comma = false;
    append(writer, bracket, 1);
}

void mr_json_begin_object(struct mr_json_writer *writer)
{
    begin(writer, "{", true);
}

void mr_json_begin_array(struct mr_json_writer *writer)
{
    begin(writer, "[", false);
}

void mr_json_end(struct mr_json_writer *writer)
{
    MR_ASSERT(writer->depth > 0 && !writer->has_name);
    append(writer, in_object(writer) ? "}" : "]", 1);
    writer->depth--;
    writer->comma = true;
}

static void append_escape(struct mr_json_writer *writer, unsigned char c)
{
    static const char plain[] = "\"\\bfnrt";
    static const char codes[] = "\"\\\b\f\n\r\t";
    const char *found = c ? strchr(codes, (char)c) : NULL;
    if (found) {
        append(writer, (char[]){'\\', plain[found - codes]}, 2);
        return;
    }
    char text[8];
    int length = snprintf(text, sizeof text, "\\u%04x", c);
    append(writer, text, (size_t)length);
}

static void append_quoted(struct mr_json_writer *writer, struct mr_text text)
{
    append(writer, "\"", 1);
    size_t run = 0; /* start of the bytes that need no escape and are not written yet */
    for (size_t at = 0; at < text.length;) {
        unsigned char c = (unsigned char)text.bytes[at];
        bool escape = c < 0x20 || c == '"' || c == '\\';
        struct mr_utf8_step step = {1, true, c};
        if (c >= 0x80) step = mr_utf8_next(text, at);
        if (escape || !step.valid) {
            append(writer, text.bytes + run, at - run);
            if (escape) append_escape(writer, c);
            if (!step.valid) append(writer, MR_UTF8_REPLACEMENT, 3);
            run = at + step.length;
        }
        at += step.length;
    }
    if (text.length > run) append(writer, text.bytes + run, text.length - run);
    append(writer, "\"", 1);
}

void mr_json_name(struct mr_json_writer *writer, const char *name)
{
    mr_json_name_text(writer, (struct mr_text){name, strlen(name)});
}

void mr_json_name_text(struct mr_json_writer *writer, struct mr_text name)
{
    MR_ASSERT(in_object(writer) && !writer->has_name);
    if (writer->comma) append(writer, ",", 1);
    append_quoted(writer, name);
    append(writer, ":", 1);
    writer->has_name = true;
}

void mr_json_put_raw(struct mr_json_writer *writer, struct mr_text json)
{
    start_value(writer);
    append(writer, json.bytes, json.length);
}

static void put_word(struct mr_json_writer *writer, const char *word)
{
    mr_json_put_raw(writer, (struct mr_text){word, strlen(word)});
}

void mr_json_put_null(struct mr_json_writer *writer)
{
    put_word(writer, "null");
}

void mr_json_put_bool(struct mr_json_writer *writer, bool value)
{
    put_word(writer, value ? "true" : "false");
}

void mr_json_put_int(struct mr_json_writer *writer, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    put_word(writer, text);
}

void mr_json_put_uint(struct mr_json_writer *writer, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put_word(writer, text);
}

/* Outputs of %g such as 1e+20 or 3 are valid JSON. -0 becomes -0.0, because readers would read -0
 * as the integer 0. */
void mr_json_format_double(double value, char text[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (memcmp(&(double){strtod(text, NULL)}, &value, sizeof value) == 0) break;
    }
    if (value == 0.0 && signbit(value)) snprintf(text, 32, "-0.0");
}

void mr_json_put_double(struct mr_json_writer *writer, double value)
{
    char text[32] = "null";
    if (isfinite(value)) mr_json_format_double(value, text);
    put_word(writer, text);
}

void mr_json_put_float(struct mr_json_writer *writer, float value)
{
    char text[40] = "null";
    for (int digits = 6; isfinite(value) && digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (memcmp(&(float){strtof(text, NULL)}, &value, sizeof value) == 0) break;
    }
    put_word(writer, text);
}

void mr_json_put_text(struct mr_json_writer *writer, struct mr_text text)
{
    start_value(writer);
    append_quoted(writer, text);
}

void mr_json_put_string(struct mr_json_writer *writer, const char *text)
{
    mr_json_put_text(writer, (struct mr_text){text, strlen(text)});
}
