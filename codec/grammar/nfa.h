/* nfa - compiles the expression of one rule to a nondeterministic automaton (Thompson, 1968) and
 * that to a deterministic one (subset construction, Rabin and Scott, 1959). A call of a rule is a
 * symbol, like a byte.
 *
 * codec/grammar/nfa.c has the first step and the products for AND and MINUS,
 * codec/grammar/determinize.c the second.
 *
 * Owner:  one compilation. Memory: arrays from malloc, bounded by the constants below.
 * Errors: the builder's sticky status. */
#ifndef MR_CODEC_GRAMMAR_NFA_H
#define MR_CODEC_GRAMMAR_NFA_H

#include "codec/grammar/expr.h"

#define MR_NFA_STATES_MAX 200000u
#define MR_NFA_EDGES_MAX  800000u
#define MR_DFA_STATES_MAX 150000u
#define MR_DFA_EDGES_MAX  1000000u
/* A repetition that would need more states than this becomes a counted rule. */
#define MR_NFA_REPEAT_MAX 2048u

#define MR_NFA_NONE UINT32_MAX

enum mr_nfa_symbol { MR_NFA_EPSILON, MR_NFA_BYTES, MR_NFA_CALL };

struct mr_nfa_edge {
    uint32_t next; /* next edge of the same state, MR_NFA_NONE: the last */
    uint32_t target;
    uint32_t rule; /* of CALL */
    uint8_t symbol, low, high;
};

struct mr_nfa {
    struct mr_expr_builder *builder;
    bool regular;    /* an operand of AND or MINUS, which must not have calls */
    uint32_t *first; /* [state_count] first edge of each state */
    struct mr_nfa_edge *edges;
    uint32_t state_count, state_capacity, edge_count, edge_capacity;
};

struct mr_dfa_edge {
    uint32_t target;
    uint8_t low, high;
};

struct mr_dfa_call {
    uint32_t rule, target;
};

struct mr_dfa_state {
    uint32_t edges, calls;
    uint32_t edge_count, call_count;
    bool accepts;
};

/* State 0 is the start. */
struct mr_dfa {
    struct mr_dfa_state *states;
    struct mr_dfa_edge *edges; /* of a state: sorted, not overlapping */
    struct mr_dfa_call *calls;
    uint32_t state_count, state_capacity, edge_count, edge_capacity, call_count, call_capacity;
};

/* Makes *dfa from an expression. Counted rules and their items may be added to the builder. */
void mr_dfa_build(struct mr_dfa *dfa, struct mr_expr_builder *builder, const struct mr_expr *expr,
                  bool regular);
void mr_dfa_drop(struct mr_dfa *dfa);
/* True if no text matches. False for an expression with calls of rules. */
bool mr_expr_is_empty(struct mr_expr_builder *builder, const struct mr_expr *expr);
/* Grows an array with realloc to hold one more element: array is the address of its pointer. False,
 * with a failure of the builder, above `max` elements. */
bool mr_nfa_grow(struct mr_expr_builder *builder, void *array, uint32_t count, uint32_t *capacity,
                 uint32_t max, size_t size);

void mr_nfa_init(struct mr_nfa *nfa, struct mr_expr_builder *builder, bool regular);
void mr_nfa_drop(struct mr_nfa *nfa);
uint32_t mr_nfa_state(struct mr_nfa *nfa);
void mr_nfa_epsilon(struct mr_nfa *nfa, uint32_t from, uint32_t to);
void mr_nfa_bytes(struct mr_nfa *nfa, uint32_t from, uint32_t to, unsigned low, unsigned high);
/* Adds edges and states so that exactly the texts of expr lead from `from` to `to`. */
void mr_nfa_add(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to);
/* Subset construction: makes *dfa from the automaton with the start state `start` and the accepting
 * state `accept`. */
void mr_dfa_determinize(struct mr_dfa *dfa, const struct mr_nfa *nfa, uint32_t start,
                        uint32_t accept);

#endif
