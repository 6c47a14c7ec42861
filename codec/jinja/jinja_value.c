#include "codec/jinja/jinja_value.h"

#include "codec/check.h"
#include "codec/limits.h"
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

void *mr_jinja_take(struct mr_jinja_run *run, size_t count, size_t size)
{
    void *taken = run->status == MR_OK ? mr_arena_take_array(run->arena, count, size) : NULL;
    if (!taken) mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: out of memory for text");
    return taken;
}

bool mr_jinja_step(struct mr_jinja_run *run)
{
    if (run->status != MR_OK) return false;
    if (++run->steps <= MR_TEMPLATE_STEPS_MAX) return true;
    mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: more than %u steps",
                  MR_TEMPLATE_STEPS_MAX);
    return false;
}

bool mr_jinja_step_into(struct mr_jinja_run *run, uint32_t level)
{
    if (level > MR_TEMPLATE_DEPTH_MAX)
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: a value is nested too deeply");
    return mr_jinja_step(run);
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
        unsigned char *marks = mr_jinja_take(run, text.length, 1);
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

struct mr_jinja_value mr_jinja_name(struct mr_text name)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_TEXT};
    value.text.bytes = name.bytes;
    value.text.length = name.length;
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
    value.list = mr_jinja_take(run, 1, sizeof *value.list);
    return value.list ? value : mr_jinja_none();
}

struct mr_jinja_value mr_jinja_list_of_kind(struct mr_jinja_run *run, enum mr_jinja_list_kind kind)
{
    struct mr_jinja_value value = mr_jinja_list_new(run);
    if (value.kind == MR_JINJA_LIST) value.list->kind = kind;
    return value;
}

struct mr_jinja_value mr_jinja_dict_new(struct mr_jinja_run *run)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_DICT};
    value.dict = mr_jinja_take(run, 1, sizeof *value.dict);
    return value.dict ? value : mr_jinja_none();
}

/* Makes a new array for `capacity` values and copies `count` values into it. */
static struct mr_jinja_value *regrow(struct mr_jinja_run *run, const struct mr_jinja_value *values,
                                     size_t count, size_t capacity)
{
    struct mr_jinja_value *grown = mr_jinja_take(run, capacity, sizeof *grown);
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

bool mr_jinja_is_number(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_BOOL || value.kind == MR_JINJA_INT ||
           value.kind == MR_JINJA_FLOAT;
}

double mr_jinja_as_number(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_FLOAT ? value.number : (double)value.integer;
}

/* Lists and dictionaries are never equal here: neither can be a key. */
static bool equal_scalars(struct mr_jinja_value a, struct mr_jinja_value b)
{
    if (mr_jinja_is_number(a) && mr_jinja_is_number(b)) {
        if (a.kind == MR_JINJA_FLOAT || b.kind == MR_JINJA_FLOAT)
            return mr_jinja_as_number(a) == mr_jinja_as_number(b);
        return a.integer == b.integer;
    }
    if (a.kind != b.kind) return false;
    if (a.kind == MR_JINJA_BIG) a.kind = b.kind = MR_JINJA_TEXT; /* the digits are a text */
    if (a.kind == MR_JINJA_TEXT) return mr_text_equal(mr_jinja_as_text(a), mr_jinja_as_text(b));
    if (a.kind == MR_JINJA_NAMESPACE) return a.dict == b.dict;
    return a.kind == MR_JINJA_NONE || a.kind == MR_JINJA_UNDEFINED;
}

struct mr_jinja_value *mr_jinja_dict_get(const struct mr_jinja_dict *dict,
                                         struct mr_jinja_value key)
{
    for (size_t i = 0; i < dict->count; i++) {
        if (equal_scalars(dict->keys[i], key)) return &dict->values[i];
    }
    return NULL;
}

void mr_jinja_dict_set(struct mr_jinja_run *run, struct mr_jinja_dict *dict,
                       struct mr_jinja_value key, struct mr_jinja_value value)
{
    if (run->status != MR_OK) return;
    if (key.kind == MR_JINJA_LIST || key.kind == MR_JINJA_DICT) {
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: a key is a list or a dictionary");
        return;
    }
    struct mr_jinja_value *present = mr_jinja_dict_get(dict, key);
    if (present)
        *present = value;
    else
        mr_jinja_dict_append(run, dict, key, value);
}

void mr_jinja_dict_append(struct mr_jinja_run *run, struct mr_jinja_dict *dict,
                          struct mr_jinja_value key, struct mr_jinja_value value)
{
    if (run->status != MR_OK) return;
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
        return value.list->count != 0 || value.list->kind == MR_JINJA_LIST_ITERATOR;
    case MR_JINJA_DICT:
        return value.dict->count != 0;
    default:
        return true;
    }
}

static bool equal_at(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b,
                     uint32_t level);

static bool equal_lists(struct mr_jinja_run *run, const struct mr_jinja_list *a,
                        const struct mr_jinja_list *b, uint32_t level)
{
    bool same = a->count == b->count && a->kind == b->kind;
    if (a->kind == MR_JINJA_LIST_ITERATOR) return a == b;
    for (size_t i = 0; same && i < a->count; i++)
        same = equal_at(run, a->items[i], b->items[i], level);
    return same;
}

static bool equal_dicts(struct mr_jinja_run *run, const struct mr_jinja_dict *a,
                        const struct mr_jinja_dict *b, uint32_t level)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        struct mr_jinja_value *other = mr_jinja_dict_get(b, a->keys[i]);
        same = other && equal_at(run, a->values[i], *other, level);
    }
    return same;
}

/* level: nesting of the containers that are compared; a list may contain itself. */
static bool equal_at(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b,
                     uint32_t level)
{
    if (!mr_jinja_step_into(run, level)) return false;
    if (a.kind == MR_JINJA_LIST && b.kind == MR_JINJA_LIST)
        return equal_lists(run, a.list, b.list, level + 1);
    if (a.kind == MR_JINJA_DICT && b.kind == MR_JINJA_DICT)
        return equal_dicts(run, a.dict, b.dict, level + 1);
    return equal_scalars(a, b);
}

bool mr_jinja_equal(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b)
{
    return equal_at(run, a, b, 0);
}

static int compare_at(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b,
                      uint32_t level);

static int compare_lists(struct mr_jinja_run *run, const struct mr_jinja_list *a,
                         const struct mr_jinja_list *b, uint32_t level)
{
    for (size_t i = 0; i < a->count && i < b->count && run->status == MR_OK; i++)
        if (!equal_at(run, a->items[i], b->items[i], level))
            return compare_at(run, a->items[i], b->items[i], level);
    return (a->count > b->count) - (a->count < b->count);
}

static int compare_at(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b,
                      uint32_t level)
{
    if (!mr_jinja_step_into(run, level)) return 0;
    if (mr_jinja_is_number(a) && mr_jinja_is_number(b)) {
        if (a.kind != MR_JINJA_FLOAT && b.kind != MR_JINJA_FLOAT)
            return (a.integer > b.integer) - (a.integer < b.integer);
        double left = mr_jinja_as_number(a), right = mr_jinja_as_number(b);
        return (left > right) - (left < right);
    }
    if (a.kind == MR_JINJA_LIST && b.kind == MR_JINJA_LIST && a.list->kind == b.list->kind &&
        a.list->kind <= MR_JINJA_LIST_TUPLE)
        return compare_lists(run, a.list, b.list, level + 1);
    if (a.kind != MR_JINJA_TEXT || b.kind != MR_JINJA_TEXT) {
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: the values cannot be ordered");
        return 0;
    }
    size_t common = a.text.length < b.text.length ? a.text.length : b.text.length;
    int order = common ? memcmp(a.text.bytes, b.text.bytes, common) : 0;
    return order ? order : (a.text.length > b.text.length) - (a.text.length < b.text.length);
}

int mr_jinja_compare(struct mr_jinja_run *run, struct mr_jinja_value a, struct mr_jinja_value b)
{
    return compare_at(run, a, b, 0);
}

bool mr_jinja_contains(struct mr_jinja_run *run, struct mr_jinja_value container,
                       struct mr_jinja_value item)
{
    switch (container.kind) {
    case MR_JINJA_TEXT:
        if (item.kind != MR_JINJA_TEXT) break;
        return memmem(container.text.bytes, container.text.length, item.text.bytes,
                      item.text.length) != NULL;
    case MR_JINJA_LIST: {
        const struct mr_jinja_list *list = mr_jinja_iterate(run, container);
        for (size_t i = 0; i < list->count && run->status == MR_OK; i++)
            if (mr_jinja_equal(run, list->items[i], item)) return true;
        return false;
    }
    case MR_JINJA_DICT:
        if (item.kind == MR_JINJA_LIST || item.kind == MR_JINJA_DICT) break;
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
        if (value.list->kind != MR_JINJA_LIST_ITERATOR) return value.list->count;
        mr_jinja_fail(run, MR_INVALID_REQUEST,
                      "chat template: the result of a filter has no length; convert it to a list");
        return 0;
    case MR_JINJA_DICT:
        return value.dict->count;
    case MR_JINJA_TEXT:
        for (size_t i = 0; i < value.text.length; i++) {
            count += mr_utf8_is_start(value.text.bytes[i]);
        }
        return count;
    default:
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: the value has no length");
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
    if (value.kind == MR_JINJA_LIST && value.list->kind != MR_JINJA_LIST_ITERATOR)
        return value.list;
    struct mr_jinja_value result = mr_jinja_list_new(run);
    if (result.kind != MR_JINJA_LIST) return (struct mr_jinja_list *)(uintptr_t)&nothing;
    if (value.kind == MR_JINJA_LIST) {
        *result.list = *value.list;
        *value.list = (struct mr_jinja_list){.kind = MR_JINJA_LIST_ITERATOR};
    } else if (value.kind == MR_JINJA_DICT) {
        for (size_t i = 0; i < value.dict->count; i++) {
            mr_jinja_list_push(run, result.list, value.dict->keys[i]);
        }
    } else if (value.kind == MR_JINJA_TEXT) {
        list_characters(run, result.list, value);
    } else if (value.kind != MR_JINJA_UNDEFINED) {
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: the value cannot be iterated");
    }
    return result.list;
}
