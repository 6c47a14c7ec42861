#include "codec/grammar/matcher.h"

#include <string.h>

#define PART_BYTES 24u /* bytes matched before unused nodes are freed */
/* With more heads than this, mr_matcher_forced returns 0. */
#define FORCED_HEADS_MAX 16u

void mr_matcher_load(const struct mr_matcher *matcher, struct mr_parse *parse)
{
    parse->grammar = matcher->grammar;
    parse->node_count = matcher->node_count;
    parse->head_count = matcher->head_count;
    parse->can_end = matcher->can_end;
    parse->lowest = UINT32_MAX;
    parse->highest = 0;
    memcpy(parse->nodes, matcher->nodes, matcher->node_count * sizeof *parse->nodes);
    memcpy(parse->heads, matcher->heads, matcher->head_count * sizeof *parse->heads);
}

/* Entries of a stack that are not marked yet. */
static uint32_t unmarked(const struct mr_parse *parse, const uint32_t *places, uint32_t node)
{
    uint32_t count = 0;
    for (; node != MR_NODE_NONE && places[node] == MR_NODE_NONE; node = parse->nodes[node].parent)
        count++;
    return count;
}

/* Copies the heads [begin, head_count) of a parse and the nodes of their stacks to the matcher. A
 * node's parent has a lower index, so copying in order keeps parents before children. A head whose
 * stack does not fit is left out. */
static void store(struct mr_matcher *matcher, const struct mr_parse *parse, uint32_t begin)
{
    uint32_t *places = parse->places;
    uint32_t kept = 0, nodes = 0;
    memset(places, 0xff, parse->node_count * sizeof *places);
    for (uint32_t i = begin; i < parse->head_count && kept < MR_MATCHER_HEADS; i++) {
        uint32_t more = unmarked(parse, places, parse->heads[i].parent);
        if (nodes + more > MR_MATCHER_NODES) continue;
        nodes += more;
        for (uint32_t at = parse->heads[i].parent; more > 0; more--) {
            places[at] = 0;
            at = parse->nodes[at].parent;
        }
        matcher->heads[kept++] = parse->heads[i];
    }
    nodes = 0;
    for (uint32_t i = 0; i < parse->node_count; i++) {
        if (places[i] == MR_NODE_NONE) continue;
        struct mr_parse_node node = parse->nodes[i];
        if (node.parent != MR_NODE_NONE) node.parent = places[node.parent];
        matcher->nodes[nodes] = node;
        places[i] = nodes++;
    }
    for (uint32_t i = 0; i < kept; i++)
        if (matcher->heads[i].parent != MR_NODE_NONE)
            matcher->heads[i].parent = places[matcher->heads[i].parent];
    matcher->head_count = kept;
    matcher->node_count = nodes;
    matcher->can_end = parse->can_end;
}

void mr_matcher_init(struct mr_matcher *matcher, const struct mr_grammar *grammar,
                     struct mr_parse *parse)
{
    matcher->grammar = grammar;
    matcher->at_start = true;
    mr_parse_start(parse, grammar);
    store(matcher, parse, 0);
}

void mr_matcher_copy(struct mr_matcher *to, const struct mr_matcher *from)
{
    to->grammar = from->grammar;
    to->node_count = from->node_count;
    to->head_count = from->head_count;
    to->can_end = from->can_end;
    to->at_start = from->at_start;
    memcpy(to->heads, from->heads, from->head_count * sizeof *to->heads);
    memcpy(to->nodes, from->nodes, from->node_count * sizeof *to->nodes);
}

/* As mr_matcher_accept, for few enough bytes that the parse has room for all heads. */
static bool accept_part(struct mr_matcher *matcher, struct mr_parse *parse, struct mr_text bytes)
{
    mr_matcher_load(matcher, parse);
    uint32_t begin = 0;
    for (size_t i = 0; i < bytes.length; i++) {
        uint32_t end = parse->head_count;
        uint32_t count = mr_parse_step(parse, begin, end, (unsigned char)bytes.bytes[i]);
        if (count == 0 && !(parse->can_end && i + 1 == bytes.length)) return false;
        begin = end;
    }
    store(matcher, parse, begin);
    matcher->at_start = false;
    return true;
}

bool mr_matcher_accept(struct mr_matcher *matcher, struct mr_parse *parse, struct mr_text bytes)
{
    struct mr_matcher before;
    if (bytes.length == 0) return true;
    if (bytes.length <= PART_BYTES) return accept_part(matcher, parse, bytes);
    mr_matcher_copy(&before, matcher);
    for (size_t at = 0; at < bytes.length; at += PART_BYTES) {
        size_t end = bytes.length - at > PART_BYTES ? at + PART_BYTES : bytes.length;
        if (accept_part(matcher, parse, mr_text_part(bytes, at, end))) continue;
        mr_matcher_copy(matcher, &before);
        return false;
    }
    return true;
}

bool mr_matcher_is_over(const struct mr_matcher *matcher)
{
    return matcher->can_end && matcher->head_count == 0;
}

/* The only byte that can follow the heads [begin, end), or -1. */
static int only_byte(const struct mr_parse *parse, uint32_t begin, uint32_t end)
{
    int byte = -1;
    for (uint32_t i = begin; i < end; i++) {
        const struct mr_automaton_state *state = &parse->grammar->states[parse->heads[i].state];
        for (uint32_t e = 0; e < state->edge_count; e++) {
            const struct mr_automaton_edge *edge = &parse->grammar->edges[state->edges + e];
            if (parse->heads[i].depth + parse->grammar->states[edge->target].height > MR_STACK_MAX)
                continue;
            if (edge->low != edge->high || (byte >= 0 && byte != edge->low)) return -1;
            byte = edge->low;
        }
    }
    return byte;
}

size_t mr_matcher_forced(const struct mr_matcher *matcher, struct mr_parse *parse, char *out,
                         size_t max)
{
    uint32_t begin = 0;
    size_t length = 0;
    mr_matcher_load(matcher, parse);
    while (length < max && !parse->can_end) {
        uint32_t end = parse->head_count;
        if (end - begin > FORCED_HEADS_MAX) break;
        int byte = only_byte(parse, begin, end);
        if (byte < 0 || MR_PARSE_HEADS - end < MR_PARSE_HEADS_MAX) break;
        mr_parse_step(parse, begin, end, (unsigned char)byte);
        out[length++] = (char)byte;
        begin = end;
    }
    return length;
}
