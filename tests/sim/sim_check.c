/* Checks a simulated run from the requests, the fake model and the contract, without the engine. */
#include "tests/sim/sim_engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The tokens that one choice must produce when it runs alone. */
struct reference {
    uint32_t tokens[SIM_OUTPUT_MAX], count; /* without an end or stop token */
    uint32_t generated;
    enum mr_finish finish;
};

static bool is_end(const struct sim_request *request, uint32_t token)
{
    return !request->ignore_eos && (token == MR_FAKE_END || token == 1);
}

static bool is_stop(const struct sim_request *request, uint32_t token)
{
    for (uint32_t i = 0; i < request->stop_count; i++)
        if (request->stop_ids[i] == token) return true;
    return false;
}

static uint32_t draw(const struct sim_world *world, const struct sim_request *request,
                     const uint32_t *history, uint32_t count, uint64_t seed)
{
    uint32_t token = mr_fake_next(world->fake, history, count, request->temperature, seed);
    if (count - request->prompt_count < request->min_tokens)
        while (is_end(request, token) || is_stop(request, token))
            token = (token + 1) % world->fake->options.vocab_size;
    return token;
}

static struct reference run_alone(const struct sim_world *world, const struct sim_request *request,
                                  uint32_t choice)
{
    struct reference expected = {.finish = MR_FINISH_NONE};
    uint32_t history[SIM_PROMPT_MAX + SIM_OUTPUT_MAX], count = request->prompt_count;
    uint64_t seed = request->seed + choice * 0x9e3779b97f4a7c15u;
    memcpy(history, request->prompt, count * sizeof *history);
    uint32_t room = world->options.context_tokens - request->prompt_count;
    while (expected.finish == MR_FINISH_NONE) {
        uint32_t token = draw(world, request, history, count, seed);
        history[count++] = token;
        expected.generated++;
        bool past = expected.generated > request->min_tokens;
        bool end = past && is_end(request, token), stop = past && is_stop(request, token);
        if (!end && !stop) expected.tokens[expected.count++] = token;
        if (expected.generated >= request->max_tokens)
            expected.finish = MR_FINISH_LENGTH;
        else if (end)
            expected.finish = MR_FINISH_EOS;
        else if (stop)
            expected.finish = MR_FINISH_STOP_TOKEN;
        else if (expected.generated >= room)
            expected.finish = MR_FINISH_CONTEXT_FULL;
    }
    return expected;
}

static const char *report(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static const char *report(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return text;
}

/* The status that a submission must return. MR_FULL is always possible too. */
static enum mr_status expected_status(const struct sim_world *world,
                                      const struct sim_request *request)
{
    if (request->prompt_count == 0) return MR_EMPTY_PROMPT;
    uint32_t pool = world->options.block_count * MR_BLOCK_TOKENS;
    if (request->prompt_count >= world->options.context_tokens || request->prompt_count > pool)
        return MR_PROMPT_TOO_LONG;
    for (uint32_t i = 0; i < request->prompt_count; i++)
        if (request->prompt[i] >= world->fake->options.vocab_size) return MR_INVALID_TOKEN_ID;
    if (request->score_count > world->options.score_rows_max) return MR_UNSUPPORTED;
    for (uint32_t i = 0; i < request->score_count; i++) {
        uint32_t count;
        (void)sim_continuation(request, i, &count);
        count += request->prompt_count;
        if (count > world->options.context_tokens || count > pool) return MR_PROMPT_TOO_LONG;
    }
    return MR_OK;
}

static bool may_end_early(const struct sim_world *world, const struct sim_request *request,
                          enum mr_finish finish)
{
    uint32_t most = request->prompt_count + request->max_tokens;
    if (request->score_count > 0) most += 90;
    switch (finish) {
    case MR_FINISH_CANCELLED:
        return request->cancelled;
    case MR_FINISH_DEADLINE:
        return request->deadline_ns != 0 && request->ended_ns >= request->deadline_ns;
    case MR_FINISH_POOL_EXHAUSTED:
        return most > world->options.block_count * MR_BLOCK_TOKENS;
    default:
        return false;
    }
}

static const char *check_choice(const struct sim_world *world, const struct sim_request *request,
                                uint32_t choice, char *text, size_t size)
{
    struct reference expected = run_alone(world, request, choice);
    enum mr_finish finish = request->finish[choice];
    uint32_t count = request->output_count[choice];
    if (finish != expected.finish && !may_end_early(world, request, finish))
        return report(text, size, "%s/%u ended with %s, alone with %s", request->id, choice,
                      mr_finish_text(finish), mr_finish_text(expected.finish));
    if (finish == expected.finish &&
        (count != expected.count || request->completion_tokens[choice] != expected.generated))
        return report(text, size, "%s/%u has %u tokens, alone %u", request->id, choice, count,
                      expected.count);
    if (count > expected.count ||
        memcmp(request->output[choice], expected.tokens, count * sizeof(uint32_t)) != 0)
        return report(text, size, "%s/%u has other tokens than alone", request->id, choice);
    if (!request->stream)
        return request->streamed_count[choice] == 0
                   ? NULL
                   : report(text, size, "%s/%u was streamed without stream", request->id, choice);
    if (request->streamed_count[choice] != count ||
        memcmp(request->streamed[choice], request->output[choice], count * sizeof(uint32_t)) != 0)
        return report(text, size, "%s/%u streamed other tokens than its result", request->id,
                      choice);
    return NULL;
}

/* The number of leading tokens that the prompt shares with prompt and output of the other request.
 */
static uint32_t common(const struct sim_request *request, const struct sim_request *other)
{
    uint32_t longest = 0;
    for (uint32_t choice = 0; choice < other->choice_count; choice++) {
        uint32_t count = 0;
        while (count < request->prompt_count) {
            bool inside = count < other->prompt_count;
            uint32_t beyond = inside ? 0 : count - other->prompt_count;
            if (!inside && beyond >= other->output_count[choice]) break;
            uint32_t token = inside ? other->prompt[count] : other->output[choice][beyond];
            if (token != request->prompt[count]) break;
            count++;
        }
        longest = count > longest ? count : longest;
    }
    return longest;
}

/* Cached tokens must come from another request of the same tenant with cache_write. */
static const char *check_cached(const struct sim_world *world, const struct sim_request *request,
                                char *text, size_t size)
{
    uint32_t possible = 0;
    for (uint32_t i = 0; i < world->request_count; i++) {
        const struct sim_request *other = &world->requests[i];
        if (other == request || !other->accepted || !other->cache_write ||
            strcmp(other->tenant, request->tenant) != 0)
            continue;
        uint32_t shared = common(request, other);
        possible = shared > possible ? shared : possible;
    }
    if (!world->options.prefix_cache || !request->cache_read) possible = 0;
    if (request->cached_tokens <= possible) return NULL;
    return report(text, size, "%s had %u cached tokens, its tenant had computed only %u of them",
                  request->id, request->cached_tokens, possible);
}

/* A request that ended before its prompt was computed has none. */
static const char *check_scores(const struct sim_world *world, const struct sim_request *request,
                                char *text, size_t size)
{
    if (request->prompt_logprob_count != (request->scores ? request->prompt_count : 0))
        return request->completion_tokens[0] == 0 && request->prompt_logprob_count == 0
                   ? NULL
                   : report(text, size, "%s has %zu log-probabilities of its prompt", request->id,
                            request->prompt_logprob_count);
    for (uint32_t i = 1; i < request->prompt_logprob_count; i++) {
        float right = mr_fake_logprob(world->fake, request->prompt, i, request->prompt[i]);
        if (request->prompt_logprobs[i] < right || request->prompt_logprobs[i] > right)
            return report(text, size, "%s has %g for token %u, alone %g", request->id,
                          (double)request->prompt_logprobs[i], i, (double)right);
    }
    return NULL;
}

static const char *check_embedding(const struct sim_request *request, char *text, size_t size)
{
    double sums[MR_FAKE_HIDDEN] = {0};
    if (request->embedding_size != MR_FAKE_HIDDEN)
        return report(text, size, "%s has no vector", request->id);
    for (uint32_t i = request->means ? 1 : request->prompt_count; i <= request->prompt_count; i++)
        mr_fake_add_hidden(request->prompt, i, sums);
    for (uint32_t i = 0; i < MR_FAKE_HIDDEN; i++) {
        double right = sums[i] / (request->means ? request->prompt_count : 1);
        double difference = (double)request->embedding[i] - right;
        if (difference < -1e-4 || difference > 1e-4)
            return report(text, size, "%s has %g for number %u, alone %g", request->id,
                          (double)request->embedding[i], i, right);
    }
    return NULL;
}

/* Checks a request with continuations or for a vector. Such a request generates no tokens. */
static const char *check_silent(const struct sim_world *world, const struct sim_request *request,
                                char *text, size_t size)
{
    uint32_t tokens[2 * SIM_PROMPT_MAX], count;
    const enum mr_finish finish = request->finish[0];
    if (request->completion_tokens[0] > 0 || request->streamed_count[0] > 0)
        return report(text, size, "%s has generated tokens", request->id);
    if (finish != MR_FINISH_LENGTH)
        return may_end_early(world, request, finish)
                   ? NULL
                   : report(text, size, "%s ended with %s", request->id, mr_finish_text(finish));
    if (request->embeds) return check_embedding(request, text, size);
    if (request->scored_count != request->score_count)
        return report(text, size, "%s has %zu scores", request->id, request->scored_count);
    memcpy(tokens, request->prompt, request->prompt_count * sizeof *tokens);
    for (uint32_t i = 0; i < request->score_count; i++) {
        const uint32_t *ids = sim_continuation(request, i, &count);
        double right = 0;
        memcpy(tokens + request->prompt_count, ids, count * sizeof *ids);
        for (uint32_t k = request->prompt_count; k < request->prompt_count + count; k++)
            right += (double)mr_fake_logprob(world->fake, tokens, k, tokens[k]);
        if (request->score_sums[i] < right || request->score_sums[i] > right)
            return report(text, size, "%s has %g for continuation %u, alone %g", request->id,
                          request->score_sums[i], i, right);
    }
    return NULL;
}

static const char *check_request(const struct sim_world *world, const struct sim_request *request,
                                 char *text, size_t size)
{
    enum mr_status right = expected_status(world, request);
    bool full = right == MR_OK && request->refusal == MR_FULL;
    if (request->refusal != right && !full)
        return report(text, size, "%s got status %s, expected %s", request->id,
                      mr_status_name(request->refusal), mr_status_name(right));
    if (request->result_count != request->accepted)
        return report(text, size, "%s has %u results", request->id, request->result_count);
    if (!request->accepted) return NULL;
    if (request->gaps_in_index > 0)
        return report(text, size, "%s has a gap in its token records", request->id);
    if (request->queue_ms < 0 || request->total_ms < request->queue_ms)
        return report(text, size, "%s has impossible timings", request->id);
    for (uint32_t choice = 0; request->max_tokens > 0 && choice < request->choice_count; choice++) {
        const char *wrong = check_choice(world, request, choice, text, size);
        if (wrong != NULL) return wrong;
    }
    const char *wrong = request->max_tokens == 0 ? check_silent(world, request, text, size)
                                                 : check_scores(world, request, text, size);
    return wrong != NULL ? wrong : check_cached(world, request, text, size);
}

const char *sim_check(const struct sim_world *world, char *text, size_t size)
{
    if (world->stuck)
        return report(text, size, "not idle after %llu steps",
                      (unsigned long long)world->step_count);
    if (world->fake->wrong_reads > 0 || world->fake->double_writes > 0)
        return report(text, size, "%llu wrong reads and %llu double writes in the KV blocks",
                      (unsigned long long)world->fake->wrong_reads,
                      (unsigned long long)world->fake->double_writes);
    struct mr_engine_stats stats = mr_engine_stats(world->engine);
    if (stats.cache.held_count != 0 ||
        stats.cache.free_count + stats.cache.cached_count != stats.cache.block_count)
        return report(text, size, "%u blocks are held when idle", stats.cache.held_count);
    for (uint32_t i = 0; i < world->request_count; i++) {
        const char *wrong = check_request(world, &world->requests[i], text, size);
        if (wrong != NULL) return wrong;
    }
    return NULL;
}
