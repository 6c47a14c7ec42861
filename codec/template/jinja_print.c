#include "codec/template/jinja_print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void print_at(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                     struct mr_jinja_value value, uint32_t level);

static void print_nested(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                         struct mr_jinja_value value, uint32_t level)
{
    if (value.kind == MR_JINJA_TEXT) {
        append_quoted(run, buffer, value, '\'');
    } else {
        print_at(run, buffer, value, level);
    }
}

static void print_list(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                       const struct mr_jinja_list *list, uint32_t level)
{
    append_literal(run, buffer, "[");
    for (size_t i = 0; i < list->count && run->status == MR_OK; i++) {
        if (i) append_literal(run, buffer, ", ");
        print_nested(run, buffer, list->items[i], level);
    }
    append_literal(run, buffer, "]");
}

static void print_dict(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                       const struct mr_jinja_dict *dict, uint32_t level)
{
    append_literal(run, buffer, "{");
    for (size_t i = 0; i < dict->count && run->status == MR_OK; i++) {
        if (i) append_literal(run, buffer, ", ");
        print_nested(run, buffer, dict->keys[i], level);
        append_literal(run, buffer, ": ");
        print_nested(run, buffer, dict->values[i], level);
    }
    append_literal(run, buffer, "}");
}

static void print_at(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                     struct mr_jinja_value value, uint32_t level)
{
    if (!mr_jinja_step_into(run, level)) return;
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
        print_list(run, buffer, value.list, level + 1);
        break;
    case MR_JINJA_DICT:
        print_dict(run, buffer, value.dict, level + 1);
        break;
    default:
        append_scalar(run, buffer, value);
    }
}

void mr_jinja_print(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value)
{
    print_at(run, buffer, value, 0);
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
    for (int64_t i = 0; i < indent * level && run->status == MR_OK; i++)
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
    if (!mr_jinja_step_into(run, level)) return;
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
