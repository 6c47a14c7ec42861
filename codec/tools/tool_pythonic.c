/* Calls in Python's syntax: [name(key=value, …), …]. Values are the literals that Python's own
 * reader (ast.literal_eval) accepts and its json.dumps can write: numbers, texts of every notation,
 * lists, tuples, dictionaries, True, False, None; also true, false and null. They become JSON.
 * It does not read characters by name (\N{...}), bytes, sets, complex numbers and names with
 * U+0000. */
#include "codec/limits.h"
#include "codec/tools/tool_cursor.h"
#include "codec/utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES_MAX 512u /* digits of a number; a call with a longer one stays text */

struct python {
    struct mr_tool_cursor *cursor;
    struct mr_json_writer *writer;
    struct mr_buffer text; /* the text that was read last */
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

/* ---- texts ---- */

/* The value of the next digits of a base, at least `min` and at most `max`; -1: there are fewer. */
static int64_t read_code(struct python *python, unsigned base, unsigned min, unsigned max)
{
    int64_t value = 0;
    for (unsigned i = 0; i < max; i++, python->cursor->at++) {
        int digit = mr_text_hex_value(peek(python));
        if (digit < 0 || digit >= (int)base) return i < min ? -1 : value;
        value = value * base + digit;
    }
    return value;
}

static bool put_bytes(struct python *python, const char *bytes, size_t length)
{
    return mr_buffer_append(&python->text, (struct mr_text){bytes, length});
}

/* Joins \ud83d\ude00 to one character, as JSON does; a lone surrogate becomes U+FFFD. */
static int64_t join_surrogates(struct python *python, int64_t high)
{
    const size_t from = python->cursor->at;
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high < 0xdc00 && peek(python) == '\\') {
        python->cursor->at++;
        bool escape = peek(python) == 'u';
        python->cursor->at++;
        int64_t low = escape ? read_code(python, 16, 4, 4) : -1;
        if (low >= 0xdc00 && low <= 0xdfff)
            return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    }
    python->cursor->at = from;
    return 0xfffd;
}

/* Appends the character of the escape after a backslash. False: the character does not exist, or
 * there is no room. Names of characters, \N{...}, are not known. */
static bool read_escape(struct python *python)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    char c = peek(python), bytes[4];
    const char *known = c ? strchr(from, c) : NULL;
    int64_t code = -1;
    if (c == 'N' || python->cursor->at >= python->cursor->text.length) return false;
    if (c >= '0' && c <= '7') {
        code = read_code(python, 8, 1, 3);
    } else {
        python->cursor->at++;
        if (c == '\n') return true;
        if (known) return put_bytes(python, to + (known - from), 1);
        if (c != 'x' && c != 'u' && c != 'U')
            return put_bytes(python, "\\", 1) && put_bytes(python, &c, 1);
        unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        code = join_surrogates(python, read_code(python, 16, digits, digits));
    }
    if (code < 0 || code > 0x10ffff) return false;
    return put_bytes(python, bytes, mr_utf8_put(bytes, (uint32_t)code));
}

/* Appends a text from its opening quote to its closing one. raw: backslashes are characters. */
static bool read_quoted(struct python *python, bool raw)
{
    struct mr_tool_cursor *cursor = python->cursor;
    const char quote[4] = {peek(python), peek(python), peek(python), '\0'};
    const char single[2] = {peek(python), '\0'};
    const char *close = mr_tool_read_word(cursor, quote) == MR_TOOL_FOUND ? quote : single;
    if (close == single) cursor->at++;
    while (mr_tool_read_word(cursor, close) != MR_TOOL_FOUND) {
        if (cursor->at >= cursor->text.length) return false;
        char c = cursor->text.bytes[cursor->at++];
        if (c == '\\' && !raw) {
            if (!read_escape(python)) return false;
            continue;
        }
        if (!put_bytes(python, &c, 1)) return false;
        if (c != '\\') continue;
        if (cursor->at >= cursor->text.length) return false;
        c = cursor->text.bytes[cursor->at++]; /* a quote after a backslash does not end the text */
        if (!put_bytes(python, &c, 1)) return false;
    }
    return true;
}

/* Skips the prefix of a text. False, and nothing is read, if no text begins here. */
static bool take_prefix(struct python *python, bool *raw)
{
    const size_t from = python->cursor->at;
    *raw = peek(python) == 'r' || peek(python) == 'R';
    if (*raw || peek(python) == 'u' || peek(python) == 'U') python->cursor->at++;
    if (peek(python) == '"' || peek(python) == '\'') return true;
    python->cursor->at = from;
    return false;
}

/* Reads a text, or several in a row, which are one, into python->text. */
static enum mr_tool_outcome read_text(struct python *python)
{
    bool raw;
    python->text.length = 0;
    if (!take_prefix(python, &raw)) return MR_TOOL_BAD;
    do {
        if (!read_quoted(python, raw)) return MR_TOOL_BAD;
        mr_tool_skip_space(python->cursor);
    } while (take_prefix(python, &raw));
    return MR_TOOL_FOUND;
}

static struct mr_text text_of(const struct python *python)
{
    return (struct mr_text){python->text.bytes ? python->text.bytes : "", python->text.length};
}

/* ---- numbers ---- */

/* Writes an integer in base 2, 8 or 16 in decimal to out. False: it has other digits, or too many.
 */
static bool to_decimal(const char *digits, unsigned base, char out[NUMBER_BYTES_MAX])
{
    char reversed[NUMBER_BYTES_MAX] = "0";
    size_t length = 1;
    if (!*digits) return false;
    for (; *digits; digits++) {
        int carry = mr_text_hex_value(*digits);
        if (carry < 0 || carry >= (int)base) return false;
        for (size_t i = 0; i < length || carry > 0; i++) {
            if (i == NUMBER_BYTES_MAX - 1) return false;
            int value = (i < length ? reversed[i] - '0' : 0) * (int)base + carry;
            reversed[i] = (char)('0' + value % 10);
            carry = value / 10;
            if (i >= length) length = i + 1;
        }
    }
    for (size_t i = 0; i < length; i++)
        out[i] = reversed[length - 1 - i];
    out[length] = '\0';
    return true;
}

/* Makes a number of Python's syntax, without sign and underscores, a number of JSON in out. */
static bool to_json(const char *number, char out[NUMBER_BYTES_MAX])
{
    const char *bases = "bBoOxX",
               *base = number[0] == '0' && number[1] ? strchr(bases, number[1]) : NULL;
    char *end;
    if (base) return to_decimal(number + 2, base < bases + 2 ? 2 : base < bases + 4 ? 8 : 16, out);
    if (number[strspn(number, "0123456789")] == '\0') return to_decimal(number, 10, out);
    double value = strtod(number, &end);
    if (*end != '\0' || number[strspn(number, "0123456789+-.eE")] != '\0') return false;
    if (isfinite(value))
        mr_json_format_double(value, out);
    else
        memcpy(out, "1e999", 6);                                 /* Python's infinity */
    if (!strpbrk(out, ".e")) memcpy(out + strlen(out), ".0", 3); /* it stays a float */
    return true;
}

/* Reads a number with its sign, and makes it a number of JSON. */
static bool read_number(struct python *python, char out[NUMBER_BYTES_MAX])
{
    const struct mr_tool_cursor *cursor = python->cursor;
    char number[NUMBER_BYTES_MAX];
    size_t length = 0;
    const char sign = peek(python);
    if (sign == '-' || sign == '+') python->cursor->at++;
    mr_tool_skip_space(python->cursor);
    for (char before = '\0'; length + 1 < sizeof number; python->cursor->at++) {
        char c = peek(python);
        bool exponent = (before == 'e' || before == 'E') && memcmp(number, "0x", 2) != 0;
        if (!isalnum((unsigned char)c) && c != '_' && c != '.' &&
            !(exponent && (c == '-' || c == '+')))
            break;
        if (c == '_' && !isalnum((unsigned char)before)) return false;
        if (c != '_') number[length++] = c;
        before = c;
    }
    number[length] = '\0';
    if (length == 0 || cursor->text.bytes[cursor->at - 1] == '_') return false;
    bool negative = sign == '-';
    if (!to_json(number, out + negative)) return false;
    if (negative && strcmp(out + 1, "0") == 0) memmove(out, out + 1, 2);
    if (negative && out[1] != '\0') out[0] = '-';
    return true;
}

/* ---- values ---- */

/* Reads a key of a dictionary, which becomes a name as Python's json.dumps makes it. */
static enum mr_tool_outcome read_key(struct python *python)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    char number[NUMBER_BYTES_MAX];
    bool raw;
    for (size_t i = 0; i < 3; i++)
        if (take(python, words[i][0])) {
            mr_json_name(python->writer, words[i][1]);
            return MR_TOOL_FOUND;
        }
    const size_t from = python->cursor->at;
    if (take_prefix(python, &raw)) {
        python->cursor->at = from;
        enum mr_tool_outcome outcome = read_text(python);
        if (outcome == MR_TOOL_FOUND) mr_json_name_text(python->writer, text_of(python));
        return outcome;
    }
    if (!read_number(python, number)) return MR_TOOL_BAD;
    mr_json_name(python->writer, number);
    return MR_TOOL_FOUND;
}

/* Reads the items between brackets: values, or names and values with `colon` between. */
static enum mr_tool_outcome read_items(struct python *python, const char *close, bool map,
                                       unsigned depth)
{
    while (!take(python, close)) {
        enum mr_tool_outcome outcome = map ? read_key(python) : MR_TOOL_FOUND;
        if (outcome != MR_TOOL_FOUND) return outcome;
        if (map && !take(python, ":")) return MR_TOOL_BAD;
        outcome = read_value(python, depth);
        if (outcome != MR_TOOL_FOUND) return outcome;
        if (take(python, close)) break;
        if (!take(python, ",")) return MR_TOOL_BAD;
    }
    mr_json_end(python->writer);
    return MR_TOOL_FOUND;
}

/* Whether the brackets that have been opened hold a tuple: nothing, or a comma outside of further
 * brackets and texts. Otherwise they only group a value. */
static bool is_tuple(const struct python *python)
{
    struct mr_tool_cursor cursor = *python->cursor;
    struct python ahead = {.cursor = &cursor};
    unsigned depth = 0;
    bool raw, empty = true;
    mr_buffer_init(&ahead.text, MR_TOOL_ARGUMENTS_BYTES_MAX);
    for (bool ok = true; ok && cursor.at < cursor.text.length;) {
        char c = peek(&ahead);
        if (mr_text_is_space(c)) {
            cursor.at++;
            continue;
        }
        if (c == ')' && depth == 0) break;
        if (c == ',' && depth == 0) {
            mr_buffer_drop(&ahead.text);
            return true;
        }
        empty = false;
        if (take_prefix(&ahead, &raw)) {
            ahead.text.length = 0;
            ok = read_quoted(&ahead, raw);
            continue;
        }
        if (c == '(' || c == '[' || c == '{') depth++;
        if ((c == ')' || c == ']' || c == '}') && depth > 0) depth--;
        cursor.at++;
    }
    mr_buffer_drop(&ahead.text);
    return empty;
}

static enum mr_tool_outcome read_brackets(struct python *python, unsigned depth)
{
    if (take(python, "[")) {
        mr_json_begin_array(python->writer);
        return read_items(python, "]", false, depth + 1);
    }
    if (take(python, "{")) {
        mr_json_begin_object(python->writer);
        return read_items(python, "}", true, depth + 1);
    }
    take(python, "(");
    if (is_tuple(python)) {
        mr_json_begin_array(python->writer);
        return read_items(python, ")", false, depth + 1);
    }
    enum mr_tool_outcome outcome = read_value(python, depth + 1);
    return outcome != MR_TOOL_FOUND || take(python, ")") ? outcome : MR_TOOL_BAD;
}

/* Recursive; the depth is limited to MR_NESTING_MAX. */
static enum mr_tool_outcome read_value(struct python *python, unsigned depth)
{
    struct mr_json_writer *writer = python->writer;
    char number[NUMBER_BYTES_MAX];
    bool raw;
    mr_tool_skip_space(python->cursor);
    if (depth >= MR_NESTING_MAX - 1) return MR_TOOL_BAD;
    const size_t from = python->cursor->at;
    if (peek(python) != '\0' && strchr("[{(", peek(python))) return read_brackets(python, depth);
    if (take_prefix(python, &raw)) {
        python->cursor->at = from;
        enum mr_tool_outcome outcome = read_text(python);
        if (outcome == MR_TOOL_FOUND) mr_json_put_text(writer, text_of(python));
        return outcome;
    }
    if (take(python, "True") || take(python, "true")) {
        mr_json_put_bool(writer, true);
    } else if (take(python, "False") || take(python, "false")) {
        mr_json_put_bool(writer, false);
    } else if (take(python, "None") || take(python, "null")) {
        mr_json_put_null(writer);
    } else {
        if (!read_number(python, number)) return MR_TOOL_BAD;
        mr_json_put_raw(writer, (struct mr_text){number, strlen(number)});
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
    struct python python = {.cursor = cursor, .writer = &writer};
    struct mr_text name;
    enum mr_tool_outcome outcome = mr_tool_read_name(cursor, &name);
    if (outcome != MR_TOOL_FOUND) return outcome;
    if (!take(&python, "(")) return MR_TOOL_BAD;
    mr_tool_skip_space(cursor);
    mr_json_writer_init(&writer, MR_TOOL_ARGUMENTS_BYTES_MAX);
    mr_buffer_init(&python.text, MR_TOOL_ARGUMENTS_BYTES_MAX);
    outcome = read_arguments(&python);
    mr_buffer_drop(&python.text);
    if (outcome != MR_TOOL_FOUND) {
        mr_json_writer_drop(&writer);
        return outcome;
    }
    return mr_tool_add_written(cursor, name, &writer);
}

enum mr_tool_outcome mr_tool_read_pythonic(struct mr_tool_cursor *cursor)
{
    struct python python = {.cursor = cursor};
    take(&python, "<|python_start|>");
    if (!take(&python, "[")) return MR_TOOL_BAD;
    do {
        mr_tool_skip_space(cursor);
        if (peek(&python) == ']' && cursor->found->count > 0) break;
        enum mr_tool_outcome outcome = read_one(cursor);
        if (outcome != MR_TOOL_FOUND) return outcome;
    } while (take(&python, ","));
    if (!take(&python, "]")) return MR_TOOL_BAD;
    take(&python, "<|python_end|>");
    return MR_TOOL_FOUND;
}
