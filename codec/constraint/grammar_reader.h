/* grammar_reader - the state of reading one grammar in GBNF or Lark: its text and the names of its
 * rules. Only the sources of grammar_front.h include this. */
#ifndef MR_CODEC_CONSTRAINT_GRAMMAR_READER_H
#define MR_CODEC_CONSTRAINT_GRAMMAR_READER_H

#include "codec/grammar/expr.h"

#define MR_GRAMMAR_NAME_BYTES_MAX 100u

struct mr_grammar_name {
    struct mr_grammar_name *next; /* of the same hash */
    struct mr_text name;
    uint32_t rule;
    bool is_defined;
};

struct mr_grammar_reader {
    struct mr_expr_builder *builder;
    struct mr_text text;
    size_t at;
    unsigned depth; /* open groups */
    bool lark;
    bool in_terminal; /* the current rule is a terminal, in which %ignore has no effect */
    const struct mr_expr *ignore; /* the language of %ignore; NULL: there is none */
    struct mr_grammar_name *names[512];
};

/* A growing list of expressions in the builder's memory. */
struct mr_expr_items {
    const struct mr_expr **items;
    uint32_t count, capacity;
};

/* ---- grammar_atoms.c ---- */

/* Fails with the line of reader->at; returns an expression that matches nothing. */
const struct mr_expr *mr_grammar_fail(struct mr_grammar_reader *reader, enum mr_status status,
                                      const char *what);
/* The next byte, -1 at the end and after a failure. */
int mr_grammar_peek(const struct mr_grammar_reader *reader);
bool mr_grammar_take(struct mr_grammar_reader *reader, const char *word);
/* Skips blanks, line ends and comments. */
void mr_grammar_skip(struct mr_grammar_reader *reader);
/* Reads a name. Returns an empty text if there is none. */
struct mr_text mr_grammar_name(struct mr_grammar_reader *reader);
/* Finds the rule of a name, or adds one. NULL after a failure. */
struct mr_grammar_name *mr_grammar_rule(struct mr_grammar_reader *reader, struct mr_text name);
void mr_grammar_append(struct mr_grammar_reader *reader, struct mr_expr_items *list,
                       const struct mr_expr *item);
/* Reads a decimal number. */
bool mr_grammar_number(struct mr_grammar_reader *reader, uint32_t *out);
/* These read an atom, whose first character is the next one: a text in quotes, a class in brackets
 * (GBNF), a regex between slashes (Lark). */
const struct mr_expr *mr_grammar_quoted(struct mr_grammar_reader *reader);
const struct mr_expr *mr_grammar_class(struct mr_grammar_reader *reader);
const struct mr_expr *mr_grammar_regex(struct mr_grammar_reader *reader);

/* ---- grammar_lark.c ---- */

/* Reads a directive; its % is the next character. Skips the text of %ignore, which grammar_front.c
 * has read earlier. */
void mr_grammar_directive(struct mr_grammar_reader *reader);

#endif
