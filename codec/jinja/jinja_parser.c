#include "codec/jinja/jinja_parser.h"

#include "codec/jinja/jinja_expression.h"
#include "codec/limits.h"

#include <string.h>

static const struct mr_jinja_node *parse_statements(struct mr_jinja_parser *parser,
                                                    const char *const *ends);

static void need_block_end(struct mr_jinja_parser *parser)
{
    if (parser->status != MR_OK) return;
    if (parser->at->kind != MR_JINJA_TOKEN_BLOCK_END) {
        mr_jinja_parser_fail(parser, "the end of the tag");
    } else {
        parser->at++;
    }
}

/* Called after "{%": consumes the tag's name `word` and the "%}". */
static void need_end(struct mr_jinja_parser *parser, const char *word)
{
    if (parser->status == MR_OK && !mr_jinja_parser_take_name(parser, word)) {
        mr_jinja_parser_fail(parser, word);
    }
    need_block_end(parser);
}

static struct mr_jinja_node *parse_print(struct mr_jinja_parser *parser)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_PRINT);
    if (!node) return NULL;
    node->a = mr_jinja_parse_tuple(parser, MR_JINJA_TUPLE_PLAIN);
    if (parser->status != MR_OK) return NULL;
    if (parser->at->kind != MR_JINJA_TOKEN_PRINT_END) return mr_jinja_parser_fail(parser, "}}");
    parser->at++;
    return node;
}

/* Called after "if" or "elif": parses condition, body, and the rest up to "endif". */
static struct mr_jinja_node *parse_if(struct mr_jinja_parser *parser)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const else_ends[] = {"endif", NULL};
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_IF);
    if (!node) return NULL;
    node->a = mr_jinja_parse_tuple(parser, MR_JINJA_TUPLE_NO_CONDITION);
    need_block_end(parser);
    node->items = parse_statements(parser, ends);
    if (mr_jinja_parser_take_name(parser, "elif")) {
        node->b = parse_if(parser); /* this call also consumes the endif */
        return node;
    }
    if (mr_jinja_parser_take_name(parser, "else")) {
        need_block_end(parser);
        node->b = parse_statements(parser, else_ends);
    }
    need_end(parser, "endif");
    return node;
}

/* True for targets of an assignment: names, lists of names, and attributes of a namespace. */
static bool is_target(const struct mr_jinja_node *node)
{
    if (!node) return false;
    if (node->kind != MR_JINJA_NODE_TUPLE)
        return node->kind == MR_JINJA_NODE_NAME || node->kind == MR_JINJA_NODE_ATTRIBUTE;
    for (const struct mr_jinja_node *item = node->items; item; item = item->next)
        if (!is_target(item)) return false;
    return true;
}

/* Parses a name, an attribute of a namespace or a tuple in parentheses. */
static const struct mr_jinja_node *parse_target_item(struct mr_jinja_parser *parser)
{
    const struct mr_jinja_node *item = mr_jinja_parse_primary(parser);
    if (!mr_jinja_parser_take_operator(parser, ".")) return item;
    struct mr_text name = mr_jinja_parser_need_name(parser);
    return mr_jinja_parser_pair(parser, MR_JINJA_NODE_ATTRIBUTE, name, item, NULL);
}

/* Parses the target of `for` and `set`: one item, or a TUPLE of items with commas. */
static const struct mr_jinja_node *parse_target(struct mr_jinja_parser *parser)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_TUPLE);
    const struct mr_jinja_node *target = parse_target_item(parser);
    if (node && mr_jinja_parser_at_operator(parser, ",")) {
        const struct mr_jinja_node **tail = &node->items;
        mr_jinja_parser_link(&tail, (struct mr_jinja_node *)target);
        while (mr_jinja_parser_take_operator(parser, ",") &&
               !mr_jinja_parser_at_name(parser, "in") && !mr_jinja_parser_at_operator(parser, "="))
            mr_jinja_parser_link(&tail, (struct mr_jinja_node *)parse_target_item(parser));
        target = node;
    }
    return is_target(target) ? target : mr_jinja_parser_fail(parser, "a name to assign to");
}

static struct mr_jinja_node *parse_for(struct mr_jinja_parser *parser)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const else_ends[] = {"endfor", NULL};
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_FOR);
    if (!node) return NULL;
    node->c = parse_target(parser);
    if (!mr_jinja_parser_take_name(parser, "in")) return mr_jinja_parser_fail(parser, "in");
    node->a =
        mr_jinja_parse_tuple(parser, MR_JINJA_TUPLE_NO_CONDITION | MR_JINJA_TUPLE_TO_RECURSIVE);
    if (mr_jinja_parser_take_name(parser, "if")) node->b = mr_jinja_parse_expression(parser);
    if (mr_jinja_parser_take_name(parser, "recursive"))
        node->text = (struct mr_text){"recursive", 9};
    need_block_end(parser);
    node->items = parse_statements(parser, ends);
    if (mr_jinja_parser_take_name(parser, "else")) {
        need_block_end(parser);
        node->d = parse_statements(parser, else_ends);
    }
    need_end(parser, "endfor");
    return node;
}

/* Parses the filters of a block, with a node OUTPUT in place of the block's output. first: the
 * filter's name comes without "|". */
static const struct mr_jinja_node *parse_block_filters(struct mr_jinja_parser *parser, bool first)
{
    const struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_OUTPUT);
    while (first || mr_jinja_parser_take_operator(parser, "|")) {
        first = false;
        node = mr_jinja_parse_filter(parser, node);
    }
    return node;
}

static struct mr_jinja_node *parse_set(struct mr_jinja_parser *parser)
{
    static const char *const ends[] = {"endset", NULL};
    const struct mr_jinja_node *target = parse_target(parser);
    bool assigned = mr_jinja_parser_take_operator(parser, "=");
    struct mr_jinja_node *node =
        mr_jinja_parser_node(parser, assigned ? MR_JINJA_NODE_SET : MR_JINJA_NODE_SET_BLOCK);
    if (!node) return NULL;
    node->a = target;
    node->b = assigned ? mr_jinja_parse_tuple(parser, MR_JINJA_TUPLE_PLAIN)
                       : parse_block_filters(parser, false);
    need_block_end(parser);
    if (!assigned) {
        node->items = parse_statements(parser, ends);
        need_end(parser, "endset");
    }
    return node;
}

/* Parses the parameters of a macro or call block. */
static const struct mr_jinja_node *parse_parameters(struct mr_jinja_parser *parser)
{
    const struct mr_jinja_node *first = NULL, **tail = &first;
    bool defaults = false;
    if (!mr_jinja_parser_take_operator(parser, "(")) return mr_jinja_parser_fail(parser, "(");
    while (parser->status == MR_OK && !mr_jinja_parser_take_operator(parser, ")")) {
        struct mr_text name = mr_jinja_parser_need_name(parser);
        const struct mr_jinja_node *value = NULL;
        if (mr_jinja_parser_take_operator(parser, "=")) value = mr_jinja_parse_expression(parser);
        if (!value && defaults) return mr_jinja_parser_fail(parser, "a default");
        defaults = value != NULL;
        mr_jinja_parser_link(
            &tail, mr_jinja_parser_pair(parser, MR_JINJA_NODE_KEYWORD, name, value, NULL));
        if (!mr_jinja_parser_take_operator(parser, ",") &&
            !mr_jinja_parser_at_operator(parser, ")"))
            mr_jinja_parser_fail(parser, ")");
    }
    return first;
}

/* Parses the statements of a block up to its end tag, which has the name ends[0]. */
static void parse_body(struct mr_jinja_parser *parser, struct mr_jinja_node *node,
                       const char *const *ends)
{
    need_block_end(parser);
    const struct mr_jinja_node *items = parse_statements(parser, ends);
    need_end(parser, ends[0]);
    if (node) node->items = items;
}

static struct mr_jinja_node *parse_macro(struct mr_jinja_parser *parser)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_MACRO);
    if (!node) return NULL;
    node->text = mr_jinja_parser_need_name(parser);
    node->b = parse_parameters(parser);
    parse_body(parser, node, ends);
    return node;
}

static struct mr_jinja_node *parse_call_block(struct mr_jinja_parser *parser)
{
    static const char *const ends[] = {"endcall", NULL};
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_CALL_BLOCK);
    if (!node) return NULL;
    node->text = (struct mr_text){"caller", 6};
    if (mr_jinja_parser_at_operator(parser, "(")) node->b = parse_parameters(parser);
    node->a = mr_jinja_parse_expression(parser);
    if (node->a && node->a->kind != MR_JINJA_NODE_CALL)
        return mr_jinja_parser_fail(parser, "a call");
    parse_body(parser, node, ends);
    return node;
}

static struct mr_jinja_node *parse_filter_block(struct mr_jinja_parser *parser)
{
    static const char *const ends[] = {"endfilter", NULL};
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_FILTER_BLOCK);
    if (!node) return NULL;
    node->a = parse_block_filters(parser, true);
    parse_body(parser, node, ends);
    return node;
}

static struct mr_jinja_node *parse_with(struct mr_jinja_parser *parser)
{
    static const char *const ends[] = {"endwith", NULL};
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_WITH);
    if (!node) return NULL;
    const struct mr_jinja_node **tail = &node->b;
    while (parser->status == MR_OK && parser->at->kind != MR_JINJA_TOKEN_BLOCK_END) {
        const struct mr_jinja_node *target = parse_target_item(parser);
        if (!is_target(target)) return mr_jinja_parser_fail(parser, "a name to assign to");
        if (!mr_jinja_parser_take_operator(parser, "=")) return mr_jinja_parser_fail(parser, "=");
        mr_jinja_parser_link(&tail,
                             mr_jinja_parser_pair(parser, MR_JINJA_NODE_SET, (struct mr_text){0},
                                                  target, mr_jinja_parse_expression(parser)));
        if (!mr_jinja_parser_take_operator(parser, ",")) break;
    }
    parse_body(parser, node, ends);
    return node;
}

static struct mr_jinja_node *parse_generation(struct mr_jinja_parser *parser)
{
    static const char *const ends[] = {"endgeneration", NULL};
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_SCOPE);
    parse_body(parser, node, ends);
    return node;
}

static struct mr_jinja_node *parse_jump(struct mr_jinja_parser *parser,
                                        enum mr_jinja_node_kind kind)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, kind);
    need_block_end(parser);
    return node;
}

/* Called after "{%": parses the rest of a statement. */
static struct mr_jinja_node *parse_tag(struct mr_jinja_parser *parser)
{
    if (mr_jinja_parser_take_name(parser, "if")) return parse_if(parser);
    if (mr_jinja_parser_take_name(parser, "for")) return parse_for(parser);
    if (mr_jinja_parser_take_name(parser, "set")) return parse_set(parser);
    if (mr_jinja_parser_take_name(parser, "macro")) return parse_macro(parser);
    if (mr_jinja_parser_take_name(parser, "call")) return parse_call_block(parser);
    if (mr_jinja_parser_take_name(parser, "filter")) return parse_filter_block(parser);
    if (mr_jinja_parser_take_name(parser, "with")) return parse_with(parser);
    if (mr_jinja_parser_take_name(parser, "generation")) return parse_generation(parser);
    if (mr_jinja_parser_take_name(parser, "break")) return parse_jump(parser, MR_JINJA_NODE_BREAK);
    if (mr_jinja_parser_take_name(parser, "continue")) {
        return parse_jump(parser, MR_JINJA_NODE_CONTINUE);
    }
    return mr_jinja_parser_fail(
        parser, "if, for, set, macro, call, filter, with, generation, break or continue");
}

static bool at_end(const struct mr_jinja_parser *parser, const char *const *ends)
{
    for (size_t i = 0; ends[i]; i++) {
        if (mr_jinja_parser_at_name(parser, ends[i])) return true;
    }
    return false;
}

static struct mr_jinja_node *parse_data(struct mr_jinja_parser *parser)
{
    struct mr_jinja_node *node = mr_jinja_parser_node(parser, MR_JINJA_NODE_DATA);
    if (node) node->text = parser->at++->text;
    return node;
}

/* Parses statements up to a tag whose name is in `ends`, and consumes the "{%" of that tag. ends
 * NULL: up to the end of the template. */
static const struct mr_jinja_node *parse_statements(struct mr_jinja_parser *parser,
                                                    const char *const *ends)
{
    const struct mr_jinja_node *first = NULL, **tail = &first;
    if (++parser->depth > MR_TEMPLATE_DEPTH_MAX)
        mr_jinja_parser_fail(parser, "statements nested less deeply");
    while (parser->status == MR_OK) {
        enum mr_jinja_token_kind kind = parser->at->kind;
        if (kind == MR_JINJA_TOKEN_END) {
            if (ends) mr_jinja_parser_fail(parser, ends[0]);
            break;
        }
        if (kind == MR_JINJA_TOKEN_DATA) {
            mr_jinja_parser_link(&tail, parse_data(parser));
            continue;
        }
        parser->at++;
        if (kind == MR_JINJA_TOKEN_PRINT_BEGIN) {
            mr_jinja_parser_link(&tail, parse_print(parser));
            continue;
        }
        if (ends && at_end(parser, ends)) break;
        mr_jinja_parser_link(&tail, parse_tag(parser));
    }
    parser->depth--;
    return first;
}

enum mr_status mr_jinja_parse(const struct mr_jinja_token *tokens, struct mr_arena *arena,
                              const struct mr_jinja_node **root, struct mr_error *err)
{
    struct mr_jinja_parser parser = {.at = tokens, .arena = arena, .err = err, .status = MR_OK};
    *root = NULL;
    const struct mr_jinja_node *first = parse_statements(&parser, NULL);
    if (parser.status == MR_OK) *root = first;
    return parser.status;
}
