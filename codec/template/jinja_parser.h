/* jinja_parser - tokens to a tree, by recursive descent with Jinja's precedence:
 * conditional, or, and, not, comparison, ~, + -, * / // %, unary, power, postfix, filter, test.
 *
 * Memory: nodes in the arena, which must outlive the tree. Depth at most MR_TEMPLATE_DEPTH_MAX.
 * Errors: MR_BAD_FILE with the line and what was expected, MR_NOMEM. */
#ifndef MR_CODEC_TEMPLATE_JINJA_PARSER_H
#define MR_CODEC_TEMPLATE_JINJA_PARSER_H

#include "codec/arena.h"
#include "codec/template/jinja_ast.h"

/* *root: first statement of the template, linked by next; NULL for an empty one. */
enum mr_status mr_jinja_parse(const struct mr_jinja_token *tokens, struct mr_arena *arena,
                              const struct mr_jinja_node **root, struct mr_error *err);

#endif
