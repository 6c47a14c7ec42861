#include "codec/jinja/jinja_print.h"

#include "codec/unicode/unicode.h"
#include "codec/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append_literal(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                           const char *text)
{
    mr_jinja_append_bytes(run, buffer, text, strlen(text), false);
}

/* ---- numbers ---- */

/* Prints the shortest decimal that parses to the same number, in Python's form: with an exponent
 * below 1e-4 and from 1e16 on, and with ".0" for integral values. */
static void append_float(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer, double number)
{
    char text[64], digits[32];
    int precision = 0;
    for (; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, number);
        if (strtod(text, NULL) == number) break;
    }
    int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        append_literal(run, buffer, text);
        return;
    }
    int decimals = precision - exponent > 1 ? precision - exponent : 1;
    snprintf(digits, sizeof digits, "%.*f", decimals, number);
    append_literal(run, buffer, digits);
}

static void append_number(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                          struct mr_jinja_value value, bool json)
{
    char text[24];
    if (value.kind == MR_JINJA_INT) {
        snprintf(text, sizeof text, "%lld", (long long)value.integer);
        append_literal(run, buffer, text);
    } else if (isnan(value.number)) {
        append_literal(run, buffer, json ? "NaN" : "nan");
    } else if (isinf(value.number)) {
        append_literal(run, buffer, value.number < 0 ? "-" : "");
        append_literal(run, buffer, json ? "Infinity" : "inf");
    } else {
        append_float(run, buffer, value.number);
    }
}

/* ---- text in quotes ---- */

/* Writes the escape of a character to out and returns its length; 0: it is printed as it is. */
static int escape_repr(uint32_t c, char quote, char *out, size_t room)
{
    static const char from[] = "\n\r\t\\", to[] = "nrt\\";
    const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (found) return snprintf(out, room, "\\%c", to[found - from]);
    if (c == (unsigned char)quote) return snprintf(out, room, "\\%c", quote);
    if (mr_unicode_is_printable(c)) return 0;
    if (c < 0x100) return snprintf(out, room, "\\x%02x", c);
    return c < 0x10000 ? snprintf(out, room, "\\u%04x", c) : snprintf(out, room, "\\U%08x", c);
}

static int escape_json(uint32_t c, bool ascii, char *out, size_t room)
{
    static const char from[] = "\n\r\t\b\f\\\"", to[] = "nrtbf\\\"";
    const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (found) return snprintf(out, room, "\\%c", to[found - from]);
    if (c >= 0x20 && (c < 0x7f || !ascii)) return 0;
    if (c == 0x7f) return 0;
    if (c < 0x10000) return snprintf(out, room, "\\u%04x", c);
    return snprintf(out, room, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                    0xdc00 + ((c - 0x10000) & 0x3ff));
}

/* json: NULL for repr. */
static void append_quoted(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                          struct mr_jinja_value value, const struct mr_jinja_json_style *json)
{
    struct mr_text bytes = mr_jinja_as_text(value);
    bool apostrophe = bytes.length && memchr(bytes.bytes, '\'', bytes.length);
    bool doubles = json || (apostrophe && !memchr(bytes.bytes, '"', bytes.length));
    char quote = doubles ? '"' : '\'', text[16];
    mr_jinja_append_bytes(run, buffer, &quote, 1, false);
    for (size_t at = 0; at < bytes.length && run->status == MR_OK;) {
        struct mr_utf8_step step = mr_utf8_next(bytes, at);
        int length = 0;
        if (step.valid)
            length = json ? escape_json(step.code_point, json->ascii, text, sizeof text)
                          : escape_repr(step.code_point, quote, text, sizeof text);
        if (length > 0)
            mr_jinja_append_bytes(run, buffer, text, (size_t)length,
                                  value.text.marks && value.text.marks[at]);
        else
            mr_jinja_append(run, buffer, mr_jinja_slice_bytes(value, at, at + step.length));
        at += step.length;
    }
    mr_jinja_append_bytes(run, buffer, &quote, 1, false);
}

/* ---- str and repr ---- */

static void repr_at(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value, uint32_t level);

static void print_list(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                       const struct mr_jinja_list *list, uint32_t level)
{
    bool tuple = list->kind == MR_JINJA_LIST_TUPLE;
    append_literal(run, buffer, tuple ? "(" : "[");
    for (size_t i = 0; i < list->count && run->status == MR_OK; i++) {
        if (i) append_literal(run, buffer, ", ");
        repr_at(run, buffer, list->items[i], level);
    }
    if (tuple && list->count == 1) append_literal(run, buffer, ",");
    append_literal(run, buffer, tuple ? ")" : "]");
}

static void print_dict(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                       const struct mr_jinja_dict *dict, uint32_t level)
{
    append_literal(run, buffer, "{");
    for (size_t i = 0; i < dict->count && run->status == MR_OK; i++) {
        if (i) append_literal(run, buffer, ", ");
        repr_at(run, buffer, dict->keys[i], level);
        append_literal(run, buffer, ": ");
        repr_at(run, buffer, dict->values[i], level);
    }
    append_literal(run, buffer, "}");
}

static void repr_at(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value, uint32_t level)
{
    if (!mr_jinja_step_into(run, level)) return;
    switch (value.kind) {
    case MR_JINJA_TEXT:
        append_quoted(run, buffer, value, NULL);
        break;
    case MR_JINJA_NONE:
        append_literal(run, buffer, "None");
        break;
    case MR_JINJA_BOOL:
        append_literal(run, buffer, value.integer ? "True" : "False");
        break;
    case MR_JINJA_BIG:
        mr_jinja_append(run, buffer, value);
        break;
    case MR_JINJA_INT:
    case MR_JINJA_FLOAT:
        append_number(run, buffer, value, false);
        break;
    case MR_JINJA_LIST:
        print_list(run, buffer, value.list, level + 1);
        break;
    case MR_JINJA_DICT:
        print_dict(run, buffer, value.dict, level + 1);
        break;
    case MR_JINJA_UNDEFINED:
        if (level) append_literal(run, buffer, "Undefined");
        break;
    default:
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: a function or loop is printed");
    }
}

void mr_jinja_print_repr(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                         struct mr_jinja_value value)
{
    repr_at(run, buffer, value, 0);
}

void mr_jinja_print(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value)
{
    if (value.kind == MR_JINJA_TEXT)
        mr_jinja_append(run, buffer, value);
    else
        repr_at(run, buffer, value, 0);
}

struct mr_jinja_value mr_jinja_escape(struct mr_jinja_run *run, struct mr_jinja_value text)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct mr_jinja_buffer buffer = {0};
    if (text.markup) return text;
    for (size_t i = 0; i < text.text.length && run->status == MR_OK; i++) {
        char byte = text.text.bytes[i];
        const char *found = byte ? strchr(from, byte) : NULL;
        const char *escaped = found ? to[found - from] : &byte;
        mr_jinja_append_bytes(run, &buffer, escaped, found ? strlen(escaped) : 1,
                              text.text.marks && text.text.marks[i]);
    }
    struct mr_jinja_value result = mr_jinja_buffer_text(&buffer);
    result.markup = true;
    return result;
}

/* ---- JSON ---- */

static void json_at(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value, const struct mr_jinja_json_style *style,
                    uint32_t level);

/* Prints a line break and the spaces of a level, if the style has an indent. */
static void json_line(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                      const struct mr_jinja_json_style *style, uint32_t level)
{
    if (style->indent.kind != MR_JINJA_TEXT) return;
    append_literal(run, buffer, "\n");
    for (uint32_t i = 0; i < level && run->status == MR_OK; i++)
        mr_jinja_append(run, buffer, style->indent);
}

static void json_key(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                     struct mr_jinja_value key, const struct mr_jinja_json_style *style)
{
    bool quoted = key.kind != MR_JINJA_TEXT;
    if (quoted) append_literal(run, buffer, "\"");
    if (key.kind == MR_JINJA_LIST)
        mr_jinja_fail(run, MR_INVALID_REQUEST, "chat template: a key of JSON is a list");
    else
        json_at(run, buffer, key, style, 0);
    if (quoted) append_literal(run, buffer, "\"");
}

/* Sorts the positions of the keys of a dictionary into `order`. */
static void sort_keys(struct mr_jinja_run *run, const struct mr_jinja_dict *dict, size_t *order)
{
    for (size_t i = 0; i < dict->count && run->status == MR_OK; i++) {
        size_t at = i;
        while (at > 0 && mr_jinja_step(run) &&
               mr_jinja_compare(run, dict->keys[i], dict->keys[order[at - 1]]) < 0) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static void json_dict(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                      const struct mr_jinja_dict *dict, const struct mr_jinja_json_style *style,
                      uint32_t level)
{
    size_t *order = NULL;
    if (style->sort_keys) {
        order = mr_jinja_take(run, dict->count + 1, sizeof *order);
        if (order) sort_keys(run, dict, order);
    }
    append_literal(run, buffer, "{");
    for (size_t i = 0; i < dict->count && run->status == MR_OK; i++) {
        size_t at = order ? order[i] : i;
        if (i) mr_jinja_append(run, buffer, style->comma);
        json_line(run, buffer, style, level);
        json_key(run, buffer, dict->keys[at], style);
        mr_jinja_append(run, buffer, style->colon);
        json_at(run, buffer, dict->values[at], style, level);
    }
    if (dict->count) json_line(run, buffer, style, level - 1);
    append_literal(run, buffer, "}");
}

static void json_list(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                      const struct mr_jinja_list *list, const struct mr_jinja_json_style *style,
                      uint32_t level)
{
    append_literal(run, buffer, "[");
    for (size_t i = 0; i < list->count && run->status == MR_OK; i++) {
        if (i) mr_jinja_append(run, buffer, style->comma);
        json_line(run, buffer, style, level);
        json_at(run, buffer, list->items[i], style, level);
    }
    if (list->count) json_line(run, buffer, style, level - 1);
    append_literal(run, buffer, "]");
}

static void json_at(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value, const struct mr_jinja_json_style *style,
                    uint32_t level)
{
    if (!mr_jinja_step_into(run, level)) return;
    bool list = value.kind == MR_JINJA_LIST && value.list->kind <= MR_JINJA_LIST_TUPLE;
    if (value.kind == MR_JINJA_TEXT)
        append_quoted(run, buffer, value, style);
    else if (value.kind == MR_JINJA_NONE)
        append_literal(run, buffer, "null");
    else if (value.kind == MR_JINJA_BOOL)
        append_literal(run, buffer, value.integer ? "true" : "false");
    else if (value.kind == MR_JINJA_INT || value.kind == MR_JINJA_FLOAT)
        append_number(run, buffer, value, true);
    else if (value.kind == MR_JINJA_BIG)
        mr_jinja_append(run, buffer, value);
    else if (list)
        json_list(run, buffer, value.list, style, level + 1);
    else if (value.kind == MR_JINJA_DICT)
        json_dict(run, buffer, value.dict, style, level + 1);
    else
        mr_jinja_fail(
            run, MR_INVALID_REQUEST,
            "chat template: tojson of a value that is undefined or that JSON cannot express");
}

void mr_jinja_print_json(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                         struct mr_jinja_value value, const struct mr_jinja_json_style *style)
{
    json_at(run, buffer, value, style, 0);
}
