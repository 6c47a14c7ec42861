#include "codec/template/jinja_builtins.h"

#include "codec/template/jinja_methods.h"
#include "codec/template/jinja_print.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define RANGE_MAX    100000u /* numbers in a range, as in the sandbox of the reference */

/* The value as a text: what printing it gives. */
static struct mr_jinja_value text_of(struct mr_jinja_run *run, struct mr_jinja_value value)
{
    struct mr_jinja_buffer buffer = {0};
    if (value.kind == MR_JINJA_TEXT) return value;
    mr_jinja_print(run, &buffer, value);
    return mr_jinja_buffer_text(&buffer);
}

/* ---- filters ---- */

static struct mr_jinja_value filter_trim(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value chars = mr_jinja_argument(args, 0, "chars");
    return mr_jinja_strip(run, value, chars.kind == MR_JINJA_TEXT ? &chars : NULL, MR_JINJA_BOTH);
}

static struct mr_jinja_value filter_length(struct mr_jinja_run *run, struct mr_jinja_value value,
                                           const struct mr_jinja_arguments *args)
{
    (void)args;
    return mr_jinja_int((int64_t)mr_jinja_length(run, value));
}

static struct mr_jinja_value filter_tojson(struct mr_jinja_run *run, struct mr_jinja_value value,
                                           const struct mr_jinja_arguments *args)
{
    struct mr_jinja_buffer buffer = {0};
    struct mr_jinja_value indent = mr_jinja_argument(args, 0, "indent");
    int64_t spaces = indent.kind == MR_JINJA_INT ? indent.integer : -1;
    mr_jinja_print_json(run, &buffer, value, spaces > 16 ? 16 : spaces, 0);
    return mr_jinja_buffer_text(&buffer);
}

static struct mr_jinja_value filter_join(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         const struct mr_jinja_arguments *args)
{
    return mr_jinja_join(run, value, mr_jinja_argument(args, 0, "d"));
}

static struct mr_jinja_value filter_first(struct mr_jinja_run *run, struct mr_jinja_value value,
                                          const struct mr_jinja_arguments *args)
{
    (void)args;
    struct mr_jinja_list *list = mr_jinja_iterate(run, value);
    return list->count ? list->items[0] : mr_jinja_undefined();
}

static struct mr_jinja_value filter_last(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         const struct mr_jinja_arguments *args)
{
    (void)args;
    struct mr_jinja_list *list = mr_jinja_iterate(run, value);
    return list->count ? list->items[list->count - 1] : mr_jinja_undefined();
}

static struct mr_jinja_value filter_default(struct mr_jinja_run *run, struct mr_jinja_value value,
                                            const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value otherwise = mr_jinja_argument(args, 0, "default_value");
    bool falsy = mr_jinja_truth(mr_jinja_argument(args, 1, "boolean")) && !mr_jinja_truth(value);
    if (value.kind != MR_JINJA_UNDEFINED && !falsy) return value;
    (void)run;
    return otherwise.kind == MR_JINJA_UNDEFINED ? mr_jinja_literal("") : otherwise;
}

static struct mr_jinja_value copy_list(struct mr_jinja_run *run, struct mr_jinja_value value,
                                       bool reversed)
{
    struct mr_jinja_list *from = mr_jinja_iterate(run, value);
    struct mr_jinja_value list = mr_jinja_list_new(run);
    for (size_t i = 0; list.kind == MR_JINJA_LIST && i < from->count; i++) {
        mr_jinja_list_push(run, list.list, from->items[reversed ? from->count - 1 - i : i]);
    }
    return list;
}

static struct mr_jinja_value filter_list(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         const struct mr_jinja_arguments *args)
{
    (void)args;
    return copy_list(run, value, false);
}

static struct mr_jinja_value filter_reverse(struct mr_jinja_run *run, struct mr_jinja_value value,
                                            const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value list = copy_list(run, value, true);
    return value.kind == MR_JINJA_TEXT ? filter_join(run, list, args) : list;
}

static struct mr_jinja_value filter_string(struct mr_jinja_run *run, struct mr_jinja_value value,
                                           const struct mr_jinja_arguments *args)
{
    (void)args;
    return text_of(run, value);
}

static double number_of(struct mr_jinja_value value)
{
    char text[64] = "";
    if (value.kind == MR_JINJA_FLOAT) return value.number;
    if (value.kind == MR_JINJA_INT || value.kind == MR_JINJA_BOOL) return (double)value.integer;
    if (value.kind == MR_JINJA_TEXT && value.text.length < sizeof text) {
        memcpy(text, value.text.bytes, value.text.length);
    }
    return strtod(text, NULL);
}

static struct mr_jinja_value filter_int(struct mr_jinja_run *run, struct mr_jinja_value value,
                                        const struct mr_jinja_arguments *args)
{
    (void)run;
    (void)args;
    double number = number_of(value);
    return mr_jinja_int(number > -9e15 && number < 9e15 ? (int64_t)number : 0);
}

static struct mr_jinja_value filter_float(struct mr_jinja_run *run, struct mr_jinja_value value,
                                          const struct mr_jinja_arguments *args)
{
    (void)run;
    (void)args;
    return mr_jinja_float(number_of(value));
}

static struct mr_jinja_value filter_replace(struct mr_jinja_run *run, struct mr_jinja_value value,
                                            const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value old = mr_jinja_argument(args, 0, "old");
    struct mr_jinja_value new = mr_jinja_argument(args, 1, "new");
    return mr_jinja_replace(run, value, text_of(run, old), text_of(run, new));
}

static struct mr_jinja_value filter_safe(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         const struct mr_jinja_arguments *args)
{
    (void)run;
    (void)args;
    return value;
}

static struct mr_jinja_value filter_abs(struct mr_jinja_run *run, struct mr_jinja_value value,
                                        const struct mr_jinja_arguments *args)
{
    (void)args;
    if (value.kind == MR_JINJA_FLOAT)
        return mr_jinja_float(value.number < 0 ? -value.number : value.number);
    if (value.kind != MR_JINJA_INT && value.kind != MR_JINJA_BOOL)
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: abs of something else than "
                             "a number");
    return mr_jinja_int(value.integer < 0 && value.integer != INT64_MIN ? -value.integer
                                                                        : value.integer);
}

/* The arguments after the first `skip` ones. When an argument names a filter or test to call, the
 * arguments behind that name are for the named filter or test. */
static struct mr_jinja_arguments skip_arguments(const struct mr_jinja_arguments *args,
                                                uint32_t skip)
{
    struct mr_jinja_arguments rest = {0};
    for (uint32_t i = skip; i < args->count; i++)
        rest.values[rest.count++] = args->values[i];
    return rest;
}

/* The filter map, in its two forms map(attribute="x") and map("filter", arguments). */
static struct mr_jinja_value filter_map(struct mr_jinja_run *run, struct mr_jinja_value value,
                                        const struct mr_jinja_arguments *args)
{
    struct mr_jinja_list *from = mr_jinja_iterate(run, value);
    struct mr_jinja_value list = mr_jinja_list_new(run),
                          attribute = mr_jinja_keyword(args, "attribute");
    struct mr_jinja_arguments rest = skip_arguments(args, 1);
    for (size_t i = 0; list.kind == MR_JINJA_LIST && i < from->count && run->status == MR_OK; i++) {
        struct mr_jinja_value item =
            attribute.kind == MR_JINJA_TEXT
                ? mr_jinja_attribute(run, from->items[i], mr_jinja_as_text(attribute))
                : mr_jinja_filter(run, mr_jinja_as_text(mr_jinja_argument(args, 0, "name")),
                                  from->items[i], &rest);
        mr_jinja_list_push(run, list.list, item);
    }
    return list;
}

/* The filters select and reject, and with by_attribute selectattr and rejectattr. wanted: the
 * result of the test for the items that are kept. */
static struct mr_jinja_value keep_items(struct mr_jinja_run *run, struct mr_jinja_value value,
                                        const struct mr_jinja_arguments *args, bool by_attribute,
                                        bool wanted)
{
    struct mr_jinja_list *from = mr_jinja_iterate(run, value);
    struct mr_jinja_value list = mr_jinja_list_new(run);
    uint32_t test_at = by_attribute ? 1 : 0;
    struct mr_jinja_value test = mr_jinja_argument(args, test_at, "test");
    struct mr_jinja_arguments rest = skip_arguments(args, test_at + 1);
    for (size_t i = 0; list.kind == MR_JINJA_LIST && i < from->count && run->status == MR_OK; i++) {
        struct mr_jinja_value item = from->items[i];
        if (by_attribute)
            item =
                mr_jinja_attribute(run, item, mr_jinja_as_text(mr_jinja_argument(args, 0, "attr")));
        bool passed = test.kind == MR_JINJA_TEXT
                          ? mr_jinja_test(run, mr_jinja_as_text(test), item, &rest)
                          : mr_jinja_truth(item);
        if (passed == wanted) mr_jinja_list_push(run, list.list, from->items[i]);
    }
    return list;
}

static struct mr_jinja_value filter_select(struct mr_jinja_run *run, struct mr_jinja_value value,
                                           const struct mr_jinja_arguments *args)
{
    return keep_items(run, value, args, false, true);
}

static struct mr_jinja_value filter_reject(struct mr_jinja_run *run, struct mr_jinja_value value,
                                           const struct mr_jinja_arguments *args)
{
    return keep_items(run, value, args, false, false);
}

static struct mr_jinja_value filter_selectattr(struct mr_jinja_run *run,
                                               struct mr_jinja_value value,
                                               const struct mr_jinja_arguments *args)
{
    return keep_items(run, value, args, true, true);
}

static struct mr_jinja_value filter_rejectattr(struct mr_jinja_run *run,
                                               struct mr_jinja_value value,
                                               const struct mr_jinja_arguments *args)
{
    return keep_items(run, value, args, true, false);
}

static struct mr_jinja_value filter_unique(struct mr_jinja_run *run, struct mr_jinja_value value,
                                           const struct mr_jinja_arguments *args)
{
    (void)args;
    struct mr_jinja_list *from = mr_jinja_iterate(run, value);
    struct mr_jinja_value list = mr_jinja_list_new(run);
    for (size_t i = 0; run->status == MR_OK && i < from->count; i++) {
        if (!mr_jinja_contains(run, list, from->items[i])) {
            mr_jinja_list_push(run, list.list, from->items[i]);
        }
    }
    return list;
}

/* The filter indent(width=4, first=false): indents every line, the first one only if `first` is
 * true. */
static struct mr_jinja_value filter_indent(struct mr_jinja_run *run, struct mr_jinja_value value,
                                           const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value width = mr_jinja_argument(args, 0, "width");
    int64_t spaces = width.kind == MR_JINJA_INT ? width.integer : 4;
    bool first = mr_jinja_truth(mr_jinja_argument(args, 1, "first"));
    struct mr_jinja_buffer buffer = {0};
    if (value.kind != MR_JINJA_TEXT) return value;
    for (size_t i = 0; i < value.text.length && run->status == MR_OK;) {
        const char *line = value.text.bytes + i;
        const char *end = memchr(line, '\n', value.text.length - i);
        size_t length = end ? (size_t)(end - line) + 1 : value.text.length - i;
        bool blank = length == 1 && end;
        for (int64_t j = 0; (i || first) && !blank && j < spaces && j < 64; j++) {
            mr_jinja_append_bytes(run, &buffer, " ", 1, false);
        }
        mr_jinja_append(run, &buffer, mr_jinja_slice_bytes(value, i, i + length));
        i += length;
    }
    return mr_jinja_buffer_text(&buffer);
}

static const struct {
    const char *name;
    mr_jinja_operation *apply;
    bool of_text; /* a value of another kind is printed, and the filter gets the text */
} filters[] = {
    {"trim", filter_trim, true},         {"length", filter_length, false},
    {"count", filter_length, false},     {"upper", mr_jinja_upper, true},
    {"lower", mr_jinja_lower, true},     {"title", mr_jinja_title, true},
    {"tojson", filter_tojson, false},    {"join", filter_join, false},
    {"first", filter_first, false},      {"last", filter_last, false},
    {"default", filter_default, false},  {"d", filter_default, false},
    {"list", filter_list, false},        {"reverse", filter_reverse, false},
    {"items", mr_jinja_items, false},    {"string", filter_string, false},
    {"int", filter_int, false},          {"float", filter_float, false},
    {"replace", filter_replace, true},   {"safe", filter_safe, false},
    {"abs", filter_abs, false},          {"map", filter_map, false},
    {"select", filter_select, false},    {"reject", filter_reject, false},
    {"unique", filter_unique, false},    {"selectattr", filter_selectattr, false},
    {"indent", filter_indent, false},    {"rejectattr", filter_rejectattr, false},
    {"dictsort", mr_jinja_items, false}, {"capitalize", mr_jinja_capitalize, true},
};

struct mr_jinja_value mr_jinja_filter(struct mr_jinja_run *run, struct mr_text name,
                                      struct mr_jinja_value value,
                                      const struct mr_jinja_arguments *arguments)
{
    for (size_t i = 0; i < COUNT(filters); i++) {
        if (!mr_text_is(name, filters[i].name)) continue;
        return filters[i].apply(run, filters[i].of_text ? text_of(run, value) : value, arguments);
    }
    return mr_jinja_fail_name(run, "unknown filter", name);
}

/* ---- tests ---- */

/* Runs a test that has no argument, such as `is none`. *known: there is a test of that name. */
static bool test_kind(struct mr_text name, struct mr_jinja_value value, bool *known)
{
    bool integer = value.kind == MR_JINJA_INT, text = value.kind == MR_JINJA_TEXT;
    bool list = value.kind == MR_JINJA_LIST, dict = value.kind == MR_JINJA_DICT;
    *known = true;
    if (mr_text_is(name, "defined")) return value.kind != MR_JINJA_UNDEFINED;
    if (mr_text_is(name, "undefined")) return value.kind == MR_JINJA_UNDEFINED;
    if (mr_text_is(name, "none")) return value.kind == MR_JINJA_NONE;
    if (mr_text_is(name, "string")) return text;
    if (mr_text_is(name, "mapping")) return dict;
    if (mr_text_is(name, "iterable") || mr_text_is(name, "sequence"))
        return text || list || dict || value.kind == MR_JINJA_UNDEFINED;
    if (mr_text_is(name, "boolean")) return value.kind == MR_JINJA_BOOL;
    if (mr_text_is(name, "integer")) return integer;
    if (mr_text_is(name, "float")) return value.kind == MR_JINJA_FLOAT;
    if (mr_text_is(name, "number")) {
        return integer || value.kind == MR_JINJA_FLOAT || value.kind == MR_JINJA_BOOL;
    }
    if (mr_text_is(name, "true")) return value.kind == MR_JINJA_BOOL && value.integer;
    if (mr_text_is(name, "false")) return value.kind == MR_JINJA_BOOL && !value.integer;
    if (mr_text_is(name, "odd")) return integer && value.integer % 2 != 0;
    if (mr_text_is(name, "even")) return integer && value.integer % 2 == 0;
    if (mr_text_is(name, "callable")) {
        return value.kind == MR_JINJA_FUNCTION || value.kind == MR_JINJA_METHOD ||
               value.kind == MR_JINJA_MACRO || value.kind == MR_JINJA_UNDEFINED;
    }
    *known = false;
    return false;
}

bool mr_jinja_test(struct mr_jinja_run *run, struct mr_text name, struct mr_jinja_value value,
                   const struct mr_jinja_arguments *arguments)
{
    bool known;
    bool passed = test_kind(name, value, &known);
    if (known) return passed;
    struct mr_jinja_value other = mr_jinja_argument(arguments, 0, "other");
    static const char *const equal[] = {"equalto", "eq", "==", "sameas"};
    for (size_t i = 0; i < COUNT(equal); i++) {
        if (mr_text_is(name, equal[i])) return mr_jinja_equal(run, value, other);
    }
    if (mr_text_is(name, "ne") || mr_text_is(name, "!=")) return !mr_jinja_equal(run, value, other);
    if (mr_text_is(name, "in")) return mr_jinja_contains(run, other, value);
    if (mr_text_is(name, "gt") || mr_text_is(name, ">"))
        return mr_jinja_compare(run, value, other) > 0;
    if (mr_text_is(name, "lt") || mr_text_is(name, "<"))
        return mr_jinja_compare(run, value, other) < 0;
    mr_jinja_fail_name(run, "unknown test", name);
    return false;
}

/* ---- functions ---- */

static struct mr_jinja_value call_range(struct mr_jinja_run *run,
                                        const struct mr_jinja_arguments *args)
{
    int64_t bounds[3] = {0, 0, 1};
    struct mr_jinja_value list = mr_jinja_list_new(run);
    for (uint32_t i = 0; i < args->count && i < 3; i++) {
        if (args->values[i].kind != MR_JINJA_INT)
            return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: range needs integers");
        bounds[i] = args->values[i].integer;
    }
    if (args->count == 1) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    if (!bounds[2])
        return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: range has step 0");
    bool overflow = false;
    for (int64_t i = bounds[0]; !overflow && (bounds[2] > 0 ? i < bounds[1] : i > bounds[1]);
         overflow = __builtin_add_overflow(i, bounds[2], &i)) {
        if (list.list->count == RANGE_MAX)
            return mr_jinja_fail(run, MR_INVALID_REQUEST,
                                 "chat template: a range has more than %u numbers", RANGE_MAX);
        mr_jinja_list_push(run, list.list, mr_jinja_int(i));
        if (run->status != MR_OK) break;
    }
    return list;
}

static struct mr_jinja_value call_dict(struct mr_jinja_run *run,
                                       const struct mr_jinja_arguments *args)
{
    struct mr_jinja_value dict = mr_jinja_dict_new(run);
    for (uint32_t i = 0; dict.kind == MR_JINJA_DICT && i < args->named_count; i++) {
        mr_jinja_dict_set(run, dict.dict, mr_jinja_text(run, args->names[i], false),
                          args->named[i]);
    }
    return dict;
}

static struct mr_jinja_value call_raise(struct mr_jinja_run *run,
                                        const struct mr_jinja_arguments *args)
{
    struct mr_text why = mr_jinja_as_text(mr_jinja_argument(args, 0, "message"));
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "the chat template rejects the request: %.*s",
                         why.length > 150 ? 150 : (int)why.length, why.bytes);
}

static struct mr_jinja_value call_strftime(struct mr_jinja_run *run,
                                           const struct mr_jinja_arguments *args)
{
    struct mr_text format = mr_jinja_as_text(mr_jinja_argument(args, 0, "format"));
    char pattern[64] = "", out[128];
    time_t seconds = (time_t)run->unix_seconds;
    struct tm parts;
    if (!format.length || format.length >= sizeof pattern || !gmtime_r(&seconds, &parts)) {
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: strftime_now has no format or a too long one");
    }
    memcpy(pattern, format.bytes, format.length);
    size_t length = strftime(out, sizeof out, pattern, &parts);
    const char *copy = mr_arena_copy_text(run->arena, out, length);
    if (!copy) return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: out of memory");
    return mr_jinja_text(run, (struct mr_text){copy, length}, false);
}

static const struct {
    const char *name;
    struct mr_jinja_value (*call)(struct mr_jinja_run *run, const struct mr_jinja_arguments *args);
} functions[] = {
    {"range", call_range},           {"namespace", call_dict},        {"dict", call_dict},
    {"raise_exception", call_raise}, {"strftime_now", call_strftime},
};

bool mr_jinja_is_function(struct mr_text name)
{
    for (size_t i = 0; i < COUNT(functions); i++) {
        if (mr_text_is(name, functions[i].name)) return true;
    }
    return false;
}

struct mr_jinja_value mr_jinja_call(struct mr_jinja_run *run, struct mr_jinja_value callee,
                                    const struct mr_jinja_arguments *arguments)
{
    if (callee.kind == MR_JINJA_METHOD) {
        return mr_jinja_method(run, *callee.function.self, callee.function.name, arguments);
    }
    for (size_t i = 0; callee.kind == MR_JINJA_FUNCTION && i < COUNT(functions); i++) {
        if (mr_text_is(callee.function.name, functions[i].name)) {
            return functions[i].call(run, arguments);
        }
    }
    return mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: value cannot be called");
}
