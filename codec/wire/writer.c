#include "codec/wire/writer.h"

#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

void mr_writer_init(struct mr_writer *writer, enum mr_encoding encoding, size_t bytes_max)
{
    *writer = (struct mr_writer){.encoding = encoding, .wire = {.bytes = {.bytes_max = bytes_max}}};
    mr_json_writer_init(&writer->json, bytes_max);
}

void mr_writer_drop(struct mr_writer *writer)
{
    mr_buffer_drop(&writer->wire.bytes);
    mr_json_writer_drop(&writer->json);
}

enum mr_status mr_writer_take(struct mr_writer *writer, unsigned char **bytes, size_t *length,
                              struct mr_error *err)
{
    MR_ASSERT(writer->done);
    if (writer->encoding == MR_ENCODING_JSON) {
        char *text;
        enum mr_status status = mr_json_writer_take(&writer->json, &text, length, err);
        *bytes = (unsigned char *)text;
        return status;
    }
    *bytes = NULL;
    *length = 0;
    enum mr_status status = writer->wire.status;
    size_t bytes_max = writer->wire.bytes.bytes_max;
    if (status != MR_OK) {
        mr_writer_drop(writer);
        if (status == MR_NOMEM) return mr_fail(err, status, "no memory to write a record");
        return mr_fail(err, status, "record above its limit of %zu bytes", bytes_max);
    }
    *bytes = (unsigned char *)writer->wire.bytes.bytes;
    *length = writer->wire.bytes.length;
    mr_buffer_init(&writer->wire.bytes, bytes_max);
    return MR_OK;
}

static bool in_json(const struct mr_writer *writer)
{
    return writer->encoding == MR_ENCODING_JSON;
}

/* Called after each value: closes the maps and arrays that end with this value. */
static void completed(struct mr_writer *writer)
{
    MR_ASSERT(!writer->done);
    while (writer->depth > 0) {
        if (--writer->open[writer->depth - 1] > 0) return;
        if (in_json(writer)) mr_json_end(&writer->json);
        writer->depth--;
    }
    writer->done = true;
}

/* Called after the start of a map or an array with count members or elements. */
static void opened(struct mr_writer *writer, size_t count)
{
    MR_ASSERT(writer->depth < MR_WRITER_DEPTH_MAX && !writer->done);
    if (count > 0) {
        writer->open[writer->depth++] = count;
        return;
    }
    if (in_json(writer)) mr_json_end(&writer->json);
    completed(writer);
}

void mr_writer_map(struct mr_writer *writer, size_t member_count)
{
    if (in_json(writer))
        mr_json_begin_object(&writer->json);
    else
        mr_wire_put_map(&writer->wire, member_count);
    opened(writer, member_count);
}

void mr_writer_array(struct mr_writer *writer, size_t count)
{
    if (in_json(writer))
        mr_json_begin_array(&writer->json);
    else
        mr_wire_put_array(&writer->wire, count);
    opened(writer, count);
}

/* Writes a text in msgpack. Valid UTF-8 is written without a copy; invalid bytes are replaced in a
 * copy. */
static void put_wire_text(struct mr_wire_buffer *buffer, struct mr_text text)
{
    if (mr_utf8_is_valid(text)) {
        mr_wire_put_text(buffer, text);
        return;
    }
    char *repaired = text.length <= SIZE_MAX / 3 ? malloc(text.length * 3) : NULL;
    if (!repaired) {
        buffer->status = MR_NOMEM;
        return;
    }
    size_t length = 0;
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step step = mr_utf8_next(text, at);
        const char *from = step.valid ? text.bytes + at : MR_UTF8_REPLACEMENT;
        size_t count = step.valid ? step.length : 3;
        memcpy(repaired + length, from, count);
        length += count;
        at += step.length;
    }
    mr_wire_put_text(buffer, (struct mr_text){repaired, length});
    free(repaired);
}

static void put_name(struct mr_writer *writer, struct mr_text name)
{
    if (in_json(writer))
        mr_json_name_text(&writer->json, name);
    else
        put_wire_text(&writer->wire, name);
}

void mr_writer_name(struct mr_writer *writer, const char *name)
{
    put_name(writer, (struct mr_text){name, strlen(name)});
}

/* Writes one value in the writer's encoding with mr_json_put_KIND or mr_wire_put_KIND. */
#define PUT(writer, kind, value)                                                                   \
    do {                                                                                           \
        if (in_json(writer))                                                                       \
            mr_json_put_##kind(&(writer)->json, value);                                            \
        else                                                                                       \
            mr_wire_put_##kind(&(writer)->wire, value);                                            \
        completed(writer);                                                                         \
    } while (0)

void mr_writer_null(struct mr_writer *writer)
{
    if (in_json(writer))
        mr_json_put_null(&writer->json);
    else
        mr_wire_put_null(&writer->wire);
    completed(writer);
}

void mr_writer_bool(struct mr_writer *writer, bool value)
{
    PUT(writer, bool, value);
}

void mr_writer_int(struct mr_writer *writer, int64_t value)
{
    PUT(writer, int, value);
}

void mr_writer_uint(struct mr_writer *writer, uint64_t value)
{
    PUT(writer, uint, value);
}

void mr_writer_double(struct mr_writer *writer, double value)
{
    PUT(writer, double, value);
}

void mr_writer_float(struct mr_writer *writer, float value)
{
    PUT(writer, float, value);
}

void mr_writer_text(struct mr_writer *writer, struct mr_text text)
{
    if (in_json(writer))
        mr_json_put_text(&writer->json, text);
    else
        put_wire_text(&writer->wire, text);
    completed(writer);
}

void mr_writer_string(struct mr_writer *writer, const char *text)
{
    mr_writer_text(writer, (struct mr_text){text, strlen(text)});
}

void mr_writer_ids(struct mr_writer *writer, const uint32_t *ids, size_t count)
{
    mr_writer_array(writer, count);
    for (size_t i = 0; i < count; i++)
        mr_writer_uint(writer, ids[i]);
}

void mr_writer_raw(struct mr_writer *writer, struct mr_text raw)
{
    PUT(writer, raw, raw);
}

/* ---- decoded values ---- */

static void json_array(struct mr_json_writer *writer, struct mr_value array)
{
    mr_json_begin_array(writer);
    for (size_t i = 0; i < mr_value_count(array); i++)
        mr_json_put_value(writer, mr_value_at(array, i));
    mr_json_end(writer);
}

static void json_map(struct mr_json_writer *writer, struct mr_value map)
{
    struct mr_member member = {0};
    mr_json_begin_object(writer);
    while (mr_value_next(map, &member)) {
        mr_json_name_text(writer, member.name);
        mr_json_put_value(writer, member.value);
    }
    mr_json_end(writer);
}

void mr_json_put_value(struct mr_json_writer *writer, struct mr_value value)
{
    char scratch[24];
    enum mr_value_kind kind = mr_value_kind(value);
    if (writer->depth >= MR_JSON_WRITER_DEPTH_MAX &&
        (kind == MR_VALUE_ARRAY || kind == MR_VALUE_MAP)) {
        mr_json_put_null(writer);
        if (writer->status == MR_OK) writer->status = MR_MALFORMED;
        return;
    }
    switch (kind) {
    case MR_VALUE_NULL:
    case MR_VALUE_BINARY:
        mr_json_put_null(writer);
        return;
    case MR_VALUE_BOOL:
        mr_json_put_bool(writer, mr_value_bool(value));
        return;
    case MR_VALUE_INT:
        mr_json_put_int(writer, mr_value_int(value));
        return;
    case MR_VALUE_BIG:
        mr_json_put_raw(writer, mr_value_big(value, scratch));
        return;
    case MR_VALUE_FLOAT:
        mr_json_put_double(writer, mr_value_number(value));
        return;
    case MR_VALUE_TEXT:
        mr_json_put_text(writer, mr_value_text(value));
        return;
    case MR_VALUE_ARRAY:
        json_array(writer, value);
        return;
    case MR_VALUE_MAP:
        json_map(writer, value);
        return;
    }
}

static void put_map(struct mr_writer *writer, struct mr_value map)
{
    mr_writer_map(writer, mr_value_count(map));
    struct mr_member member = {0};
    while (mr_value_next(map, &member)) {
        put_name(writer, member.name);
        mr_writer_value(writer, member.value);
    }
}

static void put_array(struct mr_writer *writer, struct mr_value array)
{
    size_t count = mr_value_count(array);
    mr_writer_array(writer, count);
    for (size_t i = 0; i < count; i++)
        mr_writer_value(writer, mr_value_at(array, i));
}

/* A number that msgpack cannot express becomes the nearest one that it can. */
static void put_big(struct mr_writer *writer, struct mr_text digits)
{
    uint64_t integer = 0;
    bool fits = digits.length > 0;
    for (size_t i = 0; i < digits.length && fits; i++) {
        unsigned digit = (unsigned char)digits.bytes[i] - (unsigned)'0';
        fits = digit < 10 && integer <= (UINT64_MAX - digit) / 10;
        if (fits) integer = integer * 10 + digit;
    }
    if (fits)
        mr_writer_uint(writer, integer);
    else
        mr_writer_double(writer, strtod(digits.bytes, NULL));
}

/* Writes a value. Recursive; the document has limited the depth to MR_NESTING_MAX. */
void mr_writer_value(struct mr_writer *writer, struct mr_value value)
{
    char digits[24];
    if (in_json(writer)) {
        mr_json_put_value(&writer->json, value);
        completed(writer);
        return;
    }
    switch (mr_value_kind(value)) {
    case MR_VALUE_BOOL:
        mr_writer_bool(writer, mr_value_bool(value));
        return;
    case MR_VALUE_INT:
        mr_writer_int(writer, mr_value_int(value));
        return;
    case MR_VALUE_FLOAT:
        mr_writer_double(writer, mr_value_number(value));
        return;
    case MR_VALUE_TEXT:
        mr_writer_text(writer, mr_value_text(value));
        return;
    case MR_VALUE_ARRAY:
        put_array(writer, value);
        return;
    case MR_VALUE_MAP:
        put_map(writer, value);
        return;
    case MR_VALUE_BIG:
        put_big(writer, mr_value_big(value, digits));
        return;
    case MR_VALUE_BINARY:
    case MR_VALUE_NULL:
        mr_writer_null(writer);
        return;
    }
}
