#include "codec/records/request.h"

#include "codec/limits.h"

#include <math.h>

static void set_defaults(struct mr_request *request, uint32_t default_max_tokens)
{
    request->max_tokens = default_max_tokens;
    request->choice_count = 1;
    request->chat.add_generation_prompt = true;
    request->stream = request->cache_read = request->cache_write = request->speculate = true;
    const float unset = nanf("");
    request->sampling = (struct mr_sampling){.temperature = unset,
                                             .top_p = unset,
                                             .min_p = unset,
                                             .typical_p = unset,
                                             .top_k = MR_TOP_K_UNSET,
                                             .repetition_penalty = unset,
                                             .presence_penalty = unset,
                                             .frequency_penalty = unset,
                                             .logprobs = -1};
    request->pooling.normalize = true;
}

struct mr_request *mr_request_create(enum mr_encoding encoding, uint32_t default_max_tokens)
{
    struct mr_arena *arena = mr_arena_create(MR_REQUEST_ARENA_BYTES_MAX);
    struct mr_request *request = arena ? mr_arena_take(arena, sizeof *request) : NULL;
    if (!request) {
        mr_arena_destroy(arena);
        return NULL;
    }
    request->arena = arena;
    request->encoding = encoding;
    set_defaults(request, default_max_tokens);
    return request;
}

bool mr_request_add_warning(struct mr_request *request, struct mr_text sentence)
{
    struct mr_arena *arena = request->arena;
    if (request->warning_count == MR_WARNINGS_MAX) return true;
    if (!request->warnings)
        request->warnings = mr_arena_take_array(arena, MR_WARNINGS_MAX, sizeof *request->warnings);
    char *copy = mr_arena_copy_text(arena, sentence.bytes, sentence.length);
    if (!request->warnings || !copy) return false;
    request->warnings[request->warning_count++] = (struct mr_text){copy, sentence.length};
    return true;
}

void mr_request_destroy(struct mr_request *request)
{
    if (!request) return;
    mr_grammar_drop(request->grammar);
    mr_arena_destroy(request->arena);
}
