/* AND and MINUS of two regular languages: the product of their deterministic automata. */
#include "codec/check.h"
#include "codec/grammar/nfa.h"

#include <stdlib.h>
#include <string.h>

/* A pair of states, and the state of the outer automaton that stands for it. The second is
 * MR_NFA_NONE when the second automaton (of MINUS) has no way on. */
struct pair {
    uint32_t one, other, state, next;
};

struct product {
    struct mr_nfa *nfa;
    const struct mr_dfa *one, *other;
    bool minus;
    struct pair *pairs;
    uint32_t pair_count, pair_capacity;
    uint32_t *table; /* [table_size] chains of pairs by hash */
    uint32_t table_size;
};

static uint32_t slot_of(const struct product *product, uint32_t one, uint32_t other)
{
    return (one * 0x9e3779b1u ^ other * 0x85ebca6bu) % product->table_size;
}

static uint32_t find_pair(struct product *product, uint32_t one, uint32_t other)
{
    uint32_t slot = slot_of(product, one, other);
    for (uint32_t i = product->table[slot]; i != MR_NFA_NONE; i = product->pairs[i].next)
        if (product->pairs[i].one == one && product->pairs[i].other == other)
            return product->pairs[i].state;
    struct mr_expr_builder *builder = product->nfa->builder;
    if (!mr_nfa_grow(builder, &product->pairs, product->pair_count, &product->pair_capacity,
                     MR_NFA_STATES_MAX, sizeof *product->pairs))
        return MR_NFA_NONE;
    uint32_t state = mr_nfa_state(product->nfa);
    product->pairs[product->pair_count] = (struct pair){one, other, state, product->table[slot]};
    product->table[slot] = product->pair_count++;
    return state;
}

/* Fills targets[byte] of a state; MR_NFA_NONE where it has no edge. */
static void fill_targets(const struct mr_dfa *dfa, uint32_t state, uint32_t targets[256])
{
    memset(targets, 0xff, 256 * sizeof *targets);
    if (state == MR_NFA_NONE) return;
    const struct mr_dfa_state *at = &dfa->states[state];
    for (uint32_t i = 0; i < at->edge_count; i++) {
        const struct mr_dfa_edge *edge = &dfa->edges[at->edges + i];
        for (unsigned byte = edge->low; byte <= edge->high; byte++)
            targets[byte] = edge->target;
    }
}

static void expand(struct product *product, struct pair pair, uint32_t to)
{
    uint32_t one[256], other[256];
    bool accepts = pair.other != MR_NFA_NONE && product->other->states[pair.other].accepts;
    fill_targets(product->one, pair.one, one);
    fill_targets(product->other, pair.other, other);
    if (product->one->states[pair.one].accepts && accepts != product->minus)
        mr_nfa_epsilon(product->nfa, pair.state, to);
    for (unsigned low = 0; low < 256;) {
        unsigned high = low;
        while (high + 1 < 256 && one[high + 1] == one[low] && other[high + 1] == other[low])
            high++;
        bool alive = one[low] != MR_NFA_NONE && (product->minus || other[low] != MR_NFA_NONE);
        if (alive) {
            uint32_t target = find_pair(product, one[low], other[low]);
            if (target == MR_NFA_NONE) return;
            mr_nfa_bytes(product->nfa, pair.state, target, low, high);
        }
        low = high + 1;
    }
}

static void multiply(struct product *product, uint32_t from, uint32_t to)
{
    struct mr_expr_builder *builder = product->nfa->builder;
    product->table_size = 4 * (product->one->state_count + product->other->state_count) + 64;
    product->table = malloc(product->table_size * sizeof *product->table);
    if (!product->table) {
        mr_expr_fail(builder, MR_NOMEM, "no memory to compile a grammar");
        return;
    }
    memset(product->table, 0xff, product->table_size * sizeof *product->table);
    uint32_t start = find_pair(product, 0, 0);
    if (start != MR_NFA_NONE) mr_nfa_epsilon(product->nfa, from, start);
    for (uint32_t i = 0; i < product->pair_count && mr_expr_work(builder, 40); i++)
        expand(product, product->pairs[i], to);
    free(product->pairs);
    free(product->table);
}

void mr_nfa_add_product(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to)
{
    struct mr_dfa one, other;
    MR_ASSERT(expr->count == 2);
    mr_dfa_build(&one, nfa->builder, expr->items[0], true);
    mr_dfa_build(&other, nfa->builder, expr->items[1], true);
    struct product product = {
        .nfa = nfa, .one = &one, .other = &other, .minus = expr->kind == MR_EXPR_MINUS};
    if (nfa->builder->status == MR_OK) multiply(&product, from, to);
    mr_dfa_drop(&one);
    mr_dfa_drop(&other);
}
