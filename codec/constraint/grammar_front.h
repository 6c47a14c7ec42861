/* grammar_front - grammars in GBNF or in Lark's notation become rules of a grammar.
 *
 * GBNF (llama.cpp, grammars/README.md): rules `name ::= ...`, the first of which is called `root`;
 * texts, classes, `.`, groups, `|`, `*`, `+`, `?`, `{m,n}`. A rule may continue on the next line.
 * Rejected: tokens (`<...>`).
 *
 * Lark: a grammar without `::=`. Rules `name: ...` and terminals `NAME: ...`; the start is `start`.
 * Texts (also with i), `/regexes/` without flags, ranges, groups, `[optional]`, `|`, `*`, `+`, `?`,
 * `~n`, `~n..m`, `%import common.NAME`, `%ignore`; `?`, `!`, priorities and aliases affect the
 * parse tree only and are skipped. Rejected: templates, `%declare`, `%override`, `%extend`, other
 * imports. The language is the one of Lark's Earley parser with the lexer "dynamic_complete": a
 * terminal may match any of its texts, not only the longest. Ignored text may stand before each
 * terminal of a rule and at the end.
 *
 * A left-recursive rule is rejected when the grammar is compiled.
 *
 * Sources: codec/constraint/grammar_front.c, codec/constraint/grammar_atoms.c (names, texts,
 * classes) and codec/constraint/grammar_lark.c.
 *
 * Threads: any. Memory: the builder's. Errors: MR_INVALID_REQUEST and MR_UNSUPPORTED with the line,
 *          as the builder's sticky status. */
#ifndef MR_CODEC_CONSTRAINT_GRAMMAR_FRONT_H
#define MR_CODEC_CONSTRAINT_GRAMMAR_FRONT_H

#include "codec/grammar/expr.h"

/* Defines rule 0, which must exist, from the text of a grammar. */
void mr_grammar_front_define(struct mr_expr_builder *builder, struct mr_text text);

#endif
