/* json - reads JSON from records and files. The only module that uses the JSON library (jansson).
 *
 * A scan checks size, nesting and number of values before the parser allocates memory. Duplicate
 * names, invalid UTF-8 and bytes after the value are errors. Names and texts
 * may contain any character, except that a name cannot contain U+0000.
 *
 * Threads: a document is immutable after parsing and may be read by any number of threads.
 * Memory:  values, texts and names are borrowed from the document and live as long as it does.
 * Errors:  MR_RECORD_TOO_LARGE above a limit, MR_MALFORMED for invalid JSON, MR_NOMEM. Callers that
 *          read files turn the first two into MR_BAD_FILE. */
#ifndef MR_CODEC_WIRE_JSON_H
#define MR_CODEC_WIRE_JSON_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_json;       /* a parsed document */
struct mr_json_value; /* a value inside a parsed document */

enum mr_json_kind {
    MR_JSON_NULL,
    MR_JSON_BOOL,
    MR_JSON_INT,  /* a number without fraction and exponent that fits int64_t */
    MR_JSON_REAL, /* any other number that is a finite double */
    MR_JSON_BIG,  /* a number outside of both: it is kept as it is written */
    MR_JSON_TEXT,
    MR_JSON_ARRAY,
    MR_JSON_OBJECT
};

struct mr_json_limits {
    size_t bytes_max;
    size_t values_max; /* most values of every kind in the whole document */
    unsigned depth_max;
};

/* Parses a document, which must be one object or array. */
enum mr_status mr_json_parse(struct mr_json **out, struct mr_text bytes,
                             const struct mr_json_limits *limits, struct mr_error *err);
/* Like mr_json_parse, but follows Python's json.loads: if a name is repeated, the last member is
 * kept, and the escape of a lone surrogate becomes U+FFFD. NaN and Infinity are errors. */
enum mr_status mr_json_parse_wide(struct mr_json **out, struct mr_text bytes,
                                  const struct mr_json_limits *limits, struct mr_error *err);
/* document may be NULL. */
void mr_json_destroy(struct mr_json *document);
const struct mr_json_value *mr_json_root(const struct mr_json *document);
/* Copies the root. The document owns the copy and returns its root; NULL: no memory. Not while
 * another thread reads the document. */
const struct mr_json_value *mr_json_add_copy(struct mr_json *document);
/* The root of copy number `index`, in the order in which they were added; NULL: there is none. */
const struct mr_json_value *mr_json_copy(const struct mr_json *document, size_t index);

enum mr_json_kind mr_json_kind(const struct mr_json_value *value);

/* The member with this name; NULL if value is NULL, is not an object, or lacks the member. A member
 * whose value is null is returned as a value of kind MR_JSON_NULL. */
const struct mr_json_value *mr_json_get(const struct mr_json_value *value, const char *name);
const struct mr_json_value *mr_json_get_text(const struct mr_json_value *value,
                                             struct mr_text name);
/* True for null and for NULL, which stands for an absent member. */
bool mr_json_is_null(const struct mr_json_value *value);
/* Number of elements of an array or members of an object; 0 for anything else or NULL. */
size_t mr_json_count(const struct mr_json_value *value);
/* The element of an array at this index; NULL if the index is out of range or value is not an
 * array. */
const struct mr_json_value *mr_json_at(const struct mr_json_value *value, size_t index);

/* Iterates over the members of an object in the order of the text. Start with a zeroed struct:
 *     struct mr_json_member member = {0};
 *     while (mr_json_next(object, &member)) use(member.name, member.value); */
struct mr_json_member {
    struct mr_text name;
    const struct mr_json_value *value;
    void *cursor;
};
bool mr_json_next(const struct mr_json_value *object, struct mr_json_member *member);

/* The functions mr_json_bool, _int, _number and _text read a value: false, and *out untouched, when
 * value is NULL or of another kind. */
bool mr_json_bool(const struct mr_json_value *value, bool *out);
bool mr_json_int(const struct mr_json_value *value, int64_t *out);
/* Reads values of kind INT, REAL or BIG; false for a number that is not a finite double. */
bool mr_json_number(const struct mr_json_value *value, double *out);
bool mr_json_text(const struct mr_json_value *value, struct mr_text *out);
/* Reads a value of kind BIG: the bytes of the number, as written. */
bool mr_json_big(const struct mr_json_value *value, struct mr_text *out);
/* A number of any kind in decimal: as written, or the shortest text that reads back as the same
 * double. It is in scratch or in the document. */
struct mr_text mr_json_number_text(const struct mr_json_value *value, char scratch[32]);

/* Sets *raw to the bytes of a member's value in the root object, without the white space around
 * them. bytes must be a text that mr_json_parse accepts. If the name is repeated,
 * name it is the last. False if there is none. */
bool mr_json_raw_member(struct mr_text bytes, const char *name, struct mr_text *raw);

#endif
