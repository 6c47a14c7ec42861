/* jinja_lexer - splits the source of a template into tokens and removes white space around tags.
 *
 * Follows Jinja with trim_blocks and lstrip_blocks. It removes: the newline after a block or
 * comment tag; blanks between the start of a line and a block or comment tag; with a minus sign in
 * a tag, all white space on that side; one newline at the end of the source. A plus sign in a tag
 * keeps the white space on that side.
 *
 * Memory: tokens and unescaped strings in the arena; other text is borrowed from source.
 * Errors: MR_BAD_FILE with the line, MR_NOMEM. */
#ifndef MR_CODEC_JINJA_JINJA_LEXER_H
#define MR_CODEC_JINJA_JINJA_LEXER_H

#include "codec/arena.h"
#include "codec/jinja/jinja_ast.h"

/* Splits source into tokens; the last token is MR_JINJA_TOKEN_END. */
enum mr_status mr_jinja_lex(struct mr_text source, struct mr_arena *arena,
                            struct mr_jinja_token **tokens, struct mr_error *err);

#endif
