/* compile - compiles the rules of a builder to an automaton; codec/grammar/measure.c computes its
 * properties.
 *
 * The compiler checks that every rule is defined; no rule calls itself before it has matched a byte
 * (left recursion); the grammar matches at least one text whose nesting is at most
 * MR_HEIGHT_MAX. */
#ifndef MR_CODEC_GRAMMAR_COMPILE_H
#define MR_CODEC_GRAMMAR_COMPILE_H

#include "codec/grammar/automaton.h"
#include "codec/grammar/expr.h"

/* Compiles the rules; builder->root is the whole answer. The builder's sticky status is the result.
 */
enum mr_status mr_automaton_compile(struct mr_grammar **out, struct mr_expr_builder *builder);
/* Sets state->height and rule->height. Fails if the grammar matches no text. */
void mr_automaton_measure(struct mr_grammar *grammar, struct mr_expr_builder *builder);
/* Fails when a rule can call itself before it has matched a byte. */
void mr_automaton_check_recursion(const struct mr_grammar *grammar,
                                  struct mr_expr_builder *builder);
/* Sets plain_loop and blocks_plain of the states and plain of the rules. A byte that no token
 * spells does not need an edge. */
void mr_automaton_mark_plain(struct mr_grammar *grammar, struct mr_expr_builder *builder);

#endif
