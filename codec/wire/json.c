#include "codec/wire/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct mr_json {
    json_t *root;
};

/* The jansson node that a value is; with this cast no other module needs the library's type. */
static const json_t *node_of(const struct mr_json_value *value)
{
    return (const json_t *)(const void *)value;
}

static const struct mr_json_value *value_of(const json_t *node)
{
    return (const struct mr_json_value *)(const void *)node;
}

/* Index after the string in quotes at `start`; text.length if the string is unterminated. */
static size_t skip_string(struct mr_text text, size_t start)
{
    size_t at = start + 1;
    while (at < text.length && text.bytes[at] != '"')
        at += text.bytes[at] == '\\' ? 2 : 1;
    return at < text.length ? at + 1 : text.length;
}

/* Checks size, nesting and number of values before the parser allocates memory. Every value except
 * the root follows an opening bracket or a comma, so the number of brackets and commas bounds the
 * number of values. */
static enum mr_status check_limits(struct mr_text text, const struct mr_json_limits *limits,
                                   struct mr_error *err)
{
    if (text.length > limits->bytes_max)
        return mr_fail(err, MR_RECORD_TOO_LARGE, "JSON of %zu bytes, limit %zu", text.length,
                       limits->bytes_max);
    size_t values = 1;
    unsigned depth = 0;
    for (size_t at = 0; at < text.length;) {
        char c = text.bytes[at];
        if (c == '"') {
            at = skip_string(text, at);
            continue;
        }
        at++;
        values += c == '{' || c == '[' || c == ',';
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && depth > 0) depth--;
        if (depth > limits->depth_max)
            return mr_fail(err, MR_RECORD_TOO_LARGE, "JSON nested deeper than %u",
                           limits->depth_max);
        if (values > limits->values_max)
            return mr_fail(err, MR_RECORD_TOO_LARGE, "JSON of more than %zu values",
                           limits->values_max);
    }
    return MR_OK;
}

/* An error sentence of our own: the library's message may quote the text, and the text of a request
 * must not appear in a log. */
static const char *reason_of(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_premature_end_of_input:
        return "ends too early";
    case json_error_end_of_input_expected:
        return "has bytes after its value";
    case json_error_invalid_utf8:
        return "is not valid UTF-8";
    case json_error_duplicate_key:
        return "has a name twice in one object";
    case json_error_numeric_overflow:
        return "has a number out of range";
    case json_error_null_byte_in_key:
        return "has U+0000 in a name";
    default:
        return "has a syntax error";
    }
}

/* Index after the number at start, or after the one character at start. *digits is the number of
 * digits of an integer, 0 for anything else. */
static size_t skip_number(struct mr_text text, size_t start, size_t *digits)
{
    size_t at = start, other = 0;
    *digits = 0;
    while (at < text.length && text.bytes[at] != 0 && strchr("0123456789+-.eE", text.bytes[at])) {
        bool digit = text.bytes[at] >= '0' && text.bytes[at] <= '9';
        *digits += digit;
        other += !digit && !(at == start && text.bytes[at] == '-');
        at++;
    }
    if (other > 0) *digits = 0;
    return at > start ? at : start + 1;
}

/* A copy of text with ".0" after every integer of 19 digits or more, so that the library reads it
 * as a real. *length is the length of the copy. NULL when memory is out. */
static char *widen_integers(struct mr_text text, size_t *length)
{
    char *copy = malloc(text.length + text.length / 19 * 2 + 1);
    size_t used = 0;
    for (size_t at = 0; copy && at < text.length;) {
        size_t digits = 0;
        size_t end = text.bytes[at] == '"' ? skip_string(text, at) : skip_number(text, at, &digits);
        memcpy(copy + used, text.bytes + at, end - at);
        used += end - at;
        if (digits >= 19) {
            memcpy(copy + used, ".0", 2);
            used += 2;
        }
        at = end;
    }
    *length = used;
    return copy;
}

static json_t *load(struct mr_text text, bool wide, json_error_t *error)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *root = json_loadb(text.bytes, text.length, flags, error);
    if (root || !wide || json_error_code(error) != json_error_numeric_overflow) return root;
    size_t length;
    char *copy = widen_integers(text, &length);
    if (copy) root = json_loadb(copy, length, flags, error);
    free(copy);
    return root;
}

static enum mr_status parse(struct mr_json **out, struct mr_text bytes,
                            const struct mr_json_limits *limits, bool wide, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = check_limits(bytes, limits, err);
    if (status != MR_OK) return status;
    struct mr_json *document = calloc(1, sizeof *document);
    if (!document) return mr_fail(err, MR_NOMEM, "no memory for a JSON document");
    json_error_t error;
    if (!bytes.bytes) bytes = (struct mr_text){"", 0};
    document->root = load(bytes, wide, &error);
    if (!document->root) {
        free(document);
        if (json_error_code(&error) == json_error_out_of_memory)
            return mr_fail(err, MR_NOMEM, "no memory for a JSON document");
        return mr_fail(err, MR_MALFORMED, "JSON %s (line %d, column %d)", reason_of(&error),
                       error.line, error.column);
    }
    *out = document;
    return MR_OK;
}

enum mr_status mr_json_parse(struct mr_json **out, struct mr_text bytes,
                             const struct mr_json_limits *limits, struct mr_error *err)
{
    return parse(out, bytes, limits, false, err);
}

enum mr_status mr_json_parse_wide(struct mr_json **out, struct mr_text bytes,
                                  const struct mr_json_limits *limits, struct mr_error *err)
{
    return parse(out, bytes, limits, true, err);
}

void mr_json_destroy(struct mr_json *document)
{
    if (!document) return;
    json_decref(document->root);
    free(document);
}

const struct mr_json_value *mr_json_root(const struct mr_json *document)
{
    return value_of(document->root);
}

enum mr_json_kind mr_json_kind(const struct mr_json_value *value)
{
    switch (json_typeof(node_of(value))) {
    case JSON_OBJECT:
        return MR_JSON_OBJECT;
    case JSON_ARRAY:
        return MR_JSON_ARRAY;
    case JSON_STRING:
        return MR_JSON_TEXT;
    case JSON_INTEGER:
        return MR_JSON_INT;
    case JSON_REAL:
        return MR_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return MR_JSON_BOOL;
    case JSON_NULL:
        return MR_JSON_NULL;
    }
    return MR_JSON_NULL;
}

bool mr_json_is_null(const struct mr_json_value *value)
{
    return !value || json_is_null(node_of(value));
}

const struct mr_json_value *mr_json_get(const struct mr_json_value *value, const char *name)
{
    return mr_json_get_text(value, (struct mr_text){name, strlen(name)});
}

const struct mr_json_value *mr_json_get_text(const struct mr_json_value *value, struct mr_text name)
{
    if (!value) return NULL;
    return value_of(json_object_getn(node_of(value), name.bytes, name.length));
}

size_t mr_json_count(const struct mr_json_value *value)
{
    const json_t *node = node_of(value);
    if (json_is_array(node)) return json_array_size(node);
    return json_is_object(node) ? json_object_size(node) : 0;
}

const struct mr_json_value *mr_json_at(const struct mr_json_value *value, size_t index)
{
    return value_of(json_array_get(node_of(value), index));
}

/* Casts const away: the iterator functions of the library take a non-const pointer, but do not
 * change the object. */
static json_t *iterable(const struct mr_json_value *value)
{
    union {
        const void *in;
        json_t *out;
    } pun = {.in = value};
    return pun.out;
}

bool mr_json_next(const struct mr_json_value *object, struct mr_json_member *member)
{
    json_t *node = iterable(object);
    void *cursor =
        member->cursor ? json_object_iter_next(node, member->cursor) : json_object_iter(node);
    member->cursor = cursor;
    if (!cursor) return false;
    member->name.bytes = json_object_iter_key(cursor);
    member->name.length = json_object_iter_key_len(cursor);
    member->value = value_of(json_object_iter_value(cursor));
    return true;
}

bool mr_json_bool(const struct mr_json_value *value, bool *out)
{
    if (!value || !json_is_boolean(node_of(value))) return false;
    *out = json_is_true(node_of(value));
    return true;
}

bool mr_json_int(const struct mr_json_value *value, int64_t *out)
{
    if (!value || !json_is_integer(node_of(value))) return false;
    *out = json_integer_value(node_of(value));
    return true;
}

bool mr_json_number(const struct mr_json_value *value, double *out)
{
    if (!value || !json_is_number(node_of(value))) return false;
    *out = json_number_value(node_of(value));
    return true;
}

bool mr_json_text(const struct mr_json_value *value, struct mr_text *out)
{
    if (!value || !json_is_string(node_of(value))) return false;
    out->bytes = json_string_value(node_of(value));
    out->length = json_string_length(node_of(value));
    return true;
}

static size_t skip_space(struct mr_text text, size_t at)
{
    while (at < text.length && strchr(" \t\r\n", text.bytes[at]) && text.bytes[at])
        at++;
    return at;
}

/* Index after the JSON value that starts at start; text is valid JSON. */
static size_t skip_value(struct mr_text text, size_t start)
{
    unsigned depth = 0;
    size_t at = start;
    while (at < text.length) {
        char c = text.bytes[at];
        bool closes = c == '}' || c == ']';
        if (depth == 0 && (closes || c == ',')) return at;
        if (c == '"') {
            at = skip_string(text, at);
        } else {
            if (c == '{' || c == '[') depth++;
            if (closes) depth--;
            at++;
        }
        if (depth == 0 && (closes || c == '"')) return at;
    }
    return at;
}

/* Compares a name in quotes, which may have escapes, with a plain name. */
static bool name_equals(struct mr_text quoted, const char *name)
{
    struct mr_text inner = {quoted.bytes + 1, quoted.length - 2};
    if (!memchr(inner.bytes, '\\', inner.length)) return mr_text_is(inner, name);
    json_t *decoded = json_loadb(quoted.bytes, quoted.length, JSON_DECODE_ANY, NULL);
    bool equal = decoded && strcmp(json_string_value(decoded), name) == 0;
    json_decref(decoded);
    return equal;
}

bool mr_json_raw_member(struct mr_text bytes, const char *name, struct mr_text *raw)
{
    size_t at = skip_space(bytes, 0);
    if (at >= bytes.length || bytes.bytes[at] != '{') return false;
    for (at = skip_space(bytes, at + 1); at < bytes.length && bytes.bytes[at] == '"';
         at = skip_space(bytes, at + 1)) {
        size_t name_end = skip_string(bytes, at);
        bool found = name_equals(mr_text_part(bytes, at, name_end), name);
        at = skip_space(bytes, name_end);
        size_t start = skip_space(bytes, at + 1);
        size_t end = skip_value(bytes, start);
        size_t trimmed = end;
        while (trimmed > start && strchr(" \t\r\n", bytes.bytes[trimmed - 1]))
            trimmed--;
        if (found) {
            *raw = mr_text_part(bytes, start, trimmed);
            return true;
        }
        at = skip_space(bytes, end);
    }
    return false;
}
