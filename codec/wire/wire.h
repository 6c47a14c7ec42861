/* wire - msgpack, both ways. The only module that knows the msgpack library.
 *
 * The library allocates what a declared length asks for (5 bytes can reserve 8 GiB), so a record is
 * first walked by a validator of our own that allocates nothing: every count must fit the bytes
 * that are left, nesting and number of values are bounded, text is UTF-8, map keys are text,
 * extension types and bytes behind the value are refused. Only then the library unpacks it, and
 * keys that occur twice in one map are refused.
 *
 * Owner:  the caller, one thread at a time.
 * Memory: an opened record takes about 24 bytes a value until _close; texts stay views of the bytes
 *         given, which must outlive it.
 * Errors: MR_MALFORMED with place and reason, MR_NOMEM. */
#ifndef MR_CODEC_WIRE_WIRE_H
#define MR_CODEC_WIRE_WIRE_H

#include "codec/buffer.h"
#include "codec/wire/value.h"

struct mr_wire;

/* A record of one map. */
enum mr_status mr_wire_open(struct mr_wire **out, struct mr_text bytes, struct mr_error *err);
/* wire may be NULL. */
void mr_wire_close(struct mr_wire *wire);
struct mr_value mr_wire_root(const struct mr_wire *wire);

/* The bytes of the root map's member as they were written; false when there is none. bytes must
 * have passed _open. */
bool mr_wire_raw_member(struct mr_text bytes, const char *name, struct mr_text *raw);

/* What is written. Calls after the first failure do nothing. */
struct mr_wire_buffer {
    struct mr_buffer bytes; /* the owner initializes and drops it */
    enum mr_status status;  /* sticky: MR_NOMEM or MR_RECORD_TOO_LARGE */
};

void mr_wire_put_null(struct mr_wire_buffer *buffer);
void mr_wire_put_bool(struct mr_wire_buffer *buffer, bool value);
void mr_wire_put_int(struct mr_wire_buffer *buffer, int64_t value);
void mr_wire_put_uint(struct mr_wire_buffer *buffer, uint64_t value);
void mr_wire_put_double(struct mr_wire_buffer *buffer, double value);
void mr_wire_put_float(struct mr_wire_buffer *buffer, float value);
void mr_wire_put_text(struct mr_wire_buffer *buffer, struct mr_text text);
/* count elements (twice as many values for a map) must follow. */
void mr_wire_put_array(struct mr_wire_buffer *buffer, size_t count);
void mr_wire_put_map(struct mr_wire_buffer *buffer, size_t count);
/* One value that is msgpack already. */
void mr_wire_put_raw(struct mr_wire_buffer *buffer, struct mr_text msgpack);

#endif
