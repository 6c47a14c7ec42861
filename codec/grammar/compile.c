#include "codec/grammar/compile.h"

#include "codec/grammar/nfa.h"

#include <stdlib.h>
#include <string.h>

struct capacities {
    uint32_t states, edges, calls;
};

/* ---- one rule ---- */

static bool has_room(const struct mr_grammar *grammar, struct mr_expr_builder *builder)
{
    if (mr_grammar_bytes(grammar) <= MR_GRAMMAR_BYTES_MAX) return true;
    mr_expr_fail_limit(builder, "larger than %zu MiB when it is compiled",
                       MR_GRAMMAR_BYTES_MAX >> 20);
    return false;
}

/* Appends those parts of an edge whose bytes tokens can spell. */
static void append_edge(struct mr_grammar *grammar, struct capacities *room,
                        struct mr_expr_builder *builder, const struct mr_dfa_edge *edge,
                        uint32_t base)
{
    const bool *spelled = builder->spelled;
    for (unsigned low = edge->low; low <= edge->high; low++) {
        unsigned high = low;
        if (spelled && !spelled[low]) continue;
        while (high < edge->high && (!spelled || spelled[high + 1]))
            high++;
        if (!mr_nfa_grow(builder, &grammar->edges, grammar->edge_count, &room->edges,
                         MR_DFA_EDGES_MAX, sizeof *grammar->edges))
            return;
        grammar->edges[grammar->edge_count++] =
            (struct mr_automaton_edge){base + edge->target, (uint8_t)low, (uint8_t)high};
        low = high;
    }
}

static void append_state(struct mr_grammar *grammar, struct capacities *room,
                         struct mr_expr_builder *builder, const struct mr_dfa *dfa, uint32_t index)
{
    const struct mr_dfa_state *from = &dfa->states[index];
    uint32_t base = grammar->state_count - index;
    if (!mr_nfa_grow(builder, &grammar->states, grammar->state_count, &room->states,
                     MR_DFA_STATES_MAX, sizeof *grammar->states))
        return;
    if (from->call_count > UINT16_MAX) {
        mr_expr_fail_limit(builder, "more than %u rules may stand at one place", UINT16_MAX);
        return;
    }
    grammar->states[grammar->state_count++] = (struct mr_automaton_state){
        .edges = grammar->edge_count,
        .calls = grammar->call_count,
        .call_count = (uint16_t)from->call_count,
        .height = MR_HEIGHT_NONE,
        .accepts = from->accepts,
        .is_end = from->accepts && from->edge_count == 0 && from->call_count == 0};
    for (uint32_t i = 0; i < from->edge_count; i++)
        append_edge(grammar, room, builder, &dfa->edges[from->edges + i], base);
    struct mr_automaton_state *state = &grammar->states[grammar->state_count - 1];
    state->edge_count = (uint16_t)(grammar->edge_count - state->edges);
    for (uint32_t i = 0; i < from->call_count; i++) {
        const struct mr_dfa_call *call = &dfa->calls[from->calls + i];
        if (!mr_nfa_grow(builder, &grammar->calls, grammar->call_count, &room->calls,
                         MR_DFA_EDGES_MAX, sizeof *grammar->calls))
            return;
        grammar->calls[grammar->call_count++] =
            (struct mr_automaton_call){call->rule, base + call->target};
    }
}

static void append_rule(struct mr_grammar *grammar, struct capacities *room,
                        struct mr_expr_builder *builder, uint32_t rule)
{
    const struct mr_expr *body = builder->rules[rule].body;
    struct mr_dfa dfa;
    if (!body) {
        mr_expr_fail(builder, MR_INVALID_REQUEST, "rule %.60s is used but not defined",
                     builder->rules[rule].name);
        return;
    }
    mr_dfa_build(&dfa, builder, body, false);
    grammar->rules[rule].start = grammar->state_count;
    for (uint32_t i = 0; builder->status == MR_OK && i < dfa.state_count; i++)
        append_state(grammar, room, builder, &dfa, i);
    mr_dfa_drop(&dfa);
    if (builder->status == MR_OK) has_room(grammar, builder);
}

/* ---- all rules ---- */

/* Assigns the state numbers of the counted rules. */
static void place_counted(struct mr_grammar *grammar, struct mr_expr_builder *builder)
{
    uint64_t next = MR_STATE_COUNTED;
    for (uint32_t i = 0; i < grammar->rule_count; i++) {
        const struct mr_expr_rule *from = &builder->rules[i];
        struct mr_automaton_rule *rule = &grammar->rules[i];
        if (!from->counted) continue;
        *rule = (struct mr_automaton_rule){.start = (uint32_t)next,
                                           .counted = true,
                                           .item = from->item,
                                           .min = from->min,
                                           .max = from->max};
        grammar->counted[grammar->counted_count++] = i;
        next += (uint64_t)(from->max == MR_EXPR_UNBOUNDED ? from->min : from->max) + 1;
        if (next >= UINT32_MAX) {
            mr_expr_fail(builder, MR_INVALID_REQUEST,
                         "the repetitions of the grammar are too large together");
            return;
        }
    }
}

static void append_rules(struct mr_grammar *grammar, struct mr_expr_builder *builder)
{
    struct capacities room = {0};
    uint32_t capacity = 0;
    /* mr_dfa_build may append counted rules and their items, so the count may grow in this loop */
    for (uint32_t i = 0; i < builder->rule_count && builder->status == MR_OK; i++) {
        if (!mr_nfa_grow(builder, &grammar->rules, grammar->rule_count, &capacity,
                         MR_GRAMMAR_RULES_MAX, sizeof *grammar->rules))
            return;
        grammar->rules[grammar->rule_count++] = (struct mr_automaton_rule){0};
        builder->rule = i;
        if (!builder->rules[i].counted) append_rule(grammar, &room, builder, i);
    }
    if (builder->status != MR_OK) return;
    grammar->counted = calloc((size_t)grammar->rule_count + 1, sizeof *grammar->counted);
    if (!grammar->counted)
        mr_expr_fail(builder, MR_NOMEM, "no memory for a grammar");
    else
        place_counted(grammar, builder);
}

enum mr_status mr_automaton_compile(struct mr_grammar **out, struct mr_expr_builder *builder)
{
    *out = NULL;
    if (builder->status != MR_OK) return builder->status;
    struct mr_grammar *grammar = calloc(1, sizeof *grammar);
    if (!grammar) return mr_expr_fail(builder, MR_NOMEM, "no memory for a grammar");
    atomic_init(&grammar->references, 1);
    grammar->root = builder->root;
    append_rules(grammar, builder);
    if (builder->status == MR_OK) builder->rule = builder->root;
    if (builder->status == MR_OK) mr_automaton_measure(grammar, builder);
    if (builder->status == MR_OK) mr_automaton_check_recursion(grammar, builder);
    if (builder->status == MR_OK) mr_automaton_mark_plain(grammar, builder);
    if (builder->status == MR_OK)
        *out = grammar;
    else
        mr_grammar_drop(grammar);
    return builder->status;
}
