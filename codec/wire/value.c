#include "codec/wire/value.h"

#include <math.h>
#include <string.h>

enum mr_value_kind mr_value_kind(struct mr_value value)
{
    return value.ops->kind(value.node);
}

const char *mr_value_kind_name(enum mr_value_kind kind)
{
    static const char *const names[] = {
        [MR_VALUE_NULL] = "null",          [MR_VALUE_BOOL] = "a boolean",
        [MR_VALUE_INT] = "an integer",     [MR_VALUE_BIG] = "a number outside of 64 bits",
        [MR_VALUE_FLOAT] = "a float",      [MR_VALUE_TEXT] = "text",
        [MR_VALUE_BINARY] = "binary data", [MR_VALUE_ARRAY] = "an array",
        [MR_VALUE_MAP] = "a map",
    };
    return names[kind];
}

bool mr_value_bool(struct mr_value value)
{
    MR_ASSERT(mr_value_kind(value) == MR_VALUE_BOOL);
    return value.ops->integer(value.node) != 0;
}

int64_t mr_value_int(struct mr_value value)
{
    MR_ASSERT(mr_value_kind(value) == MR_VALUE_INT);
    return value.ops->integer(value.node);
}

bool mr_value_integer(struct mr_value value, int64_t *out)
{
    enum mr_value_kind kind = mr_value_kind(value);
    if (kind == MR_VALUE_INT) *out = mr_value_int(value);
    if (kind != MR_VALUE_FLOAT) return kind == MR_VALUE_INT;
    double number = mr_value_number(value);
    /* 2^63 is the first double above the range; the comparison is false for NaN */
    if (!(number >= -0x1p63 && number < 0x1p63) || number != floor(number)) return false;
    *out = (int64_t)number;
    return true;
}

double mr_value_number(struct mr_value value)
{
    enum mr_value_kind kind = mr_value_kind(value);
    MR_ASSERT(kind == MR_VALUE_INT || kind == MR_VALUE_FLOAT);
    return value.ops->number(value.node);
}

struct mr_text mr_value_big(struct mr_value value, char scratch[24])
{
    MR_ASSERT(mr_value_kind(value) == MR_VALUE_BIG);
    return value.ops->big(value.node, scratch);
}

struct mr_text mr_value_text(struct mr_value value)
{
    enum mr_value_kind kind = mr_value_kind(value);
    MR_ASSERT(kind == MR_VALUE_TEXT || kind == MR_VALUE_BINARY);
    return value.ops->text(value.node);
}

size_t mr_value_count(struct mr_value value)
{
    enum mr_value_kind kind = mr_value_kind(value);
    MR_ASSERT(kind == MR_VALUE_ARRAY || kind == MR_VALUE_MAP);
    return value.ops->count(value.node);
}

struct mr_value mr_value_at(struct mr_value array, size_t index)
{
    MR_ASSERT(mr_value_kind(array) == MR_VALUE_ARRAY && index < mr_value_count(array));
    return array.ops->at(array.node, index);
}

bool mr_value_next(struct mr_value map, struct mr_member *member)
{
    MR_ASSERT(mr_value_kind(map) == MR_VALUE_MAP);
    return map.ops->next(map.node, member);
}

bool mr_value_get(struct mr_value map, const char *name, struct mr_value *out)
{
    struct mr_member member = {0};
    while (mr_value_next(map, &member)) {
        if (!mr_text_is(member.name, name)) continue;
        *out = member.value;
        return true;
    }
    return false;
}
