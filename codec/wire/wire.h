/* wire - reads and writes msgpack. The only module that uses the msgpack library.
 *
 * The library allocates memory for declared lengths: 5 bytes can make it allocate 8 GiB. So a
 * validator that allocates nothing reads each record first. It checks that every count fits the
 * remaining bytes, that text is UTF-8 and map keys are text, and the limits of nesting and of the
 * number of values. Extension types and bytes after the value are errors. Then the library unpacks
 * the record. A repeated key in one map is an error.
 *
 * Owner:  the caller, one thread at a time.
 * Memory: an open record takes about 24 bytes for each value until _close; texts point into the
 *         bytes given, which must outlive the record.
 * Errors: MR_MALFORMED with place and reason, MR_NOMEM. */
#ifndef MR_CODEC_WIRE_WIRE_H
#define MR_CODEC_WIRE_WIRE_H

#include "codec/buffer.h"
#include "codec/wire/value.h"

struct mr_wire;

/* Opens a record, which must be one map. */
enum mr_status mr_wire_open(struct mr_wire **out, struct mr_text bytes, struct mr_error *err);
/* wire may be NULL. */
void mr_wire_close(struct mr_wire *wire);
struct mr_value mr_wire_root(const struct mr_wire *wire);

/* Sets *raw to the bytes of a member's value in the root map; false when there is no such member.
 * bytes must be a record that mr_wire_open accepts. */
bool mr_wire_raw_member(struct mr_text bytes, const char *name, struct mr_text *raw);

/* The msgpack bytes written so far. Calls after the first failure do nothing. */
struct mr_wire_buffer {
    struct mr_buffer bytes; /* the owner of the struct initializes and drops this buffer */
    /* first failure, which later ones do not replace: MR_NOMEM or MR_RECORD_TOO_LARGE */
    enum mr_status status;
};

void mr_wire_put_null(struct mr_wire_buffer *buffer);
void mr_wire_put_bool(struct mr_wire_buffer *buffer, bool value);
void mr_wire_put_int(struct mr_wire_buffer *buffer, int64_t value);
void mr_wire_put_uint(struct mr_wire_buffer *buffer, uint64_t value);
void mr_wire_put_double(struct mr_wire_buffer *buffer, double value);
void mr_wire_put_float(struct mr_wire_buffer *buffer, float value);
void mr_wire_put_text(struct mr_wire_buffer *buffer, struct mr_text text);
/* Starts an array or a map. The caller must write count elements, or count pairs of key and value,
 * next. */
void mr_wire_put_array(struct mr_wire_buffer *buffer, size_t count);
void mr_wire_put_map(struct mr_wire_buffer *buffer, size_t count);
/* Copies a value that is msgpack already. */
void mr_wire_put_raw(struct mr_wire_buffer *buffer, struct mr_text msgpack);

#endif
