#include "tests/fakes/engine_rig.h"

#include "codec/check.h"
#include "codec/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t end_ids[] = {MR_FAKE_END};

void rig_init(struct engine_rig *rig)
{
    *rig = (struct engine_rig){
        .fake_options = {.vocab_size = 200, .step_ms = 10, .row_ms = 0.5, .token_ms = 0.5},
        .options = {.block_count = RIG_BLOCKS(8192),
                    .context_tokens = 2048,
                    .sequences_max = 8,
                    .rows_max = 1024,
                    .chunk_tokens = 512,
                    .score_rows_max = 64,
                    .prefills_max = 1,
                    .prefill_batch_max = 8,
                    .prefill_bytes_max = (uint64_t)4 << 30,
                    .prefix_cache = true,
                    .remote_staging_bytes = (uint64_t)1 << 20,
                    .prompt_cache_ttl_ns = 300000000000u,
                    .queue_count_max = 64,
                    .queue_bytes_max = (uint64_t)1 << 30,
                    .ageing_ns = 10000000000u,
                    .defaults.temperature = 1.0f,
                    .defaults.top_p = 1.0f,
                    .eos_ids = end_ids,
                    .eos_count = 1},
    };
}

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    (void)request;
    struct engine_rig *rig = context;
    struct rig_choice *choice = &rig->seen[ticket].choices[record->choice];
    if (record->resumed_at >= 0) {
        MR_ASSERT(record->resumed_at == record->index && choice->deltas == 0);
        rig->seen[ticket].resumed++;
        choice->streamed_count = record->index;
    }
    MR_ASSERT(record->index == choice->streamed_count);
    /* this engine did not start a resumed request that ends while it waits */
    MR_ASSERT(rig->seen[ticket].started == 1 || rig->seen[ticket].resumed == 1);
    if (choice->deltas == 0) choice->before_bytes = record->before.length;
    choice->deltas++;
    choice->ended += record->ended;
    choice->text_bytes += record->text.length;
    for (size_t i = 0; i < record->token_count; i++)
        choice->streamed[choice->streamed_count++] = record->token_ids[i];
}

static void on_drawn(void *context, uint64_t ticket, uint32_t index, const struct mr_sample *sample)
{
    struct rig_seen *seen = &((struct engine_rig *)context)->seen[ticket];
    MR_ASSERT(index < RIG_TOKENS_MAX && (seen->drawn_end == 0 || index == seen->drawn_end));
    if (seen->drawn_end == 0) seen->drawn_from = index;
    seen->drawn[index] = *sample;
    seen->drawn_end = index + 1;
}

static bool may_start(void *context, uint64_t ticket)
{
    struct engine_rig *rig = context;
    rig->seen[ticket].asked++;
    if (rig->hold_starts) return false;
    rig->seen[ticket].started++;
    return true;
}

static void on_chunk(void *context, uint64_t ticket, const struct mr_chunk *chunk)
{
    struct rig_seen *seen = &((struct engine_rig *)context)->seen[ticket];
    if (seen->chunk_count < RIG_CHUNKS_MAX) seen->chunks[seen->chunk_count++] = *chunk;
}

static struct rig_score score_of(const struct mr_logprobs *logprobs)
{
    return (struct rig_score){.token_id = logprobs->chosen.token_id,
                              .logprob = logprobs->chosen.logprob,
                              .top_count = logprobs->top_count};
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct engine_rig *rig = context;
    struct rig_seen *seen = &rig->seen[ticket];
    seen->results++;
    seen->order = ++rig->result_count;
    seen->choice_count = (uint32_t)result->choice_count;
    seen->result = *result;
    for (uint32_t i = 0; i < seen->choice_count; i++) {
        struct rig_choice *choice = &seen->choices[i];
        choice->finish = result->choices[i].finish;
        choice->completion_tokens = result->choices[i].completion_tokens;
        choice->token_count = (uint32_t)result->choices[i].token_count;
        MR_ASSERT(choice->token_count <= RIG_TOKENS_MAX);
        memcpy(choice->tokens, result->choices[i].token_ids,
               choice->token_count * sizeof *choice->tokens);
    }
    MR_ASSERT(result->prompt_logprob_count <= RIG_SCORES_MAX);
    for (size_t i = 1; i < result->prompt_logprob_count; i++)
        seen->scores[i] = score_of(&result->prompt_logprobs[i]);
    for (size_t i = 0; i < result->embedding_size; i++)
        seen->embedding[i] = result->embedding[i];
    uint32_t next = 0;
    for (size_t i = 0; i < result->score_count; i++) {
        const struct mr_score *score = &result->scores[i];
        seen->continuation_tokens[i] = score->token_count;
        MR_ASSERT(next + score->token_count <= RIG_SCORES_MAX);
        for (size_t k = 0; k < score->token_count; k++)
            seen->scores[next++] = score_of(&score->logprobs[k]);
    }
    mr_request_destroy(request);
}

void rig_start_with(struct engine_rig *rig, const struct mr_sink *sink)
{
    rig->tokenizer = mr_fake_tokenizer();
    rig->fake_options.block_count = rig->options.block_count;
    rig->fake_options.slot_count = rig->options.window_slots;
    rig->fake_options.window_tokens = rig->options.window_tokens;
    rig->fake_options.state_count = rig->options.state_slots;
    rig->fake_options.sequences_max =
        rig->options.sequences_max + rig->options.draft_rows_max + rig->options.score_rows_max;
    rig->fake = mr_fake_model_create(&rig->fake_options);
    rig->fake->now_ns = 1000000;
    rig->seen = calloc(RIG_TICKETS_MAX, sizeof *rig->seen);
    MR_ASSERT(rig->seen != NULL);
    rig->options.model = mr_fake_model_port(rig->fake);
    if (rig->remote != NULL) rig->options.remote = fake_remote_port(rig->remote);
    rig->options.tokenizer = rig->tokenizer;
    struct mr_error err = {0};
    MR_ASSERT(mr_engine_create(&rig->engine, &rig->options, sink, &err) == MR_OK);
}

void rig_start(struct engine_rig *rig)
{
    struct mr_sink sink = {.context = rig,
                           .drawn = on_drawn,
                           .delta = on_delta,
                           .result = on_result,
                           .chunk = on_chunk,
                           .may_start = may_start};
    rig_start_with(rig, &sink);
}

enum mr_status rig_submit_as(struct engine_rig *rig, struct mr_submission submission)
{
    MR_ASSERT(submission.ticket < RIG_TICKETS_MAX);
    struct mr_error err = {0};
    if (submission.arrival_ns == 0) submission.arrival_ns = rig->fake->now_ns;
    enum mr_status status = mr_engine_submit(rig->engine, &submission, &err);
    MR_ASSERT(status == MR_OK || err.status == status);
    if (status != MR_OK) mr_request_destroy(submission.request);
    return status;
}

enum mr_status rig_submit(struct engine_rig *rig, uint64_t ticket, struct mr_request *request)
{
    return rig_submit_as(rig, (struct mr_submission){.request = request,
                                                     .ticket = ticket,
                                                     .tenant = "default",
                                                     .priority = request->priority});
}

void rig_submit_prompt(struct engine_rig *rig, uint64_t ticket, uint32_t tenant, uint64_t salt,
                       uint32_t prompt, uint32_t output)
{
    char id[24];
    uint32_t *tokens = calloc(prompt, sizeof *tokens);
    MR_ASSERT(tokens);
    rig_tokens(rig, salt, tokens, prompt);
    snprintf(id, sizeof id, "%" PRIu64, ticket);
    struct mr_request *request = mr_fake_request(id, tokens, prompt);
    free(tokens);
    request->ignore_eos = true;
    request->max_tokens = output;
    MR_ASSERT(rig_submit_as(rig, (struct mr_submission){.request = request,
                                                        .ticket = ticket,
                                                        .tenant = "",
                                                        .tenant_index = tenant}) == MR_OK);
}

/* A hash that changes when a step does anything: it computes, copies, loads, starts, preempts or
 * ends a request, calls the remote cache, or gets an answer from it. */
static uint64_t hash_deeds(const struct engine_rig *rig)
{
    const struct mr_engine_stats stats = mr_engine_stats(rig->engine);
    const struct mr_fake_model *fake = rig->fake;
    const struct fake_remote *remote = rig->remote;
    const uint64_t deeds[] = {fake->forward_count,
                              fake->copy_count,
                              fake->import_count,
                              fake->export_count,
                              fake->collected,
                              stats.preemptions,
                              stats.running,
                              stats.generated_tokens,
                              stats.waiting,
                              rig->result_count,
                              stats.remote.waits_ended,
                              remote ? remote->lookups : 0,
                              remote ? remote->loads : 0,
                              remote ? remote->stores : 0,
                              remote ? remote->event_count : 0};
    return mr_hash_bytes(MR_HASH_START, deeds, sizeof deeds);
}

bool rig_step(struct engine_rig *rig)
{
    uint64_t wake_ns = 0, deeds = hash_deeds(rig), now_ns = rig->fake->now_ns;
    struct mr_error err = {0};
    if (rig->remote != NULL) fake_remote_set_clock(rig->remote, &rig->fake->now_ns);
    MR_ASSERT(mr_engine_step(rig->engine, now_ns, &wake_ns, &err) == MR_OK);
    /* A step that did nothing must not be due again at once, or it would repeat for ever. */
    MR_ASSERT(wake_ns > now_ns || hash_deeds(rig) != deeds);
    rig->step_count++;
    if (wake_ns == UINT64_MAX) return false;
    uint64_t next_ns = rig->remote == NULL ? wake_ns : fake_remote_next_ns(rig->remote);
    if (next_ns < wake_ns) wake_ns = next_ns;
    if (wake_ns > rig->fake->now_ns) rig->fake->now_ns = wake_ns;
    return true;
}

void rig_run(struct engine_rig *rig)
{
    bool more = true;
    for (uint32_t steps = 0; more; steps++) {
        MR_ASSERT(steps < 100000);
        more = rig_step(rig);
        mr_engine_check(rig->engine);
    }
    MR_ASSERT(rig->fake->wrong_reads == 0 && rig->fake->double_writes == 0);
}

void rig_end(struct engine_rig *rig)
{
    mr_engine_destroy(rig->engine);
    mr_fake_model_destroy(rig->fake);
    mr_tokenizer_destroy(rig->tokenizer);
    free(rig->seen);
}

void rig_tokens(const struct engine_rig *rig, uint64_t salt, uint32_t *tokens, uint32_t count)
{
    uint64_t state = salt * 0x9e3779b97f4a7c15u + 1;
    for (uint32_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = 2 + (uint32_t)(state >> 33) % (rig->fake_options.vocab_size - 2);
    }
}

void rig_expect(const struct engine_rig *rig, const uint32_t *prompt, uint32_t prompt_count,
                uint32_t *out, uint32_t count)
{
    uint32_t *history = calloc(prompt_count + count, sizeof *history);
    MR_ASSERT(history != NULL);
    memcpy(history, prompt, prompt_count * sizeof *history);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = mr_fake_next(rig->fake, history, prompt_count + i, 0.0f, 0);
        history[prompt_count + i] = out[i];
    }
    free(history);
}

/* ---- the port of intake ---- */

static enum mr_status port_submit(void *self, const struct mr_submission *submission,
                                  struct mr_error *err)
{
    return mr_engine_submit(((struct engine_rig *)self)->engine, submission, err);
}

static bool port_cancel(void *self, uint32_t tenant_index, struct mr_text id)
{
    return mr_engine_cancel(((struct engine_rig *)self)->engine, tenant_index, id);
}

static uint64_t port_room(void *self)
{
    return mr_engine_room(((struct engine_rig *)self)->engine);
}

static void port_set_wanted(void *self, uint64_t tenants)
{
    (void)self, (void)tenants;
}

static void port_wake(void *self)
{
    (void)self;
}

struct mr_engine_port rig_port(struct engine_rig *rig)
{
    return (struct mr_engine_port){rig,       port_submit,     port_cancel,
                                   port_room, port_set_wanted, port_wake};
}
