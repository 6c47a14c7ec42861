/* jinja_expression - the expression half of the template parser, and the parser state and small
 * steps both halves share. Precedence as in Jinja, loosest first: conditional, or, and, not,
 * comparison, ~, + -, * / // %, unary and power, postfix, filters and tests.
 *
 * Errors are sticky: after the first one every function returns NULL or false at once, so callers
 * need not look until the end. */
#ifndef MR_CODEC_TEMPLATE_JINJA_EXPRESSION_H
#define MR_CODEC_TEMPLATE_JINJA_EXPRESSION_H

#include "codec/arena.h"
#include "codec/template/jinja_ast.h"

struct mr_jinja_parser {
    const struct mr_jinja_token *at; /* next token; the list ends with MR_JINJA_TOKEN_END */
    struct mr_arena *arena;          /* of the tree */
    struct mr_error *err;
    enum mr_status status; /* sticky */
    uint32_t depth;        /* at most MR_TEMPLATE_DEPTH_MAX */
};

const struct mr_jinja_node *mr_jinja_parse_expression(struct mr_jinja_parser *parser);
/* A name, literal, list, dictionary or something in parentheses. */
const struct mr_jinja_node *mr_jinja_parse_primary(struct mr_jinja_parser *parser);

/* "expected X, found Y" with the line; returns NULL. */
struct mr_jinja_node *mr_jinja_parser_fail(struct mr_jinja_parser *parser, const char *expected);
struct mr_jinja_node *mr_jinja_parser_node(struct mr_jinja_parser *parser,
                                           enum mr_jinja_node_kind kind);
struct mr_jinja_node *mr_jinja_parser_pair(struct mr_jinja_parser *parser,
                                           enum mr_jinja_node_kind kind, struct mr_text text,
                                           const struct mr_jinja_node *a,
                                           const struct mr_jinja_node *b);
/* Appends item (NULL: nothing) to the list whose end *tail points to. */
void mr_jinja_parser_link(const struct mr_jinja_node ***tail, struct mr_jinja_node *item);

bool mr_jinja_parser_at_name(const struct mr_jinja_parser *parser, const char *word);
bool mr_jinja_parser_at_operator(const struct mr_jinja_parser *parser, const char *text);
/* True when it was there, and then it is consumed. */
bool mr_jinja_parser_take_name(struct mr_jinja_parser *parser, const char *word);
bool mr_jinja_parser_take_operator(struct mr_jinja_parser *parser, const char *text);
/* Any name, consumed; anything else is a failure. */
struct mr_text mr_jinja_parser_need_name(struct mr_jinja_parser *parser);

#endif
