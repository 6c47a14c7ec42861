/* Properties of a finished automaton: heights, left recursion, plain states. */
#include "codec/check.h"
#include "codec/grammar/compile.h"

#include <stdlib.h>
#include <string.h>

/* ---- heights ---- */

static uint16_t higher(uint16_t height)
{
    return height == MR_HEIGHT_NONE ? height : (uint16_t)(height + 1);
}

/* The height of a state, computed from the current heights of the others. */
static uint16_t height_of(const struct mr_grammar *grammar, const struct mr_automaton_state *state)
{
    uint16_t best = state->accepts ? 0 : MR_HEIGHT_NONE;
    for (uint32_t i = 0; i < state->edge_count && best > 0; i++) {
        uint16_t height = grammar->states[grammar->edges[state->edges + i].target].height;
        if (height < best) best = height;
    }
    for (uint32_t i = 0; i < state->call_count && best > 0; i++) {
        const struct mr_automaton_call *call = &grammar->calls[state->calls + i];
        uint16_t after = grammar->states[call->target].height;
        uint16_t inside = higher(grammar->rules[call->rule].height);
        uint16_t height = after > inside ? after : inside;
        if (height < best) best = height;
    }
    return best;
}

static uint16_t rule_height(const struct mr_grammar *grammar, const struct mr_automaton_rule *rule)
{
    if (!rule->counted) return grammar->states[rule->start].height;
    return rule->min == 0 ? 0 : higher(grammar->rules[rule->item].height);
}

void mr_automaton_measure(struct mr_grammar *grammar, struct mr_expr_builder *builder)
{
    for (uint32_t i = 0; i < grammar->rule_count; i++)
        grammar->rules[i].height = MR_HEIGHT_NONE;
    for (bool changed = true; changed;) {
        changed = false;
        if (!mr_expr_work(builder, grammar->state_count + grammar->edge_count / 4)) return;
        for (uint32_t i = grammar->state_count; i-- > 0;) {
            struct mr_automaton_state *state = &grammar->states[i];
            uint16_t height = height_of(grammar, state);
            changed |= height != state->height;
            state->height = height;
        }
        for (uint32_t i = grammar->rule_count; i-- > 0;) {
            uint16_t height = rule_height(grammar, &grammar->rules[i]);
            changed |= height != grammar->rules[i].height;
            grammar->rules[i].height = height;
        }
    }
    if (grammar->rules[grammar->root].height == MR_HEIGHT_NONE)
        mr_expr_fail(builder, MR_INVALID_REQUEST, "no text can satisfy the grammar");
    else if (grammar->rules[grammar->root].height > MR_HEIGHT_MAX)
        mr_expr_fail(builder, MR_INVALID_REQUEST, "the grammar is nested deeper than %u",
                     MR_HEIGHT_MAX);
}

/* ---- left recursion ---- */

struct recursion {
    const struct mr_grammar *grammar;
    struct mr_expr_builder *builder;
    bool *nullable;  /* [state_count] the end of the rule can be reached without a byte */
    uint8_t *marks;  /* [rule_count] 0: not visited, 1: on the path, 2: done */
    uint32_t *path;  /* [rule_count] */
    uint32_t *next;  /* [rule_count] position in left[] of a rule on the path */
    uint32_t *left;  /* for each rule in turn, the rules that may be called before a byte */
    uint32_t *begin; /* [rule_count + 1] */
    uint32_t left_count, left_capacity;
};

static bool rule_nullable(const struct recursion *recursion, uint32_t rule)
{
    const struct mr_automaton_rule *at = &recursion->grammar->rules[rule];
    return at->counted ? at->min == 0 : recursion->nullable[at->start];
}

static void find_nullable(struct recursion *recursion)
{
    const struct mr_grammar *grammar = recursion->grammar;
    for (bool changed = true; changed;) {
        changed = false;
        if (!mr_expr_work(recursion->builder, grammar->state_count + grammar->call_count)) return;
        for (uint32_t i = grammar->state_count; i-- > 0;) {
            const struct mr_automaton_state *state = &grammar->states[i];
            bool nullable = state->accepts;
            for (uint32_t c = 0; c < state->call_count && !nullable; c++) {
                const struct mr_automaton_call *call = &grammar->calls[state->calls + c];
                nullable =
                    recursion->nullable[call->target] && rule_nullable(recursion, call->rule);
            }
            changed |= nullable != recursion->nullable[i];
            recursion->nullable[i] = nullable;
        }
    }
}

static void add_left(struct recursion *recursion, uint32_t rule)
{
    uint32_t count = recursion->left_count;
    if (count == recursion->left_capacity) {
        uint32_t capacity = 2 * count + 256;
        uint32_t *left = realloc(recursion->left, capacity * sizeof *left);
        if (!left) {
            mr_expr_fail(recursion->builder, MR_NOMEM, "no memory for a grammar");
            return;
        }
        recursion->left = left;
        recursion->left_capacity = capacity;
    }
    if (mr_expr_work(recursion->builder, 1)) recursion->left[recursion->left_count++] = rule;
}

/* Appends the rules that may be called from a state before a byte. depth limits the recursion over
 * rules that match the empty text. */
static void list_left(struct recursion *recursion, uint32_t state, unsigned depth)
{
    const struct mr_automaton_state *at = &recursion->grammar->states[state];
    for (uint32_t i = 0; i < at->call_count && recursion->builder->status == MR_OK; i++) {
        const struct mr_automaton_call *call = &recursion->grammar->calls[at->calls + i];
        add_left(recursion, call->rule);
        if (!rule_nullable(recursion, call->rule) || call->target == state) continue;
        if (depth == 64) {
            mr_expr_fail(recursion->builder, MR_UNSUPPORTED,
                         "too many rules that match the empty text follow each other");
            return;
        }
        list_left(recursion, call->target, depth + 1);
    }
}

static void list_all(struct recursion *recursion)
{
    const struct mr_grammar *grammar = recursion->grammar;
    for (uint32_t i = 0; i < grammar->rule_count && recursion->builder->status == MR_OK; i++) {
        recursion->begin[i] = recursion->left_count;
        if (grammar->rules[i].counted)
            add_left(recursion, grammar->rules[i].item);
        else
            list_left(recursion, grammar->rules[i].start, 0);
    }
    recursion->begin[grammar->rule_count] = recursion->left_count;
}

/* Depth-first search for a cycle, without recursion in C. */
static void search(struct recursion *recursion, uint32_t root)
{
    uint32_t depth = 0;
    recursion->path[depth++] = root;
    recursion->next[root] = recursion->begin[root];
    recursion->marks[root] = 1;
    while (depth > 0) {
        uint32_t rule = recursion->path[depth - 1];
        if (recursion->next[rule] == recursion->begin[rule + 1]) {
            recursion->marks[rule] = 2;
            depth--;
            continue;
        }
        uint32_t called = recursion->left[recursion->next[rule]++];
        if (recursion->marks[called] == 1) {
            mr_expr_fail(recursion->builder, MR_UNSUPPORTED,
                         "rule %.60s begins with itself, by way of other rules (left recursion)",
                         recursion->builder->rules[called].name);
            return;
        }
        if (recursion->marks[called] == 2) continue;
        recursion->marks[called] = 1;
        recursion->next[called] = recursion->begin[called];
        recursion->path[depth++] = called;
    }
}

void mr_automaton_check_recursion(const struct mr_grammar *grammar, struct mr_expr_builder *builder)
{
    size_t rules = (size_t)grammar->rule_count + 1;
    struct recursion recursion = {.grammar = grammar,
                                  .builder = builder,
                                  .nullable = calloc(grammar->state_count, sizeof(bool)),
                                  .marks = calloc(rules, sizeof(uint8_t)),
                                  .path = calloc(rules, sizeof(uint32_t)),
                                  .next = calloc(rules, sizeof(uint32_t)),
                                  .begin = calloc(rules, sizeof(uint32_t))};
    if (!recursion.nullable || !recursion.marks || !recursion.path || !recursion.next ||
        !recursion.begin) {
        mr_expr_fail(builder, MR_NOMEM, "no memory for a grammar");
    } else {
        find_nullable(&recursion);
        list_all(&recursion);
        for (uint32_t i = 0; i < grammar->rule_count && builder->status == MR_OK; i++)
            if (recursion.marks[i] == 0) search(&recursion, i);
    }
    free(recursion.nullable);
    free(recursion.marks);
    free(recursion.path);
    free(recursion.next);
    free(recursion.left);
    free(recursion.begin);
}

/* ---- plain characters ---- */

struct byte_range {
    uint8_t low, high;
};

/* The byte sequences of all plain characters. */
static const struct {
    unsigned count;
    struct byte_range bytes[4];
} plain[] = {
    {1, {{0x20, 0x21}}},
    {1, {{0x23, 0x5b}}},
    {1, {{0x5d, 0x7e}}},
    {2, {{0xc2, 0xdf}, {0x80, 0xbf}}},
    {3, {{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}}},
    {3, {{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}},
};

struct plain_search {
    const struct mr_grammar *grammar;
    const bool *spelled;
    uint32_t wanted; /* the state that plain characters must lead to; MR_STATE_NONE: any accepting
                        state */
};

/* True if every sequence of spelled bytes leads from the state to the wanted one. */
static bool covers(const struct plain_search *search, uint32_t state,
                   const struct byte_range *bytes, unsigned count)
{
    const struct mr_grammar *grammar = search->grammar;
    if (count == 0)
        return search->wanted == MR_STATE_NONE ? grammar->states[state].accepts
                                               : state == search->wanted;
    uint32_t last = MR_STATE_NONE;
    for (unsigned byte = bytes->low; byte <= bytes->high; byte++) {
        if (search->spelled && !search->spelled[byte]) continue;
        uint32_t target = mr_automaton_next(grammar, state, (unsigned char)byte);
        if (target == MR_STATE_NONE) return false;
        if (target != last && !covers(search, target, bytes + 1, count - 1)) return false;
        last = target;
    }
    return true;
}

static bool covers_plain(const struct plain_search *search, uint32_t state)
{
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (!covers(search, state, plain[i].bytes, plain[i].count)) return false;
    return true;
}

static bool blocks_plain(const struct mr_grammar *grammar, const struct mr_automaton_state *state)
{
    if (state->accepts || state->call_count > 0) return false;
    for (uint32_t i = 0; i < state->edge_count; i++)
        for (size_t p = 0; p < sizeof plain / sizeof plain[0]; p++) {
            const struct mr_automaton_edge *edge = &grammar->edges[state->edges + i];
            if (edge->low <= plain[p].bytes[0].high && edge->high >= plain[p].bytes[0].low)
                return false;
        }
    return true;
}

void mr_automaton_mark_plain(struct mr_grammar *grammar, struct mr_expr_builder *builder)
{
    struct plain_search search = {grammar, builder->spelled, MR_STATE_NONE};
    for (uint32_t i = 0; i < grammar->state_count; i++) {
        search.wanted = i;
        if (!mr_expr_work(builder, 4)) return;
        grammar->states[i].plain_loop = covers_plain(&search, i);
        if (grammar->states[i].plain_loop && !mr_expr_work(builder, 400)) return;
        grammar->states[i].blocks_plain = blocks_plain(grammar, &grammar->states[i]);
    }
    search.wanted = MR_STATE_NONE;
    for (uint32_t i = 0; i < grammar->rule_count; i++) {
        struct mr_automaton_rule *rule = &grammar->rules[i];
        if (rule->counted && !grammar->rules[rule->item].counted)
            rule->plain = covers_plain(&search, grammar->rules[rule->item].start);
    }
}
