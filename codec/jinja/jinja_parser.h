/* jinja_parser - parses the tokens of a template into a tree, by recursive descent. Statements are
 * parsed here, expressions in codec/jinja/jinja_expression.h.
 *
 * Memory: nodes in the arena, which must outlive the tree.
 * Errors: MR_BAD_FILE with the line and the expected token, also when the nesting exceeds
 *         MR_TEMPLATE_DEPTH_MAX; MR_NOMEM. */
#ifndef MR_CODEC_JINJA_JINJA_PARSER_H
#define MR_CODEC_JINJA_JINJA_PARSER_H

#include "codec/arena.h"
#include "codec/jinja/jinja_ast.h"

/* Parses the whole template. *root: first of the list of statements, linked by next; NULL for an
 * empty template. */
enum mr_status mr_jinja_parse(const struct mr_jinja_token *tokens, struct mr_arena *arena,
                              const struct mr_jinja_node **root, struct mr_error *err);

#endif
