/* expr - a grammar while it is built: rules, each with an expression over bytes. Front ends
 * (codec/constraint) make expressions (codec/grammar/expr_chars.c: those of characters), which
 * codec/grammar/compile.h turns into an automaton.
 *
 * An expression matches bytes of UTF-8. mr_expr_class and mr_expr_text spell a character as itself
 * or as in a JSON string, in which each character has exactly one form: AND and MINUS work on JSON
 * strings as on their texts. Its only control characters are \b \f \n \r \t.
 *
 * Owner: one compilation. Memory: an arena of at most MR_GRAMMAR_BUILD_BYTES_MAX. Errors: sticky;
 * after the first, functions return an expression that matches nothing. */
#ifndef MR_CODEC_GRAMMAR_EXPR_H
#define MR_CODEC_GRAMMAR_EXPR_H

#include "codec/arena.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stdint.h>

#define MR_GRAMMAR_BUILD_BYTES_MAX ((size_t)48 << 20) /* memory while one grammar is compiled */
#define MR_GRAMMAR_RULES_MAX       16384u
/* most units of work in one compilation, about 10 ns each: edges copied, states visited */
#define MR_GRAMMAR_WORK_MAX 5000000u
#define MR_EXPR_UNBOUNDED   UINT32_MAX /* max of an unbounded repetition */
#define MR_EXPR_COUNT_MAX   (1u << 24) /* a repetition with a larger max is unbounded */
#define MR_EXPR_DEPTH_MAX   200u       /* nesting of parentheses in the front ends */
#define MR_CODE_POINT_MAX   0x10ffffu

enum mr_expr_kind {
    MR_EXPR_NEVER, /* matches nothing */
    MR_EXPR_BYTES, /* these bytes; no byte: the empty text */
    MR_EXPR_RANGE, /* one byte from low to high */
    MR_EXPR_SEQ,
    MR_EXPR_ALT,
    MR_EXPR_REPEAT, /* items[0], min to max times */
    MR_EXPR_REF,    /* a rule */
    /* Members in this order, some of them optional, with a separator between two; min to max of
     * them are present. items: the `count` members, the separator, the expression that may follow
     * if no member is present, and the one that may follow the last member. */
    MR_EXPR_LIST,
    MR_EXPR_MULTIPLE, /* decimal digits, `max` after a point: multiples of min / 10^max; or none */
    MR_EXPR_AND,      /* both of items[0] and items[1]; neither has a REF */
    MR_EXPR_MINUS     /* items[0] without items[1]; neither has a REF */
};

struct mr_expr {
    enum mr_expr_kind kind;
    bool has_ref;
    bool nullable; /* may match the empty text; false for a REF */
    unsigned char low, high;
    uint32_t size;     /* estimate of the number of states */
    uint32_t min, max; /* of REPEAT, LIST, MULTIPLE */
    uint32_t rule;     /* of REF */
    uint32_t count;    /* items of SEQ, ALT, REPEAT, AND, MINUS */
    struct mr_text bytes;
    const struct mr_expr *const *items;
    const bool *optional; /* of LIST: [count] the member may be left out */
};

/* How a character is written. */
enum mr_spelling {
    MR_SPELL_TEXT, /* as itself, in UTF-8 */
    MR_SPELL_JSON  /* as inside a JSON string: itself, or its shortest escape where one is needed */
};

struct mr_char_range {
    uint32_t low, high; /* characters, both included */
};

struct mr_expr_rule {
    const struct mr_expr *body; /* NULL until it is defined */
    const char *name;           /* for error sentences; in the arena or static */
    const void *origin;         /* its place in the source, for the front end's errors */
    /* repeats the rule `item` min to max times; it has no body, the matcher counts */
    bool counted;
    uint32_t item, min, max;
};

struct mr_expr_builder {
    struct mr_arena *arena;
    enum mr_status status;
    struct mr_error *err;
    uint32_t work;   /* units of work done, at most MR_GRAMMAR_WORK_MAX */
    uint32_t root;   /* the rule of the whole answer, 0 at first */
    uint32_t rule;   /* the rule that is being defined or compiled */
    bool over_limit; /* the failure is a limit that `rule` has reached */
    uint32_t rule_count, rule_capacity;
    struct mr_expr_rule *rules;
    const bool *spelled; /* [256] bytes that tokens can spell; NULL: all; others match nothing */
    char warning[MR_ERROR_DETAIL_BYTES]; /* a part of the source without effect; empty: none */
};

enum mr_status mr_expr_builder_init(struct mr_expr_builder *builder, struct mr_error *err);
void mr_expr_builder_drop(struct mr_expr_builder *builder);
/* Records a failure unless there is one; returns the first one's status. */
enum mr_status mr_expr_fail(struct mr_expr_builder *builder, enum mr_status status, const char *fmt,
                            ...) __attribute__((format(printf, 3, 4)));
/* Like mr_expr_fail, for a limit that was reached: also sets over_limit. */
void mr_expr_fail_limit(struct mr_expr_builder *builder, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Counts units of work. False, with a failure, above the maximum. */
bool mr_expr_work(struct mr_expr_builder *builder, uint32_t units);
/* Zeroed memory of the arena; NULL and a failure above the maximum. */
void *mr_expr_take(struct mr_expr_builder *builder, size_t count, size_t size);
/* Adds a rule without a body; returns its index. name is borrowed. */
uint32_t mr_expr_rule_add(struct mr_expr_builder *builder, const char *name);
void mr_expr_rule_define(struct mr_expr_builder *builder, uint32_t rule,
                         const struct mr_expr *body);

const struct mr_expr *mr_expr_never(void);
const struct mr_expr *mr_expr_empty(void);
/* The bytes are copied. */
const struct mr_expr *mr_expr_bytes(struct mr_expr_builder *builder, struct mr_text bytes);
const struct mr_expr *mr_expr_word(struct mr_expr_builder *builder, const char *word);
const struct mr_expr *mr_expr_range(struct mr_expr_builder *builder, unsigned low, unsigned high);
/* The items are copied; NEVER items disappear from an ALT and make a SEQ NEVER. */
const struct mr_expr *mr_expr_seq(struct mr_expr_builder *builder,
                                  const struct mr_expr *const *items, uint32_t count);
const struct mr_expr *mr_expr_alt(struct mr_expr_builder *builder,
                                  const struct mr_expr *const *items, uint32_t count);
const struct mr_expr *mr_expr_pair(struct mr_expr_builder *builder, const struct mr_expr *first,
                                   const struct mr_expr *second);
const struct mr_expr *mr_expr_either(struct mr_expr_builder *builder, const struct mr_expr *one,
                                     const struct mr_expr *other);
const struct mr_expr *mr_expr_repeat(struct mr_expr_builder *builder, const struct mr_expr *item,
                                     uint32_t min, uint32_t max);
/* As mr_expr_repeat, for a rule without the empty text; needs no states to count. */
const struct mr_expr *mr_expr_counted(struct mr_expr_builder *builder, uint32_t item, uint32_t min,
                                      uint32_t max);
/* items: [count + 3] as MR_EXPR_LIST has them, copied; optional: [count], borrowed. */
const struct mr_expr *mr_expr_list(struct mr_expr_builder *builder,
                                   const struct mr_expr *const *items, const bool *optional,
                                   uint32_t count, uint32_t min, uint32_t max);
const struct mr_expr *mr_expr_multiple(struct mr_expr_builder *builder, uint32_t divisor,
                                       uint32_t places);
const struct mr_expr *mr_expr_ref(struct mr_expr_builder *builder, uint32_t rule);
const struct mr_expr *mr_expr_and(struct mr_expr_builder *builder, const struct mr_expr *one,
                                  const struct mr_expr *other);
const struct mr_expr *mr_expr_minus(struct mr_expr_builder *builder, const struct mr_expr *from,
                                    const struct mr_expr *without);
/* One character of the ranges, in any order. Surrogates are left out. */
const struct mr_expr *mr_expr_class(struct mr_expr_builder *builder,
                                    const struct mr_char_range *ranges, uint32_t count,
                                    enum mr_spelling spelling);
/* Exactly this text, which is valid UTF-8. */
const struct mr_expr *mr_expr_text(struct mr_expr_builder *builder, struct mr_text text,
                                   enum mr_spelling spelling);

#endif
