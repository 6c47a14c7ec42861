/* jinja_expression - parses expressions of templates. Also has the parser state and its functions,
 * which jinja_parser.c (statements) uses too.
 *
 * Precedence is that of Jinja, loosest first: conditional, or, and, not, comparison, + -, ~,
 * * / // %, power, unary, postfix, filters and tests.
 *
 * Owner: one call of mr_jinja_parse. Memory: the tree's arena.
 * Errors: the first one stays in the parser: after a failure every function returns NULL or false
 * at once, so callers check the status only at the end. */
#ifndef MR_CODEC_JINJA_JINJA_EXPRESSION_H
#define MR_CODEC_JINJA_JINJA_EXPRESSION_H

#include "codec/arena.h"
#include "codec/jinja/jinja_ast.h"

struct mr_jinja_parser {
    const struct mr_jinja_token *at; /* next token; the array ends with MR_JINJA_TOKEN_END */
    struct mr_arena *arena;          /* memory for the nodes of the tree */
    struct mr_error *err;
    enum mr_status status; /* first failure, which later failures do not replace */
    uint32_t depth;        /* present nesting, at most MR_TEMPLATE_DEPTH_MAX */
};

const struct mr_jinja_node *mr_jinja_parse_expression(struct mr_jinja_parser *parser);
/* The same without a conditional expression at the top. */
const struct mr_jinja_node *mr_jinja_parse_or(struct mr_jinja_parser *parser);

enum mr_jinja_tuple_flags {
    MR_JINJA_TUPLE_PLAIN = 0,
    MR_JINJA_TUPLE_NO_CONDITION = 1, /* the expressions have no `if` at the top */
    MR_JINJA_TUPLE_MAY_BE_EMPTY = 2,
    MR_JINJA_TUPLE_TO_RECURSIVE = 4, /* the name `recursive` ends it */
};
/* Parses expressions with commas between them: a TUPLE node; one without a comma: that
 * expression. */
const struct mr_jinja_node *mr_jinja_parse_tuple(struct mr_jinja_parser *parser,
                                                 enum mr_jinja_tuple_flags flags);
/* Called after "(": parses the arguments of a call, up to ")". */
const struct mr_jinja_node *mr_jinja_parse_arguments(struct mr_jinja_parser *parser);
/* Called after "|": parses a filter with its arguments; base is the value to filter. */
const struct mr_jinja_node *mr_jinja_parse_filter(struct mr_jinja_parser *parser,
                                                  const struct mr_jinja_node *base);
/* Parses a name, a literal, a list, a dictionary or an expression in parentheses. */
const struct mr_jinja_node *mr_jinja_parse_primary(struct mr_jinja_parser *parser);

/* Fails with a sentence with the line and "expected <expected>, found <token>"; returns NULL. */
struct mr_jinja_node *mr_jinja_parser_fail(struct mr_jinja_parser *parser, const char *expected);
/* Makes a node with the line of the next token. */
struct mr_jinja_node *mr_jinja_parser_node(struct mr_jinja_parser *parser,
                                           enum mr_jinja_node_kind kind);
/* Makes a node and sets its fields text, a and b. */
struct mr_jinja_node *mr_jinja_parser_pair(struct mr_jinja_parser *parser,
                                           enum mr_jinja_node_kind kind, struct mr_text text,
                                           const struct mr_jinja_node *a,
                                           const struct mr_jinja_node *b);
/* Appends item to a list of nodes; **tail is the list's last link. item may be NULL. */
void mr_jinja_parser_link(const struct mr_jinja_node ***tail, struct mr_jinja_node *item);

bool mr_jinja_parser_at_name(const struct mr_jinja_parser *parser, const char *word);
bool mr_jinja_parser_at_operator(const struct mr_jinja_parser *parser, const char *text);
/* If the next token is the name or operator `word`, consumes the token and returns true. */
bool mr_jinja_parser_take_name(struct mr_jinja_parser *parser, const char *word);
bool mr_jinja_parser_take_operator(struct mr_jinja_parser *parser, const char *text);
/* Consumes a name and returns it; fails when the next token is not a name. */
struct mr_text mr_jinja_parser_need_name(struct mr_jinja_parser *parser);

#endif
