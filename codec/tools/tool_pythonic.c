/* Calls in Python's syntax: [name(key=value, …), …]. Values are the literals that Python's own
 * reader (ast.literal_eval) accepts and its json.dumps can write: numbers, texts of every notation,
 * lists, tuples, dictionaries, True, False, None; also true, false and null. Comments are skipped.
 * The values become JSON. A call with one of the following stays text: bytes, sets and complex
 * numbers, which JSON does not have; characters by name (\N{...}), whose 34,000 names would be
 * larger than the rest of the program's tables. */
#include "codec/limits.h"
#include "codec/tools/tool_cursor.h"
#include "codec/utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
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

/* Skips white space, comments, and backslashes that join lines. */
static void skip_space(struct python *python)
{
    struct mr_tool_cursor *cursor = python->cursor;
    for (bool skipped = true; skipped;) {
        mr_tool_skip_space(cursor);
        struct mr_text rest = mr_text_part(cursor->text, cursor->at, cursor->text.length);
        skipped = rest.length > 1 && rest.bytes[0] == '\\' &&
                  (rest.bytes[1] == '\n' || rest.bytes[1] == '\r');
        if (skipped) cursor->at++;
        if (rest.length == 0 || rest.bytes[0] != '#') continue;
        skipped = true;
        while (peek(python) != '\n' && peek(python) != '\r' && cursor->at < cursor->text.length)
            cursor->at++;
    }
}

/* Reads `word` if it comes next. */
static bool take(struct python *python, const char *word)
{
    skip_space(python);
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

/* Appends half of a surrogate pair, in the form of UTF-8, for join_surrogates. */
static bool put_surrogate(struct python *python, int64_t code)
{
    const char bytes[3] = {(char)0xed, (char)(0x80 | (code >> 6 & 0x3f)),
                           (char)(0x80 | (code & 0x3f))};
    return put_bytes(python, bytes, sizeof bytes);
}

/* The half of a surrogate pair at this place; 0: another character. */
static uint32_t surrogate_at(struct mr_text text, size_t at)
{
    if (text.length - at < 3) return 0;
    const unsigned char *bytes = (const unsigned char *)text.bytes + at;
    if (bytes[0] != 0xed || bytes[1] < 0xa0) return 0;
    return 0xd000u | (uint32_t)(bytes[1] & 0x3f) << 6 | (bytes[2] & 0x3f);
}

/* Joins \ud83d\ude00 to one character, as JSON does, also across adjacent texts. A lone surrogate
 * becomes U+FFFD. */
static void join_surrogates(struct mr_buffer *buffer)
{
    const struct mr_text text = mr_buffer_text(buffer);
    size_t length = 0;
    for (size_t at = 0; at < text.length;) {
        uint32_t high = surrogate_at(text, at), code = 0xfffd;
        uint32_t low = high ? surrogate_at(text, at + 3) : 0;
        at += high ? 3 : 1;
        if (!high) buffer->bytes[length++] = text.bytes[at - 1];
        if (!high) continue;
        bool pair = high < 0xdc00 && low >= 0xdc00;
        if (pair) code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        at += pair ? 3 : 0;
        length += mr_utf8_put(buffer->bytes + length, code);
    }
    buffer->length = length;
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
        if (c == '\r' && peek(python) == '\n') python->cursor->at++;
        if (c == '\n' || c == '\r') return true;
        if (known) return put_bytes(python, to + (known - from), 1);
        if (c != 'x' && c != 'u' && c != 'U')
            return put_bytes(python, "\\", 1) && put_bytes(python, &c, 1);
        unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        code = read_code(python, 16, digits, digits);
    }
    if (code < 0 || code > 0x10ffff) return false;
    if (code >= 0xd800 && code <= 0xdfff) return put_surrogate(python, code);
    return put_bytes(python, bytes, mr_utf8_put(bytes, (uint32_t)code));
}

/* Appends the next byte of a text. Python reads every kind of line end as \n. */
static bool read_byte(struct python *python)
{
    struct mr_tool_cursor *cursor = python->cursor;
    if (cursor->at >= cursor->text.length) return false;
    char c = cursor->text.bytes[cursor->at++];
    if (c == '\r' && peek(python) == '\n') cursor->at++;
    if (c == '\r') c = '\n';
    return put_bytes(python, &c, 1);
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
        bool escape = peek(python) == '\\';
        if (escape && !raw) {
            cursor->at++;
            if (!read_escape(python)) return false;
            continue;
        }
        if (!read_byte(python)) return false;
        /* a quote after a backslash does not end the text */
        if (escape && !read_byte(python)) return false;
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
        skip_space(python);
    } while (take_prefix(python, &raw));
    join_surrogates(&python->text);
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
    unsigned brackets = 0; /* between sign and number */
    if (sign == '-' || sign == '+') {
        python->cursor->at++;
        while (take(python, "("))
            brackets++;
    }
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
    for (; brackets > 0; brackets--)
        if (!take(python, ")")) return false;
    bool negative = sign == '-';
    if (!to_json(number, out + negative)) return false;
    if (negative && strcmp(out + 1, "0") == 0) memmove(out, out + 1, 2);
    if (negative && out[1] != '\0') out[0] = '-';
    return true;
}

/* ---- values ---- */

/* Writes a number as the name that Python's json.dumps makes of a float. */
static void name_double(double value, char out[NUMBER_BYTES_MAX])
{
    int digits = 0;
    do {
        snprintf(out, NUMBER_BYTES_MAX, "%.*g", ++digits, value);
    } while (isfinite(value) && digits < 17 && strtod(out, NULL) != value);
    if (!isfinite(value))
        snprintf(out, NUMBER_BYTES_MAX, value < 0 ? "-Infinity" : "Infinity");
    else if (fabs(value) >= 1e16)
        snprintf(out, NUMBER_BYTES_MAX, "%.*e", digits - 1, value);
    else if (strstr(out, "e+") || !strpbrk(out, ".e"))
        snprintf(out, NUMBER_BYTES_MAX, "%.1f", value);
}

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
    if (strpbrk(number, ".e")) name_double(strtod(number, NULL), number);
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
        skip_space(&ahead);
        char c = peek(&ahead);
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
    skip_space(python);
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
        skip_space(python);
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
    skip_space(&python);
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
        skip_space(&python);
        if (peek(&python) == ']' && cursor->found->count > 0) break;
        enum mr_tool_outcome outcome = read_one(cursor);
        if (outcome != MR_TOOL_FOUND) return outcome;
    } while (take(&python, ","));
    if (!take(&python, "]")) return MR_TOOL_BAD;
    take(&python, "<|python_end|>");
    return MR_TOOL_FOUND;
}
