/* jinja_lexer - template source to tokens, white space control applied.
 *
 * Follows Jinja with trim_blocks and lstrip_blocks: the newline after a block or comment tag goes,
 * blanks between a line's start and a block or comment tag go, a minus sign inside a tag strips all
 * white space on that side, a plus sign keeps it, one newline at the end of the source goes.
 *
 * Memory: tokens and unescaped strings in the arena; other text borrowed from source.
 * Errors: MR_BAD_FILE with the line, MR_NOMEM. */
#ifndef MR_CODEC_TEMPLATE_JINJA_LEXER_H
#define MR_CODEC_TEMPLATE_JINJA_LEXER_H

#include "codec/arena.h"
#include "codec/template/jinja_ast.h"

/* *tokens ends with MR_JINJA_TOKEN_END. */
enum mr_status mr_jinja_lex(struct mr_text source, struct mr_arena *arena,
                            struct mr_jinja_token **tokens, struct mr_error *err);

#endif
