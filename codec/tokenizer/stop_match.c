#include "codec/tokenizer/stop_match.h"

#include "codec/check.h"
#include "codec/limits.h"

#include <string.h>

#define NO_STOP UINT16_MAX

/* One state of the automaton: a prefix of one or more stop strings. State 0 is the empty prefix. */
struct state {
    uint16_t failure; /* state of the longest proper suffix of this prefix */
    uint16_t depth;   /* length of the prefix in bytes */
    /* index of the first stop string that is the prefix or a suffix of the prefix; or NO_STOP */
    uint16_t stop;
};

struct mr_stop_match {
    struct state *states;
    uint16_t (*next)[256]; /* [state_count] next state for each byte */
    uint16_t state_count;
    uint16_t lengths[MR_STOP_COUNT_MAX];
};

/* Adds one stop string to the trie. Until complete() runs, 0 in `next` means that there is no
 * child. */
static void insert(struct mr_stop_match *matcher, struct mr_text stop, uint16_t index)
{
    uint16_t at = 0;
    for (size_t i = 0; i < stop.length; i++) {
        unsigned char byte = (unsigned char)stop.bytes[i];
        if (matcher->next[at][byte] == 0) {
            matcher->next[at][byte] = matcher->state_count;
            matcher->states[matcher->state_count] =
                (struct state){.depth = (uint16_t)(i + 1), .stop = NO_STOP};
            matcher->state_count++;
        }
        at = matcher->next[at][byte];
    }
    if (index < matcher->states[at].stop) matcher->states[at].stop = index;
}

/* Sets each state's failure state and its missing transitions, breadth first: both are taken from
 * the failure state of the parent, for the same byte. */
static void complete(struct mr_stop_match *matcher, uint16_t *queue)
{
    size_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        uint16_t at = queue[head++];
        uint16_t failure = matcher->states[at].failure;
        for (unsigned byte = 0; byte < 256; byte++) {
            uint16_t child = matcher->next[at][byte];
            uint16_t other = at == 0 ? 0 : matcher->next[failure][byte];
            if (child == 0) {
                matcher->next[at][byte] = other;
                continue;
            }
            matcher->states[child].failure = other;
            if (matcher->states[other].stop < matcher->states[child].stop)
                matcher->states[child].stop = matcher->states[other].stop;
            queue[tail++] = child;
        }
    }
    MR_ASSERT(tail == matcher->state_count);
}

enum mr_status mr_stop_match_create(struct mr_stop_match **out, struct mr_arena *arena,
                                    const struct mr_text *stops, size_t stop_count,
                                    struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(stop_count <= MR_STOP_COUNT_MAX);
    size_t state_max = 1;
    for (size_t i = 0; i < stop_count; i++) {
        MR_ASSERT(stops[i].length > 0 && stops[i].length <= MR_STOP_BYTES_MAX);
        state_max += stops[i].length;
    }
    struct mr_stop_match *matcher = mr_arena_take(arena, sizeof *matcher);
    struct state *states = mr_arena_take_array(arena, state_max, sizeof *states);
    uint16_t(*next)[256] = mr_arena_take_array(arena, state_max, sizeof *next);
    uint16_t *queue = mr_arena_take_array(arena, state_max, sizeof *queue);
    if (!matcher || !states || !next || !queue)
        return mr_fail(err, MR_NOMEM, "no memory for %zu stop strings", stop_count);
    matcher->states = states;
    matcher->next = next;
    matcher->state_count = 1;
    states[0].stop = NO_STOP;
    for (size_t i = 0; i < stop_count; i++) {
        insert(matcher, stops[i], (uint16_t)i);
        matcher->lengths[i] = (uint16_t)stops[i].length;
    }
    complete(matcher, queue);
    *out = matcher;
    return MR_OK;
}

bool mr_stop_match_feed(const struct mr_stop_match *matcher, uint32_t *position, const char *bytes,
                        size_t length, struct mr_stop_hit *hit)
{
    MR_ASSERT(*position < matcher->state_count);
    uint16_t at = (uint16_t)*position;
    for (size_t i = 0; i < length; i++) {
        at = matcher->next[at][(unsigned char)bytes[i]];
        uint16_t stop = matcher->states[at].stop;
        if (stop == NO_STOP) continue;
        *position = at;
        *hit = (struct mr_stop_hit){stop, i + 1, matcher->lengths[stop]};
        return true;
    }
    *position = at;
    return false;
}

size_t mr_stop_match_held(const struct mr_stop_match *matcher, uint32_t position)
{
    MR_ASSERT(position < matcher->state_count);
    return matcher->states[position].depth;
}
