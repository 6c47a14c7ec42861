#include "codec/jinja/jinja_lexer.h"

#include "codec/jinja/jinja_space.h"
#include "codec/utf8.h"

#include <string.h>

struct lexer {
    struct mr_text source;
    size_t at;
    size_t token_at; /* where the present token starts */
    uint32_t line;
    struct mr_arena *arena;
    struct mr_jinja_token *tokens;
    size_t count, capacity;
    struct mr_error *err;
};

/* Bytes of characters outside of ASCII are letters. */
static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static uint32_t column_of(const struct lexer *lexer)
{
    size_t start = lexer->token_at;
    while (start > 0 && lexer->source.bytes[start - 1] != '\n')
        start--;
    return (uint32_t)(lexer->token_at - start) + 1;
}

static enum mr_status push(struct lexer *lexer, enum mr_jinja_token_kind kind, const char *bytes,
                           size_t length)
{
    if (lexer->count == lexer->capacity) {
        size_t capacity = lexer->capacity ? lexer->capacity * 2 : 256;
        struct mr_jinja_token *tokens = mr_arena_take_array(lexer->arena, capacity, sizeof *tokens);
        if (!tokens) return mr_fail(lexer->err, MR_NOMEM, "chat template: too many tokens");
        if (lexer->count) memcpy(tokens, lexer->tokens, lexer->count * sizeof *tokens);
        lexer->tokens = tokens;
        lexer->capacity = capacity;
    }
    lexer->tokens[lexer->count++] = (struct mr_jinja_token){
        .kind = kind, .line = lexer->line, .column = column_of(lexer), .text = {bytes, length}};
    return MR_OK;
}

static enum mr_status fail(const struct lexer *lexer, const char *what)
{
    return mr_fail(lexer->err, MR_BAD_FILE, "chat template line %u column %u: %s", lexer->line,
                   column_of(lexer), what);
}

static char peek(const struct lexer *lexer, size_t ahead)
{
    size_t at = lexer->at + ahead;
    return at < lexer->source.length ? lexer->source.bytes[at] : '\0';
}

static void count_lines(struct lexer *lexer, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        lexer->line += lexer->source.bytes[i] == '\n';
}

/* Index of the next "{{", "{%" or "{#" from lexer->at on, or the length of the source. */
static size_t find_tag(const struct lexer *lexer)
{
    const char *bytes = lexer->source.bytes;
    for (size_t i = lexer->at; i + 1 < lexer->source.length; i++) {
        char next = bytes[i + 1];
        if (bytes[i] == '{' && (next == '{' || next == '%' || next == '#')) return i;
    }
    return lexer->source.length;
}

/* End of the template's text in front of the tag at index `tag`, without the white space that this
 * tag removes. */
static size_t text_end(const struct lexer *lexer, size_t tag, bool line_starting)
{
    const char *bytes = lexer->source.bytes;
    char kind = bytes[tag + 1], sign = tag + 2 < lexer->source.length ? bytes[tag + 2] : '\0';
    size_t end = tag;
    struct mr_text text = mr_text_part(lexer->source, lexer->at, tag);
    if (sign == '-') return lexer->at + mr_jinja_space_start(text);
    if (kind == '{' || sign == '+') return end;
    size_t line_start = tag;
    while (line_start > lexer->at && bytes[line_start - 1] != '\n')
        line_start--;
    if (line_start == lexer->at && !line_starting) return end;
    text = mr_text_part(lexer->source, line_start, tag);
    return mr_jinja_space_start(text) == 0 ? line_start : end;
}

static void skip_space(struct lexer *lexer)
{
    size_t length;
    while ((length = mr_jinja_space_at(lexer->source, lexer->at)) > 0)
        lexer->at += length;
}

/* Skips the white space that a tag removes after itself: all of it after a minus sign, otherwise
 * one newline when `trims`. */
static void skip_after_tag(struct lexer *lexer, char sign, bool trims)
{
    size_t from = lexer->at;
    if (sign == '-') {
        skip_space(lexer);
    } else if (trims && sign != '+' && peek(lexer, 0) == '\n') {
        lexer->at++;
    }
    count_lines(lexer, from, lexer->at);
}

/* Reads `digits` hexadecimal digits; UINT32_MAX when there are fewer. */
static uint32_t hex_code(struct lexer *lexer, size_t digits)
{
    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = mr_text_hex_value(peek(lexer, i));
        if (value < 0) return UINT32_MAX;
        code = code * 16 + (uint32_t)value;
    }
    lexer->at += digits;
    return code;
}

/* Writes a character; a surrogate becomes U+FFFD, as no UTF-8 has it. */
static size_t put_code(char *out, uint32_t code)
{
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return mr_utf8_put(out, surrogate || code > 0x10ffff ? 0xfffd : code);
}

/* Decodes the escape whose backslash is at lexer->at - 1, as Python does; returns the number of
 * bytes written, at most 4; 0 for an escaped newline, SIZE_MAX when digits are missing. */
static size_t unescape(struct lexer *lexer, char *out)
{
    static const char plain[] = "ntrabfv\\'\"", decoded[] = "\n\t\r\a\b\f\v\\'\"";
    uint32_t octal = 0, octal_digits = 0;
    while (octal_digits < 3 && peek(lexer, octal_digits) >= '0' && peek(lexer, octal_digits) <= '7')
        octal = octal * 8 + (uint32_t)(peek(lexer, octal_digits++) - '0');
    if (octal_digits) {
        lexer->at += octal_digits;
        return mr_utf8_put(out, octal);
    }
    char c = peek(lexer, 0);
    const char *found = c ? strchr(plain, c) : NULL;
    size_t digits = c == 'U' ? 8 : c == 'u' ? 4 : c == 'x' ? 2 : 0;
    lexer->at++;
    if (c == '\n') return 0;
    if (found) {
        out[0] = decoded[found - plain];
        return 1;
    }
    if (digits) {
        uint32_t code = hex_code(lexer, digits);
        return code == UINT32_MAX ? SIZE_MAX : put_code(out, code);
    }
    out[0] = '\\';
    out[1] = c;
    return 2;
}

static enum mr_status lex_string(struct lexer *lexer)
{
    char quote = peek(lexer, 0);
    const char *begin = lexer->source.bytes + ++lexer->at;
    const char *close = begin, *end = lexer->source.bytes + lexer->source.length;
    while (close < end && *close != quote)
        close += *close == '\\' && close + 1 < end ? 2 : 1;
    if (close >= end) {
        return fail(lexer, "string without closing quote");
    }
    /* The decoded string is never longer than its source with the escapes. */
    char *out = mr_arena_take(lexer->arena, (size_t)(close - begin) + 4);
    if (!out) return mr_fail(lexer->err, MR_NOMEM, "chat template text");
    size_t length = 0, from = lexer->at;
    while (lexer->source.bytes + lexer->at < close) {
        char c = peek(lexer, 0);
        lexer->at++;
        if (c != '\\') {
            out[length++] = c;
            continue;
        }
        size_t written = unescape(lexer, out + length);
        if (written == SIZE_MAX) return fail(lexer, "string with an incomplete escape");
        length += written;
    }
    enum mr_status status = push(lexer, MR_JINJA_TOKEN_STRING, out, length);
    lexer->at++;
    count_lines(lexer, from, lexer->at);
    return status;
}

/* Skips digits with single underscores between them. */
static void skip_digits(struct lexer *lexer, bool (*accepts)(char c))
{
    while (accepts(peek(lexer, 0)) || (peek(lexer, 0) == '_' && accepts(peek(lexer, 1))))
        lexer->at++;
}

static bool is_hex_digit(char c)
{
    return mr_text_hex_value(c) >= 0;
}

static enum mr_status lex_number(struct lexer *lexer)
{
    size_t begin = lexer->at;
    enum mr_jinja_token_kind kind = MR_JINJA_TOKEN_INT;
    bool after_dot = begin > 0 && lexer->source.bytes[begin - 1] == '.';
    if (peek(lexer, 0) == '0' && peek(lexer, 1) && strchr("xXoObB", peek(lexer, 1)) &&
        is_hex_digit(peek(lexer, 2))) {
        lexer->at += 2;
        skip_digits(lexer, is_hex_digit);
        return push(lexer, kind, lexer->source.bytes + begin, lexer->at - begin);
    }
    skip_digits(lexer, is_digit);
    if (!after_dot && peek(lexer, 0) == '.' && is_digit(peek(lexer, 1))) {
        kind = MR_JINJA_TOKEN_FLOAT;
        lexer->at++;
        skip_digits(lexer, is_digit);
    }
    size_t sign = peek(lexer, 1) == '+' || peek(lexer, 1) == '-' ? 2 : 1;
    if (!after_dot && (peek(lexer, 0) | 0x20) == 'e' && is_digit(peek(lexer, sign))) {
        kind = MR_JINJA_TOKEN_FLOAT;
        lexer->at += sign;
        skip_digits(lexer, is_digit);
    }
    return push(lexer, kind, lexer->source.bytes + begin, lexer->at - begin);
}

static enum mr_status lex_operator(struct lexer *lexer)
{
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "//", "**"};
    const char *here = lexer->source.bytes + lexer->at;
    size_t length = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (here[0] == pairs[i][0] && peek(lexer, 1) == pairs[i][1]) length = 2;
    }
    if (!length && strchr("+-*/%~<>=.,:|()[]{}", here[0])) length = 1;
    if (!length || !here[0]) {
        return fail(lexer, "unexpected character");
    }
    lexer->at += length;
    return push(lexer, MR_JINJA_TOKEN_OPERATOR, here, length);
}

static enum mr_status lex_one(struct lexer *lexer)
{
    char c = peek(lexer, 0);
    if (c == '\'' || c == '"') return lex_string(lexer);
    if (is_digit(c)) return lex_number(lexer);
    if (!is_name_start(c)) return lex_operator(lexer);
    size_t begin = lexer->at;
    while (is_name_start(peek(lexer, 0)) || is_digit(peek(lexer, 0)))
        lexer->at++;
    return push(lexer, MR_JINJA_TOKEN_NAME, lexer->source.bytes + begin, lexer->at - begin);
}

/* Reads the tokens of a tag up to "}}" or "%}", and consumes these two characters. *sign is the
 * plus or minus sign in front of them, or 0. */
static enum mr_status lex_tag(struct lexer *lexer, char close, char *sign)
{
    int nesting = 0;
    *sign = '\0';
    while (lexer->at < lexer->source.length) {
        char c = peek(lexer, 0);
        size_t space = mr_jinja_space_at(lexer->source, lexer->at);
        lexer->token_at = lexer->at;
        if (space > 0) {
            lexer->line += c == '\n';
            lexer->at += space;
            continue;
        }
        size_t signs = c == '-' || (c == '+' && close == '%') ? 1 : 0;
        if (nesting == 0 && peek(lexer, signs) == close && peek(lexer, signs + 1) == '}') {
            if (signs) *sign = c;
            lexer->at += signs + 2;
            return MR_OK;
        }
        if (strchr("([{", c)) nesting++;
        if (strchr(")]}", c)) nesting--;
        enum mr_status status = lex_one(lexer);
        if (status != MR_OK) return status;
    }
    return fail(lexer, "tag is not closed");
}

static enum mr_status skip_comment(struct lexer *lexer)
{
    const char *bytes = lexer->source.bytes;
    size_t from =
        lexer->at; /* after the sign that follows "{#"; the sign before "#}" is a different one */
    if (from < lexer->source.length && (bytes[from] == '-' || bytes[from] == '+')) from++;
    for (size_t i = from; i + 1 < lexer->source.length; i++) {
        if (bytes[i] != '#' || bytes[i + 1] != '}') continue;
        char sign = i > from ? bytes[i - 1] : '\0';
        count_lines(lexer, lexer->at, i);
        lexer->at = i + 2;
        skip_after_tag(lexer, sign == '-' || sign == '+' ? sign : '\0', true);
        return MR_OK;
    }
    if (from == lexer->source.length) { /* as in Jinja: no comment can follow */
        lexer->at = from;
        return MR_OK;
    }
    return fail(lexer, "comment is not closed");
}

/* Reads a whole tag that starts with "{{" or "{%". */
static enum mr_status lex_code(struct lexer *lexer)
{
    bool block = peek(lexer, 1) == '%';
    char sign;
    lexer->at += 2;
    if (peek(lexer, 0) == '-' || peek(lexer, 0) == '+') lexer->at++;
    enum mr_status status =
        push(lexer, block ? MR_JINJA_TOKEN_BLOCK_BEGIN : MR_JINJA_TOKEN_PRINT_BEGIN, "", 0);
    if (status == MR_OK) status = lex_tag(lexer, block ? '%' : '}', &sign);
    if (status == MR_OK) {
        status = push(lexer, block ? MR_JINJA_TOKEN_BLOCK_END : MR_JINJA_TOKEN_PRINT_END, "", 0);
    }
    if (status == MR_OK) skip_after_tag(lexer, sign, block);
    return status;
}

/* The length of the tag "{% word %}" at `at`, with the white space that its minus sign removes; 0
 * if the text there is different. */
static size_t raw_tag(const struct lexer *lexer, size_t at, const char *word)
{
    struct lexer look = *lexer;
    bool is_end = word[0] == 'e';
    look.at = at + 2;
    if (peek(lexer, at - lexer->at) != '{' || peek(lexer, at - lexer->at + 1) != '%') return 0;
    if (peek(&look, 0) == '-' || peek(&look, 0) == '+') look.at++;
    skip_space(&look);
    for (; *word; word++, look.at++)
        if (peek(&look, 0) != *word) return 0;
    skip_space(&look);
    bool trims = peek(&look, 0) == '-';
    if (trims || (peek(&look, 0) == '+' && is_end)) look.at++;
    if (peek(&look, 0) != '%' || peek(&look, 1) != '}') return 0;
    look.at += 2;
    if (trims) skip_space(&look);
    return look.at - at;
}

/* Reads the text of a raw block whose tag "{% raw %}" has `length` bytes, up to "{% endraw %}". */
static enum mr_status lex_raw(struct lexer *lexer, size_t length)
{
    count_lines(lexer, lexer->at, lexer->at + length);
    lexer->at += length;
    bool line_starting = lexer->source.bytes[lexer->at - 1] == '\n';
    for (size_t tag = lexer->at; tag + 1 < lexer->source.length; tag++) {
        size_t end_tag = raw_tag(lexer, tag, "endraw");
        if (!end_tag) continue;
        size_t end = text_end(lexer, tag, line_starting), from = lexer->at;
        enum mr_status status =
            push(lexer, MR_JINJA_TOKEN_DATA, lexer->source.bytes + from, end - from);
        lexer->at = tag + end_tag;
        /* "-%}" and "+%}" keep the line end. For "-%}" raw_tag has already skipped it. */
        char sign = lexer->source.bytes[lexer->at - 3];
        if (lexer->source.bytes[lexer->at - 1] == '}' && sign != '+' && sign != '-' &&
            peek(lexer, 0) == '\n')
            lexer->at++;
        count_lines(lexer, from, lexer->at);
        return status;
    }
    return fail(lexer, "raw block is not closed");
}

static enum mr_status lex_all(struct lexer *lexer)
{
    while (lexer->at < lexer->source.length) {
        bool line_starting = lexer->at == 0 || lexer->source.bytes[lexer->at - 1] == '\n';
        size_t tag = find_tag(lexer);
        bool last = tag == lexer->source.length;
        size_t end = last ? tag : text_end(lexer, tag, line_starting);
        enum mr_status status = MR_OK;
        if (end > lexer->at) {
            status =
                push(lexer, MR_JINJA_TOKEN_DATA, lexer->source.bytes + lexer->at, end - lexer->at);
        }
        count_lines(lexer, lexer->at, tag);
        lexer->at = lexer->token_at = tag;
        if (last || status != MR_OK) return status;
        size_t raw = raw_tag(lexer, tag, "raw");
        if (raw) {
            status = lex_raw(lexer, raw);
        } else if (peek(lexer, 1) == '#') {
            lexer->at += 2;
            status = skip_comment(lexer);
        } else {
            status = lex_code(lexer);
        }
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

enum mr_status mr_jinja_lex(struct mr_text source, struct mr_arena *arena,
                            struct mr_jinja_token **tokens, struct mr_error *err)
{
    struct lexer lexer = {.source = source, .line = 1, .arena = arena, .err = err};
    *tokens = NULL;
    if (source.length && source.bytes[source.length - 1] == '\n') lexer.source.length--;
    enum mr_status status = lex_all(&lexer);
    if (status == MR_OK) status = push(&lexer, MR_JINJA_TOKEN_END, "", 0);
    if (status == MR_OK) *tokens = lexer.tokens;
    return status;
}
