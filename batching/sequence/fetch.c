#include "batching/sequence/fetch.h"

#include "codec/check.h"

#define TO(state) (1u << MR_FETCH_##state)

static const uint32_t allowed[MR_FETCH_STATE_COUNT] = {
    [MR_FETCH_NEW] = TO(LOOKUP) | TO(KNOWN),
    [MR_FETCH_LOOKUP] = TO(LOOKUP_PIECES) | TO(KNOWN),
    [MR_FETCH_LOOKUP_PIECES] = TO(KNOWN),
    [MR_FETCH_KNOWN] = TO(DECIDED),
    [MR_FETCH_DECIDED] = TO(WAIT) | TO(COMPUTE) | TO(KNOWN),
    [MR_FETCH_WAIT] = TO(STEP) | TO(COMPUTE) | TO(JOIN) | TO(LOGITS) | TO(KNOWN),
    [MR_FETCH_STEP] = TO(WAIT_AGAIN) | TO(COMPUTE) | TO(JOIN) | TO(LOGITS) | TO(KNOWN),
    [MR_FETCH_WAIT_AGAIN] = TO(COMPUTE) | TO(JOIN) | TO(LOGITS) | TO(KNOWN),
    [MR_FETCH_COMPUTE] = TO(JOIN) | TO(LOGITS) | TO(KNOWN),
    [MR_FETCH_JOIN] = TO(LOGITS_DONE) | TO(KNOWN),
    [MR_FETCH_LOGITS] = TO(LOGITS_DONE) | TO(KNOWN),
    [MR_FETCH_LOGITS_DONE] = TO(KNOWN),
};

static bool is_one_of(const struct mr_fetch *fetch, uint32_t states)
{
    return states >> fetch->state & 1;
}

void mr_fetch_move(struct mr_fetch *fetch, enum mr_fetch_state state)
{
    MR_ASSERT(state < MR_FETCH_STATE_COUNT);
    MR_ASSERT(allowed[fetch->state] >> state & 1);
    fetch->state = state;
}

bool mr_fetch_is_looking_up(const struct mr_fetch *fetch)
{
    return is_one_of(fetch, TO(LOOKUP) | TO(LOOKUP_PIECES));
}

bool mr_fetch_is_loading(const struct mr_fetch *fetch)
{
    return is_one_of(fetch, TO(WAIT) | TO(STEP) | TO(WAIT_AGAIN) | TO(COMPUTE) | TO(LOGITS));
}

bool mr_fetch_is_waiting(const struct mr_fetch *fetch)
{
    return is_one_of(fetch, TO(WAIT) | TO(WAIT_AGAIN));
}

bool mr_fetch_has_load(const struct mr_fetch *fetch)
{
    return mr_fetch_is_loading(fetch) || is_one_of(fetch, TO(JOIN) | TO(LOGITS_DONE));
}
