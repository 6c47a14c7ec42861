#include "codec/template/jinja_value.h"

#include "codec/check.h"
#include "codec/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_jinja_value mr_jinja_fail(struct mr_jinja_run *run, enum mr_status status,
                                    const char *fmt, ...)
{
    if (run->status == MR_OK) {
        va_list args;
        va_start(args, fmt);
        run->status = status;
        if (run->err) {
            run->err->status = status;
            vsnprintf(run->err->detail, sizeof run->err->detail, fmt, args);
        }
        va_end(args);
    }
    return mr_jinja_undefined();
}

static void *take(struct mr_jinja_run *run, size_t count, size_t size)
{
    void *taken = run->status == MR_OK ? mr_arena_take_array(run->arena, count, size) : NULL;
    if (!taken) mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: out of memory for text");
    return taken;
}

struct mr_jinja_value mr_jinja_undefined(void)
{
    return (struct mr_jinja_value){.kind = MR_JINJA_UNDEFINED};
}

struct mr_jinja_value mr_jinja_none(void)
{
    return (struct mr_jinja_value){.kind = MR_JINJA_NONE};
}

struct mr_jinja_value mr_jinja_bool(bool value)
{
    return (struct mr_jinja_value){.kind = MR_JINJA_BOOL, .integer = value};
}

struct mr_jinja_value mr_jinja_int(int64_t value)
{
    return (struct mr_jinja_value){.kind = MR_JINJA_INT, .integer = value};
}

struct mr_jinja_value mr_jinja_float(double value)
{
    return (struct mr_jinja_value){.kind = MR_JINJA_FLOAT, .number = value};
}

struct mr_jinja_value mr_jinja_text(struct mr_jinja_run *run, struct mr_text text,
                                    bool from_message)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_TEXT};
    value.text.bytes = text.bytes ? text.bytes : "";
    value.text.length = text.length;
    if (from_message && text.length) {
        unsigned char *marks = take(run, text.length, 1);
        if (marks) memset(marks, 1, text.length);
        value.text.marks = marks;
    }
    return value;
}

struct mr_jinja_value mr_jinja_literal(const char *text)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_TEXT};
    value.text.bytes = text;
    value.text.length = strlen(text);
    return value;
}

struct mr_text mr_jinja_as_text(struct mr_jinja_value value)
{
    if (value.kind != MR_JINJA_TEXT) return (struct mr_text){"", 0};
    return (struct mr_text){value.text.bytes, value.text.length};
}

struct mr_jinja_value mr_jinja_list_new(struct mr_jinja_run *run)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_LIST};
    value.list = take(run, 1, sizeof *value.list);
    return value.list ? value : mr_jinja_none();
}

struct mr_jinja_value mr_jinja_dict_new(struct mr_jinja_run *run)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_DICT};
    value.dict = take(run, 1, sizeof *value.dict);
    return value.dict ? value : mr_jinja_none();
}

/* Makes a new array for `capacity` values and copies `count` values into it. */
static struct mr_jinja_value *regrow(struct mr_jinja_run *run, const struct mr_jinja_value *values,
                                     size_t count, size_t capacity)
{
    struct mr_jinja_value *grown = take(run, capacity, sizeof *grown);
    if (grown && count) memcpy(grown, values, count * sizeof *grown);
    return grown;
}

void mr_jinja_list_push(struct mr_jinja_run *run, struct mr_jinja_list *list,
                        struct mr_jinja_value value)
{
    if (run->status != MR_OK) return;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 8;
        struct mr_jinja_value *items = regrow(run, list->items, list->count, capacity);
        if (!items) return;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = value;
}

void mr_jinja_list_extend(struct mr_jinja_run *run, struct mr_jinja_list *list,
                          const struct mr_jinja_list *from)
{
    /* read before the loop, because `from` may be the same list as `list` */
    size_t count = from->count;
    for (size_t i = 0; i < count; i++)
        mr_jinja_list_push(run, list, from->items[i]);
}

struct mr_jinja_value *mr_jinja_dict_get(const struct mr_jinja_dict *dict,
                                         struct mr_jinja_value key)
{
    for (size_t i = 0; i < dict->count; i++) {
        if (mr_jinja_equal(dict->keys[i], key)) return &dict->values[i];
    }
    return NULL;
}

void mr_jinja_dict_set(struct mr_jinja_run *run, struct mr_jinja_dict *dict,
                       struct mr_jinja_value key, struct mr_jinja_value value)
{
    if (run->status != MR_OK) return;
    struct mr_jinja_value *present = mr_jinja_dict_get(dict, key);
    if (present) {
        *present = value;
        return;
    }
    if (dict->count == dict->capacity) {
        size_t capacity = dict->capacity ? dict->capacity * 2 : 8;
        struct mr_jinja_value *keys = regrow(run, dict->keys, dict->count, capacity);
        struct mr_jinja_value *values = regrow(run, dict->values, dict->count, capacity);
        if (!keys || !values) return;
        dict->keys = keys;
        dict->values = values;
        dict->capacity = capacity;
    }
    dict->keys[dict->count] = key;
    dict->values[dict->count++] = value;
}

bool mr_jinja_truth(struct mr_jinja_value value)
{
    switch (value.kind) {
    case MR_JINJA_UNDEFINED:
    case MR_JINJA_NONE:
        return false;
    case MR_JINJA_BOOL:
    case MR_JINJA_INT:
        return value.integer != 0;
    case MR_JINJA_FLOAT:
        return value.number != 0;
    case MR_JINJA_TEXT:
        return value.text.length != 0;
    case MR_JINJA_LIST:
        return value.list->count != 0;
    case MR_JINJA_DICT:
        return value.dict->count != 0;
    default:
        return true;
    }
}

static bool is_number(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_BOOL || value.kind == MR_JINJA_INT ||
           value.kind == MR_JINJA_FLOAT;
}

static double as_number(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_FLOAT ? value.number : (double)value.integer;
}

static bool equal_lists(const struct mr_jinja_list *a, const struct mr_jinja_list *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!mr_jinja_equal(a->items[i], b->items[i])) return false;
    }
    return true;
}

static bool equal_dicts(const struct mr_jinja_dict *a, const struct mr_jinja_dict *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        struct mr_jinja_value *other = mr_jinja_dict_get(b, a->keys[i]);
        if (!other || !mr_jinja_equal(a->values[i], *other)) return false;
    }
    return true;
}

bool mr_jinja_equal(struct mr_jinja_value a, struct mr_jinja_value b)
{
    if (is_number(a) && is_number(b)) return as_number(a) == as_number(b);
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case MR_JINJA_TEXT:
        return mr_text_equal(mr_jinja_as_text(a), mr_jinja_as_text(b));
    case MR_JINJA_LIST:
        return equal_lists(a.list, b.list);
    case MR_JINJA_DICT:
        return equal_dicts(a.dict, b.dict);
    default:
        return a.kind == MR_JINJA_NONE || a.kind == MR_JINJA_UNDEFINED;
    }
}

int mr_jinja_compare(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b)
{
    if (is_number(a) && is_number(b)) {
        double left = as_number(a), right = as_number(b);
        return (left > right) - (left < right);
    }
    if (a.kind != MR_JINJA_TEXT || b.kind != MR_JINJA_TEXT) {
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: values cannot be ordered");
        return 0;
    }
    size_t common = a.text.length < b.text.length ? a.text.length : b.text.length;
    int order = common ? memcmp(a.text.bytes, b.text.bytes, common) : 0;
    return order ? order : (a.text.length > b.text.length) - (a.text.length < b.text.length);
}

bool mr_jinja_contains(struct mr_jinja_run *run, struct mr_jinja_value container,
                       struct mr_jinja_value item)
{
    switch (container.kind) {
    case MR_JINJA_TEXT:
        if (item.kind != MR_JINJA_TEXT) break;
        return memmem(container.text.bytes, container.text.length, item.text.bytes,
                      item.text.length) != NULL;
    case MR_JINJA_LIST:
        for (size_t i = 0; i < container.list->count; i++) {
            if (mr_jinja_equal(container.list->items[i], item)) return true;
        }
        return false;
    case MR_JINJA_DICT:
        return mr_jinja_dict_get(container.dict, item) != NULL;
    case MR_JINJA_UNDEFINED:
        return false;
    default:
        break;
    }
    mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: 'in' needs a text, list or dictionary");
    return false;
}

size_t mr_jinja_length(struct mr_jinja_run *run, struct mr_jinja_value value)
{
    size_t count = 0;
    switch (value.kind) {
    case MR_JINJA_UNDEFINED:
        return 0;
    case MR_JINJA_LIST:
        return value.list->count;
    case MR_JINJA_DICT:
        return value.dict->count;
    case MR_JINJA_TEXT:
        for (size_t i = 0; i < value.text.length; i++) {
            count += mr_utf8_is_start(value.text.bytes[i]);
        }
        return count;
    default:
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: value has no length");
        return 0;
    }
}

size_t mr_jinja_offset(struct mr_jinja_value text, size_t index)
{
    size_t seen = 0;
    for (size_t i = 0; i < text.text.length; i++) {
        if (!mr_utf8_is_start(text.text.bytes[i])) continue;
        if (seen++ == index) return i;
    }
    return text.text.length;
}

struct mr_jinja_value mr_jinja_slice_bytes(struct mr_jinja_value text, size_t begin, size_t end)
{
    MR_ASSERT(text.kind == MR_JINJA_TEXT && begin <= end && end <= text.text.length);
    text.text.bytes += begin;
    if (text.text.marks) text.text.marks += begin;
    text.text.length = end - begin;
    return text;
}

static void list_characters(struct mr_jinja_run *run, struct mr_jinja_list *list,
                            struct mr_jinja_value value)
{
    for (size_t i = 0; i < value.text.length;) {
        size_t end = i + 1;
        while (end < value.text.length && !mr_utf8_is_start(value.text.bytes[end]))
            end++;
        mr_jinja_list_push(run, list, mr_jinja_slice_bytes(value, i, end));
        i = end;
    }
}

struct mr_jinja_list *mr_jinja_iterate(struct mr_jinja_run *run, struct mr_jinja_value value)
{
    static const struct mr_jinja_list nothing;
    if (value.kind == MR_JINJA_LIST) return value.list;
    struct mr_jinja_value result = mr_jinja_list_new(run);
    if (result.kind != MR_JINJA_LIST) return (struct mr_jinja_list *)(uintptr_t)&nothing;
    if (value.kind == MR_JINJA_DICT) {
        for (size_t i = 0; i < value.dict->count; i++) {
            mr_jinja_list_push(run, result.list, value.dict->keys[i]);
        }
    } else if (value.kind == MR_JINJA_TEXT) {
        list_characters(run, result.list, value);
    } else if (value.kind != MR_JINJA_UNDEFINED) {
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: value cannot be iterated");
    }
    return result.list;
}

/* ---- printing ---- */

static bool buffer_room(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer, size_t more)
{
    if (run->status != MR_OK) return false;
    if (more <= buffer->capacity - buffer->length) return true;
    size_t capacity = (buffer->length + more) * 2 + 64;
    char *bytes = take(run, capacity, 1);
    unsigned char *marks = take(run, capacity, 1);
    if (!bytes || !marks) return false;
    if (buffer->length) {
        memcpy(bytes, buffer->bytes, buffer->length);
        memcpy(marks, buffer->marks, buffer->length);
    }
    buffer->bytes = bytes;
    buffer->marks = marks;
    buffer->capacity = capacity;
    return true;
}

void mr_jinja_append_bytes(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                           const char *bytes, size_t length, bool marked)
{
    if (!length || !buffer_room(run, buffer, length)) return;
    memcpy(buffer->bytes + buffer->length, bytes, length);
    memset(buffer->marks + buffer->length, marked, length);
    buffer->length += length;
}

void mr_jinja_append(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                     struct mr_jinja_value text)
{
    if (!text.text.length || !buffer_room(run, buffer, text.text.length)) return;
    memcpy(buffer->bytes + buffer->length, text.text.bytes, text.text.length);
    if (text.text.marks) {
        memcpy(buffer->marks + buffer->length, text.text.marks, text.text.length);
    } else {
        memset(buffer->marks + buffer->length, 0, text.text.length);
    }
    buffer->length += text.text.length;
}

struct mr_jinja_value mr_jinja_buffer_text(const struct mr_jinja_buffer *buffer)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_TEXT};
    value.text.bytes = buffer->length ? buffer->bytes : "";
    value.text.marks = buffer->length ? buffer->marks : NULL;
    value.text.length = buffer->length;
    return value;
}

static void append_literal(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                           const char *text)
{
    mr_jinja_append_bytes(run, buffer, text, strlen(text), false);
}

/* Prints the shortest decimal that parses to the same number, with ".0" for integral values, as
 * Python does. */
static void append_float(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer, double number)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    append_literal(run, buffer, text);
    if (isfinite(number) && !strpbrk(text, ".e")) append_literal(run, buffer, ".0");
}

static void append_scalar(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                          struct mr_jinja_value value)
{
    char text[24];
    switch (value.kind) {
    case MR_JINJA_INT:
        snprintf(text, sizeof text, "%lld", (long long)value.integer);
        append_literal(run, buffer, text);
        break;
    case MR_JINJA_FLOAT:
        append_float(run, buffer, value.number);
        break;
    default:
        break;
    }
}

/* Prints a text in quotes, with the escapes of Python's repr (quote ') or of JSON (quote "). */
static void append_quoted(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                          struct mr_jinja_value value, char quote)
{
    static const char from[] = "\n\r\t\\", to[] = "nrt\\";
    mr_jinja_append_bytes(run, buffer, &quote, 1, false);
    for (size_t i = 0; i < value.text.length; i++) {
        unsigned char byte = (unsigned char)value.text.bytes[i];
        bool marked = value.text.marks && value.text.marks[i];
        const char *found = byte ? strchr(from, byte) : NULL;
        char text[8];
        int length = 1;
        if (found || byte == (unsigned char)quote) {
            length = snprintf(text, sizeof text, "\\%c", found ? to[found - from] : quote);
        } else if (byte < 0x20) {
            length = snprintf(text, sizeof text, quote == '"' ? "\\u%04x" : "\\x%02x", byte);
        } else {
            text[0] = (char)byte;
        }
        mr_jinja_append_bytes(run, buffer, text, (size_t)length, marked);
    }
    mr_jinja_append_bytes(run, buffer, &quote, 1, false);
}

static void print_nested(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                         struct mr_jinja_value value)
{
    if (value.kind == MR_JINJA_TEXT) {
        append_quoted(run, buffer, value, '\'');
    } else {
        mr_jinja_print(run, buffer, value);
    }
}

static void print_dict(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                       const struct mr_jinja_dict *dict)
{
    append_literal(run, buffer, "{");
    for (size_t i = 0; i < dict->count; i++) {
        if (i) append_literal(run, buffer, ", ");
        print_nested(run, buffer, dict->keys[i]);
        append_literal(run, buffer, ": ");
        print_nested(run, buffer, dict->values[i]);
    }
    append_literal(run, buffer, "}");
}

void mr_jinja_print(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value)
{
    if (run->status != MR_OK) return;
    switch (value.kind) {
    case MR_JINJA_TEXT:
        mr_jinja_append(run, buffer, value);
        break;
    case MR_JINJA_NONE:
        append_literal(run, buffer, "None");
        break;
    case MR_JINJA_BOOL:
        append_literal(run, buffer, value.integer ? "True" : "False");
        break;
    case MR_JINJA_LIST:
        append_literal(run, buffer, "[");
        for (size_t i = 0; i < value.list->count; i++) {
            if (i) append_literal(run, buffer, ", ");
            print_nested(run, buffer, value.list->items[i]);
        }
        append_literal(run, buffer, "]");
        break;
    case MR_JINJA_DICT:
        print_dict(run, buffer, value.dict);
        break;
    default:
        append_scalar(run, buffer, value);
    }
}

/* Prints what is in front of an item of JSON: a comma unless it is the first, and with indent a
 * line break and spaces. */
static void json_break(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer, bool first,
                       int64_t indent, uint32_t level)
{
    if (indent < 0) {
        if (!first) append_literal(run, buffer, ", ");
        return;
    }
    append_literal(run, buffer, first ? "\n" : ",\n");
    for (int64_t i = 0; i < indent * level; i++)
        append_literal(run, buffer, " ");
}

static void json_close(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer, size_t count,
                       int64_t indent, uint32_t level)
{
    if (count && indent >= 0) json_break(run, buffer, true, indent, level);
}

static void json_container(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                           struct mr_jinja_value value, int64_t indent, uint32_t level)
{
    bool is_list = value.kind == MR_JINJA_LIST;
    size_t count = is_list ? value.list->count : value.dict->count;
    append_literal(run, buffer, is_list ? "[" : "{");
    for (size_t i = 0; i < count && run->status == MR_OK; i++) {
        json_break(run, buffer, i == 0, indent, level + 1);
        if (!is_list && value.dict->keys[i].kind != MR_JINJA_TEXT) {
            mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: JSON keys must be text");
        } else if (!is_list) {
            append_quoted(run, buffer, value.dict->keys[i], '"');
            append_literal(run, buffer, ": ");
        }
        struct mr_jinja_value item = is_list ? value.list->items[i] : value.dict->values[i];
        mr_jinja_print_json(run, buffer, item, indent, level + 1);
    }
    json_close(run, buffer, count, indent, level);
    append_literal(run, buffer, is_list ? "]" : "}");
}

void mr_jinja_print_json(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                         struct mr_jinja_value value, int64_t indent, uint32_t level)
{
    switch (value.kind) {
    case MR_JINJA_TEXT:
        append_quoted(run, buffer, value, '"');
        break;
    case MR_JINJA_NONE:
        append_literal(run, buffer, "null");
        break;
    case MR_JINJA_BOOL:
        append_literal(run, buffer, value.integer ? "true" : "false");
        break;
    case MR_JINJA_INT:
    case MR_JINJA_FLOAT:
        append_scalar(run, buffer, value);
        break;
    case MR_JINJA_LIST:
    case MR_JINJA_DICT:
        json_container(run, buffer, value, indent, level);
        break;
    default:
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: tojson of an undefined value");
    }
}
