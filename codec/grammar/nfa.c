#include "codec/grammar/nfa.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

void mr_nfa_init(struct mr_nfa *nfa, struct mr_expr_builder *builder, bool regular)
{
    *nfa = (struct mr_nfa){.builder = builder, .regular = regular};
}

void mr_nfa_drop(struct mr_nfa *nfa)
{
    free(nfa->first);
    free(nfa->edges);
}

/* After a failure it returns MR_NFA_NONE, which the functions below ignore. */
uint32_t mr_nfa_state(struct mr_nfa *nfa)
{
    if (!mr_expr_work(nfa->builder, 1) ||
        !mr_nfa_grow(nfa->builder, &nfa->first, nfa->state_count, &nfa->state_capacity,
                     MR_NFA_STATES_MAX, sizeof *nfa->first))
        return MR_NFA_NONE;
    nfa->first[nfa->state_count] = MR_NFA_NONE;
    return nfa->state_count++;
}

static void add_edge(struct mr_nfa *nfa, uint32_t from, struct mr_nfa_edge edge)
{
    if (!mr_expr_work(nfa->builder, 1) ||
        !mr_nfa_grow(nfa->builder, &nfa->edges, nfa->edge_count, &nfa->edge_capacity,
                     MR_NFA_EDGES_MAX, sizeof *nfa->edges))
        return;
    MR_ASSERT(from < nfa->state_count && edge.target < nfa->state_count);
    edge.next = nfa->first[from];
    nfa->edges[nfa->edge_count] = edge;
    nfa->first[from] = nfa->edge_count++;
}

void mr_nfa_epsilon(struct mr_nfa *nfa, uint32_t from, uint32_t to)
{
    add_edge(nfa, from, (struct mr_nfa_edge){.target = to, .symbol = MR_NFA_EPSILON});
}

void mr_nfa_bytes(struct mr_nfa *nfa, uint32_t from, uint32_t to, unsigned low, unsigned high)
{
    add_edge(nfa, from,
             (struct mr_nfa_edge){
                 .target = to, .symbol = MR_NFA_BYTES, .low = (uint8_t)low, .high = (uint8_t)high});
}

static void add_bytes(struct mr_nfa *nfa, struct mr_text bytes, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < bytes.length && nfa->builder->status == MR_OK; i++) {
        uint32_t next = i + 1 < bytes.length ? mr_nfa_state(nfa) : to;
        unsigned char byte = (unsigned char)bytes.bytes[i];
        mr_nfa_bytes(nfa, from, next, byte, byte);
        from = next;
    }
    if (bytes.length == 0) mr_nfa_epsilon(nfa, from, to);
}

static void add_call(struct mr_nfa *nfa, uint32_t rule, uint32_t from, uint32_t to)
{
    MR_ASSERT(!nfa->regular);
    add_edge(nfa, from, (struct mr_nfa_edge){.target = to, .symbol = MR_NFA_CALL, .rule = rule});
}

/* Adds a counted rule for the repetition `expr` and a call of it. */
static void add_counted(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to)
{
    uint32_t item = mr_expr_rule_add(nfa->builder, "repeated item");
    mr_expr_rule_define(nfa->builder, item, expr->items[0]);
    const struct mr_expr *counted = mr_expr_counted(nfa->builder, item, expr->min, expr->max);
    if (counted->kind == MR_EXPR_REF) add_call(nfa, counted->rule, from, to);
}

static void add_repeat(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to)
{
    const struct mr_expr *item = expr->items[0];
    uint32_t at = from;
    if (expr->size > MR_NFA_REPEAT_MAX && !nfa->regular && !item->nullable && expr->max > 1 &&
        (expr->max != MR_EXPR_UNBOUNDED || expr->min > 1)) {
        add_counted(nfa, expr, from, to);
        return;
    }
    for (uint32_t i = 0; i < expr->min && nfa->builder->status == MR_OK; i++) {
        uint32_t next = mr_nfa_state(nfa);
        mr_nfa_add(nfa, item, at, next);
        at = next;
    }
    if (expr->max == MR_EXPR_UNBOUNDED) {
        uint32_t loop = mr_nfa_state(nfa);
        mr_nfa_epsilon(nfa, at, loop);
        mr_nfa_add(nfa, item, loop, loop);
        at = loop;
    } else {
        for (uint32_t i = expr->min; i < expr->max && nfa->builder->status == MR_OK; i++) {
            uint32_t next = mr_nfa_state(nfa);
            mr_nfa_epsilon(nfa, at, to);
            mr_nfa_add(nfa, item, at, next);
            at = next;
        }
    }
    mr_nfa_epsilon(nfa, at, to);
}

static void add_sequence(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < expr->count && nfa->builder->status == MR_OK; i++) {
        uint32_t next = i + 1 < expr->count ? mr_nfa_state(nfa) : to;
        mr_nfa_add(nfa, expr->items[i], from, next);
        from = next;
    }
}

/* The states of a list when `level` members are present (the last level stands for all higher
 * numbers): some: the last thing was a member; chosen: a member must follow, since the last thing
 * was a separator or there is no member yet. */
struct list_state {
    uint32_t some, chosen;
};

static void make_states(struct mr_nfa *nfa, struct list_state *states, uint32_t levels)
{
    for (uint32_t level = 0; level <= levels; level++)
        states[level] = (struct list_state){mr_nfa_state(nfa), mr_nfa_state(nfa)};
}

/* Adds the edges of member i. at, next: [levels + 1] the states before and after it. */
static void add_member(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t i, uint32_t levels,
                       const struct list_state *at, const struct list_state *next)
{
    for (uint32_t level = 0; level <= levels && nfa->builder->status == MR_OK; level++) {
        const bool is_last = level == levels;
        if (level > 0) mr_nfa_add(nfa, expr->items[expr->count], at[level].some, at[level].chosen);
        if (expr->optional[i]) mr_nfa_epsilon(nfa, at[level].chosen, next[level].chosen);
        if (is_last) break;
        const uint32_t begin = mr_nfa_state(nfa);
        mr_nfa_epsilon(nfa, at[level].chosen, begin);
        if (level + 1 == levels && expr->max == MR_EXPR_UNBOUNDED)
            mr_nfa_epsilon(nfa, at[levels].chosen, begin);
        mr_nfa_add(nfa, expr->items[i], begin, next[level + 1].some);
    }
}

static void add_list(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to)
{
    const bool unbounded = expr->max == MR_EXPR_UNBOUNDED;
    const uint32_t levels = !unbounded ? expr->max : expr->min > 1 ? expr->min : 1;
    struct list_state *at = mr_expr_take(nfa->builder, levels + 1u, sizeof *at);
    struct list_state *next = mr_expr_take(nfa->builder, levels + 1u, sizeof *next);
    uint32_t behind_some = mr_nfa_state(nfa), last_required = expr->count;
    if (!at || !next) return;
    make_states(nfa, at, levels);
    mr_nfa_epsilon(nfa, from, at[0].chosen);
    while (last_required > 0 && expr->optional[last_required - 1])
        last_required--;
    for (uint32_t i = 0; i <= expr->count && nfa->builder->status == MR_OK; i++) {
        for (uint32_t level = expr->min > 1 ? expr->min : 1; level <= levels; level++)
            if (i >= last_required) mr_nfa_epsilon(nfa, at[level].some, behind_some);
        if (i == expr->count) break;
        make_states(nfa, next, levels);
        add_member(nfa, expr, i, levels, at, next);
        struct list_state *last = at;
        at = next;
        next = last;
    }
    if (expr->min == 0) mr_nfa_add(nfa, expr->items[expr->count + 1], at[0].chosen, to);
    mr_nfa_add(nfa, expr->items[expr->count + 2], behind_some, to);
}

/* One state for each remainder of the division and each part of the number: part 0 are the whole
 * digits, part 1 begins after the point, and each digit after it leads to the next part. */
static void add_multiple(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to)
{
    const uint32_t divisor = expr->min, places = expr->max;
    const uint32_t parts = places > 0 ? places + 2 : 1, first = mr_nfa_state(nfa);
    for (uint32_t i = 1; i < divisor * parts; i++)
        mr_nfa_state(nfa);
    for (uint32_t i = 0; i < divisor * parts && nfa->builder->status == MR_OK; i++) {
        uint32_t rest = i % divisor, part = i / divisor, next = part == 0 ? 0 : part + 1;
        uint64_t scaled = rest;
        for (uint32_t place = part > 0 ? part - 1 : 0; place < places; place++)
            scaled = scaled * 10 % divisor;
        if (scaled == 0) mr_nfa_epsilon(nfa, first + i, to);
        if (part == 0 && places > 0) mr_nfa_bytes(nfa, first + i, first + i + divisor, '.', '.');
        for (uint32_t digit = 0; digit < 10 && next < parts; digit++)
            mr_nfa_bytes(nfa, first + i, first + next * divisor + (10 * rest + digit) % divisor,
                         '0' + digit, '0' + digit);
    }
    mr_nfa_epsilon(nfa, from, first);
}

/* ---- AND and MINUS of two regular languages: the product of their automata ---- */

/* A pair of states, and the state of the outer automaton that stands for it. The second is
 * MR_NFA_NONE if the second automaton (of MINUS) is stuck. */
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

static void add_product(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to)
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

/* ---- expressions ---- */

void mr_nfa_add(struct mr_nfa *nfa, const struct mr_expr *expr, uint32_t from, uint32_t to)
{
    if (nfa->builder->status != MR_OK) return;
    switch (expr->kind) {
    case MR_EXPR_NEVER:
        break;
    case MR_EXPR_BYTES:
        add_bytes(nfa, expr->bytes, from, to);
        break;
    case MR_EXPR_RANGE:
        mr_nfa_bytes(nfa, from, to, expr->low, expr->high);
        break;
    case MR_EXPR_SEQ:
        add_sequence(nfa, expr, from, to);
        break;
    case MR_EXPR_ALT:
        for (uint32_t i = 0; i < expr->count; i++)
            mr_nfa_add(nfa, expr->items[i], from, to);
        break;
    case MR_EXPR_REPEAT:
        add_repeat(nfa, expr, from, to);
        break;
    case MR_EXPR_REF:
        add_call(nfa, expr->rule, from, to);
        break;
    case MR_EXPR_LIST:
        add_list(nfa, expr, from, to);
        break;
    case MR_EXPR_MULTIPLE:
        add_multiple(nfa, expr, from, to);
        break;
    case MR_EXPR_AND:
    case MR_EXPR_MINUS:
        add_product(nfa, expr, from, to);
        break;
    }
}

void mr_dfa_build(struct mr_dfa *dfa, struct mr_expr_builder *builder, const struct mr_expr *expr,
                  bool regular)
{
    struct mr_nfa nfa;
    *dfa = (struct mr_dfa){0};
    mr_nfa_init(&nfa, builder, regular);
    uint32_t start = mr_nfa_state(&nfa), accept = mr_nfa_state(&nfa);
    mr_nfa_add(&nfa, expr, start, accept);
    if (builder->status == MR_OK) mr_dfa_determinize(dfa, &nfa, start, accept);
    mr_nfa_drop(&nfa);
}

void mr_dfa_drop(struct mr_dfa *dfa)
{
    free(dfa->states);
    free(dfa->edges);
    free(dfa->calls);
}

bool mr_expr_is_empty(struct mr_expr_builder *builder, const struct mr_expr *expr)
{
    struct mr_dfa dfa;
    bool accepts = false;
    if (expr->kind == MR_EXPR_NEVER || expr->has_ref) return expr->kind == MR_EXPR_NEVER;
    mr_dfa_build(&dfa, builder, expr, true);
    for (uint32_t i = 0; i < dfa.state_count && !accepts; i++)
        accepts = dfa.states[i].accepts;
    mr_dfa_drop(&dfa);
    return !accepts;
}
