/* char_set - a set of characters as ranges, for classes of regular expressions and grammars.
 *
 * Owner: the caller. Memory: a fixed array; at most MR_CHAR_SET_RANGES_MAX ranges. Errors: _add
 * returns false when the array is full. */
#ifndef MR_CODEC_CONSTRAINT_CHAR_SET_H
#define MR_CODEC_CONSTRAINT_CHAR_SET_H

#include "codec/grammar/expr.h"

#define MR_CHAR_SET_RANGES_MAX 2048u

struct mr_char_set {
    struct mr_char_range ranges[MR_CHAR_SET_RANGES_MAX];
    uint32_t count;
};

bool mr_char_set_add(struct mr_char_set *set, uint32_t low, uint32_t high);
/* Replaces the set by its complement. False when the result has too many ranges. */
bool mr_char_set_invert(struct mr_char_set *set);
/* Adds the set of \d, \w, \s, \D, \W or \S, without the backslash. narrow: the characters that both
 * ECMAScript and Python include; otherwise those that at least one of them includes. */
bool mr_char_set_add_named(struct mr_char_set *set, char name, bool narrow);
/* Adds the characters of a general category of Unicode, as \p{...} names it: Lu, Uppercase_Letter,
 * gc=Lu, L for all letters; opposite: of \P{...}. Unassigned code points belong to neither, because
 * a newer version of Unicode may assign them; wide (not narrow): to both. False for another name,
 * and when the array is full. */
bool mr_char_set_add_category(struct mr_char_set *set, struct mr_text name, bool opposite,
                              bool narrow);
const struct mr_expr *mr_char_set_expr(struct mr_expr_builder *builder,
                                       const struct mr_char_set *set, enum mr_spelling spelling);

#endif
