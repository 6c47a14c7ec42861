/* writer - writes one record in JSON or msgpack, with the same calls for both.
 *
 * A map or an array starts with its number of members or elements, because msgpack needs it. It is
 * closed automatically after the last one. A member is _name followed by one value.
 *
 * Owner:  the caller, on its stack.
 * Memory: one malloc'ed buffer, which _take hands over.
 * Errors: _take reports the first failure, MR_NOMEM or MR_RECORD_TOO_LARGE. Too few or too many
 *         members are asserted. */
#ifndef MR_CODEC_WIRE_WRITER_H
#define MR_CODEC_WIRE_WRITER_H

#include "codec/wire/encoding.h"
#include "codec/wire/json_writer.h"
#include "codec/wire/value.h"
#include "codec/wire/wire.h"

#define MR_WRITER_DEPTH_MAX 36u

struct mr_writer {
    enum mr_encoding encoding;
    struct mr_wire_buffer wire;
    struct mr_json_writer json;
    /* [level] number of values still missing in each open map or array */
    size_t open[MR_WRITER_DEPTH_MAX];
    unsigned depth;
    bool done; /* the root value is complete */
};

void mr_writer_init(struct mr_writer *writer, enum mr_encoding encoding, size_t bytes_max);
/* Frees the bytes of a writer on which _take is not called. */
void mr_writer_drop(struct mr_writer *writer);
/* Hands the bytes over: the caller frees *bytes. Asserts that the root value is complete. On an
 * error *bytes is NULL. */
enum mr_status mr_writer_take(struct mr_writer *writer, unsigned char **bytes, size_t *length,
                              struct mr_error *err);

void mr_writer_map(struct mr_writer *writer, size_t member_count);
void mr_writer_array(struct mr_writer *writer, size_t count);
void mr_writer_name(struct mr_writer *writer, const char *name);
void mr_writer_null(struct mr_writer *writer);
void mr_writer_bool(struct mr_writer *writer, bool value);
void mr_writer_int(struct mr_writer *writer, int64_t value);
void mr_writer_uint(struct mr_writer *writer, uint64_t value);
/* Writes a number. One that is not finite becomes null in JSON. */
void mr_writer_double(struct mr_writer *writer, double value);
void mr_writer_float(struct mr_writer *writer, float value);
/* Writes a text. Bytes that are not UTF-8 become U+FFFD in both encodings. */
void mr_writer_text(struct mr_writer *writer, struct mr_text text);
void mr_writer_string(struct mr_writer *writer, const char *text);
void mr_writer_ids(struct mr_writer *writer, const uint32_t *ids, size_t count);
/* Writes a value that is already in the writer's encoding. */
void mr_writer_raw(struct mr_writer *writer, struct mr_text raw);
/* Writes a value of a document in JSON or msgpack. Binary data becomes null. In msgpack a number
 * outside of 64 bits becomes the nearest double. */
void mr_writer_value(struct mr_writer *writer, struct mr_value value);
/* Writes a value of a document as JSON. Binary data becomes null. A map or array that is nested too
 * deeply for the writer becomes null, and _take returns MR_MALFORMED. */
void mr_json_put_value(struct mr_json_writer *writer, struct mr_value value);

#endif
