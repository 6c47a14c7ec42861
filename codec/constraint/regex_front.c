#include "codec/constraint/regex_front.h"

#include "codec/constraint/char_set.h"
#include "codec/utf8.h"

#include <string.h>

struct parser {
    struct mr_expr_builder *builder;
    const struct mr_regex_options *options;
    struct mr_text pattern;
    size_t at;
    unsigned depth;
    const struct mr_expr *any; /* any text, which a search allows before and after the match */
    bool at_start;             /* nothing of the text is matched yet, and ^ has been read */
    bool wide; /* match the texts that at least one of ECMAScript and Python matches */
};

/* Where a sequence stands, which decides about anchors and about the text around it. */
enum position {
    IN_GROUP,
    OUTER, /* an alternative of the whole pattern */
    AHEAD  /* an alternative of a look-ahead: the rest of the text begins with it */
};

/* A growing list of expressions in the builder's memory. */
struct list {
    const struct mr_expr **items;
    uint32_t count, capacity;
};

static void append(struct parser *parser, struct list *list, const struct mr_expr *item)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 8;
        const struct mr_expr **items = mr_expr_take(parser->builder, capacity, sizeof *items);
        if (!items) return;
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

static const struct mr_expr *fail(struct parser *parser, enum mr_status status, const char *what)
{
    const char *place = parser->options->place;
    mr_expr_fail(parser->builder, status, "%.80s%sat byte %zu of the pattern: %s",
                 place ? place : "", place ? ": " : "", parser->at, what);
    return mr_expr_never();
}

static bool is_over(const struct parser *parser)
{
    return parser->at >= parser->pattern.length || parser->builder->status != MR_OK;
}

static int peek(const struct parser *parser)
{
    return is_over(parser) ? -1 : (unsigned char)parser->pattern.bytes[parser->at];
}

static bool take(struct parser *parser, char wanted)
{
    if (peek(parser) != wanted) return false;
    parser->at++;
    return true;
}

static bool take_word(struct parser *parser, const char *word)
{
    size_t length = strlen(word);
    if (parser->pattern.length - parser->at < length ||
        memcmp(parser->pattern.bytes + parser->at, word, length) != 0)
        return false;
    parser->at += length;
    return true;
}

static uint32_t take_char(struct parser *parser)
{
    struct mr_utf8_step step = mr_utf8_next(parser->pattern, parser->at);
    parser->at += step.length;
    return step.code_point;
}

/* ---- escapes ---- */

static bool take_hex(struct parser *parser, unsigned digits, uint32_t *out)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < digits; i++) {
        int digit = peek(parser) < 0 ? -1 : mr_text_hex_value((char)peek(parser));
        if (digit < 0) return false;
        value = value * 16 + (uint32_t)digit;
        parser->at++;
    }
    *out = value;
    return true;
}

/* Reads the digits of \u{...}, \uXXXX (also a pair of surrogates) or \xXX. The letter has been
 * read. */
static bool take_code_point(struct parser *parser, char letter, uint32_t *out)
{
    if (letter == 'x') return take_hex(parser, 2, out);
    if (take(parser, '{')) {
        uint32_t value = 0, digits = 0;
        for (; digits < 6 && peek(parser) >= 0 && mr_text_hex_value((char)peek(parser)) >= 0;
             digits++)
            value = value * 16 + (uint32_t)mr_text_hex_value(parser->pattern.bytes[parser->at++]);
        *out = value;
        return digits > 0 && value <= MR_CODE_POINT_MAX && take(parser, '}');
    }
    uint32_t low;
    if (!take_hex(parser, 4, out)) return false;
    if (*out < 0xd800 || *out > 0xdbff) return true;
    if (!take_word(parser, "\\u") || !take_hex(parser, 4, &low) || low < 0xdc00 || low > 0xdfff)
        return false;
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* Reads an escape of one character. The backslash has been read. */
static bool take_escape(struct parser *parser, uint32_t *out)
{
    static const char letters[] = "nrtfv0", values[] = "\n\r\t\f\v";
    int letter = peek(parser);
    if (letter <= 0) return false;
    const char *found = strchr(letters, letter);
    if (found) {
        parser->at++;
        *out = (uint32_t)values[found - letters];
        return *found != '0' || peek(parser) < '0' || peek(parser) > '9';
    }
    if (letter == 'x' || letter == 'u') {
        parser->at++;
        return take_code_point(parser, (char)letter, out);
    }
    if (letter == 'c') { /* ECMAScript's control characters; Python refuses the escape */
        parser->at++;
        letter = peek(parser);
        const bool valid = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
        if (valid) *out = (uint32_t)letter % 32;
        parser->at += valid;
        return valid;
    }
    bool alphanumeric = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                        (letter >= 'A' && letter <= 'Z');
    if (alphanumeric) return false;
    *out = take_char(parser);
    return true;
}

/* Reads the rest of a named set: of \d, \w, \s, \p{...} or an opposite. The backslash has been
 * read. False, without reading anything, if it is none. Fails for an unknown \p{...}. */
static bool take_named(struct parser *parser, struct mr_char_set *set, bool narrow)
{
    const int letter = peek(parser);
    if (letter <= 0 || !strchr("dwsDWSpP", letter)) return false;
    parser->at++;
    const size_t begin = parser->at + 1;
    bool known;
    if (letter == 'p' || letter == 'P') {
        known = take(parser, '{');
        while (peek(parser) >= 0 && peek(parser) != '}')
            parser->at++;
        known = known && peek(parser) == '}' && mr_expr_work(parser->builder, 50000) &&
                mr_char_set_add_category(set, mr_text_part(parser->pattern, begin, parser->at),
                                         letter == 'P', narrow);
        parser->at += known;
    } else {
        known = mr_char_set_add_named(set, (char)letter, narrow);
    }
    if (!known)
        fail(parser, MR_UNSUPPORTED, "\\p is supported only for general categories: \\p{L}");
    return true;
}

/* ---- classes ---- */

/* Reads one end of a range or a named class; *named is set for the latter. */
static bool take_class_item(struct parser *parser, struct mr_char_set *set, bool inverted,
                            uint32_t *out, bool *named)
{
    *named = false;
    if (!take(parser, '\\')) {
        *out = take_char(parser);
        return true;
    }
    *named = take_named(parser, set, inverted == parser->wide);
    if (*named) return true;
    if (take(parser, 'b')) {
        *out = '\b';
        return true;
    }
    return take_escape(parser, out);
}

static const struct mr_expr *parse_class(struct parser *parser)
{
    struct mr_char_set set = {.count = 0};
    bool inverted = take(parser, '^'), named;
    for (bool first = true; first || peek(parser) != ']'; first = false) {
        uint32_t low, high;
        if (is_over(parser))
            return fail(parser, MR_INVALID_REQUEST, "the class has no closing bracket");
        if (first && peek(parser) == ']')
            return fail(parser, MR_UNSUPPORTED, "write a bracket at the start of a class as \\]");
        if (parser->pattern.bytes[parser->at] == '[' && parser->at + 1 < parser->pattern.length &&
            parser->pattern.bytes[parser->at + 1] == ':')
            return fail(parser, MR_UNSUPPORTED, "classes like [:alpha:] are not supported");
        if (!take_class_item(parser, &set, inverted, &low, &named))
            return fail(parser, MR_UNSUPPORTED, "unsupported escape in a class");
        if (named) continue;
        high = low;
        if (peek(parser) == '-' && parser->at + 1 < parser->pattern.length &&
            parser->pattern.bytes[parser->at + 1] != ']') {
            parser->at++;
            if (!take_class_item(parser, &set, inverted, &high, &named) || named || high < low)
                return fail(parser, MR_INVALID_REQUEST,
                            "invalid range of characters: the end is below the start");
        }
        if (!mr_char_set_add(&set, low, high))
            return fail(parser, MR_INVALID_REQUEST, "the class has too many ranges");
    }
    parser->at++;
    if (inverted && !mr_char_set_invert(&set))
        return fail(parser, MR_INVALID_REQUEST, "the class has too many ranges");
    return mr_char_set_expr(parser->builder, &set, parser->options->spelling);
}

/* ---- atoms and quantifiers ---- */

static const struct mr_expr *parse_alternatives(struct parser *parser, enum position position);

/* Reads alternatives and the parenthesis that closes them. */
static const struct mr_expr *parse_inner(struct parser *parser, enum position position)
{
    if (++parser->depth > MR_EXPR_DEPTH_MAX)
        return fail(parser, MR_INVALID_REQUEST, "the groups are nested too deep");
    const struct mr_expr *inner = parse_alternatives(parser, position);
    parser->depth--;
    if (!take(parser, ')')) return fail(parser, MR_INVALID_REQUEST, "a group is not closed");
    return inner;
}

static const struct mr_expr *parse_group(struct parser *parser)
{
    if (take(parser, '?') && !take(parser, ':')) {
        bool python = take_word(parser, "P<");
        bool other = !python && peek(parser) == '<' && parser->at + 1 < parser->pattern.length &&
                     parser->pattern.bytes[parser->at + 1] != '=' &&
                     parser->pattern.bytes[parser->at + 1] != '!';
        if (!python && !other)
            return fail(parser, MR_UNSUPPORTED,
                        "look-behind, flags and look-ahead inside a group are not supported");
        while (!is_over(parser) && peek(parser) != '>')
            parser->at++;
        if (!take(parser, '>'))
            return fail(parser, MR_INVALID_REQUEST, "the group's name has no closing bracket");
    }
    return parse_inner(parser, IN_GROUP);
}

static const struct mr_expr *parse_escape(struct parser *parser)
{
    struct mr_char_set set = {.count = 0};
    uint32_t code_point;
    if (!take_named(parser, &set, !parser->wide)) {
        if (!take_escape(parser, &code_point))
            return fail(parser, MR_UNSUPPORTED, "unsupported escape");
        mr_char_set_add(&set, code_point, code_point);
    }
    return mr_char_set_expr(parser->builder, &set, parser->options->spelling);
}

static const struct mr_expr *parse_dot(struct parser *parser)
{
    static const struct mr_char_range ranges[] = {
        {0, '\n' - 1}, {'\n' + 1, '\r' - 1}, {'\r' + 1, 0x2027}, {0x202a, MR_CODE_POINT_MAX}};
    static const struct mr_char_range wide[] = {{0, '\n' - 1}, {'\n' + 1, MR_CODE_POINT_MAX}};
    return parser->wide ? mr_expr_class(parser->builder, wide, 2, parser->options->spelling)
                        : mr_expr_class(parser->builder, ranges, 4, parser->options->spelling);
}

static bool take_number(struct parser *parser, uint32_t *out)
{
    uint64_t value = 0;
    size_t begin = parser->at;
    while (peek(parser) >= '0' && peek(parser) <= '9')
        if ((value = value * 10 + (uint64_t)(parser->pattern.bytes[parser->at++] - '0')) >
            MR_EXPR_COUNT_MAX)
            value = MR_EXPR_COUNT_MAX;
    *out = (uint32_t)value;
    return parser->at > begin;
}

/* Reads {m}, {m,} or {m,n}. False, without reading anything, if the brace does not start a
 * quantifier. {,n} is a quantifier in Python and literal text in ECMAScript, so it is rejected. */
static bool take_counts(struct parser *parser, uint32_t *min, uint32_t *max)
{
    size_t begin = parser->at;
    if (take(parser, '{')) {
        bool has_min = take_number(parser, min), has_max = take(parser, ',');
        *max = *min;
        if (has_max && !take_number(parser, max)) *max = MR_EXPR_UNBOUNDED;
        if ((has_min || has_max) && take(parser, '}')) {
            if (!has_min) fail(parser, MR_UNSUPPORTED, "write {0,n} in place of {,n}");
            return true;
        }
    }
    parser->at = begin;
    return false;
}

static const struct mr_expr *parse_atom(struct parser *parser)
{
    int byte = peek(parser);
    uint32_t min, max;
    if (byte == '*' || byte == '+' || byte == '?' || take_counts(parser, &min, &max))
        return fail(parser, MR_INVALID_REQUEST, "a quantifier without anything to repeat");
    if (byte == '^' || byte == '$')
        return fail(parser, MR_UNSUPPORTED,
                    "^ and $ are supported only at the start and end of an outer alternative");
    if (take(parser, '(')) return parse_group(parser);
    if (take(parser, '[')) return parse_class(parser);
    if (take(parser, '.')) return parse_dot(parser);
    if (take(parser, '\\')) return parse_escape(parser);
    uint32_t code_point = take_char(parser);
    struct mr_char_range range = {code_point, code_point};
    return mr_expr_class(parser->builder, &range, 1, parser->options->spelling);
}

static const struct mr_expr *parse_repeated(struct parser *parser)
{
    const struct mr_expr *atom = parse_atom(parser);
    uint32_t min = 0, max = MR_EXPR_UNBOUNDED;
    if (take(parser, '*')) {
    } else if (take(parser, '+')) {
        min = 1;
    } else if (take(parser, '?')) {
        max = 1;
    } else if (!take_counts(parser, &min, &max)) {
        return atom;
    }
    if (min > max)
        return fail(parser, MR_INVALID_REQUEST, "the quantifier's maximum is below its minimum");
    take(parser, '?');
    int next = peek(parser);
    uint32_t low, high;
    if (next == '*' || next == '+' || (next == '{' && take_counts(parser, &low, &high)))
        return fail(parser, MR_UNSUPPORTED, "a quantifier after a quantifier is not supported");
    return mr_expr_repeat(parser->builder, atom, min, max);
}

/* ---- alternatives ---- */

/* Reads the end of an outer alternative from a place where look-ahead may stand. */
static const struct mr_expr *parse_rest(struct parser *parser, enum position position)
{
    struct list list = {0};
    bool ended =
        position == IN_GROUP || (position == OUTER && parser->options->extent == MR_REGEX_WHOLE);
    while (!is_over(parser) && peek(parser) != '|' && peek(parser) != ')') {
        bool without = false;
        if (position == OUTER &&
            (take_word(parser, "(?=") || (without = take_word(parser, "(?!")))) {
            const bool wide = parser->wide;
            parser->wide = wide != without;
            const struct mr_expr *ahead = parse_inner(parser, AHEAD);
            parser->wide = wide;
            if (++parser->depth > MR_EXPR_DEPTH_MAX)
                return fail(parser, MR_INVALID_REQUEST, "the pattern has too many look-aheads");
            const struct mr_expr *rest = parse_rest(parser, position);
            parser->depth--;
            append(parser, &list,
                   without ? mr_expr_minus(parser->builder, rest, ahead)
                           : mr_expr_and(parser->builder, rest, ahead));
            return mr_expr_seq(parser->builder, list.items, list.count);
        }
        if (position != IN_GROUP && take(parser, '$')) {
            if (!is_over(parser) && peek(parser) != '|' && peek(parser) != ')')
                return fail(parser, MR_UNSUPPORTED, "$ is supported only at the end");
            /* Python's $ also matches before a line end that is the last character */
            const struct mr_char_range line_end = {'\n', '\n'};
            if (parser->wide)
                append(parser, &list,
                       mr_expr_repeat(
                           parser->builder,
                           mr_expr_class(parser->builder, &line_end, 1, parser->options->spelling),
                           0, 1));
            ended = true;
            break;
        }
        parser->at_start = false;
        append(parser, &list, parse_repeated(parser));
    }
    if (!ended) append(parser, &list, parser->any);
    return mr_expr_seq(parser->builder, list.items, list.count);
}

/* Reads one alternative. ^ and $ may stand at the ends of those outside of groups. */
static const struct mr_expr *parse_sequence(struct parser *parser, enum position position)
{
    const bool search = position == OUTER && parser->options->extent != MR_REGEX_WHOLE;
    bool anchored = false;
    while ((position == OUTER || (position == AHEAD && parser->at_start)) && take(parser, '^'))
        anchored = true;
    if (position == OUTER) parser->at_start = anchored || !search;
    const struct mr_expr *rest = parse_rest(parser, position);
    return search && !anchored ? mr_expr_pair(parser->builder, parser->any, rest) : rest;
}

static const struct mr_expr *parse_alternatives(struct parser *parser, enum position position)
{
    struct list list = {0};
    const bool at_start = parser->at_start;
    do {
        parser->at_start = at_start;
        append(parser, &list, parse_sequence(parser, position));
    } while (take(parser, '|'));
    parser->at_start = at_start;
    return mr_expr_alt(parser->builder, list.items, list.count);
}

const struct mr_expr *mr_regex_any_char(struct mr_expr_builder *builder, enum mr_spelling spelling)
{
    static const struct mr_char_range all = {0, MR_CODE_POINT_MAX};
    return mr_expr_class(builder, &all, 1, spelling);
}

const struct mr_expr *mr_regex_any_text(struct mr_expr_builder *builder)
{
    return mr_expr_repeat(builder, mr_regex_any_char(builder, MR_SPELL_TEXT), 0, MR_EXPR_UNBOUNDED);
}

const struct mr_expr *mr_regex_text_without(struct mr_expr_builder *builder,
                                            const struct mr_expr *word)
{
    const struct mr_expr *any = mr_regex_any_text(builder);
    const struct mr_expr *const with_word[] = {any, word, any};
    return mr_expr_minus(builder, any, mr_expr_seq(builder, with_word, 3));
}

const struct mr_expr *mr_regex_expr(struct mr_expr_builder *builder, struct mr_text pattern,
                                    const struct mr_regex_options *options)
{
    struct parser parser = {.builder = builder,
                            .options = options,
                            .pattern = pattern,
                            .wide = options->extent == MR_REGEX_SEARCH_WIDE};
    parser.any = mr_expr_repeat(builder, mr_regex_any_char(builder, options->spelling), 0,
                                MR_EXPR_UNBOUNDED);
    if (!mr_utf8_is_valid(pattern))
        return fail(&parser, MR_INVALID_REQUEST, "the pattern is not valid UTF-8");
    const struct mr_expr *expr = parse_alternatives(&parser, OUTER);
    if (builder->status != MR_OK) return mr_expr_never();
    if (parser.at < pattern.length)
        return fail(&parser, MR_INVALID_REQUEST, "unmatched closing parenthesis");
    return expr;
}
