#include "tests/sim/sim_engine.h"

#include "codec/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MILLISECOND 1000000u

uint32_t sim_below(struct sim_random *random, uint32_t bound)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random->state >> 33) % bound;
}

static bool one_in(struct sim_random *random, uint32_t count)
{
    return sim_below(random, count) == 0;
}

/* ---- options ---- */

static const int32_t chunk_sizes[] = {1, 7, 64, 255, 256, 257, 512, 0};

static void make_options(struct sim_world *world)
{
    static const uint32_t end_ids[] = {MR_FAKE_END, 1};
    struct sim_random *random = &world->random;
    uint32_t sequences = 1 + sim_below(random, 8);
    world->options = (struct mr_engine_options){
        .tokenizer = world->tokenizer,
        .block_count = 2 + sim_below(random, one_in(random, 2) ? 6 : 40),
        .context_tokens = 64 + sim_below(random, SIM_PROMPT_MAX + SIM_OUTPUT_MAX - 64),
        .sequences_max = sequences,
        .rows_max = sequences + 1 + sim_below(random, 600),
        .draft_rows_max = one_in(random, 2) ? 1 + sim_below(random, 40) : 0,
        .score_rows_max = 1 + sim_below(random, 100),
        .chunk_tokens = chunk_sizes[sim_below(random, sizeof chunk_sizes / sizeof *chunk_sizes)],
        .prefills_max = 1 + sim_below(random, 3),
        .step_target_ms = one_in(random, 2) ? MR_STEP_TARGET_AUTO : sim_below(random, 60),
        .prefill_batch_max = 1 + sim_below(random, 8),
        .prefill_bytes_max = one_in(random, 2) ? 1000000 : 4000,
        .geometry = {.kv_bytes_per_token = 10, .activation_bytes_per_row = 5},
        .prefix_cache = !one_in(random, 4),
        .prompt_cache_entries = one_in(random, 2) ? 0 : 4,
        .prompt_cache_ttl_ns = (uint64_t)(1 + sim_below(random, 5000)) * MILLISECOND,
        .queue_count_max = one_in(random, 4) ? 4 : 64,
        .queue_bytes_max = (uint64_t)1 << 32,
        .queue_pools_max = one_in(random, 3) ? 1 + sim_below(random, 4) : 0,
        .tenant_count = 1 + sim_below(random, 2),
        .ageing_ns = one_in(random, 3) ? 0 : 100 * MILLISECOND,
        .defaults.temperature = 1.0f,
        .defaults.top_p = 1.0f,
        .eos_ids = end_ids,
        .eos_count = 2,
    };
    if (one_in(random, 3) && (uint32_t)world->options.chunk_tokens - 1 > 62)
        world->options.force_preempt_every = 3 + sim_below(random, 12);
    for (uint32_t i = 0; i < sizeof world->options.fingerprint; i++)
        world->options.fingerprint[i] = (unsigned char)i;
}

static void make_fake(struct sim_world *world)
{
    struct sim_random *random = &world->random;
    struct mr_fake_options options = {
        .block_count = world->options.block_count,
        .vocab_size = 40,
        .sequences_max = world->options.sequences_max + world->options.draft_rows_max +
                         world->options.score_rows_max,
        .step_ms = 1 + sim_below(random, 10),
        .row_ms = 0.1 + 0.01 * sim_below(random, 100),
        .token_ms = 0.01 + 0.01 * sim_below(random, 50),
        .history_ms = 1e-6 * sim_below(random, 200),
        .repeats = world->options.draft_rows_max > 0,
        .steps_ahead = (uint32_t)(world->seed % (MR_STEPS_AHEAD_MAX + 1)),
    };
    world->fake = mr_fake_model_create(&options);
    world->fake->now_ns = MILLISECOND;
    world->options.model = mr_fake_model_port(world->fake);
}

/* ---- requests ---- */

/* A prompt is the beginning of one of three long texts, often followed by random tokens. */
static void make_prompt(struct sim_random *random, struct sim_request *request, uint32_t most)
{
    struct sim_random text = {.state = 1000 + sim_below(random, 3)};
    uint32_t shared = sim_below(random, most), own = one_in(random, 3) ? 0 : sim_below(random, 40);
    if (one_in(random, 3)) shared = most / 2;
    request->prompt_count = 0;
    while (request->prompt_count < shared && request->prompt_count < SIM_PROMPT_MAX)
        request->prompt[request->prompt_count++] = 2 + sim_below(&text, 38);
    while (own-- > 0 && request->prompt_count < SIM_PROMPT_MAX)
        request->prompt[request->prompt_count++] = 2 + sim_below(random, 38);
}

static void choose_fields(struct sim_random *random, struct sim_request *request)
{
    static const char *const tenants[] = {"one", "two"};
    request->tenant = tenants[sim_below(random, 2)];
    request->max_tokens = 1 + sim_below(random, one_in(random, 2) ? 8 : SIM_OUTPUT_MAX);
    request->min_tokens = one_in(random, 4) ? sim_below(random, 8) : 0;
    request->choice_count = one_in(random, 4) ? 1 + sim_below(random, MR_CHOICES_MAX) : 1;
    request->stop_count = one_in(random, 3) ? 1 + sim_below(random, 2) : 0;
    for (uint32_t i = 0; i < request->stop_count; i++)
        request->stop_ids[i] = 2 + sim_below(random, 38);
    request->temperature = one_in(random, 2) ? 0.0f : 0.8f;
    request->seed = sim_below(random, 1000);
    request->ignore_eos = one_in(random, 4);
    request->cache_read = !one_in(random, 8);
    request->cache_write = !one_in(random, 8);
    request->stream = !one_in(random, 6);
    request->scores = one_in(random, 4);
    if (one_in(random, 6)) {
        request->embeds = one_in(random, 2);
        request->means = one_in(random, 2);
        if (!request->embeds) request->score_count = 1 + sim_below(random, SIM_SCORES_MAX);
        request->scores = false;
        request->choice_count = 1;
        request->max_tokens = request->min_tokens = 0;
    }
    request->priority = (int32_t)sim_below(random, 4) * 10 - 10;
}

static void make_request(struct sim_world *world, uint32_t index, uint64_t *clock_ns)
{
    struct sim_random *random = &world->random;
    struct sim_request *request = &world->requests[index];
    snprintf(request->id, sizeof request->id, "r%u", index);
    uint32_t most = one_in(random, 6) ? SIM_PROMPT_MAX : world->options.context_tokens * 3 / 4;
    if (index > 0 && one_in(random, 4)) {
        const struct sim_request *same = &world->requests[sim_below(random, index)];
        memcpy(request->prompt, same->prompt, sizeof request->prompt);
        request->prompt_count = same->prompt_count;
    } else {
        make_prompt(random, request, most < SIM_PROMPT_MAX ? most : SIM_PROMPT_MAX);
    }
    if (one_in(random, 30) && request->prompt_count > 0)
        request->prompt[sim_below(random, request->prompt_count)] = 40; /* not in the vocabulary */
    choose_fields(random, request);
    *clock_ns += one_in(random, 2) ? 0 : sim_below(random, 120) * (uint64_t)MILLISECOND;
    request->arrival_ns = *clock_ns;
    if (one_in(random, 8))
        request->deadline_ns = *clock_ns + (1 + sim_below(random, 600)) * (uint64_t)MILLISECOND;
    if (one_in(random, 8))
        request->cancel_ns = *clock_ns + sim_below(random, 600) * (uint64_t)MILLISECOND;
}

const uint32_t *sim_continuation(const struct sim_request *request, uint32_t index, uint32_t *count)
{
    const uint32_t all = request->prompt_count, from = index * 37 % all;
    *count = 1 + (index * 53 + all) % 90;
    if (*count > all - from) *count = all - from;
    return request->prompt + from;
}

static struct mr_request *to_record(const struct sim_request *from)
{
    struct mr_request *record = mr_fake_request(from->id, from->prompt, from->prompt_count);
    record->max_tokens = from->max_tokens;
    record->min_tokens = from->min_tokens;
    record->choice_count = from->choice_count;
    record->stop_token_ids = mr_fake_ids(record, from->stop_ids, from->stop_count);
    record->stop_token_count = from->stop_count;
    record->ignore_eos = from->ignore_eos;
    record->cache_read = from->cache_read;
    record->cache_write = from->cache_write;
    record->stream = from->stream;
    record->scores_prompt = from->scores;
    if (from->embeds) record->task = MR_TASK_EMBED;
    record->pooling.mean = from->means;
    if (from->score_count > 0 && from->prompt_count > 0) {
        record->task = MR_TASK_SCORE;
        record->continuation_count = from->score_count;
        record->continuations =
            mr_arena_take_array(record->arena, from->score_count, sizeof *record->continuations);
        for (uint32_t i = 0; i < from->score_count; i++) {
            uint32_t count;
            const uint32_t *ids = sim_continuation(from, i, &count);
            record->continuations[i].token_ids = mr_fake_ids(record, ids, count);
            record->continuations[i].token_count = count;
        }
    }
    record->priority = from->priority;
    record->sampling.temperature = from->temperature;
    record->sampling.seed = from->seed;
    record->sampling.has_seed = true;
    return record;
}

/* ---- sink ---- */

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    (void)request;
    struct sim_world *world = context;
    struct sim_request *seen = &world->requests[ticket];
    uint32_t *count = &seen->streamed_count[record->choice];
    seen->gaps_in_index += record->index != *count;
    seen->gaps_in_index += seen->result_count;
    for (size_t i = 0; i < record->token_count && *count < SIM_OUTPUT_MAX; i++)
        seen->streamed[record->choice][(*count)++] = record->token_ids[i];
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct sim_world *world = context;
    struct sim_request *seen = &world->requests[ticket];
    seen->result_count++;
    seen->ended_ns = world->fake->now_ns;
    seen->cached_tokens = result->cached_tokens;
    seen->preemptions = result->preemptions;
    seen->queue_ms = result->queue_ms;
    seen->total_ms = result->total_ms;
    seen->itl_max_ms = result->itl_max_ms;
    for (uint32_t i = 0; i < result->choice_count; i++) {
        const struct mr_choice *choice = &result->choices[i];
        MR_ASSERT(choice->token_count <= SIM_OUTPUT_MAX);
        seen->finish[i] = choice->finish;
        seen->completion_tokens[i] = choice->completion_tokens;
        seen->output_count[i] = (uint32_t)choice->token_count;
        for (size_t j = 0; j < choice->token_count; j++)
            seen->output[i][j] = choice->token_ids[j];
    }
    seen->embedding_size = result->embedding_size;
    for (size_t i = 0; i < result->embedding_size; i++)
        seen->embedding[i] = result->embedding[i];
    seen->scored_count = result->score_count;
    for (size_t i = 0; i < result->score_count; i++)
        for (size_t k = 0; k < result->scores[i].token_count; k++)
            seen->score_sums[i] += (double)result->scores[i].logprobs[k].chosen.logprob;
    seen->prompt_logprob_count = result->prompt_logprob_count;
    for (size_t i = 1; i < result->prompt_logprob_count; i++)
        seen->prompt_logprobs[i] = result->prompt_logprobs[i].chosen.logprob;
    mr_request_destroy(request);
}

/* ---- the run ---- */

struct sim_world *sim_create(uint64_t seed)
{
    struct sim_world *world = calloc(1, sizeof *world);
    MR_ASSERT(world != NULL);
    world->seed = seed;
    world->random.state = seed * 0x9e3779b97f4a7c15u + 1;
    world->steps_max = 400000;
    world->tokenizer = mr_fake_tokenizer();
    make_options(world);
    make_fake(world);
    world->request_count = 8 + sim_below(&world->random, SIM_REQUESTS_MAX - 8);
    world->requests = calloc(world->request_count, sizeof *world->requests);
    MR_ASSERT(world->requests != NULL);
    uint64_t clock_ns = world->fake->now_ns;
    for (uint32_t i = 0; i < world->request_count; i++)
        make_request(world, i, &clock_ns);
    struct mr_sink sink = {.context = world, .delta = on_delta, .result = on_result};
    struct mr_error err = {0};
    MR_ASSERT(mr_engine_create(&world->engine, &world->options, &sink, &err) == MR_OK);
    return world;
}

static uint32_t tenant_of(const struct sim_world *world, const struct sim_request *request)
{
    return world->options.tenant_count > 1 && request->tenant[0] == 't';
}

static void submit_due(struct sim_world *world, uint64_t now_ns)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        struct sim_request *request = &world->requests[i];
        if (request->submitted || request->arrival_ns > now_ns) continue;
        struct mr_submission submission = {.request = to_record(request),
                                           .ticket = i,
                                           .tenant = request->tenant,
                                           .tenant_index = tenant_of(world, request),
                                           .arrival_ns = request->arrival_ns,
                                           .deadline_ns = request->deadline_ns,
                                           .priority = request->priority};
        struct mr_error err = {0};
        request->submitted = true;
        request->refusal = mr_engine_submit(world->engine, &submission, &err);
        request->accepted = request->refusal == MR_OK;
        if (!request->accepted) mr_request_destroy(submission.request);
    }
}

static void cancel_due(struct sim_world *world, uint64_t now_ns)
{
    for (uint32_t i = 0; i < world->request_count; i++) {
        struct sim_request *request = &world->requests[i];
        if (request->cancel_ns == 0 || request->cancel_ns > now_ns || !request->submitted) continue;
        struct mr_text id = {request->id, strlen(request->id)};
        request->cancelled =
            mr_engine_cancel(world->engine, tenant_of(world, request), id) || request->cancelled;
        request->cancel_ns = 0;
    }
}

static uint64_t next_arrival(const struct sim_world *world)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < world->request_count; i++)
        if (!world->requests[i].submitted && world->requests[i].arrival_ns < next_ns)
            next_ns = world->requests[i].arrival_ns;
    return next_ns;
}

void sim_run(struct sim_world *world)
{
    for (; world->step_count < world->steps_max; world->step_count++) {
        uint64_t now_ns = world->fake->now_ns, wake_ns = 0;
        struct mr_error err = {0};
        submit_due(world, now_ns);
        cancel_due(world, now_ns);
        MR_ASSERT(mr_engine_step(world->engine, now_ns, &wake_ns, &err) == MR_OK);
        mr_engine_check(world->engine);
        if (world->fake->now_ns == now_ns) world->fake->now_ns += MILLISECOND / 100;
        if (wake_ns != UINT64_MAX) continue;
        uint64_t next_ns = next_arrival(world);
        if (next_ns == UINT64_MAX) return;
        if (next_ns > world->fake->now_ns) world->fake->now_ns = next_ns;
    }
    world->stuck = true;
}

void sim_destroy(struct sim_world *world)
{
    mr_engine_destroy(world->engine);
    mr_fake_model_destroy(world->fake);
    mr_tokenizer_destroy(world->tokenizer);
    free(world->requests);
    free(world);
}
