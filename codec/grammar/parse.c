#include "codec/grammar/parse.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

enum mr_status mr_parse_create(struct mr_parse **out, struct mr_error *err)
{
    *out = NULL;
    struct mr_parse *parse = calloc(1, sizeof *parse);
    if (!parse) return mr_fail(err, MR_NOMEM, "no memory to follow a grammar");
    parse->nodes = calloc(MR_PARSE_NODES, sizeof *parse->nodes);
    parse->heads = calloc(MR_PARSE_HEADS, sizeof *parse->heads);
    parse->places = calloc(MR_PARSE_NODES, sizeof *parse->places);
    parse->slots = calloc(MR_PARSE_SLOTS, sizeof *parse->slots);
    if (!parse->nodes || !parse->heads || !parse->places || !parse->slots) {
        mr_parse_destroy(parse);
        return mr_fail(err, MR_NOMEM, "no memory to follow a grammar");
    }
    *out = parse;
    return MR_OK;
}

void mr_parse_destroy(struct mr_parse *parse)
{
    if (!parse) return;
    free(parse->slots);
    free(parse->places);
    free(parse->nodes);
    free(parse->heads);
    free(parse);
}

/* ---- one step ---- */

/* Up to this many heads of a step are compared one by one; with more, the hash table is used. */
#define COMPARED_MAX 16u

/* Hash of a stack with one more entry. */
static uint32_t hash_with(const struct mr_parse *parse, uint32_t parent, uint32_t state)
{
    const uint32_t below = parent == MR_NODE_NONE ? 1 : parse->nodes[parent].hash;
    const uint32_t mixed = (below ^ state * 0x9e3779b1u) * 0x85ebca6bu;
    return mixed ^ mixed >> 15;
}

/* True when two stacks, given by their top entries, have the same entries. */
static bool same_stack(struct mr_parse *parse, uint32_t one, uint32_t other)
{
    for (; one != other; parse->work++) {
        if (one == MR_NODE_NONE || other == MR_NODE_NONE) return false;
        const struct mr_parse_node *a = &parse->nodes[one], *b = &parse->nodes[other];
        if (a->hash != b->hash || a->state != b->state || a->depth != b->depth) return false;
        one = a->parent;
        other = b->parent;
    }
    return true;
}

static bool same_head(struct mr_parse *parse, const struct mr_parse_head *one,
                      const struct mr_parse_head *other)
{
    parse->work++;
    return one->state == other->state && one->depth == other->depth &&
           same_stack(parse, one->parent, other->parent);
}

/* The slot of a head: unused if the step has no such head. */
static struct mr_parse_slot *slot_of(struct mr_parse *parse, const struct mr_parse_head *head)
{
    uint32_t index = hash_with(parse, head->parent, head->state);
    for (;; index++) {
        struct mr_parse_slot *slot = &parse->slots[index % MR_PARSE_SLOTS];
        if (slot->step != parse->slot_step || same_head(parse, &parse->heads[slot->head], head))
            return slot;
    }
}

static void use_slots(struct mr_parse *parse, uint32_t begin)
{
    if (++parse->slot_step ==
        0) { /* the step number has wrapped, so old slots could look current */
        memset(parse->slots, 0, MR_PARSE_SLOTS * sizeof *parse->slots);
        parse->slot_step = 1;
    }
    for (uint32_t i = begin; i < parse->head_count; i++)
        *slot_of(parse, &parse->heads[i]) = (struct mr_parse_slot){parse->slot_step, i};
}

/* Adds a head unless the step already has it. `begin`: the first head of the step. */
static void add_head(struct mr_parse *parse, uint32_t begin, struct mr_parse_head head)
{
    const uint32_t count = parse->head_count - begin;
    struct mr_parse_slot *slot = NULL;
    if (count == COMPARED_MAX) use_slots(parse, begin);
    if (count >= COMPARED_MAX) {
        slot = slot_of(parse, &head);
        if (slot->step == parse->slot_step) return;
    } else {
        for (uint32_t i = begin; i < parse->head_count; i++)
            if (same_head(parse, &parse->heads[i], &head)) return;
    }
    if (parse->head_count == MR_PARSE_HEADS || count == MR_PARSE_HEADS_MAX) return;
    if (slot != NULL) *slot = (struct mr_parse_slot){parse->slot_step, parse->head_count};
    parse->heads[parse->head_count++] = head;
}

/* True if a stack of `depth` entries has room for `height` more; records the need in highest. */
static bool fits(struct mr_parse *parse, uint32_t depth, uint32_t height)
{
    if (height == MR_HEIGHT_NONE) return false;
    if (depth + height > parse->highest) parse->highest = depth + height;
    return depth + height <= MR_STACK_MAX;
}

/* Height of a state of a counted rule. */
static uint32_t counted_height(const struct mr_grammar *grammar,
                               const struct mr_automaton_rule *rule, uint32_t count)
{
    const uint32_t height = grammar->rules[rule->item].height;
    return count >= rule->min ? 0 : height == MR_HEIGHT_NONE ? height : height + 1;
}

/* Calls a rule from a head. `after`: the state to return to. is_end: that state can only return in
 * turn, so no stack entry is needed for it. */
static void call(struct mr_parse *parse, uint32_t begin, struct mr_parse_head head, uint32_t rule,
                 uint32_t after, bool is_end)
{
    struct mr_parse_head inner = {parse->grammar->rules[rule].start, head.parent, head.depth};
    if (!is_end) {
        inner.depth++;
        inner.parent = parse->node_count;
        if (parse->node_count == MR_PARSE_NODES) return;
    }
    if (!fits(parse, inner.depth, parse->grammar->rules[rule].height)) return;
    if (!is_end)
        parse->nodes[parse->node_count++] = (struct mr_parse_node){
            head.parent, after, inner.depth, hash_with(parse, head.parent, after)};
    uint32_t count = parse->head_count;
    add_head(parse, begin, inner);
    if (!is_end && parse->head_count == count) parse->node_count--;
}

static void leave(struct mr_parse *parse, uint32_t begin, struct mr_parse_head head)
{
    if (head.parent == MR_NODE_NONE) {
        parse->can_end = true;
        parse->lowest = 0;
        return;
    }
    const struct mr_parse_node *node = &parse->nodes[head.parent];
    if (node->depth < parse->lowest) parse->lowest = node->depth;
    add_head(parse, begin, (struct mr_parse_head){node->state, node->parent, node->depth - 1});
}

static void expand_counted(struct mr_parse *parse, uint32_t begin, struct mr_parse_head head)
{
    const struct mr_grammar *grammar = parse->grammar;
    const struct mr_automaton_rule *rule =
        &grammar->rules[mr_automaton_counted(grammar, head.state)];
    uint32_t count = head.state - rule->start;
    bool unbounded = rule->max == UINT32_MAX;
    uint32_t next = unbounded && count == rule->min ? count : count + 1;
    if (unbounded || count < rule->max) {
        bool is_end = !unbounded && next == rule->max;
        if (fits(parse, head.depth, counted_height(grammar, rule, next)))
            call(parse, begin, head, rule->item, rule->start + next, is_end);
    }
    if (count >= rule->min) leave(parse, begin, head);
}

/* Follows calls and returns from the heads [begin, head_count), and keeps those with byte edges. */
static void follow(struct mr_parse *parse, uint32_t begin)
{
    const struct mr_grammar *grammar = parse->grammar;
    for (uint32_t i = begin; i < parse->head_count; i++) {
        const struct mr_parse_head head = parse->heads[i];
        parse->work++;
        if (head.state >= MR_STATE_COUNTED) {
            expand_counted(parse, begin, head);
            continue;
        }
        const struct mr_automaton_state *state = &grammar->states[head.state];
        for (uint32_t c = 0; c < state->call_count; c++) {
            const struct mr_automaton_call *at = &grammar->calls[state->calls + c];
            const struct mr_automaton_state *after = &grammar->states[at->target];
            if (fits(parse, head.depth, after->height))
                call(parse, begin, head, at->rule, at->target, after->is_end);
        }
        if (state->accepts) leave(parse, begin, head);
    }
    uint32_t kept = begin;
    for (uint32_t i = begin; i < parse->head_count; i++) {
        const struct mr_parse_head head = parse->heads[i];
        if (head.state < MR_STATE_COUNTED && grammar->states[head.state].edge_count > 0)
            parse->heads[kept++] = head;
    }
    parse->head_count = kept;
}

void mr_parse_start(struct mr_parse *parse, const struct mr_grammar *grammar)
{
    parse->grammar = grammar;
    parse->node_count = parse->head_count = 0;
    parse->can_end = false;
    parse->lowest = UINT32_MAX;
    parse->highest = 0;
    parse->heads[parse->head_count++] =
        (struct mr_parse_head){grammar->rules[grammar->root].start, MR_NODE_NONE, 0};
    follow(parse, 0);
}

uint32_t mr_parse_step(struct mr_parse *parse, uint32_t begin, uint32_t end, unsigned char byte)
{
    const struct mr_grammar *grammar = parse->grammar;
    const uint32_t first = parse->head_count;
    bool busy = false;
    parse->can_end = false;
    parse->work += 2 + (end - begin);
    for (uint32_t i = begin; i < end; i++) {
        const struct mr_parse_head head = parse->heads[i];
        const uint32_t target = mr_automaton_next(grammar, head.state, byte);
        if (target == MR_STATE_NONE) continue;
        const struct mr_automaton_state *state = &grammar->states[target];
        if (!fits(parse, head.depth, state->height)) continue;
        add_head(parse, first, (struct mr_parse_head){target, head.parent, head.depth});
        busy |= state->accepts || state->call_count > 0;
    }
    if (busy) follow(parse, first);
    return parse->head_count - first;
}
