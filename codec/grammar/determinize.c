/* The subset construction. A state of the result is a sorted set of states of the nondeterministic
 * automaton, closed under epsilon edges; a hash table finds existing sets. */
#include "codec/check.h"
#include "codec/grammar/nfa.h"
#include "codec/hash.h"

#include <stdlib.h>
#include <string.h>

#define SET_MEMBERS_MAX 4000000u /* members of all sets together */

struct set {
    uint32_t begin, count;
};

/* A byte interval or a rule, and one target state. */
struct move {
    uint32_t rule, target; /* of a call */
};

struct target {
    uint32_t next, state;
};

struct subsets {
    const struct mr_nfa *nfa;
    struct mr_expr_builder *builder;
    struct mr_dfa *dfa;
    uint32_t accept;
    uint32_t *members; /* the members of all sets */
    uint32_t member_count, member_capacity;
    struct set *sets; /* [dfa->state_count] */
    uint32_t set_capacity;
    uint32_t *table; /* [table_size] hash table of indexes of sets; MR_NFA_NONE: free */
    uint32_t table_size;
    uint32_t *stamps; /* [nfa->state_count] number of the last closure that reached the state */
    uint32_t stamp;
    /* scratch for one state of the result */
    struct move *calls;
    uint32_t call_count, call_capacity;
    struct target *targets;
    uint32_t target_count, target_capacity;
};

static int compare_u32(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

/* ---- closures ---- */

static bool push_member(struct subsets *subsets, uint32_t state)
{
    if (subsets->stamps[state] == subsets->stamp) return true;
    if (!mr_nfa_grow(subsets->builder, &subsets->members, subsets->member_count,
                     &subsets->member_capacity, SET_MEMBERS_MAX, sizeof *subsets->members))
        return false;
    subsets->stamps[state] = subsets->stamp;
    subsets->members[subsets->member_count++] = state;
    return true;
}

/* True for a state with at least one edge that is not epsilon. */
static bool is_kept(const struct subsets *subsets, uint32_t state)
{
    const struct mr_nfa *nfa = subsets->nfa;
    if (state == subsets->accept) return true;
    for (uint32_t e = nfa->first[state]; e != MR_NFA_NONE; e = nfa->edges[e].next)
        if (nfa->edges[e].symbol != MR_NFA_EPSILON) return true;
    return false;
}

/* Extends members[begin, member_count) by all states that epsilon edges reach. Then removes the
 * states that have only epsilon edges, so that equal languages more often have equal sets, and
 * sorts the rest. */
static void close_set(struct subsets *subsets, uint32_t begin)
{
    const struct mr_nfa *nfa = subsets->nfa;
    uint32_t steps = 0;
    for (uint32_t i = begin; i < subsets->member_count; i++)
        for (uint32_t e = nfa->first[subsets->members[i]]; e != MR_NFA_NONE;
             e = nfa->edges[e].next) {
            steps++;
            if (nfa->edges[e].symbol == MR_NFA_EPSILON &&
                !push_member(subsets, nfa->edges[e].target))
                return;
        }
    mr_expr_work(subsets->builder, steps + (subsets->member_count - begin));
    uint32_t kept = begin;
    for (uint32_t i = begin; i < subsets->member_count; i++)
        if (is_kept(subsets, subsets->members[i])) subsets->members[kept++] = subsets->members[i];
    subsets->member_count = kept;
    qsort(subsets->members + begin, subsets->member_count - begin, sizeof *subsets->members,
          compare_u32);
}

static uint64_t hash_set(const struct subsets *subsets, struct set set)
{
    return mr_hash_bytes(MR_HASH_START, subsets->members + set.begin,
                         set.count * sizeof *subsets->members);
}

static void insert(struct subsets *subsets, uint32_t index)
{
    uint64_t slot = hash_set(subsets, subsets->sets[index]);
    while (subsets->table[slot & (subsets->table_size - 1)] != MR_NFA_NONE)
        slot++;
    subsets->table[slot & (subsets->table_size - 1)] = index;
}

static bool grow_table(struct subsets *subsets)
{
    if (2 * (subsets->dfa->state_count + 1) <= subsets->table_size) return true;
    uint32_t size = 2 * subsets->table_size;
    uint32_t *table = malloc(size * sizeof *table);
    if (!table) {
        mr_expr_fail(subsets->builder, MR_NOMEM, "no memory to compile a grammar");
        return false;
    }
    memset(table, 0xff, size * sizeof *table);
    free(subsets->table);
    subsets->table = table;
    subsets->table_size = size;
    for (uint32_t i = 0; i < subsets->dfa->state_count; i++)
        insert(subsets, i);
    return true;
}

static bool add_state(struct subsets *subsets, struct set set)
{
    struct mr_dfa *dfa = subsets->dfa;
    struct mr_expr_builder *builder = subsets->builder;
    if (!mr_nfa_grow(builder, &dfa->states, dfa->state_count, &dfa->state_capacity,
                     MR_DFA_STATES_MAX, sizeof *dfa->states) ||
        !mr_nfa_grow(builder, &subsets->sets, dfa->state_count, &subsets->set_capacity,
                     MR_DFA_STATES_MAX, sizeof *subsets->sets) ||
        !grow_table(subsets))
        return false;
    struct mr_dfa_state state = {0};
    for (uint32_t i = 0; i < set.count; i++)
        state.accepts |= subsets->members[set.begin + i] == subsets->accept;
    subsets->sets[dfa->state_count] = set;
    insert(subsets, dfa->state_count);
    dfa->states[dfa->state_count++] = state;
    return true;
}

/* Closes the set members[begin, member_count) and finds or adds its state of the result.
 * MR_NFA_NONE after a failure. */
static uint32_t intern(struct subsets *subsets, uint32_t begin)
{
    close_set(subsets, begin);
    if (subsets->builder->status != MR_OK) return MR_NFA_NONE;
    struct set set = {begin, subsets->member_count - begin};
    uint64_t slot = hash_set(subsets, set);
    uint32_t found;
    while ((found = subsets->table[slot & (subsets->table_size - 1)]) != MR_NFA_NONE) {
        struct set other = subsets->sets[found];
        if (other.count == set.count &&
            memcmp(subsets->members + other.begin, subsets->members + begin,
                   set.count * sizeof *subsets->members) == 0) {
            subsets->member_count = begin;
            return found;
        }
        slot++;
    }
    return add_state(subsets, set) ? subsets->dfa->state_count - 1 : MR_NFA_NONE;
}

/* ---- the edges of one state ---- */

static void emit_edge(struct subsets *subsets, uint32_t from, unsigned low, unsigned high,
                      uint32_t target)
{
    struct mr_dfa *dfa = subsets->dfa;
    struct mr_dfa_state *state = &dfa->states[from];
    if (target == MR_NFA_NONE) return;
    if (state->edge_count > 0) {
        struct mr_dfa_edge *last = &dfa->edges[dfa->edge_count - 1];
        if (last->target == target && last->high + 1u == low) {
            last->high = (uint8_t)high;
            return;
        }
    }
    if (!mr_nfa_grow(subsets->builder, &dfa->edges, dfa->edge_count, &dfa->edge_capacity,
                     MR_DFA_EDGES_MAX, sizeof *dfa->edges))
        return;
    dfa->edges[dfa->edge_count++] = (struct mr_dfa_edge){target, (uint8_t)low, (uint8_t)high};
    state->edge_count++;
}

/* A set of the numbers 0 to 256: where intervals of bytes begin. A state has few of them, so
 * walking over the members is much faster than over all bytes. */
struct cuts {
    uint64_t words[5];
};

static void add_cut(struct cuts *cuts, unsigned at)
{
    cuts->words[at / 64] |= (uint64_t)1 << at % 64;
}

/* The first cut from `at` on; 257 if there is none. */
static unsigned next_cut(const struct cuts *cuts, unsigned at)
{
    for (; at < 257; at = (at / 64 + 1) * 64) {
        const uint64_t rest = cuts->words[at / 64] >> at % 64;
        if (rest != 0) return at + (unsigned)__builtin_ctzll(rest);
    }
    return 257;
}

/* Marks where the byte edges of a set begin and end, and collects its calls. */
static void survey(struct subsets *subsets, struct set set, struct cuts *cuts)
{
    const struct mr_nfa *nfa = subsets->nfa;
    subsets->call_count = 0;
    for (uint32_t i = 0; i < set.count; i++)
        for (uint32_t e = nfa->first[subsets->members[set.begin + i]]; e != MR_NFA_NONE;
             e = nfa->edges[e].next) {
            const struct mr_nfa_edge *edge = &nfa->edges[e];
            if (edge->symbol == MR_NFA_BYTES) {
                add_cut(cuts, edge->low);
                add_cut(cuts, edge->high + 1u);
            }
            if (edge->symbol != MR_NFA_CALL) continue;
            if (!mr_nfa_grow(subsets->builder, &subsets->calls, subsets->call_count,
                             &subsets->call_capacity, MR_NFA_EDGES_MAX, sizeof *subsets->calls))
                return;
            subsets->calls[subsets->call_count++] = (struct move){edge->rule, edge->target};
        }
}

/* Adds the targets of all byte edges of a set to the lists of the intervals that they cover. heads:
 * list heads, indexed by the first byte of an interval. */
static void spread(struct subsets *subsets, struct set set, const struct cuts *cuts,
                   uint32_t heads[257])
{
    const struct mr_nfa *nfa = subsets->nfa;
    subsets->target_count = 0;
    for (uint32_t i = 0; i < set.count; i++)
        for (uint32_t e = nfa->first[subsets->members[set.begin + i]]; e != MR_NFA_NONE;
             e = nfa->edges[e].next) {
            const struct mr_nfa_edge *edge = &nfa->edges[e];
            if (edge->symbol != MR_NFA_BYTES) continue;
            for (unsigned at = edge->low; at <= edge->high; at = next_cut(cuts, at + 1)) {
                if (!mr_nfa_grow(subsets->builder, &subsets->targets, subsets->target_count,
                                 &subsets->target_capacity, SET_MEMBERS_MAX,
                                 sizeof *subsets->targets))
                    return;
                subsets->targets[subsets->target_count] = (struct target){heads[at], edge->target};
                heads[at] = subsets->target_count++;
            }
        }
    mr_expr_work(subsets->builder, subsets->target_count);
}

static void expand_bytes(struct subsets *subsets, uint32_t state, struct set set,
                         const struct cuts *cuts)
{
    uint32_t heads[257];
    for (unsigned at = next_cut(cuts, 0); at < 257; at = next_cut(cuts, at + 1))
        heads[at] = MR_NFA_NONE;
    spread(subsets, set, cuts, heads);
    subsets->dfa->states[state].edges = subsets->dfa->edge_count;
    for (unsigned low = next_cut(cuts, 0), high; low < 256 && subsets->builder->status == MR_OK;
         low = high + 1) {
        high = next_cut(cuts, low + 1) - 1;
        if (heads[low] == MR_NFA_NONE) continue;
        uint32_t begin = subsets->member_count;
        subsets->stamp++;
        for (uint32_t at = heads[low]; at != MR_NFA_NONE; at = subsets->targets[at].next)
            if (!push_member(subsets, subsets->targets[at].state)) return;
        emit_edge(subsets, state, low, high, intern(subsets, begin));
    }
}

static int compare_moves(const void *one, const void *other)
{
    const struct move *a = one, *b = other;
    return a->rule != b->rule ? (a->rule > b->rule) - (a->rule < b->rule)
                              : (a->target > b->target) - (a->target < b->target);
}

static void expand_calls(struct subsets *subsets, uint32_t state)
{
    struct mr_dfa *dfa = subsets->dfa;
    if (subsets->call_count > 0)
        qsort(subsets->calls, subsets->call_count, sizeof *subsets->calls, compare_moves);
    dfa->states[state].calls = dfa->call_count;
    for (uint32_t i = 0; i < subsets->call_count && subsets->builder->status == MR_OK;) {
        uint32_t rule = subsets->calls[i].rule, begin = subsets->member_count;
        subsets->stamp++;
        for (; i < subsets->call_count && subsets->calls[i].rule == rule; i++)
            if (!push_member(subsets, subsets->calls[i].target)) return;
        uint32_t target = intern(subsets, begin);
        if (target == MR_NFA_NONE ||
            !mr_nfa_grow(subsets->builder, &dfa->calls, dfa->call_count, &dfa->call_capacity,
                         MR_DFA_EDGES_MAX, sizeof *dfa->calls))
            return;
        dfa->calls[dfa->call_count++] = (struct mr_dfa_call){rule, target};
        dfa->states[state].call_count++;
    }
}

void mr_dfa_determinize(struct mr_dfa *dfa, const struct mr_nfa *nfa, uint32_t start,
                        uint32_t accept)
{
    struct mr_expr_builder *builder = nfa->builder;
    struct subsets subsets = {.nfa = nfa,
                              .builder = builder,
                              .dfa = dfa,
                              .accept = accept,
                              .table_size = 128,
                              .table = malloc(128 * sizeof(uint32_t)),
                              .stamps = calloc(nfa->state_count, sizeof(uint32_t))};
    if (!subsets.table || !subsets.stamps) {
        mr_expr_fail(builder, MR_NOMEM, "no memory to compile a grammar");
    } else {
        memset(subsets.table, 0xff, 128 * sizeof(uint32_t));
        subsets.stamp = 1;
        if (push_member(&subsets, start)) intern(&subsets, 0);
    }
    for (uint32_t i = 0; builder->status == MR_OK && i < dfa->state_count; i++) {
        struct cuts cuts = {{0}};
        struct set set = subsets.sets[i];
        survey(&subsets, set, &cuts);
        expand_bytes(&subsets, i, set, &cuts);
        expand_calls(&subsets, i);
        mr_expr_work(builder, 8);
    }
    free(subsets.members);
    free(subsets.sets);
    free(subsets.table);
    free(subsets.stamps);
    free(subsets.calls);
    free(subsets.targets);
}

bool mr_nfa_grow(struct mr_expr_builder *builder, void *array, uint32_t count, uint32_t *capacity,
                 uint32_t max, size_t size)
{
    if (builder->status != MR_OK) return false;
    if (count < *capacity) return true;
    uint32_t wanted = *capacity ? 2 * *capacity : 64;
    if (count >= max) {
        mr_expr_fail_limit(builder, "needs more than %u states or edges", max);
        return false;
    }
    void *memory, *old;
    memcpy(&old, array, sizeof old);
    memory = realloc(old, wanted * size);
    if (!memory) {
        mr_expr_fail(builder, MR_NOMEM, "no memory to compile a grammar");
        return false;
    }
    memcpy(array, &memory, sizeof memory);
    *capacity = wanted;
    return true;
}
