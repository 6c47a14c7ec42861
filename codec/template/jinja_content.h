/* jinja_content - determines which form of a message's content a parsed template reads: a text, or
 * also a list of parts. A template reads parts when it loops over a content, or selects from it
 * with a filter such as map. A content is a member `content`, or a variable or parameter of a macro
 * that gets one. vLLM decides in the same way between its forms "string" and "openai", without
 * following parameters and filters.
 *
 * Threads: any (pure functions). Memory: none. Errors: none; when a template has very many
 * variables, some are not followed. */
#ifndef MR_CODEC_TEMPLATE_JINJA_CONTENT_H
#define MR_CODEC_TEMPLATE_JINJA_CONTENT_H

#include "codec/jinja/jinja_ast.h"

/* root: a tree that mr_jinja_check_names has accepted. */
bool mr_jinja_reads_parts(const struct mr_jinja_node *root);

#endif
