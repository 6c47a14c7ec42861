#include "codec/wire/json.h"

#include "codec/wire/json_writer.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_json {
    json_t *root;
    json_t *copies; /* an array; NULL: none was made */
};

/* The jansson node of a value; with this cast no other module needs the library's type. */
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

/* ---- numbers that the library cannot keep, and escapes that only Python reads ---- */

/* First byte of the text node that stands for such a number. No text of a document begins with it,
 * because it is not UTF-8. */
#define BIG_MARK '\xff'
/* The library reads number i of the document as INT64_MIN + i, and restore() replaces it. */
#define PLACEHOLDERS_MAX 4000000u

struct rewrite {
    char *copy;
    size_t length;
    struct mr_text *numbers; /* [count] the numbers that placeholders stand for */
    size_t count;
};

static size_t skip_digits(struct mr_text text, size_t at)
{
    while (at < text.length && text.bytes[at] >= '0' && text.bytes[at] <= '9')
        at++;
    return at;
}

/* Index after the number at `start`; `start` if no number of JSON begins there. */
static size_t skip_number(struct mr_text text, size_t start, bool *is_integer)
{
    size_t at = start + (start < text.length && text.bytes[start] == '-');
    size_t end = skip_digits(text, at);
    *is_integer = true;
    if (end == at || (text.bytes[at] == '0' && end > at + 1)) return start;
    if (end < text.length && text.bytes[end] == '.') {
        at = end + 1;
        end = skip_digits(text, at);
        *is_integer = false;
        if (end == at) return start;
    }
    if (end < text.length && (text.bytes[end] == 'e' || text.bytes[end] == 'E')) {
        at = end + 1;
        at += at < text.length && (text.bytes[at] == '+' || text.bytes[at] == '-');
        end = skip_digits(text, at);
        *is_integer = false;
        if (end == at) return start;
    }
    return end;
}

/* True for a number that is not an int64_t or a finite double, or that equals a placeholder. The
 * byte after a number is not one of a number, so strtod stops there. */
static bool is_big(struct mr_text number, bool is_integer)
{
    char digits[32];
    if (!is_integer && number.length < sizeof digits) {
        memcpy(digits, number.bytes, number.length);
        digits[number.length] = '\0';
        return isinf(strtod(digits, NULL));
    }
    if (!is_integer || number.length > 20) return true;
    memcpy(digits, number.bytes, number.length);
    digits[number.length] = '\0';
    errno = 0;
    long long value = strtoll(digits, NULL, 10);
    return errno == ERANGE || value < INT64_MIN + (long long)PLACEHOLDERS_MAX;
}

/* The value of four hexadecimal digits at text[at], -1 if there are none. */
static int32_t code_unit(struct mr_text text, size_t at)
{
    int32_t unit = 0;
    if (at + 6 > text.length || text.bytes[at] != '\\' || text.bytes[at + 1] != 'u') return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        int digit = mr_text_hex_value(text.bytes[i]);
        if (digit < 0) return -1;
        unit = 16 * unit + digit;
    }
    return unit;
}

/* Copies a text with its quotes; escapes of lone surrogates become U+FFFD. */
static void rewrite_text(struct rewrite *out, struct mr_text text)
{
    for (size_t at = 0; at < text.length;) {
        size_t length = text.bytes[at] == '\\' && at + 1 < text.length ? 2 : 1;
        int32_t unit = code_unit(text, at);
        const char *from = text.bytes + at;
        if (unit >= 0) length = 6;
        if (unit >= 0xd800 && unit < 0xe000) {
            int32_t low = unit < 0xdc00 ? code_unit(text, at + 6) : -1;
            if (low >= 0xdc00 && low < 0xe000)
                length = 12;
            else
                from = "\\ufffd";
        }
        memcpy(out->copy + out->length, from, length);
        out->length += length;
        at += length;
    }
}

/* Makes a copy of a document with placeholders for its big numbers. False: no memory. */
static bool rewrite(struct rewrite *out, struct mr_text text, bool lenient)
{
    size_t numbers = 0;
    for (size_t i = 0; i < text.length; i++)
        numbers += text.bytes[i] == ',' || text.bytes[i] == ':' || text.bytes[i] == '[';
    if (numbers > PLACEHOLDERS_MAX) numbers = PLACEHOLDERS_MAX;
    out->numbers = calloc(numbers + 1, sizeof *out->numbers);
    out->copy = malloc(text.length + 20 * numbers + 1);
    if (!out->numbers || !out->copy) return false;
    for (size_t at = 0, end; at < text.length; at = end) {
        bool integer;
        if (text.bytes[at] == '"') {
            end = skip_string(text, at);
            if (lenient) {
                rewrite_text(out, mr_text_part(text, at, end));
                continue;
            }
        } else {
            end = skip_number(text, at, &integer);
            if (end > at && out->count < numbers && is_big(mr_text_part(text, at, end), integer)) {
                out->numbers[out->count] = mr_text_part(text, at, end);
                out->length += (size_t)snprintf(out->copy + out->length, 21, "%lld",
                                                INT64_MIN + (long long)out->count++);
                continue;
            }
            if (end == at) end++;
        }
        memcpy(out->copy + out->length, text.bytes + at, end - at);
        out->length += end - at;
    }
    return true;
}

/* The node that replaces a placeholder; NULL: the node is none, or no memory. */
static json_t *big_of(const struct rewrite *from, const json_t *node, bool *failed)
{
    if (!json_is_integer(node)) return NULL;
    uint64_t index = (uint64_t)json_integer_value(node) - (uint64_t)INT64_MIN;
    if (index >= from->count) return NULL;
    struct mr_text number = from->numbers[index];
    char *text = malloc(number.length + 1);
    if (text) memcpy(text + 1, number.bytes, number.length);
    if (text) text[0] = BIG_MARK;
    json_t *big = text ? json_stringn_nocheck(text, number.length + 1) : NULL;
    free(text);
    *failed |= !big;
    return big;
}

/* Replaces the placeholders below a node. Recursive; the depth has been checked. */
static bool restore(const struct rewrite *from, json_t *node)
{
    bool failed = false;
    for (size_t i = 0; json_is_array(node) && i < json_array_size(node); i++) {
        json_t *big = big_of(from, json_array_get(node, i), &failed);
        if (big && json_array_set_new(node, i, big) != 0) return false;
        if (failed || !restore(from, json_array_get(node, i))) return false;
    }
    if (!json_is_object(node)) return true;
    for (void *at = json_object_iter(node); at; at = json_object_iter_next(node, at)) {
        json_t *big = big_of(from, json_object_iter_value(at), &failed);
        if (big && json_object_iter_set_new(node, at, big) != 0) return false;
        if (failed || !restore(from, json_object_iter_value(at))) return false;
    }
    return true;
}

static json_t *load(struct mr_text text, bool lenient, json_error_t *error)
{
    const size_t flags = JSON_ALLOW_NUL | (lenient ? 0 : JSON_REJECT_DUPLICATES);
    json_t *root = json_loadb(text.bytes, text.length, flags, error);
    if (root || (!lenient && json_error_code(error) != json_error_numeric_overflow)) return root;
    struct rewrite copy = {0};
    bool made = rewrite(&copy, text, lenient);
    if (made) root = json_loadb(copy.copy, copy.length, flags, error);
    made = made && (!root || copy.count == 0 || restore(&copy, root));
    if (!made) {
        json_decref(root);
        root = NULL;
        memset(error, 0, sizeof *error);
        error->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    }
    free(copy.copy);
    free(copy.numbers);
    return root;
}

static enum mr_status parse(struct mr_json **out, struct mr_text bytes,
                            const struct mr_json_limits *limits, bool lenient, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = check_limits(bytes, limits, err);
    if (status != MR_OK) return status;
    struct mr_json *document = calloc(1, sizeof *document);
    if (!document) return mr_fail(err, MR_NOMEM, "no memory for a JSON document");
    json_error_t error;
    if (!bytes.bytes) bytes = (struct mr_text){"", 0};
    document->root = load(bytes, lenient, &error);
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
    json_decref(document->copies);
    free(document);
}

const struct mr_json_value *mr_json_root(const struct mr_json *document)
{
    return value_of(document->root);
}

const struct mr_json_value *mr_json_add_copy(struct mr_json *document)
{
    if (!document->copies) document->copies = json_array();
    json_t *copy = json_deep_copy(document->root);
    return json_array_append_new(document->copies, copy) == 0 ? value_of(copy) : NULL;
}

const struct mr_json_value *mr_json_copy(const struct mr_json *document, size_t index)
{
    return value_of(json_array_get(document->copies, index));
}

static bool is_big_node(const json_t *node)
{
    return json_is_string(node) && json_string_length(node) > 0 &&
           json_string_value(node)[0] == BIG_MARK;
}

enum mr_json_kind mr_json_kind(const struct mr_json_value *value)
{
    switch (json_typeof(node_of(value))) {
    case JSON_OBJECT:
        return MR_JSON_OBJECT;
    case JSON_ARRAY:
        return MR_JSON_ARRAY;
    case JSON_STRING:
        return is_big_node(node_of(value)) ? MR_JSON_BIG : MR_JSON_TEXT;
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
    struct mr_text digits;
    if (mr_json_big(value, &digits)) {
        double number = strtod(digits.bytes, NULL);
        if (isinf(number)) return false;
        *out = number;
        return true;
    }
    if (!value || !json_is_number(node_of(value))) return false;
    *out = json_number_value(node_of(value));
    return true;
}

bool mr_json_big(const struct mr_json_value *value, struct mr_text *out)
{
    if (!value || !is_big_node(node_of(value))) return false;
    *out = (struct mr_text){json_string_value(node_of(value)) + 1,
                            json_string_length(node_of(value)) - 1};
    return true;
}

struct mr_text mr_json_number_text(const struct mr_json_value *value, char scratch[32])
{
    struct mr_text text;
    int64_t integer;
    double number = 0;
    if (mr_json_big(value, &text)) return text;
    if (mr_json_int(value, &integer)) {
        snprintf(scratch, 32, "%lld", (long long)integer);
    } else {
        mr_json_number(value, &number);
        mr_json_format_double(number, scratch);
    }
    return (struct mr_text){scratch, strlen(scratch)};
}

bool mr_json_text(const struct mr_json_value *value, struct mr_text *out)
{
    if (!value || !json_is_string(node_of(value)) || is_big_node(node_of(value))) return false;
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
    bool has = false;
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
        if (found) *raw = mr_text_part(bytes, start, trimmed);
        has |= found;
        at = skip_space(bytes, end);
    }
    return has;
}
