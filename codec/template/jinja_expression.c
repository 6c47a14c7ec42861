#include "codec/template/jinja_expression.h"

#include "codec/limits.h"

#include <stdlib.h>
#include <string.h>

const struct mr_jinja_node *mr_jinja_parse_expression(struct mr_jinja_parser *parser);

struct mr_jinja_node *mr_jinja_parser_fail(struct mr_jinja_parser *parser, const char *expected)
{
    if (parser->status == MR_OK) {
        struct mr_text text = parser->at->text;
        int length = text.length > 40 ? 40 : (int)text.length;
        parser->status =
            mr_fail(parser->err, MR_BAD_FILE, "chat template line %u: expected %s, found '%.*s'",
                    parser->at->line, expected, length, text.bytes);
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

static struct mr_jinja_node *parse_integer(struct mr_jinja_parser *parser)
{
    struct mr_text text = parser->at->text;
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_INT);
    if (!node) return NULL;
    int64_t integer = 0;
    for (size_t i = 0; i < text.length; i++) {
        int digit = text.bytes[i] - '0';
        if (__builtin_mul_overflow(integer, 10, &integer) ||
            __builtin_add_overflow(integer, digit, &integer))
            return mr_jinja_parser_fail(parser, "a smaller number");
    }
    node->integer = integer;
    parser->at++;
    return node;
}

static struct mr_jinja_node *parse_float(struct mr_jinja_parser *parser)
{
    struct mr_text text = parser->at->text;
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_FLOAT);
    char *copy = node ? mr_arena_copy_text(parser->arena, text.bytes, text.length) : NULL;
    if (!copy) return mr_jinja_parser_fail(parser, "a shorter number");
    node->number = strtod(copy, NULL);
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

/* Parses expressions between commas up to the closing operator `close` and consumes that. Adds the
 * number of commas to *commas: a comma in parentheses makes a tuple. */
static const struct mr_jinja_node *parse_items(struct mr_jinja_parser *parser, const char *close,
                                               uint32_t *commas)
{
    const struct mr_jinja_node *first = NULL, **tail = &first;
    while (parser->status == MR_OK && !mr_jinja_parser_take_operator(parser, close)) {
        mr_jinja_parser_link(&tail, (struct mr_jinja_node *)mr_jinja_parse_expression(parser));
        if (mr_jinja_parser_take_operator(parser, ",")) {
            ++*commas;
        } else if (!mr_jinja_parser_at_operator(parser, close)) {
            mr_jinja_parser_fail(parser, close);
        }
    }
    return first;
}

static struct mr_jinja_node *parse_list(struct mr_jinja_parser *parser)
{
    uint32_t commas = 0;
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_LIST);
    if (node) node->items = parse_items(parser, "]", &commas);
    return node;
}

/* Called after "(": parses a tuple or an expression in parentheses. */
static const struct mr_jinja_node *parse_parentheses(struct mr_jinja_parser *parser)
{
    uint32_t commas = 0;
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_LIST);
    if (!node) return NULL;
    node->items = parse_items(parser, ")", &commas);
    return commas || !node->items ? node : node->items;
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

/* Called after "(": parses the arguments of a call, up to ")". */
static const struct mr_jinja_node *parse_arguments(struct mr_jinja_parser *parser)
{
    const struct mr_jinja_node *first = NULL, **tail = &first;
    while (parser->status == MR_OK && !mr_jinja_parser_take_operator(parser, ")")) {
        const struct mr_jinja_token *next = parser->at + 1;
        if (parser->at->kind == MR_JINJA_TOKEN_NAME && next->kind == MR_JINJA_TOKEN_OPERATOR &&
            mr_text_is(next->text, "=")) {
            struct mr_text name = mr_jinja_parser_need_name(parser);
            parser->at++;
            const struct mr_jinja_node *value = mr_jinja_parse_expression(parser);
            mr_jinja_parser_link(
                &tail, mr_jinja_parser_pair(parser, MR_JINJA_NODE_KEYWORD, name, value, NULL));
        } else {
            mr_jinja_parser_link(&tail, (struct mr_jinja_node *)mr_jinja_parse_expression(parser));
        }
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

static const struct mr_jinja_node *parse_filter(struct mr_jinja_parser *parser,
                                                const struct mr_jinja_node *base)
{
    struct mr_text name = mr_jinja_parser_need_name(parser);
    struct mr_jinja_node *node =
        mr_jinja_parser_pair(parser, MR_JINJA_NODE_FILTER, name, base, NULL);
    if (node && mr_jinja_parser_take_operator(parser, "(")) node->items = parse_arguments(parser);
    return node;
}

static bool at_test_argument(const struct mr_jinja_parser *parser)
{
    switch (parser->at->kind) {
    case MR_JINJA_TOKEN_STRING:
    case MR_JINJA_TOKEN_INT:
    case MR_JINJA_TOKEN_FLOAT:
        return true;
    case MR_JINJA_TOKEN_NAME:
        return !mr_jinja_parser_at_name(parser, "else") && !mr_jinja_parser_at_name(parser, "or") &&
               !mr_jinja_parser_at_name(parser, "and") && !mr_jinja_parser_at_name(parser, "is") &&
               !mr_jinja_parser_at_name(parser, "if") && !mr_jinja_parser_at_name(parser, "not") &&
               !mr_jinja_parser_at_name(parser, "in");
    default:
        return mr_jinja_parser_at_operator(parser, "[") || mr_jinja_parser_at_operator(parser, "{");
    }
}

static const struct mr_jinja_node *parse_test(struct mr_jinja_parser *parser,
                                              const struct mr_jinja_node *base)
{
    bool negated = mr_jinja_parser_take_name(parser, "not");
    struct mr_text name = mr_jinja_parser_need_name(parser);
    struct mr_jinja_node *node = mr_jinja_parser_pair(parser, MR_JINJA_NODE_TEST, name, base, NULL);
    if (!node) return NULL;
    if (mr_jinja_parser_take_operator(parser, "(")) {
        node->items = parse_arguments(parser);
    } else if (at_test_argument(parser)) {
        node->items = mr_jinja_parse_primary(parser);
    }
    return negated
               ? mr_jinja_parser_pair(parser, MR_JINJA_NODE_NOT, (struct mr_text){0}, node, NULL)
               : node;
}

static const struct mr_jinja_node *parse_postfix(struct mr_jinja_parser *parser,
                                                 const struct mr_jinja_node *base)
{
    while (parser->status == MR_OK) {
        if (mr_jinja_parser_take_operator(parser, ".")) {
            struct mr_text name = mr_jinja_parser_need_name(parser);
            base = mr_jinja_parser_pair(parser, MR_JINJA_NODE_ATTRIBUTE, name, base, NULL);
        } else if (mr_jinja_parser_take_operator(parser, "[")) {
            base = parse_index(parser, base);
        } else if (mr_jinja_parser_take_operator(parser, "(")) {
            const struct mr_jinja_node *arguments = parse_arguments(parser);
            struct mr_jinja_node *node =
                mr_jinja_parser_pair(parser, MR_JINJA_NODE_CALL, (struct mr_text){0}, base, NULL);
            if (node) node->items = arguments;
            base = node;
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
            base = parse_filter(parser, base);
        } else if (mr_jinja_parser_take_name(parser, "is")) {
            base = parse_test(parser, base);
        } else if (mr_jinja_parser_take_operator(parser, "(")) {
            /* fail: the result of a filter or test cannot be called */
            return mr_jinja_parser_fail(parser, "an operator");
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
    if (!negates) return value;
    return mr_jinja_parser_pair(parser, MR_JINJA_NODE_NEGATE, (struct mr_text){0}, value, NULL);
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

static const struct mr_jinja_node *parse_or(struct mr_jinja_parser *parser)
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
    const struct mr_jinja_node *value = parse_or(parser);
    while (mr_jinja_parser_take_name(parser, "if")) {
        const struct mr_jinja_node *condition = parse_or(parser), *otherwise = NULL;
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
