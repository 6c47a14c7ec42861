#include "codec/jinja/jinja_expression.h"

#include "codec/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mr_jinja_node *mr_jinja_parser_fail(struct mr_jinja_parser *parser, const char *expected)
{
    if (parser->status == MR_OK) {
        struct mr_text text = parser->at->text;
        int length = text.length > 40 ? 40 : (int)text.length;
        parser->status = mr_fail(
            parser->err, MR_BAD_FILE, "chat template line %u column %u: expected %s, found '%.*s'",
            parser->at->line, parser->at->column, expected, length, text.bytes);
    }
    return NULL;
}

struct mr_jinja_node *mr_jinja_parser_node(struct mr_jinja_parser *parser,
                                           enum mr_jinja_node_kind kind)
{
    if (parser->status != MR_OK) return NULL;
    struct mr_jinja_node *node = mr_arena_take(parser->arena, sizeof *node);
    if (!node) {
        parser->status = mr_fail(parser->err, MR_NOMEM, "chat template tree");
        return NULL;
    }
    node->kind = kind;
    node->line = parser->at->line;
    node->column = parser->at->column;
    return node;
}

bool mr_jinja_parser_at_operator(const struct mr_jinja_parser *parser, const char *text)
{
    return parser->at->kind == MR_JINJA_TOKEN_OPERATOR && mr_text_is(parser->at->text, text);
}

bool mr_jinja_parser_at_name(const struct mr_jinja_parser *parser, const char *word)
{
    return parser->at->kind == MR_JINJA_TOKEN_NAME && mr_text_is(parser->at->text, word);
}

bool mr_jinja_parser_take_operator(struct mr_jinja_parser *parser, const char *text)
{
    if (parser->status != MR_OK || !mr_jinja_parser_at_operator(parser, text)) return false;
    parser->at++;
    return true;
}

bool mr_jinja_parser_take_name(struct mr_jinja_parser *parser, const char *word)
{
    if (parser->status != MR_OK || !mr_jinja_parser_at_name(parser, word)) return false;
    parser->at++;
    return true;
}

static void need_operator(struct mr_jinja_parser *parser, const char *text)
{
    if (parser->status == MR_OK && !mr_jinja_parser_take_operator(parser, text))
        mr_jinja_parser_fail(parser, text);
}

struct mr_text mr_jinja_parser_need_name(struct mr_jinja_parser *parser)
{
    struct mr_text text = parser->at->text;
    if (parser->status != MR_OK) return text;
    if (parser->at->kind != MR_JINJA_TOKEN_NAME) {
        mr_jinja_parser_fail(parser, "a name");
    } else {
        parser->at++;
    }
    return text;
}

struct mr_jinja_node *mr_jinja_parser_pair(struct mr_jinja_parser *parser,
                                           enum mr_jinja_node_kind kind, struct mr_text text,
                                           const struct mr_jinja_node *a,
                                           const struct mr_jinja_node *b)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, kind);
    if (!node) return NULL;
    node->text = text;
    node->a = a;
    node->b = b;
    return node;
}

void mr_jinja_parser_link(const struct mr_jinja_node ***tail, struct mr_jinja_node *item)
{
    if (!item) return;
    **tail = item;
    *tail = (const struct mr_jinja_node **)&item->next;
}

/* ---- primary expressions ---- */

/* The text of a number without the underscores between its digits. */
static char *digits_of(struct mr_jinja_parser *parser)
{
    struct mr_text text = parser->at->text;
    char *copy = mr_arena_take(parser->arena, text.length + 1);
    size_t length = 0;
    for (size_t i = 0; copy && i < text.length; i++)
        if (text.bytes[i] != '_') copy[length++] = text.bytes[i];
    return copy;
}

static struct mr_jinja_node *parse_integer(struct mr_jinja_parser *parser)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_INT);
    char *digits = node ? digits_of(parser) : NULL, *end;
    if (!digits) return mr_jinja_parser_fail(parser, "a shorter number");
    int prefix = digits[0] == '0' && digits[1] ? digits[1] | 0x20 : 0;
    int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    errno = 0;
    long long integer = strtoll(base == 10 ? digits : digits + 2, &end, base);
    if (errno || *end) return mr_jinja_parser_fail(parser, "a smaller number");
    node->integer = integer;
    parser->at++;
    return node;
}

static struct mr_jinja_node *parse_float(struct mr_jinja_parser *parser)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_FLOAT);
    char *digits = node ? digits_of(parser) : NULL;
    if (!digits) return mr_jinja_parser_fail(parser, "a shorter number");
    node->number = strtod(digits, NULL);
    parser->at++;
    return node;
}

static struct mr_jinja_node *parse_string(struct mr_jinja_parser *parser)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_STRING);
    if (!node) return NULL;
    node->text = parser->at++->text;
    /* adjacent string literals are joined to one */
    while (parser->at->kind == MR_JINJA_TOKEN_STRING) {
        struct mr_text more = parser->at++->text;
        char *joined = mr_arena_take(parser->arena, node->text.length + more.length + 1);
        if (!joined) return mr_jinja_parser_fail(parser, "a shorter string");
        memcpy(joined, node->text.bytes, node->text.length);
        memcpy(joined + node->text.length, more.bytes, more.length);
        node->text = (struct mr_text){joined, node->text.length + more.length};
    }
    return node;
}

static struct mr_jinja_node *parse_name(struct mr_jinja_parser *parser)
{
    static const struct {
        const char *word;
        enum mr_jinja_node_kind kind;
    } constants[] = {
        {"true", MR_JINJA_NODE_TRUE},   {"True", MR_JINJA_NODE_TRUE},
        {"false", MR_JINJA_NODE_FALSE}, {"False", MR_JINJA_NODE_FALSE},
        {"none", MR_JINJA_NODE_NONE},   {"None", MR_JINJA_NODE_NONE},
    };
    enum mr_jinja_node_kind kind = MR_JINJA_NODE_NAME;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (mr_text_is(parser->at->text, constants[i].word)) kind = constants[i].kind;
    }
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, kind);
    if (!node) return NULL;
    node->text = parser->at++->text;
    return node;
}

static struct mr_jinja_node *parse_list(struct mr_jinja_parser *parser)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_LIST);
    if (!node) return NULL;
    const struct mr_jinja_node **tail = &node->items;
    while (parser->status == MR_OK && !mr_jinja_parser_take_operator(parser, "]")) {
        mr_jinja_parser_link(&tail, (struct mr_jinja_node *)mr_jinja_parse_expression(parser));
        if (!mr_jinja_parser_take_operator(parser, ",") &&
            !mr_jinja_parser_at_operator(parser, "]"))
            mr_jinja_parser_fail(parser, "]");
    }
    return node;
}

/* True at a token that ends a tuple without parentheses. */
static bool at_tuple_end(const struct mr_jinja_parser *parser)
{
    enum mr_jinja_token_kind kind = parser->at->kind;
    return kind == MR_JINJA_TOKEN_PRINT_END || kind == MR_JINJA_TOKEN_BLOCK_END ||
           mr_jinja_parser_at_operator(parser, ")");
}

const struct mr_jinja_node *mr_jinja_parse_tuple(struct mr_jinja_parser *parser,
                                                 enum mr_jinja_tuple_flags flags)
{
    const struct mr_jinja_node *first = NULL, **tail = &first;
    bool commas = false;
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_TUPLE);
    while (
        parser->status == MR_OK && !at_tuple_end(parser) &&
        !((flags & MR_JINJA_TUPLE_TO_RECURSIVE) && mr_jinja_parser_at_name(parser, "recursive"))) {
        const struct mr_jinja_node *item = flags & MR_JINJA_TUPLE_NO_CONDITION
                                               ? mr_jinja_parse_or(parser)
                                               : mr_jinja_parse_expression(parser);
        mr_jinja_parser_link(&tail, (struct mr_jinja_node *)item);
        if (!mr_jinja_parser_take_operator(parser, ",")) break;
        commas = true;
    }
    if (!node || parser->status != MR_OK) return NULL;
    if (!commas && first) return first;
    if (!commas && !(flags & MR_JINJA_TUPLE_MAY_BE_EMPTY))
        return mr_jinja_parser_fail(parser, "an expression");
    node->items = first;
    return node;
}

/* Called after "(": parses a tuple or an expression in parentheses. */
static const struct mr_jinja_node *parse_parentheses(struct mr_jinja_parser *parser)
{
    if (++parser->depth > MR_TEMPLATE_DEPTH_MAX)
        return mr_jinja_parser_fail(parser, "an expression nested less deeply");
    const struct mr_jinja_node *node = mr_jinja_parse_tuple(parser, MR_JINJA_TUPLE_MAY_BE_EMPTY);
    parser->depth--;
    need_operator(parser, ")");
    return node;
}

static struct mr_jinja_node *parse_dict(struct mr_jinja_parser *parser)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_DICT);
    if (!node) return NULL;
    const struct mr_jinja_node **tail = &node->items;
    while (parser->status == MR_OK && !mr_jinja_parser_take_operator(parser, "}")) {
        const struct mr_jinja_node *key = mr_jinja_parse_expression(parser);
        need_operator(parser, ":");
        const struct mr_jinja_node *value = mr_jinja_parse_expression(parser);
        mr_jinja_parser_link(&tail, mr_jinja_parser_pair(parser, MR_JINJA_NODE_PAIR,
                                                         (struct mr_text){0}, key, value));
        if (!mr_jinja_parser_take_operator(parser, ",") &&
            !mr_jinja_parser_at_operator(parser, "}"))
            mr_jinja_parser_fail(parser, "}");
    }
    return node;
}

const struct mr_jinja_node *mr_jinja_parse_primary(struct mr_jinja_parser *parser)
{
    switch (parser->at->kind) {
    case MR_JINJA_TOKEN_STRING:
        return parse_string(parser);
    case MR_JINJA_TOKEN_INT:
        return parse_integer(parser);
    case MR_JINJA_TOKEN_FLOAT:
        return parse_float(parser);
    case MR_JINJA_TOKEN_NAME:
        return parse_name(parser);
    default:
        if (mr_jinja_parser_take_operator(parser, "(")) return parse_parentheses(parser);
        if (mr_jinja_parser_take_operator(parser, "[")) return parse_list(parser);
        if (mr_jinja_parser_take_operator(parser, "{")) return parse_dict(parser);
        return mr_jinja_parser_fail(parser, "an expression");
    }
}

/* ---- postfix ---- */

/* Parses one argument of a call. *stage: 0 after positional arguments, 1 after a keyword argument,
 * 2 after *a, 3 after **a; an argument of a kind that Jinja does not allow after that stage is an
 * error. */
static struct mr_jinja_node *parse_argument(struct mr_jinja_parser *parser, int *stage)
{
    const struct mr_jinja_token *next = parser->at + 1;
    static const struct mr_text none = {"", 0};
    int before = *stage;
    if (mr_jinja_parser_take_operator(parser, "*")) {
        *stage = 2;
        if (before >= 2) return mr_jinja_parser_fail(parser, ")");
        return mr_jinja_parser_pair(parser, MR_JINJA_NODE_SPREAD, none,
                                    mr_jinja_parse_expression(parser), NULL);
    }
    if (mr_jinja_parser_take_operator(parser, "**")) {
        *stage = 3;
        if (before >= 3) return mr_jinja_parser_fail(parser, ")");
        return mr_jinja_parser_pair(parser, MR_JINJA_NODE_SPREAD_NAMED, none,
                                    mr_jinja_parse_expression(parser), NULL);
    }
    if (parser->at->kind == MR_JINJA_TOKEN_NAME && next->kind == MR_JINJA_TOKEN_OPERATOR &&
        mr_text_is(next->text, "=")) {
        struct mr_text name = mr_jinja_parser_need_name(parser);
        parser->at++;
        if (before == 3) return mr_jinja_parser_fail(parser, ")");
        if (before == 0) *stage = 1;
        return mr_jinja_parser_pair(parser, MR_JINJA_NODE_KEYWORD, name,
                                    mr_jinja_parse_expression(parser), NULL);
    }
    if (before != 0) return mr_jinja_parser_fail(parser, "a keyword argument");
    return (struct mr_jinja_node *)mr_jinja_parse_expression(parser);
}

const struct mr_jinja_node *mr_jinja_parse_arguments(struct mr_jinja_parser *parser)
{
    const struct mr_jinja_node *first = NULL, **tail = &first;
    int stage = 0;
    while (parser->status == MR_OK && !mr_jinja_parser_take_operator(parser, ")")) {
        mr_jinja_parser_link(&tail, parse_argument(parser, &stage));
        if (!mr_jinja_parser_take_operator(parser, ",") &&
            !mr_jinja_parser_at_operator(parser, ")"))
            mr_jinja_parser_fail(parser, ")");
    }
    return first;
}

/* Called after "[": parses an index or a slice, up to "]". */
static const struct mr_jinja_node *parse_index(struct mr_jinja_parser *parser,
                                               const struct mr_jinja_node *base)
{
    const struct mr_jinja_node *parts[3] = {NULL, NULL, NULL};
    size_t part = 0;
    bool slice = false;
    while (parser->status == MR_OK && !mr_jinja_parser_take_operator(parser, "]")) {
        if (mr_jinja_parser_take_operator(parser, ":")) {
            slice = true;
            if (++part > 2) return mr_jinja_parser_fail(parser, "]");
        } else {
            parts[part] = mr_jinja_parse_expression(parser);
            if (!mr_jinja_parser_at_operator(parser, ":") &&
                !mr_jinja_parser_at_operator(parser, "]"))
                return mr_jinja_parser_fail(parser, "]");
        }
    }
    enum mr_jinja_node_kind kind = slice ? MR_JINJA_NODE_SLICE : MR_JINJA_NODE_INDEX;
    struct mr_jinja_node *node =
        mr_jinja_parser_pair(parser, kind, (struct mr_text){0}, base, parts[0]);
    if (!node) return NULL;
    if (!slice && !parts[0]) return mr_jinja_parser_fail(parser, "an index");
    node->c = parts[1];
    node->d = parts[2];
    return node;
}

const struct mr_jinja_node *mr_jinja_parse_filter(struct mr_jinja_parser *parser,
                                                  const struct mr_jinja_node *base)
{
    struct mr_text name = mr_jinja_parser_need_name(parser);
    parser->at--; /* an error is reported at the place of the name */
    struct mr_jinja_node *node =
        mr_jinja_parser_pair(parser, MR_JINJA_NODE_FILTER, name, base, NULL);
    parser->at++;
    if (node && mr_jinja_parser_take_operator(parser, "("))
        node->items = mr_jinja_parse_arguments(parser);
    return node;
}

static const struct mr_jinja_node *parse_postfix(struct mr_jinja_parser *parser,
                                                 const struct mr_jinja_node *base);

/* True at the argument of a test without parentheses: {{ x is divisibleby 3 }}. */
static bool at_test_argument(const struct mr_jinja_parser *parser)
{
    switch (parser->at->kind) {
    case MR_JINJA_TOKEN_STRING:
    case MR_JINJA_TOKEN_INT:
    case MR_JINJA_TOKEN_FLOAT:
        return true;
    case MR_JINJA_TOKEN_NAME:
        return !mr_jinja_parser_at_name(parser, "else") && !mr_jinja_parser_at_name(parser, "or") &&
               !mr_jinja_parser_at_name(parser, "and");
    default:
        return mr_jinja_parser_at_operator(parser, "[") || mr_jinja_parser_at_operator(parser, "{");
    }
}

static const struct mr_jinja_node *parse_test(struct mr_jinja_parser *parser,
                                              const struct mr_jinja_node *base)
{
    bool negated = mr_jinja_parser_take_name(parser, "not");
    struct mr_jinja_node *node =
        mr_jinja_parser_pair(parser, MR_JINJA_NODE_TEST, (struct mr_text){0}, base, NULL);
    struct mr_text name = mr_jinja_parser_need_name(parser);
    if (!node) return NULL;
    node->text = name;
    if (mr_jinja_parser_take_operator(parser, "(")) {
        node->items = mr_jinja_parse_arguments(parser);
    } else if (at_test_argument(parser)) {
        if (mr_jinja_parser_at_name(parser, "is"))
            return mr_jinja_parser_fail(parser, "one test after a value");
        node->items = parse_postfix(parser, mr_jinja_parse_primary(parser));
    }
    return negated
               ? mr_jinja_parser_pair(parser, MR_JINJA_NODE_NOT, (struct mr_text){0}, node, NULL)
               : node;
}

static const struct mr_jinja_node *parse_call(struct mr_jinja_parser *parser,
                                              const struct mr_jinja_node *callee)
{
    struct mr_jinja_node *node =
        mr_jinja_parser_pair(parser, MR_JINJA_NODE_CALL, (struct mr_text){0}, callee, NULL);
    const struct mr_jinja_node *arguments = mr_jinja_parse_arguments(parser);
    if (node) node->items = arguments;
    return node;
}

/* Called after ".": parses a name or a number. */
static const struct mr_jinja_node *parse_attribute(struct mr_jinja_parser *parser,
                                                   const struct mr_jinja_node *base)
{
    if (parser->at->kind == MR_JINJA_TOKEN_INT)
        return mr_jinja_parser_pair(parser, MR_JINJA_NODE_INDEX, (struct mr_text){0}, base,
                                    parse_integer(parser));
    struct mr_text name = mr_jinja_parser_need_name(parser);
    return mr_jinja_parser_pair(parser, MR_JINJA_NODE_ATTRIBUTE, name, base, NULL);
}

static const struct mr_jinja_node *parse_postfix(struct mr_jinja_parser *parser,
                                                 const struct mr_jinja_node *base)
{
    while (parser->status == MR_OK) {
        if (mr_jinja_parser_take_operator(parser, ".")) {
            base = parse_attribute(parser, base);
        } else if (mr_jinja_parser_take_operator(parser, "[")) {
            base = parse_index(parser, base);
        } else if (mr_jinja_parser_take_operator(parser, "(")) {
            base = parse_call(parser, base);
        } else {
            break;
        }
    }
    return base;
}

static const struct mr_jinja_node *parse_filters(struct mr_jinja_parser *parser,
                                                 const struct mr_jinja_node *base)
{
    while (parser->status == MR_OK) {
        if (mr_jinja_parser_take_operator(parser, "|")) {
            base = mr_jinja_parse_filter(parser, base);
        } else if (mr_jinja_parser_take_name(parser, "is")) {
            base = parse_test(parser, base);
        } else if (mr_jinja_parser_take_operator(parser, "(")) {
            base = parse_call(parser, base);
        } else {
            break;
        }
    }
    return base;
}

/* ---- operators, tightest first ---- */

static const struct mr_jinja_node *parse_unary_plain(struct mr_jinja_parser *parser)
{
    bool negates = mr_jinja_parser_take_operator(parser, "-");
    if (!negates && !mr_jinja_parser_take_operator(parser, "+"))
        return parse_postfix(parser, mr_jinja_parse_primary(parser));
    if (++parser->depth > MR_TEMPLATE_DEPTH_MAX)
        return mr_jinja_parser_fail(parser, "an expression nested less deeply");
    const struct mr_jinja_node *value = parse_unary_plain(parser);
    parser->depth--;
    return mr_jinja_parser_pair(parser, negates ? MR_JINJA_NODE_NEGATE : MR_JINJA_NODE_POSITIVE,
                                (struct mr_text){0}, value, NULL);
}

static const struct mr_jinja_node *parse_unary(struct mr_jinja_parser *parser)
{
    if (++parser->depth > MR_TEMPLATE_DEPTH_MAX)
        return mr_jinja_parser_fail(parser, "an expression nested less deeply");
    const struct mr_jinja_node *value = parse_filters(parser, parse_unary_plain(parser));
    parser->depth--;
    return value;
}

/* Parses binary operators, all of which group from the left, ** too. Level 0 binds loosest; each
 * level calls the next higher one for its operands. */
static const struct mr_jinja_node *parse_arithmetic(struct mr_jinja_parser *parser, int level)
{
    static const char *const levels[][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    if (level == 4) return parse_unary(parser);
    const struct mr_jinja_node *left = parse_arithmetic(parser, level + 1);
    for (size_t i = 0; parser->status == MR_OK && levels[level][i];) {
        if (!mr_jinja_parser_at_operator(parser, levels[level][i])) {
            i++;
            continue;
        }
        struct mr_text text = parser->at++->text;
        const struct mr_jinja_node *right = parse_arithmetic(parser, level + 1);
        left = mr_jinja_parser_pair(parser, MR_JINJA_NODE_BINARY, text, left, right);
        i = 0;
    }
    return left;
}

/* If a comparison operator is next, consumes it, sets *text and returns true. */
static bool take_comparison(struct mr_jinja_parser *parser, struct mr_text *text)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!mr_jinja_parser_at_operator(parser, operators[i])) continue;
        *text = parser->at++->text;
        return true;
    }
    const struct mr_jinja_token *next = parser->at + 1;
    if (mr_jinja_parser_at_name(parser, "in")) {
        *text = parser->at++->text;
        return true;
    }
    if (mr_jinja_parser_at_name(parser, "not") && next->kind == MR_JINJA_TOKEN_NAME &&
        mr_text_is(next->text, "in")) {
        parser->at += 2;
        *text = (struct mr_text){"not in", 6};
        return true;
    }
    return false;
}

/* Parses comparisons; a < b < c means a < b and b < c. */
static const struct mr_jinja_node *parse_comparison(struct mr_jinja_parser *parser)
{
    const struct mr_jinja_node *left = parse_arithmetic(parser, 0), *all = NULL;
    struct mr_text text;
    while (parser->status == MR_OK && take_comparison(parser, &text)) {
        const struct mr_jinja_node *right = parse_arithmetic(parser, 0);
        const struct mr_jinja_node *one =
            mr_jinja_parser_pair(parser, MR_JINJA_NODE_COMPARE, text, left, right);
        all = all ? mr_jinja_parser_pair(parser, MR_JINJA_NODE_AND, (struct mr_text){0}, all, one)
                  : one;
        left = right;
    }
    return all ? all : left;
}

static const struct mr_jinja_node *parse_not(struct mr_jinja_parser *parser)
{
    if (!mr_jinja_parser_take_name(parser, "not")) return parse_comparison(parser);
    if (++parser->depth > MR_TEMPLATE_DEPTH_MAX)
        return mr_jinja_parser_fail(parser, "an expression nested less deeply");
    const struct mr_jinja_node *value = parse_not(parser);
    parser->depth--;
    return mr_jinja_parser_pair(parser, MR_JINJA_NODE_NOT, (struct mr_text){0}, value, NULL);
}

static const struct mr_jinja_node *parse_and(struct mr_jinja_parser *parser)
{
    const struct mr_jinja_node *left = parse_not(parser);
    while (mr_jinja_parser_take_name(parser, "and")) {
        const struct mr_jinja_node *right = parse_not(parser);
        left = mr_jinja_parser_pair(parser, MR_JINJA_NODE_AND, (struct mr_text){0}, left, right);
    }
    return left;
}

const struct mr_jinja_node *mr_jinja_parse_or(struct mr_jinja_parser *parser)
{
    const struct mr_jinja_node *left = parse_and(parser);
    while (mr_jinja_parser_take_name(parser, "or")) {
        const struct mr_jinja_node *right = parse_and(parser);
        left = mr_jinja_parser_pair(parser, MR_JINJA_NODE_OR, (struct mr_text){0}, left, right);
    }
    return left;
}

const struct mr_jinja_node *mr_jinja_parse_expression(struct mr_jinja_parser *parser)
{
    if (parser->status != MR_OK) return NULL;
    if (++parser->depth > MR_TEMPLATE_DEPTH_MAX)
        return mr_jinja_parser_fail(parser, "an expression nested less deeply");
    const struct mr_jinja_node *value = mr_jinja_parse_or(parser);
    while (mr_jinja_parser_take_name(parser, "if")) {
        const struct mr_jinja_node *condition = mr_jinja_parse_or(parser), *otherwise = NULL;
        if (mr_jinja_parser_take_name(parser, "else"))
            otherwise = mr_jinja_parse_expression(parser);
        struct mr_jinja_node *node = mr_jinja_parser_pair(parser, MR_JINJA_NODE_CONDITIONAL,
                                                          (struct mr_text){0}, value, condition);
        if (node) node->c = otherwise;
        value = node;
    }
    parser->depth--;
    return value;
}
