/* value - one decoded value of a record in JSON or msgpack. Record decoders read values only
 * through these functions, so each field is validated in one place for both encodings.
 *
 * A value is a pair of pointers into a document (codec/wire/document.h).
 *
 * Threads: any, while the document lives. Memory: none; texts and names are borrowed from the
 *          document. Errors: none; reading a value as another kind is asserted. */
#ifndef MR_CODEC_WIRE_VALUE_H
#define MR_CODEC_WIRE_VALUE_H

#include "codec/check.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_value_kind {
    MR_VALUE_NULL,
    MR_VALUE_BOOL,
    MR_VALUE_INT, /* an integer that fits int64_t */
    MR_VALUE_BIG, /* an integer outside of int64_t; in JSON also a number beyond the doubles */
    MR_VALUE_FLOAT,
    MR_VALUE_TEXT,   /* text in valid UTF-8 */
    MR_VALUE_BINARY, /* binary data, in msgpack only */
    MR_VALUE_ARRAY,
    MR_VALUE_MAP /* a map whose names are text, each once */
};

struct mr_value {
    const struct mr_value_ops *ops;
    const void *node;
};

/* One member of a map, and the position of an iteration. Start with a zeroed struct:
 *     struct mr_member member = {0};
 *     while (mr_value_next(map, &member)) use(member.name, member.value); */
struct mr_member {
    struct mr_text name;
    struct mr_value value;
    size_t index; /* position of the iteration in msgpack */
    void *cursor; /* position of the iteration in JSON */
};

/* The functions that read values of one encoding, JSON or msgpack. */
struct mr_value_ops {
    enum mr_value_kind (*kind)(const void *node);
    int64_t (*integer)(const void *node);
    double (*number)(const void *node);
    struct mr_text (*text)(const void *node);
    struct mr_text (*big)(const void *node, char scratch[24]);
    size_t (*count)(const void *node);
    struct mr_value (*at)(const void *node, size_t index);
    bool (*next)(const void *node, struct mr_member *member);
};

enum mr_value_kind mr_value_kind(struct mr_value value);
/* Name of a kind for error sentences: "text", "an integer" and so on. Static text. */
const char *mr_value_kind_name(enum mr_value_kind kind);
bool mr_value_bool(struct mr_value value);
int64_t mr_value_int(struct mr_value value);
/* Sets *out to the integer in a value of kind INT, or of kind FLOAT without a fraction (JSON Schema
 * calls 10.0 an integer); false for any other value, and for one outside int64_t. */
bool mr_value_integer(struct mr_value value, int64_t *out);
/* The number in a value of kind INT or FLOAT. A float of msgpack may be NaN or infinite. */
double mr_value_number(struct mr_value value);
/* The decimal text of a value of kind BIG, as written in JSON. It is in the document or in scratch.
 */
struct mr_text mr_value_big(struct mr_value value, char scratch[24]);
/* The bytes of a value of kind TEXT or BINARY. */
struct mr_text mr_value_text(struct mr_value value);
/* Number of elements of an ARRAY or members of a MAP. */
size_t mr_value_count(struct mr_value value);
/* The element of an array at index, which must be below mr_value_count(). */
struct mr_value mr_value_at(struct mr_value array, size_t index);
bool mr_value_next(struct mr_value map, struct mr_member *member);
/* Finds the member of a map by its name; false if there is none. */
bool mr_value_get(struct mr_value map, const char *name, struct mr_value *out);

#endif
