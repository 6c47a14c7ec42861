/* regex_front - regular expressions become expressions of a grammar.
 *
 * Syntax: the common part of ECMAScript's and Python's: literals, `.`, classes, \d \w \s and their
 * opposites, \p{...} for general categories, escapes, groups, alternatives, quantifiers (a lazy one
 * matches the same texts). Where the two languages disagree about a character (Unicode digits, line
 * ends), the expression matches only the texts that both match. Look-ahead is supported outside of
 * groups: the rest of the text is intersected with it. Rejected: back references, look-behind,
 * look-ahead inside a group, word boundaries, flags, anchors inside, {,n}.
 *
 * Threads: any. Memory: the builder's. Errors: MR_INVALID_REQUEST and MR_UNSUPPORTED with the byte
 *          offset in the pattern, as the builder's sticky status. */
#ifndef MR_CODEC_CONSTRAINT_REGEX_FRONT_H
#define MR_CODEC_CONSTRAINT_REGEX_FRONT_H

#include "codec/grammar/expr.h"

enum mr_regex_extent {
    MR_REGEX_WHOLE,  /* the whole text is the match; ^ at the start and $ at the end have no effect
                      */
    MR_REGEX_SEARCH, /* the text has a match somewhere, as JSON schema's pattern means it */
    /* As above, in at least one of the two languages: the texts that violate a pattern in both are
     * the rest. */
    MR_REGEX_SEARCH_WIDE
};

struct mr_regex_options {
    enum mr_regex_extent extent;
    enum mr_spelling spelling;
    const char *place; /* for error sentences, such as "regex"; NULL: the caller adds it */
};

const struct mr_expr *mr_regex_expr(struct mr_expr_builder *builder, struct mr_text pattern,
                                    const struct mr_regex_options *options);
/* Any one character in this spelling. */
const struct mr_expr *mr_regex_any_char(struct mr_expr_builder *builder, enum mr_spelling spelling);
/* Any text, in the spelling MR_SPELL_TEXT. */
const struct mr_expr *mr_regex_any_text(struct mr_expr_builder *builder);
/* Any text that does not contain a word. */
const struct mr_expr *mr_regex_text_without(struct mr_expr_builder *builder,
                                            const struct mr_expr *word);

#endif
