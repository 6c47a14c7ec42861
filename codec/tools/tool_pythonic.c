/* Calls in Python's syntax: [name(key=value, …), …] with literals as values. They become JSON. */
#include "codec/limits.h"
#include "codec/tools/tool_cursor.h"
#include "codec/utf8.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct python {
    struct mr_tool_cursor *cursor;
    struct mr_json_writer *writer;
};

static enum mr_tool_outcome read_value(struct python *python, unsigned depth);

static char peek(const struct python *python)
{
    const struct mr_tool_cursor *cursor = python->cursor;
    return cursor->at < cursor->text.length ? cursor->text.bytes[cursor->at] : '\0';
}

/* Reads `word` if it comes next. */
static bool take(struct python *python, const char *word)
{
    mr_tool_skip_space(python->cursor);
    return mr_tool_read_word(python->cursor, word) == MR_TOOL_FOUND;
}

/* The code point of \xHH, \uHHHH; false when the digits are not there. */
static bool read_hex(struct python *python, unsigned digits, uint32_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < digits; i++, python->cursor->at++) {
        int value = mr_text_hex_value(peek(python));
        if (value < 0) return false;
        *out = *out * 16 + (uint32_t)value;
    }
    return *out < 0xd800 || *out > 0xdfff;
}

/* Writes the character of the escape after a backslash to out; 0: invalid. */
static size_t read_escape(struct python *python, char out[4])
{
    static const char from[] = "nrtbf\\'\"/", to[] = "\n\r\t\b\f\\'\"/";
    char c = peek(python);
    const char *known = c ? strchr(from, c) : NULL;
    uint32_t code_point;
    python->cursor->at++;
    if (known) {
        out[0] = to[known - from];
        return 1;
    }
    if (c != 'x' && c != 'u') return 0;
    return read_hex(python, c == 'x' ? 2 : 4, &code_point) ? mr_utf8_put(out, code_point) : 0;
}

/* Reads a text in quotes of either kind into the arena. */
static enum mr_tool_outcome read_text(struct python *python, struct mr_text *out)
{
    struct mr_tool_cursor *cursor = python->cursor;
    char quote = peek(python);
    if (quote != '"' && quote != '\'') return MR_TOOL_BAD;
    size_t end = cursor->at + 1, length = 0;
    while (end < cursor->text.length && cursor->text.bytes[end] != quote)
        end += cursor->text.bytes[end] == '\\' ? 2 : 1;
    char *bytes = mr_arena_take(cursor->arena, end - cursor->at);
    if (!bytes) return MR_TOOL_NOMEM;
    cursor->at++;
    while (cursor->at < cursor->text.length && peek(python) != quote) {
        char c = cursor->text.bytes[cursor->at++], character[4];
        size_t written = c == '\\' ? read_escape(python, character) : 1;
        if (written == 0) return MR_TOOL_BAD;
        memcpy(bytes + length, c == '\\' ? character : &c, written);
        length += written;
    }
    if (cursor->at >= cursor->text.length) return MR_TOOL_BAD;
    cursor->at++;
    *out = (struct mr_text){bytes, length};
    return MR_TOOL_FOUND;
}

static enum mr_tool_outcome read_number(struct python *python)
{
    struct mr_tool_cursor *cursor = python->cursor;
    size_t from = cursor->at;
    char number[64], *end;
    while (isalnum((unsigned char)peek(python)) || (peek(python) && strchr("+-.", peek(python))))
        cursor->at++;
    struct mr_text text = mr_text_part(cursor->text, from, cursor->at);
    if (text.length == 0 || text.length >= sizeof number) return MR_TOOL_BAD;
    memcpy(number, text.bytes, text.length);
    number[text.length] = '\0';
    if (number[strspn(number, "0123456789+-.eE")] != '\0') return MR_TOOL_BAD;
    double value = strtod(number, &end);
    if (*end != '\0' || !(value > -1e300 && value < 1e300)) return MR_TOOL_BAD;
    if (strpbrk(number, ".eE"))
        mr_json_put_double(python->writer, value);
    else if (text.length < 19)
        mr_json_put_int(python->writer, strtoll(number, NULL, 10));
    else
        return MR_TOOL_BAD;
    return MR_TOOL_FOUND;
}

/* Reads what stands between brackets: values, or names and values with `colon` between. */
static enum mr_tool_outcome read_items(struct python *python, const char *close, bool map,
                                       unsigned depth)
{
    while (!take(python, close)) {
        struct mr_text name;
        enum mr_tool_outcome outcome = map ? read_text(python, &name) : MR_TOOL_FOUND;
        if (outcome != MR_TOOL_FOUND) return outcome;
        if (map) mr_json_name_text(python->writer, name);
        if (map && !take(python, ":")) return MR_TOOL_BAD;
        outcome = read_value(python, depth);
        if (outcome != MR_TOOL_FOUND) return outcome;
        if (take(python, close)) break;
        if (!take(python, ",")) return MR_TOOL_BAD;
        mr_tool_skip_space(python->cursor);
    }
    mr_json_end(python->writer);
    return MR_TOOL_FOUND;
}

/* Recursive; the depth is limited to MR_NESTING_MAX. */
static enum mr_tool_outcome read_value(struct python *python, unsigned depth)
{
    struct mr_json_writer *writer = python->writer;
    struct mr_text text;
    mr_tool_skip_space(python->cursor);
    if (depth >= MR_NESTING_MAX - 1) return MR_TOOL_BAD;
    if (take(python, "True") || take(python, "true")) {
        mr_json_put_bool(writer, true);
    } else if (take(python, "False") || take(python, "false")) {
        mr_json_put_bool(writer, false);
    } else if (take(python, "None") || take(python, "null")) {
        mr_json_put_null(writer);
    } else if (take(python, "[")) {
        mr_json_begin_array(writer);
        return read_items(python, "]", false, depth + 1);
    } else if (take(python, "{")) {
        mr_json_begin_object(writer);
        mr_tool_skip_space(python->cursor);
        return read_items(python, "}", true, depth + 1);
    } else if (peek(python) == '"' || peek(python) == '\'') {
        enum mr_tool_outcome outcome = read_text(python, &text);
        if (outcome == MR_TOOL_FOUND) mr_json_put_text(writer, text);
        return outcome;
    } else {
        return read_number(python);
    }
    return MR_TOOL_FOUND;
}

/* Reads key=value, … up to the closing bracket as one JSON object. */
static enum mr_tool_outcome read_arguments(struct python *python)
{
    mr_json_begin_object(python->writer);
    while (!take(python, ")")) {
        struct mr_text key;
        enum mr_tool_outcome outcome = mr_tool_read_name(python->cursor, &key);
        if (outcome != MR_TOOL_FOUND) return outcome;
        mr_json_name_text(python->writer, key);
        if (!take(python, "=")) return MR_TOOL_BAD;
        outcome = read_value(python, 1);
        if (outcome != MR_TOOL_FOUND) return outcome;
        if (take(python, ")")) break;
        if (!take(python, ",")) return MR_TOOL_BAD;
        mr_tool_skip_space(python->cursor);
    }
    mr_json_end(python->writer);
    return MR_TOOL_FOUND;
}

static enum mr_tool_outcome read_one(struct mr_tool_cursor *cursor)
{
    struct mr_json_writer writer;
    struct python python = {cursor, &writer};
    struct mr_text name;
    enum mr_tool_outcome outcome = mr_tool_read_name(cursor, &name);
    if (outcome != MR_TOOL_FOUND) return outcome;
    if (!take(&python, "(")) return MR_TOOL_BAD;
    mr_tool_skip_space(cursor);
    mr_json_writer_init(&writer, MR_TOOL_ARGUMENTS_BYTES_MAX);
    outcome = read_arguments(&python);
    if (outcome != MR_TOOL_FOUND) {
        mr_json_writer_drop(&writer);
        return outcome;
    }
    return mr_tool_add_written(cursor, name, &writer);
}

enum mr_tool_outcome mr_tool_read_pythonic(struct mr_tool_cursor *cursor)
{
    struct python python = {cursor, NULL};
    take(&python, "<|python_start|>");
    if (!take(&python, "[")) return MR_TOOL_BAD;
    do {
        mr_tool_skip_space(cursor);
        enum mr_tool_outcome outcome = read_one(cursor);
        if (outcome != MR_TOOL_FOUND) return outcome;
    } while (take(&python, ","));
    if (!take(&python, "]")) return MR_TOOL_BAD;
    take(&python, "<|python_end|>");
    return MR_TOOL_FOUND;
}
