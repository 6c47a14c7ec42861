/* Measures the cost of a step outside the model: 32 sequences decode over a fake whose forward does
 * nothing. Prints microseconds per step, for decode alone and with waiting requests that do not
 * fit. */
#include "batching/engine/engine.h"
#include "codec/check.h"
#include "tests/fakes/fake_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SEQUENCES 32u
#define STEPS     2000u

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    (void)err;
    *(uint64_t *)context += step->batch->row_count;
    for (uint32_t i = 0; i < step->sample_count; i++)
        step->samples[i] =
            (struct mr_sample){.token_id = 40 + step->rows[i].position % 60, .probability = 1.0f};
    return MR_OK;
}

static enum mr_status collect(void *context, struct mr_error *err)
{
    (void)context;
    (void)err;
    return MR_OK;
}

static void kv_copy(void *context, struct mr_kv_place from, struct mr_kv_place to,
                    uint32_t token_count)
{
    (void)context;
    (void)from;
    (void)to;
    (void)token_count;
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    (void)context;
    (void)ticket;
    (void)result;
    mr_request_destroy(request);
}

static void submit(struct mr_engine *engine, uint32_t index, uint32_t prompt, uint32_t output)
{
    char id[16];
    uint32_t tokens[2048];
    struct mr_error err = {0};
    for (uint32_t i = 0; i < prompt; i++)
        tokens[i] = 1 + (index * 31 + i * 7) % 200;
    snprintf(id, sizeof id, "%u", index);
    struct mr_request *request = mr_fake_request(id, tokens, prompt);
    request->max_tokens = output;
    request->ignore_eos = true;
    struct mr_submission submission = {.request = request, .tenant = "", .arrival_ns = 1};
    MR_ASSERT(mr_engine_submit(engine, &submission, &err) == MR_OK);
}

static double measure(struct mr_engine *engine, uint32_t steps)
{
    uint64_t begin_ns = now_ns(), wake_ns;
    struct mr_error err = {0};
    for (uint32_t i = 0; i < steps; i++)
        MR_ASSERT(mr_engine_step(engine, now_ns(), &wake_ns, &err) == MR_OK);
    return (double)(now_ns() - begin_ns) / 1e3 / steps;
}

int main(void)
{
    static const uint32_t end_ids[] = {MR_FAKE_END};
    uint64_t rows = 0;
    struct mr_error err = {0};
    struct mr_tokenizer *tokenizer = mr_fake_tokenizer();
    struct mr_engine_options options = {
        .model = {.context = &rows,
                  .vocab_size = MR_FAKE_VOCABULARY,
                  .launch = launch,
                  .collect = collect,
                  .kv_copy = kv_copy},
        .tokenizer = tokenizer,
        .block_count = 360,
        .context_tokens = 8192,
        .sequences_max = 2 * SEQUENCES,
        .rows_max = 4096,
        .chunk_tokens = 4096,
        .prefills_max = 8,
        .step_target_ms = 60,
        .prefill_batch_max = 64,
        .prefill_bytes_max = UINT64_MAX,
        .prefix_cache = true,
        .queue_count_max = 1024,
        .queue_bytes_max = UINT64_MAX,
        .ageing_ns = 10000000000u,
        .eos_ids = end_ids,
        .eos_count = 1,
    };
    struct mr_sink sink = {.result = on_result};
    struct mr_engine *engine = NULL;
    MR_ASSERT(mr_engine_create(&engine, &options, &sink, &err) == MR_OK);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        submit(engine, i, 100, 2600);
    measure(engine, 64);
    printf("%u sequences decoding: %.1f us a step\n", mr_engine_stats(engine).running,
           measure(engine, STEPS));
    for (uint32_t i = 0; i < 500; i++)
        submit(engine, 100 + i, 2000, 6000);
    measure(engine, 8);
    printf("%u sequences, %u waiting that do not fit: %.1f us a step\n",
           mr_engine_stats(engine).running, mr_engine_stats(engine).waiting, measure(engine, 500));
    mr_engine_destroy(engine);
    mr_tokenizer_destroy(tokenizer);
    return 0;
}
