#include "codec/template/jinja_sequences.h"

#include "codec/template/jinja_arithmetic.h"
#include "codec/template/jinja_builtins.h"
#include "codec/template/jinja_methods.h"

#include <string.h>

/* The functions have the form of mr_jinja_operation. */
#define FILTER(name)                                                                               \
    struct mr_jinja_value mr_jinja_filter_##name(struct mr_jinja_run *run,                         \
                                                 struct mr_jinja_value value,                      \
                                                 const struct mr_jinja_arguments *args)

static bool given(struct mr_jinja_value argument)
{
    return argument.kind != MR_JINJA_UNDEFINED && argument.kind != MR_JINJA_NONE;
}

struct mr_jinja_value mr_jinja_at_path(struct mr_jinja_run *run, struct mr_jinja_value item,
                                       struct mr_jinja_value path, struct mr_jinja_value otherwise)
{
    if (path.kind == MR_JINJA_INT) item = mr_jinja_index(run, item, path);
    struct mr_text text = mr_jinja_as_text(path);
    for (size_t at = 0; path.kind == MR_JINJA_TEXT && at <= text.length && mr_jinja_step(run);) {
        const char *dot = memchr(text.bytes + at, '.', text.length - at);
        size_t end = dot ? (size_t)(dot - text.bytes) : text.length;
        struct mr_text part = mr_text_part(text, at, end);
        int64_t number = 0;
        bool digits = part.length > 0 && part.length < 10;
        for (size_t i = 0; digits && i < part.length; i++) {
            digits = part.bytes[i] >= '0' && part.bytes[i] <= '9';
            number = number * 10 + (part.bytes[i] - '0');
        }
        item = mr_jinja_index(run, item, digits ? mr_jinja_int(number) : mr_jinja_name(part));
        if (item.kind == MR_JINJA_UNDEFINED && given(otherwise)) item = otherwise;
        at = end + 1;
    }
    return item;
}

/* A key to compare: in lower case unless case_sensitive. */
static struct mr_jinja_value fold(struct mr_jinja_run *run, struct mr_jinja_value key,
                                  struct mr_jinja_value case_sensitive)
{
    if (key.kind != MR_JINJA_TEXT || mr_jinja_truth(case_sensitive)) return key;
    return mr_jinja_lower(run, key, NULL);
}

static void push(struct mr_jinja_run *run, struct mr_jinja_value list, struct mr_jinja_value item)
{
    if (list.kind == MR_JINJA_LIST) mr_jinja_list_push(run, list.list, item);
}

/* ---- order ---- */

/* Sorts items by their keys; equal ones keep their order. */
static struct mr_jinja_value sorted(struct mr_jinja_run *run, const struct mr_jinja_list *items,
                                    struct mr_jinja_value *keys, bool reverse)
{
    struct mr_jinja_value list = mr_jinja_list_new(run);
    for (size_t i = 0; i < items->count && run->status == MR_OK; i++) {
        struct mr_jinja_value key = keys[i], item = items->items[i];
        size_t at = i;
        push(run, list, item);
        while (at > 0 && mr_jinja_step(run)) {
            int order = mr_jinja_compare(run, key, keys[at - 1]);
            if (reverse ? order <= 0 : order >= 0) break;
            keys[at] = keys[at - 1];
            list.list->items[at] = list.list->items[at - 1];
            at--;
        }
        if (run->status != MR_OK) break;
        keys[at] = key;
        list.list->items[at] = item;
    }
    return list;
}

/* The keys of items for sorting by `path`, which may name several attributes: "a,b". */
static struct mr_jinja_value *keys_of(struct mr_jinja_run *run, const struct mr_jinja_list *items,
                                      struct mr_jinja_value path,
                                      struct mr_jinja_value case_sensitive)
{
    struct mr_jinja_value *keys = mr_jinja_take(run, items->count + 1, sizeof *keys);
    struct mr_text text = mr_jinja_as_text(path);
    for (size_t i = 0; keys && i < items->count && run->status == MR_OK; i++) {
        if (!text.length || !memchr(text.bytes, ',', text.length)) {
            struct mr_jinja_value key =
                mr_jinja_at_path(run, items->items[i], path, mr_jinja_none());
            keys[i] = fold(run, key, case_sensitive);
            continue;
        }
        keys[i] = mr_jinja_list_new(run);
        for (size_t at = 0; at <= text.length && run->status == MR_OK;) {
            const char *comma = memchr(text.bytes + at, ',', text.length - at);
            size_t end = comma ? (size_t)(comma - text.bytes) : text.length;
            struct mr_jinja_value part = mr_jinja_name(mr_text_part(text, at, end));
            struct mr_jinja_value key =
                mr_jinja_at_path(run, items->items[i], part, mr_jinja_none());
            push(run, keys[i], fold(run, key, case_sensitive));
            at = end + 1;
        }
    }
    return keys;
}

FILTER(sort)
{
    const struct mr_jinja_list *items = mr_jinja_iterate(run, value);
    struct mr_jinja_value *keys = keys_of(run, items, args->values[2], args->values[1]);
    if (!keys) return mr_jinja_undefined();
    return sorted(run, items, keys, mr_jinja_truth(args->values[0]));
}

FILTER(dictsort)
{
    bool by_value = mr_text_is(mr_jinja_as_text(args->values[1]), "value");
    if (value.kind != MR_JINJA_DICT)
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: dictsort of a value that is not a dictionary");
    struct mr_jinja_value pairs = mr_jinja_pairs(run, value.dict, MR_JINJA_LIST_PLAIN);
    if (pairs.kind != MR_JINJA_LIST) return pairs;
    struct mr_jinja_value *keys = keys_of(run, pairs.list, mr_jinja_int(by_value), args->values[0]);
    if (!keys) return mr_jinja_undefined();
    return sorted(run, pairs.list, keys, mr_jinja_truth(args->values[2]));
}

static struct mr_jinja_value extreme(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     const struct mr_jinja_arguments *args, int wanted)
{
    const struct mr_jinja_list *items = mr_jinja_iterate(run, value);
    struct mr_jinja_value *keys = keys_of(run, items, args->values[1], args->values[0]);
    size_t best = 0;
    for (size_t i = 1; keys && i < items->count && run->status == MR_OK; i++)
        if (mr_jinja_compare(run, keys[i], keys[best]) * wanted > 0) best = i;
    return items->count ? items->items[best] : mr_jinja_undefined();
}

FILTER(min)
{
    return extreme(run, value, args, -1);
}

FILTER(max)
{
    return extreme(run, value, args, 1);
}

FILTER(unique)
{
    const struct mr_jinja_list *items = mr_jinja_iterate(run, value);
    struct mr_jinja_value *keys = keys_of(run, items, args->values[1], args->values[0]);
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, MR_JINJA_LIST_ITERATOR);
    struct mr_jinja_value seen = mr_jinja_list_new(run);
    for (size_t i = 0; keys && i < items->count && run->status == MR_OK; i++) {
        bool list_key = keys[i].kind == MR_JINJA_LIST && keys[i].list->kind != MR_JINJA_LIST_TUPLE;
        if (list_key || keys[i].kind == MR_JINJA_DICT)
            return mr_jinja_fail(run, MR_INVALID_REQUEST,
                                 "chat template: unique of lists or dictionaries");
        if (mr_jinja_contains(run, seen, keys[i])) continue;
        push(run, seen, keys[i]);
        push(run, list, items->items[i]);
    }
    return list;
}

/* The result is a list of tuples (grouper, list). In Jinja the tuples have these two names as
 * attributes. Templates use them only in `for grouper, list in`, so plain tuples are enough here.
 */
FILTER(groupby)
{
    const struct mr_jinja_list *items = mr_jinja_iterate(run, value);
    struct mr_jinja_value groups = mr_jinja_list_new(run), last = mr_jinja_undefined();
    struct mr_jinja_value *keys = mr_jinja_take(run, items->count + 1, sizeof *keys);
    for (size_t i = 0; keys && i < items->count && run->status == MR_OK; i++)
        keys[i] =
            fold(run, mr_jinja_at_path(run, items->items[i], args->values[0], args->values[1]),
                 args->values[2]);
    struct mr_jinja_value order = keys ? sorted(run, items, keys, false) : groups;
    for (size_t i = 0; run->status == MR_OK && i < order.list->count; i++) {
        struct mr_jinja_value item = order.list->items[i];
        if (i == 0 || !mr_jinja_equal(run, keys[i], keys[i - 1])) {
            struct mr_jinja_value group = mr_jinja_list_of_kind(run, MR_JINJA_LIST_TUPLE);
            push(run, group, mr_jinja_at_path(run, item, args->values[0], args->values[1]));
            last = mr_jinja_list_new(run);
            push(run, group, last);
            push(run, groups, group);
        }
        push(run, last, item);
    }
    return groups;
}

/* ---- parts ---- */

FILTER(first)
{
    (void)args;
    const struct mr_jinja_list *list = mr_jinja_iterate(run, value);
    return list->count ? list->items[0] : mr_jinja_undefined();
}

FILTER(last)
{
    (void)args;
    bool iterator = value.kind == MR_JINJA_LIST && value.list->kind == MR_JINJA_LIST_ITERATOR;
    if (iterator)
        return mr_jinja_fail(
            run, MR_INVALID_REQUEST,
            "chat template: last of a filter's result; convert the result to a list");
    const struct mr_jinja_list *list = mr_jinja_iterate(run, value);
    return list->count ? list->items[list->count - 1] : mr_jinja_undefined();
}

FILTER(list)
{
    (void)args;
    const struct mr_jinja_list *from = mr_jinja_iterate(run, value);
    struct mr_jinja_value list = mr_jinja_list_new(run);
    if (list.kind == MR_JINJA_LIST) mr_jinja_list_extend(run, list.list, from);
    return list;
}

FILTER(reverse)
{
    (void)args;
    bool text = value.kind == MR_JINJA_TEXT;
    const struct mr_jinja_list *from = mr_jinja_iterate(run, value);
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, MR_JINJA_LIST_ITERATOR);
    for (size_t i = from->count; i > 0 && run->status == MR_OK; i--)
        push(run, list, from->items[i - 1]);
    return text ? mr_jinja_join(run, list, mr_jinja_undefined()) : list;
}

FILTER(items)
{
    (void)args;
    if (value.kind == MR_JINJA_UNDEFINED) return mr_jinja_list_of_kind(run, MR_JINJA_LIST_ITERATOR);
    if (value.kind != MR_JINJA_DICT)
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: items needs a dictionary");
    return mr_jinja_pairs(run, value.dict, MR_JINJA_LIST_ITERATOR);
}

FILTER(batch)
{
    const struct mr_jinja_list *items = mr_jinja_iterate(run, value);
    int64_t size = mr_jinja_integer_or(run, args->values[0], 0);
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, MR_JINJA_LIST_ITERATOR), part = list;
    if (size <= 0)
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: batch into groups of no items");
    for (size_t i = 0; i < items->count && mr_jinja_step(run); i++) {
        if ((int64_t)i % size == 0) {
            part = mr_jinja_list_new(run);
            push(run, list, part);
        }
        push(run, part, items->items[i]);
    }
    bool fills = given(args->values[1]) && items->count > 0;
    while (fills && (int64_t)part.list->count < size && mr_jinja_step(run))
        push(run, part, args->values[1]);
    return list;
}

FILTER(slice)
{
    const struct mr_jinja_list *items = mr_jinja_iterate(run, value);
    int64_t slices = mr_jinja_integer_or(run, args->values[0], 0);
    int64_t count = (int64_t)items->count, at = 0;
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, MR_JINJA_LIST_ITERATOR);
    if (slices <= 0)
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: slice into 0 parts");
    for (int64_t i = 0; i < slices && mr_jinja_step(run); i++) {
        int64_t end = at + count / slices + (i < count % slices);
        struct mr_jinja_value part = mr_jinja_list_new(run);
        bool fills = given(args->values[1]) && i >= count % slices;
        while (at < end && run->status == MR_OK)
            push(run, part, items->items[at++]);
        if (fills) push(run, part, args->values[1]);
        push(run, list, part);
    }
    return list;
}

FILTER(sum)
{
    const struct mr_jinja_list *items = mr_jinja_iterate(run, value);
    struct mr_jinja_value sum =
        args->values[1].kind == MR_JINJA_UNDEFINED ? mr_jinja_int(0) : args->values[1];
    for (size_t i = 0; i < items->count && mr_jinja_step(run); i++)
        sum = mr_jinja_arithmetic(
            run, (struct mr_text){"+", 1}, sum,
            mr_jinja_at_path(run, items->items[i], args->values[0], mr_jinja_undefined()));
    return sum;
}

FILTER(join)
{
    struct mr_jinja_value list = value, path = args->values[1];
    if (given(path)) {
        const struct mr_jinja_list *items = mr_jinja_iterate(run, value);
        list = mr_jinja_list_new(run);
        for (size_t i = 0; i < items->count && run->status == MR_OK; i++)
            push(run, list, mr_jinja_at_path(run, items->items[i], path, mr_jinja_undefined()));
    }
    return mr_jinja_join(run, list, mr_jinja_text_of(run, args->values[0]));
}

/* ---- select and reject ---- */

/* The filters select and reject, and with by_attribute selectattr and rejectattr. wanted: the
 * result of the test for the items that are kept. */
static struct mr_jinja_value keep_items(struct mr_jinja_run *run, struct mr_jinja_value value,
                                        const struct mr_jinja_arguments *args, bool by_attribute,
                                        bool wanted)
{
    const struct mr_jinja_list *from = mr_jinja_items_if_true(run, value);
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, MR_JINJA_LIST_ITERATOR);
    uint32_t test_at = by_attribute ? 1 : 0;
    bool tests = args->count > test_at;
    struct mr_jinja_arguments rest = mr_jinja_skip_arguments(args, test_at + 1);
    if (from->count && by_attribute && !args->count)
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: selectattr and rejectattr need an attribute");
    for (size_t i = 0; i < from->count && run->status == MR_OK; i++) {
        struct mr_jinja_value item = from->items[i];
        if (by_attribute) item = mr_jinja_at_path(run, item, args->values[0], mr_jinja_undefined());
        bool passed = tests
                          ? mr_jinja_test(run, mr_jinja_as_text(args->values[test_at]), item, &rest)
                          : mr_jinja_truth(item);
        if (passed == wanted) push(run, list, from->items[i]);
    }
    return list;
}

FILTER(select)
{
    return keep_items(run, value, args, false, true);
}

FILTER(reject)
{
    return keep_items(run, value, args, false, false);
}

FILTER(selectattr)
{
    return keep_items(run, value, args, true, true);
}

FILTER(rejectattr)
{
    return keep_items(run, value, args, true, false);
}
