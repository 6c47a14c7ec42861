/* automaton - a compiled grammar: a pushdown automaton over bytes.
 *
 * Each rule is a deterministic automaton whose edges are ranges of bytes and calls of other rules.
 * A call pushes its return state on a stack (codec/grammar/matcher.h). Two choices are not
 * deterministic: whether to read a byte, to call or to return, and which of several rules to call.
 * A matcher follows all of them at once.
 *
 * A counted rule repeats another rule. Its states are numbers and are not stored: state base + c
 * means "c repetitions are complete".
 *
 * Height of a state: the fewest further stack entries needed to reach the end of its rule;
 * MR_HEIGHT_NONE if the end is unreachable. A matcher enters a state only if the stack has room for
 * its height, so every state that it is in can still reach the end of the grammar.
 *
 * Threads: immutable; shared by any number of threads through a reference count.
 * Memory:  one block per array, at most MR_GRAMMAR_BYTES_MAX. */
#ifndef MR_CODEC_GRAMMAR_AUTOMATON_H
#define MR_CODEC_GRAMMAR_AUTOMATON_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_GRAMMAR_BYTES_MAX    ((size_t)16 << 20) /* bytes of a compiled grammar */
#define MR_GRAMMAR_DIGEST_BYTES 32u

#define MR_STATE_NONE    UINT32_MAX
#define MR_STATE_COUNTED 0x80000000u /* states from here on belong to counted rules */
#define MR_HEIGHT_NONE   UINT16_MAX
#define MR_STACK_MAX     256u /* entries of a stack, which limits the nesting of an answer */
#define MR_HEIGHT_MAX    128u /* a grammar whose shortest answer is deeper is rejected */

struct mr_automaton_edge {
    uint32_t target;
    uint8_t low, high;
};

struct mr_automaton_call {
    uint32_t rule, target;
};

struct mr_automaton_state {
    uint32_t edges, calls;           /* index of the first edge, the first call */
    uint16_t edge_count, call_count; /* edges are sorted and do not overlap */
    uint16_t height;
    bool accepts; /* the rule may end here */
    bool is_end;  /* accepts, and has neither edges nor calls */
    /* Every plain character (codec/grammar/token_trie.h) leads back to this state. */
    bool plain_loop;
    bool blocks_plain; /* the rule cannot end here, and no plain character can follow */
};

struct mr_automaton_rule {
    uint32_t start; /* state in which the rule starts */
    uint16_t height;
    /* counted rules only */
    bool counted;
    bool plain; /* item matches every plain character, and then ends */
    uint32_t item, min, max;
};

struct mr_grammar {
    _Atomic uint32_t references;
    unsigned char digest[MR_GRAMMAR_DIGEST_BYTES];
    char warning[MR_ERROR_DETAIL_BYTES]; /* a part of the source without effect; empty: none */
    uint32_t state_count, edge_count, call_count, rule_count;
    struct mr_automaton_state *states;
    struct mr_automaton_edge *edges;
    struct mr_automaton_call *calls;
    struct mr_automaton_rule *rules;
    uint32_t root; /* the rule of the whole answer */
    uint32_t counted_count;
    uint32_t *counted; /* [counted_count] the counted rules, in order of their first state */
};

/* Adds a reference and returns grammar. */
struct mr_grammar *mr_grammar_hold(struct mr_grammar *grammar);
/* Drops a reference; frees the grammar with the last one. grammar may be NULL. */
void mr_grammar_drop(struct mr_grammar *grammar);
/* Memory of the compiled grammar. */
size_t mr_grammar_bytes(const struct mr_grammar *grammar);

/* The state after this byte, MR_STATE_NONE if there is none. state must not belong to a counted
 * rule. */
static inline uint32_t mr_automaton_next(const struct mr_grammar *grammar, uint32_t state,
                                         unsigned char byte)
{
    const struct mr_automaton_state *at = &grammar->states[state];
    uint32_t low = 0, count = at->edge_count;
    if (count == 0) return MR_STATE_NONE;
    const struct mr_automaton_edge *edges = grammar->edges + at->edges;
    while (count > 6) {
        uint32_t half = count / 2;
        if (edges[low + half].low <= byte) {
            low += half;
            count -= half;
        } else {
            count = half;
        }
    }
    for (uint32_t i = low; i < low + count; i++)
        if (byte <= edges[i].high) return byte >= edges[i].low ? edges[i].target : MR_STATE_NONE;
    return MR_STATE_NONE;
}

/* The counted rule of a state, which must be at least MR_STATE_COUNTED. */
static inline uint32_t mr_automaton_counted(const struct mr_grammar *grammar, uint32_t state)
{
    uint32_t low = 0, high = grammar->counted_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (grammar->rules[grammar->counted[middle]].start <= state)
            low = middle;
        else
            high = middle;
    }
    return grammar->counted[low];
}

#endif
