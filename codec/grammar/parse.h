/* parse - runs an automaton over bytes, with all possible stacks at once.
 *
 * A head is a state and the stack below it; the stacks of all heads form one tree of nodes and
 * share their lower parts. Calls and returns are followed immediately, so a head is always at a
 * state with byte edges.
 *
 * Bounds: a step makes at most MR_PARSE_HEADS_MAX heads, and a stack has at most MR_STACK_MAX
 * entries. A head that does not fit is dropped. Dropping excludes some texts of the grammar but
 * never admits others: every kept head is the beginning of a valid answer that can still be
 * completed.
 *
 * Owner:  one thread. Memory: all in _create. Errors: only _create. */
#ifndef MR_CODEC_GRAMMAR_PARSE_H
#define MR_CODEC_GRAMMAR_PARSE_H

#include "codec/grammar/automaton.h"

#define MR_PARSE_HEADS_MAX 1024u  /* heads after one byte */
#define MR_PARSE_NODES     32768u /* nodes of a parse */
#define MR_PARSE_HEADS     65536u /* heads of all bytes of a walk together */
#define MR_NODE_NONE       UINT32_MAX

#define MR_PARSE_SLOTS (2u * MR_PARSE_HEADS_MAX)

/* An entry of a stack: the return state of a call. */
struct mr_parse_node {
    uint32_t parent; /* the entry below, MR_NODE_NONE for the lowest */
    uint32_t state;
    uint32_t depth; /* entries of the stack up to and with this one */
    uint32_t hash;  /* hash of the states of these entries */
};

struct mr_parse_head {
    uint32_t state;
    uint32_t parent; /* top entry of its stack, MR_NODE_NONE: the stack is empty */
    uint32_t depth;  /* entries of its stack */
};

struct mr_parse_slot {
    uint32_t step, head; /* used when the step is the parse's slot_step */
};

struct mr_parse {
    const struct mr_grammar *grammar;
    struct mr_parse_node *nodes; /* [MR_PARSE_NODES] */
    struct mr_parse_head *heads; /* [MR_PARSE_HEADS] */
    uint32_t *places;            /* [MR_PARSE_NODES] scratch of mr_matcher_accept */
    /* [MR_PARSE_SLOTS] hash table of the heads of a step with many heads */
    struct mr_parse_slot *slots;
    uint32_t slot_step; /* the step whose heads are in the slots */
    uint32_t node_count, head_count;
    bool can_end; /* the grammar may end after the byte of the last step */
    /* Depth of the lowest entry that a return has read since the caller set it; 0 when a stack
     * became empty. */
    uint32_t lowest;
    /* The largest number of stack entries, held or needed to reach the end of a rule, in the steps
     * since the caller set it to 0. Above MR_STACK_MAX: a head was dropped. */
    uint32_t highest;
    /* Heads followed, and heads and stack entries compared so far, about 3 ns each. */
    uint64_t work;
};

enum mr_status mr_parse_create(struct mr_parse **out, struct mr_error *err);
void mr_parse_destroy(struct mr_parse *parse);
/* Starts a grammar: its heads before the first byte are [0, head_count). */
void mr_parse_start(struct mr_parse *parse, const struct mr_grammar *grammar);
/* Follows a byte from heads [begin, end). Appends the new heads at head_count, returns their number
 * and sets can_end. */
uint32_t mr_parse_step(struct mr_parse *parse, uint32_t begin, uint32_t end, unsigned char byte);
#endif
