#include "codec/template/jinja_lexer.h"

#include "codec/utf8.h"

#include <string.h>

struct lexer {
    struct mr_text source;
    size_t at;
    uint32_t line;
    struct mr_arena *arena;
    struct mr_jinja_token *tokens;
    size_t count, capacity;
    struct mr_error *err;
};

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
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
    lexer->tokens[lexer->count++] =
        (struct mr_jinja_token){.kind = kind, .line = lexer->line, .text = {bytes, length}};
    return MR_OK;
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
    if (sign == '-') {
        while (end > lexer->at && mr_text_is_space(bytes[end - 1]))
            end--;
        return end;
    }
    if (kind == '{' || sign == '+') return end;
    size_t line_start = tag;
    while (line_start > lexer->at && bytes[line_start - 1] != '\n')
        line_start--;
    if (line_start == lexer->at && !line_starting) return end;
    for (size_t i = line_start; i < tag; i++) {
        if (!mr_text_is_space(bytes[i])) return end;
    }
    return line_start;
}

/* Skips the white space that a tag removes after itself: all of it after a minus sign, otherwise
 * one newline when `trims`. */
static void skip_after_tag(struct lexer *lexer, char sign, bool trims)
{
    size_t from = lexer->at;
    if (sign == '-') {
        while (lexer->at < lexer->source.length && mr_text_is_space(peek(lexer, 0)))
            lexer->at++;
    } else if (trims && sign != '+' && peek(lexer, 0) == '\n') {
        lexer->at++;
    }
    count_lines(lexer, from, lexer->at);
}

/* Decodes the escape whose backslash is at lexer->at - 1; returns the number of bytes written, at
 * most 3. */
static size_t unescape(struct lexer *lexer, char *out)
{
    uint32_t octal = 0, octal_digits = 0;
    while (octal_digits < 3 && peek(lexer, octal_digits) >= '0' && peek(lexer, octal_digits) <= '7')
        octal = octal * 8 + (uint32_t)(peek(lexer, octal_digits++) - '0');
    if (octal_digits) {
        lexer->at += octal_digits;
        return mr_utf8_put(out, octal);
    }
    char c = peek(lexer, 0);
    size_t digits = c == 'u' ? 4 : c == 'x' ? 2 : 0;
    lexer->at++;
    switch (c) {
    case 'n':
        out[0] = '\n';
        return 1;
    case 't':
        out[0] = '\t';
        return 1;
    case 'r':
        out[0] = '\r';
        return 1;
    case '\\':
    case '\'':
    case '"':
        out[0] = c;
        return 1;
    case '\n':
        return 0;
    default:
        break;
    }
    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = mr_text_hex_value(peek(lexer, i));
        if (value < 0) digits = 0;
        code = code * 16 + (uint32_t)(value < 0 ? 0 : value);
    }
    if (digits) {
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        lexer->at += digits;
        return mr_utf8_put(out, surrogate ? 0xfffd : code);
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
        return mr_fail(lexer->err, MR_BAD_FILE,
                       "chat template line %u: string without closing quote", lexer->line);
    }
    /* The decoded string is never longer than its source with the escapes. */
    char *out = mr_arena_take(lexer->arena, (size_t)(close - begin) + 4);
    if (!out) return mr_fail(lexer->err, MR_NOMEM, "chat template text");
    size_t length = 0, from = lexer->at;
    while (lexer->source.bytes + lexer->at < close) {
        char c = peek(lexer, 0);
        lexer->at++;
        if (c == '\\') {
            length += unescape(lexer, out + length);
        } else {
            out[length++] = c;
        }
    }
    enum mr_status status = push(lexer, MR_JINJA_TOKEN_STRING, out, length);
    lexer->at++;
    count_lines(lexer, from, lexer->at);
    return status;
}

static enum mr_status lex_number(struct lexer *lexer)
{
    size_t begin = lexer->at;
    enum mr_jinja_token_kind kind = MR_JINJA_TOKEN_INT;
    while (is_digit(peek(lexer, 0)))
        lexer->at++;
    if (peek(lexer, 0) == '.' && is_digit(peek(lexer, 1))) {
        kind = MR_JINJA_TOKEN_FLOAT;
        lexer->at++;
        while (is_digit(peek(lexer, 0)))
            lexer->at++;
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
        return mr_fail(lexer->err, MR_BAD_FILE, "chat template line %u: unexpected character '%c'",
                       lexer->line, here[0]);
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
        if (mr_text_is_space(c)) {
            lexer->line += c == '\n';
            lexer->at++;
            continue;
        }
        size_t signs = (c == '-' || c == '+') && nesting == 0 ? 1 : 0;
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
    return mr_fail(lexer->err, MR_BAD_FILE, "chat template line %u: tag is not closed",
                   lexer->line);
}

static enum mr_status skip_comment(struct lexer *lexer)
{
    const char *bytes = lexer->source.bytes;
    for (size_t i = lexer->at; i + 1 < lexer->source.length; i++) {
        if (bytes[i] != '#' || bytes[i + 1] != '}') continue;
        char sign = i > lexer->at ? bytes[i - 1] : '\0';
        count_lines(lexer, lexer->at, i);
        lexer->at = i + 2;
        skip_after_tag(lexer, sign == '-' || sign == '+' ? sign : '\0', true);
        return MR_OK;
    }
    return mr_fail(lexer->err, MR_BAD_FILE, "chat template line %u: comment is not closed",
                   lexer->line);
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
        lexer->at = tag;
        if (last || status != MR_OK) return status;
        if (peek(lexer, 1) == '#') {
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
