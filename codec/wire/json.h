/* json - reading JSON from outside, bounded before anything is allocated from it.
 *
 * The only module that knows the JSON library. A document is scanned once for size, nesting and
 * number of values before the parser sees it; duplicate names, invalid UTF-8, numbers that do not
 * fit and anything behind the value are errors. Names and texts may hold any character except that
 * a name cannot hold U+0000.
 *
 * Threads: a document is immutable after parsing and may be read by any number of threads.
 * Memory:  values, texts and names are borrowed from the document and live as long as it does.
 * Errors:  MR_RECORD_TOO_LARGE above a limit, MR_MALFORMED for what is not JSON, MR_NOMEM. Callers
 *          that read files turn the first two into MR_BAD_FILE. */
#ifndef MR_CODEC_WIRE_JSON_H
#define MR_CODEC_WIRE_JSON_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_json;       /* a parsed document */
struct mr_json_value; /* a value inside one */

enum mr_json_kind {
    MR_JSON_NULL,
    MR_JSON_BOOL,
    MR_JSON_INT,  /* written without fraction and exponent, fits int64_t */
    MR_JSON_REAL, /* any other number, finite */
    MR_JSON_TEXT,
    MR_JSON_ARRAY,
    MR_JSON_OBJECT
};

struct mr_json_limits {
    size_t bytes_max;
    size_t values_max; /* values of every kind in the whole document */
    unsigned depth_max;
};

/* Parses one object or array. */
enum mr_status mr_json_parse(struct mr_json **out, struct mr_text bytes,
                             const struct mr_json_limits *limits, struct mr_error *err);
/* The same for files of others: integers that do not fit become MR_JSON_REAL instead of an error,
 * and those of 19 digits that do fit may become so with them. */
enum mr_status mr_json_parse_wide(struct mr_json **out, struct mr_text bytes,
                                  const struct mr_json_limits *limits, struct mr_error *err);
/* document may be NULL. */
void mr_json_destroy(struct mr_json *document);
const struct mr_json_value *mr_json_root(const struct mr_json *document);

enum mr_json_kind mr_json_kind(const struct mr_json_value *value);

/* The member of this name; NULL when value is NULL, not an object, or has none. A member whose
 * value is null is returned as a value of kind MR_JSON_NULL. */
const struct mr_json_value *mr_json_get(const struct mr_json_value *value, const char *name);
const struct mr_json_value *mr_json_get_text(const struct mr_json_value *value,
                                             struct mr_text name);
/* True for null and for NULL, which stands for an absent member. */
bool mr_json_is_null(const struct mr_json_value *value);
/* Elements of an array, members of an object, 0 of anything else or NULL. */
size_t mr_json_count(const struct mr_json_value *value);
/* Element index of an array; NULL when out of range, not an array or NULL. */
const struct mr_json_value *mr_json_at(const struct mr_json_value *value, size_t index);

/* Members of an object in the order written. Start with a zeroed struct:
 *     struct mr_json_member member = {0};
 *     while (mr_json_next(object, &member)) use(member.name, member.value); */
struct mr_json_member {
    struct mr_text name;
    const struct mr_json_value *value;
    void *cursor;
};
bool mr_json_next(const struct mr_json_value *object, struct mr_json_member *member);

/* Typed reads: false, and *out untouched, when value is NULL or of another kind. */
bool mr_json_bool(const struct mr_json_value *value, bool *out);
bool mr_json_int(const struct mr_json_value *value, int64_t *out);
bool mr_json_number(const struct mr_json_value *value, double *out); /* INT or REAL */
bool mr_json_text(const struct mr_json_value *value, struct mr_text *out);

/* The bytes of the root object's member as they were written, without the white space around them:
 * what "echoed byte for byte" needs. bytes must be the text the document was parsed from. False
 * when the root has no such member. */
bool mr_json_raw_member(struct mr_text bytes, const char *name, struct mr_text *raw);

#endif
