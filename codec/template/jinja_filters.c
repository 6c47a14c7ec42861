#include "codec/template/jinja_filters.h"

#include "codec/jinja/jinja_print.h"
#include "codec/jinja/jinja_space.h"
#include "codec/template/jinja_format.h"
#include "codec/template/jinja_methods.h"
#include "codec/template/jinja_sequences.h"
#include "codec/unicode/unicode.h"
#include "codec/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define NUMBER_BYTES 64

/* The functions have the form of mr_jinja_operation. */
#define FILTER(name)                                                                               \
    static struct mr_jinja_value filter_##name(struct mr_jinja_run *run,                           \
                                               struct mr_jinja_value value,                        \
                                               const struct mr_jinja_arguments *args)

/* ---- text ---- */

FILTER(trim)
{
    return mr_jinja_strip(run, value, args->given ? args->values[0] : mr_jinja_none(),
                          MR_JINJA_BOTH);
}

FILTER(length)
{
    (void)args;
    return mr_jinja_int((int64_t)mr_jinja_length(run, value));
}

FILTER(string)
{
    (void)args;
    return mr_jinja_text_of(run, value);
}

FILTER(replace)
{
    return mr_jinja_replace(run, value, mr_jinja_text_of(run, args->values[0]),
                            mr_jinja_text_of(run, args->values[1]),
                            mr_jinja_integer_or(run, args->values[2], -1));
}

FILTER(safe)
{
    (void)run, (void)args;
    value.markup = true;
    return value;
}

FILTER(escape)
{
    (void)args;
    return mr_jinja_escape(run, value);
}

FILTER(format)
{
    struct mr_jinja_value values = mr_jinja_list_of_kind(run, MR_JINJA_LIST_TUPLE);
    struct mr_jinja_value names = mr_jinja_dict_new(run);
    for (uint32_t i = 0; i < args->count && run->status == MR_OK; i++)
        mr_jinja_list_push(run, values.list, args->values[i]);
    for (uint32_t i = 0; i < args->named_count && run->status == MR_OK; i++)
        mr_jinja_dict_set(run, names.dict, mr_jinja_name(args->names[i]), args->named[i]);
    if (run->status != MR_OK) return mr_jinja_undefined();
    return mr_jinja_format_percent(run, value, args->named_count ? names : values);
}

FILTER(wordcount)
{
    struct mr_text text = mr_jinja_as_text(value);
    int64_t count = 0;
    bool inside = false;
    (void)run, (void)args;
    for (size_t at = 0; at < text.length; at += mr_utf8_next(text, at).length) {
        uint32_t c = mr_utf8_next(text, at).code_point;
        bool word = c == '_' || mr_unicode_is_letter(c) || mr_unicode_is_numeric(c);
        count += word && !inside;
        inside = word;
    }
    return mr_jinja_int(count);
}

FILTER(urlencode)
{
    static const char kept[] = "_.-~/";
    struct mr_jinja_buffer buffer = {0};
    (void)args;
    for (size_t i = 0; i < value.text.length && run->status == MR_OK; i++) {
        char byte = value.text.bytes[i], text[4];
        bool plain = (byte >= '0' && byte <= '9') ||
                     ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') || (byte && strchr(kept, byte));
        snprintf(text, sizeof text, plain ? "%c" : "%%%02X", (unsigned char)byte);
        mr_jinja_append_bytes(run, &buffer, text, strlen(text),
                              value.text.marks && value.text.marks[i]);
    }
    return mr_jinja_buffer_text(&buffer);
}

/* truncate(length=255, killwords=false, end="...", leeway=5) */
FILTER(truncate)
{
    int64_t length = mr_jinja_integer_or(run, args->values[0], 255);
    int64_t leeway = mr_jinja_integer_or(run, args->values[3], 5);
    struct mr_jinja_value end =
        args->values[2].kind == MR_JINJA_TEXT ? args->values[2] : mr_jinja_literal("...");
    int64_t room = length - (int64_t)mr_jinja_length(run, end);
    if (room < 0 || leeway < 0)
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: truncate to too few characters");
    if ((int64_t)mr_jinja_length(run, value) <= length + leeway) return value;
    struct mr_jinja_value cut =
        mr_jinja_slice_bytes(value, 0, mr_jinja_offset(value, (size_t)room));
    if (!mr_jinja_truth(args->values[1])) {
        const char *space = cut.text.length ? memrchr(cut.text.bytes, ' ', cut.text.length) : NULL;
        if (space) cut = mr_jinja_slice_bytes(cut, 0, (size_t)(space - cut.text.bytes));
    }
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_append(run, &buffer, cut);
    mr_jinja_append(run, &buffer, end);
    return mr_jinja_buffer_text(&buffer);
}

/* indent(width=4, first=false, blank=false): indents every line except the first. With `first` it
 * indents the first line too, and with `blank` empty lines too. width: a number of spaces, or text.
 */
FILTER(indent)
{
    struct mr_jinja_value width = args->values[0];
    bool first = mr_jinja_truth(args->values[1]), blank = mr_jinja_truth(args->values[2]);
    struct mr_jinja_value space = width;
    struct mr_jinja_buffer buffer = {0};
    if (value.kind != MR_JINJA_TEXT) return mr_jinja_need_text(run);
    if (width.kind != MR_JINJA_TEXT)
        space = mr_jinja_pad(run, mr_jinja_literal(""), mr_jinja_integer_or(run, width, 4),
                             MR_JINJA_LEFT, mr_jinja_undefined());
    if (first) mr_jinja_append(run, &buffer, space);
    struct mr_jinja_arguments none = {.values = {{0}}};
    struct mr_jinja_value lines =
        mr_jinja_method(run, value, (struct mr_text){"splitlines", 10}, &none);
    bool ends = value.text.length && value.text.bytes[value.text.length - 1] == '\n';
    for (size_t i = 0; run->status == MR_OK && i < lines.list->count + ends; i++) {
        struct mr_jinja_value line =
            i < lines.list->count ? lines.list->items[i] : mr_jinja_literal("");
        if (i) mr_jinja_append(run, &buffer, mr_jinja_literal("\n"));
        if (i && (blank || line.text.length)) mr_jinja_append(run, &buffer, space);
        mr_jinja_append(run, &buffer, line);
    }
    return mr_jinja_buffer_text(&buffer);
}

/* ---- JSON ---- */

/* tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false), as in transformers. */
FILTER(tojson)
{
    struct mr_jinja_value indent = args->values[1], separators = args->values[2];
    bool pretty = indent.kind != MR_JINJA_UNDEFINED && indent.kind != MR_JINJA_NONE;
    struct mr_jinja_json_style style = {.indent = mr_jinja_undefined(),
                                        .comma = mr_jinja_literal(pretty ? "," : ", "),
                                        .colon = mr_jinja_literal(": "),
                                        .ascii = mr_jinja_truth(args->values[0]),
                                        .sort_keys = mr_jinja_truth(args->values[3])};
    if (indent.kind == MR_JINJA_TEXT)
        style.indent = indent;
    else if (pretty)
        style.indent = mr_jinja_pad(run, mr_jinja_literal(""), mr_jinja_integer_or(run, indent, 0),
                                    MR_JINJA_LEFT, mr_jinja_undefined());
    if (separators.kind == MR_JINJA_LIST && separators.list->count == 2) {
        style.comma = mr_jinja_text_of(run, separators.list->items[0]);
        style.colon = mr_jinja_text_of(run, separators.list->items[1]);
    }
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_print_json(run, &buffer, value, &style);
    return mr_jinja_buffer_text(&buffer);
}

/* ---- numbers ---- */

/* Copies a text without the white space around it and the underscores between digits. */
static bool copy_number(struct mr_jinja_run *run, struct mr_jinja_value value, char *out)
{
    struct mr_text text =
        mr_jinja_as_text(mr_jinja_strip(run, value, mr_jinja_none(), MR_JINJA_BOTH));
    size_t length = 0;
    if (!text.length || text.length >= NUMBER_BYTES) return false;
    for (size_t i = 0; i < text.length; i++) {
        bool between = i > 0 && i + 1 < text.length && text.bytes[i - 1] != '_';
        if (text.bytes[i] == '_' && between) continue;
        if (!strchr("+-.0123456789abcdefABCDEFxXoOnityINTY", text.bytes[i])) return false;
        out[length++] = text.bytes[i];
    }
    out[length] = '\0';
    return true;
}

/* int() and float() of an undefined value fail. */
static bool fails_as_undefined(struct mr_jinja_run *run, struct mr_jinja_value value)
{
    if (value.kind != MR_JINJA_UNDEFINED) return false;
    mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: number of an undefined value");
    return true;
}

static bool parse_float(struct mr_jinja_run *run, struct mr_jinja_value value, double *out)
{
    char text[NUMBER_BYTES], *end;
    if (mr_jinja_is_number(value)) {
        *out = mr_jinja_as_number(value);
        return true;
    }
    if (value.kind != MR_JINJA_TEXT || !copy_number(run, value, text) || strpbrk(text, "xX"))
        return false;
    *out = strtod(text, &end);
    return !*end;
}

FILTER(float)
{
    double number;
    if (fails_as_undefined(run, value)) return value;
    if (parse_float(run, value, &number)) return mr_jinja_float(number);
    return args->values[0].kind == MR_JINJA_UNDEFINED ? mr_jinja_float(0) : args->values[0];
}

FILTER(int)
{
    char text[NUMBER_BYTES], *end;
    int64_t base = mr_jinja_integer_or(run, args->values[1], 10);
    double number;
    if (fails_as_undefined(run, value)) return value;
    if (value.kind == MR_JINJA_INT || value.kind == MR_JINJA_BOOL)
        return mr_jinja_int(value.integer);
    if (value.kind == MR_JINJA_TEXT && base >= 0 && base <= 36 && base != 1 &&
        copy_number(run, value, text)) {
        errno = 0;
        long long integer = strtoll(text, &end, (int)base);
        if (!*end && !errno) return mr_jinja_int(integer);
    }
    if (parse_float(run, value, &number) && fabs(number) < 0x1p63)
        return mr_jinja_int((int64_t)number);
    return args->values[0].kind == MR_JINJA_UNDEFINED ? mr_jinja_int(0) : args->values[0];
}

FILTER(abs)
{
    (void)args;
    if (value.kind == MR_JINJA_FLOAT) return mr_jinja_float(fabs(value.number));
    if (!mr_jinja_is_number(value) || value.integer == INT64_MIN)
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: abs of a value that is not a number");
    return mr_jinja_int(value.integer < 0 ? -value.integer : value.integer);
}

/* round(precision=0, method="common"): common rounds the exact decimal value half to even. */
FILTER(round)
{
    int64_t precision = mr_jinja_integer_or(run, args->values[0], 0);
    struct mr_text method = mr_jinja_as_text(args->values[1]);
    bool ceil_it = mr_text_is(method, "ceil"), floor_it = mr_text_is(method, "floor");
    if (!mr_jinja_is_number(value) || precision < -300 || precision > 300)
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: round of a value that is not a number");
    double number = mr_jinja_as_number(value), scale = pow(10, (double)precision);
    if (ceil_it) return mr_jinja_float(ceil(number * scale) / scale);
    if (floor_it) return mr_jinja_float(floor(number * scale) / scale);
    if (method.length && !mr_text_is(method, "common"))
        return mr_jinja_fail_name(run, "round has no method", method);
    if (value.kind != MR_JINJA_FLOAT && precision >= 0) return mr_jinja_int(value.integer);
    char text[700];
    if (precision >= 0)
        snprintf(text, sizeof text, "%.*f", (int)precision, number);
    else
        snprintf(text, sizeof text, "%.17g", rint(number * scale) / scale);
    double rounded = strtod(text, NULL);
    return value.kind == MR_JINJA_FLOAT ? mr_jinja_float(rounded) : mr_jinja_int((int64_t)rounded);
}

/* ---- any value ---- */

FILTER(default)
{
    (void)run;
    bool falsy = mr_jinja_truth(args->values[1]) && !mr_jinja_truth(value);
    if (value.kind != MR_JINJA_UNDEFINED && !falsy) return value;
    return args->given ? args->values[0] : mr_jinja_literal("");
}

FILTER(attr)
{
    (void)run;
    struct mr_text name = mr_jinja_as_text(args->values[0]);
    /* only attributes, not keys of a dictionary: methods, and members of a loop or namespace */
    if (value.kind == MR_JINJA_DICT && mr_jinja_dict_get(value.dict, args->values[0]))
        return mr_jinja_undefined();
    return mr_jinja_attribute(run, value, name);
}

/* map, in its two forms map(attribute="x", default="y") and map("filter", arguments). */
FILTER(map)
{
    const struct mr_jinja_value *path = mr_jinja_keyword(args, (struct mr_text){"attribute", 9});
    const struct mr_jinja_value *otherwise = mr_jinja_keyword(args, (struct mr_text){"default", 7});
    const struct mr_jinja_list *from = mr_jinja_items_if_true(run, value);
    struct mr_jinja_value list = mr_jinja_list_of_kind(run, MR_JINJA_LIST_ITERATOR);
    struct mr_jinja_arguments rest = mr_jinja_skip_arguments(args, 1);
    bool by_path = path && args->count == 0;
    if (from->count && !by_path && (!args->count || args->values[0].kind != MR_JINJA_TEXT))
        return mr_jinja_fail(run, MR_INVALID_REQUEST,
                             "chat template: map needs a filter's name or an attribute");
    for (size_t i = 0; i < from->count && run->status == MR_OK; i++) {
        struct mr_jinja_value item = from->items[i];
        if (by_path)
            item =
                mr_jinja_at_path(run, item, *path, otherwise ? *otherwise : mr_jinja_undefined());
        else
            item = mr_jinja_filter(run, mr_jinja_as_text(args->values[0]), item, &rest);
        mr_jinja_list_push(run, list.list, item);
    }
    return list;
}

static const struct filter {
    const char *name;
    mr_jinja_operation *apply;
    const char *parameters; /* see mr_jinja_bind; "*": not bound */
    bool of_text;           /* a value of another kind is printed, and the filter gets the text */
} filters[] = {
    {"abs", filter_abs, "", false},
    {"attr", filter_attr, "name", false},
    {"batch", mr_jinja_filter_batch, "linecount fill_with", false},
    {"capitalize", mr_jinja_capitalize, "", true},
    {"center", mr_jinja_center, "width", true},
    {"count", filter_length, "", false},
    {"d", filter_default, "default_value boolean", false},
    {"default", filter_default, "default_value boolean", false},
    {"dictsort", mr_jinja_filter_dictsort, "case_sensitive by reverse", false},
    {"e", filter_escape, "", true},
    {"escape", filter_escape, "", true},
    {"first", mr_jinja_filter_first, "", false},
    {"float", filter_float, "default", false},
    {"format", filter_format, "*", true},
    {"groupby", mr_jinja_filter_groupby, "attribute default case_sensitive", false},
    {"indent", filter_indent, "width first blank", false},
    {"int", filter_int, "default base", false},
    {"items", mr_jinja_filter_items, "", false},
    {"join", mr_jinja_filter_join, "d attribute", false},
    {"last", mr_jinja_filter_last, "", false},
    {"length", filter_length, "", false},
    {"list", mr_jinja_filter_list, "", false},
    {"lower", mr_jinja_lower, "", true},
    {"map", filter_map, "*", false},
    {"max", mr_jinja_filter_max, "case_sensitive attribute", false},
    {"min", mr_jinja_filter_min, "case_sensitive attribute", false},
    {"reject", mr_jinja_filter_reject, "*", false},
    {"rejectattr", mr_jinja_filter_rejectattr, "*", false},
    {"replace", filter_replace, "old new count", true},
    {"reverse", mr_jinja_filter_reverse, "", false},
    {"round", filter_round, "precision method", false},
    {"safe", filter_safe, "", true},
    {"select", mr_jinja_filter_select, "*", false},
    {"selectattr", mr_jinja_filter_selectattr, "*", false},
    {"slice", mr_jinja_filter_slice, "slices fill_with", false},
    {"sort", mr_jinja_filter_sort, "reverse case_sensitive attribute", false},
    {"string", filter_string, "", false},
    {"sum", mr_jinja_filter_sum, "attribute start", false},
    {"title", mr_jinja_title_words, "", true},
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", false},
    {"trim", filter_trim, "chars", true},
    {"truncate", filter_truncate, "length killwords end leeway", true},
    {"unique", mr_jinja_filter_unique, "case_sensitive attribute", false},
    {"upper", mr_jinja_upper, "", true},
    {"urlencode", filter_urlencode, "", true},
    {"wordcount", filter_wordcount, "", true},
};

static const struct filter *find_filter(struct mr_text name)
{
    for (size_t i = 0; i < COUNT(filters); i++)
        if (mr_text_is(name, filters[i].name)) return &filters[i];
    return NULL;
}

bool mr_jinja_has_filter(struct mr_text name)
{
    return find_filter(name) != NULL;
}

struct mr_jinja_value mr_jinja_filter(struct mr_jinja_run *run, struct mr_text name,
                                      struct mr_jinja_value value,
                                      const struct mr_jinja_arguments *arguments)
{
    const struct filter *filter = find_filter(name);
    struct mr_jinja_arguments bound;
    if (!filter) return mr_jinja_fail_name(run, "unknown filter", name);
    if (filter->of_text) value = mr_jinja_text_of(run, value);
    if (filter->parameters[0] == '*') return filter->apply(run, value, arguments);
    if (!mr_jinja_bind(run, name, filter->parameters, arguments, &bound))
        return mr_jinja_undefined();
    return run->status == MR_OK ? filter->apply(run, value, &bound) : mr_jinja_undefined();
}
