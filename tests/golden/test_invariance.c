/* Checks that an answer does not depend on chunk sizes, other requests in the batch, prefix cache
 * or preemption. On the real model, fp32 must give the same tokens, and bf16 must give
 * bit-identical logits for every sampled history. The same is checked on tiny models with
 * sliding-window layers, which have far fewer slots than their prompts have blocks.
 *     golden_test_invariance torch checks it on LibTorch's operators (ops/torch/torch_backend.h),
 *     whose products differ in the last bits between batches. For every sampled history all logits
 *     must agree within a tolerance, and in fp32 the tokens must be the same too. The device makes
 *     the draws, as on a GPU. In fp32 every variant of the tiny models runs with one and with two
 *     steps in flight (batching/base/model_port.h); in other formats the variants alternate. The
 *     torch backend has no speculation. */
#include "batching/engine/engine.h"
#include "kvcache/kv_window.h"
#include "tests/fakes/draw_kernels.h"
#include "worker/bench/bench_workload.h"
#include "worker/engine/engine_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROMPTS = 3, BACKGROUND = 13, OUTPUT = 10, BACKGROUND_OUTPUT = 30, SEEN_MAX = 1 << 14 };
enum { SAMPLES_MAX = 32 * MR_CHOICES_MAX + 32 };

struct subject {
    const char *path; /* NULL: the real model that docker/deps.sh downloads */
    uint32_t prompt_tokens[PROMPTS], context_tokens;
    uint32_t tight_tokens; /* size of a pool too small for all prompts: forces preemption */
    bool slides;
};
static const struct subject real_model = {NULL, {20, 258, 300}, 700, 768, false};
static const struct subject sliding[] = {
    {"tests/golden/models/mistral_slides", {20, 900, 1100}, 1400, 1536, true},
    {"tests/golden/models/qwen2_slides_above", {20, 900, 1100}, 1400, 1536, true},
};

struct variant {
    const char *name;
    int32_t chunk_tokens;
    bool background, prefix_cache, preempts, speculates;
};

/* Chunk size of the last variant, which runs in a pool that is too small. */
#define TIGHT_CHUNK 512
static const struct variant variants[] = {
    {.name = "whole prompt", .chunk_tokens = 0},
    {.name = "chunks of 7", .chunk_tokens = 7},
    {.name = "chunks of 1", .chunk_tokens = 1},
    {.name = "chunks of 255", .chunk_tokens = 255},
    {.name = "chunks of 256", .chunk_tokens = 256, .background = true},
    {.name = "chunks of 257", .chunk_tokens = 257, .background = true, .prefix_cache = true},
    {.name = "prefix cache", .chunk_tokens = 512, .prefix_cache = true},
    {.name = "speculation", .chunk_tokens = 512, .background = true, .speculates = true},
    {.name = "preemption",
     .chunk_tokens = TIGHT_CHUNK,
     .background = true,
     .prefix_cache = true,
     .preempts = true,
     .speculates = true},
};

/* The logits from which a history was first sampled. */
struct seen {
    uint64_t history, logits; /* hashes; history 0: empty */
    float *row;               /* the logits themselves, if a tolerance is given */
};

static const char *given_backend; /* NULL: the CPU kernels, on which a worker may speculate */

/* The logits from which the rows of a step in flight sample. */
struct sampled {
    const uint32_t *history; /* names the sequence: its memory may be freed */
    uint64_t known;          /* hash of the history without its last token */
    uint32_t history_count, last, logit_row;
};
struct flight {
    struct sampled rows[SAMPLES_MAX];
    struct mr_sample *samples; /* of the engine */
    uint32_t tokens[SAMPLES_MAX], count;
};

struct fixture {
    const struct subject *subject;
    struct mr_model *model;
    struct mr_model_port port;
    uint32_t vocab;
    float *logits;
    uint32_t tokens[PROMPTS][OUTPUT], counts[PROMPTS], running;
    struct flight flights[MR_STEPS_AHEAD_MAX + 1];
    uint32_t launched, collected;
    bool compares_logits;
    float tolerance;            /* 0: the same bits */
    struct seen seen[SEEN_MAX]; /* hash table with open addressing */
    uint32_t compared, different;
    float worst; /* largest difference of two logits after the same history */
};

static uint64_t hash_on(uint64_t value, const void *bytes, size_t length)
{
    const unsigned char *at = bytes; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        value = (value ^ at[i]) * 0x100000001b3u;
    return value ? value : 1;
}

static uint64_t hash(const void *bytes, size_t length)
{
    return hash_on(0xcbf29ce484222325u, bytes, length);
}

static struct seen *seen_of(struct fixture *fixture, uint64_t history)
{
    size_t slot = history % SEEN_MAX;
    while (fixture->seen[slot].history && fixture->seen[slot].history != history)
        slot = (slot + 1) % SEEN_MAX;
    return &fixture->seen[slot];
}

/* Returns whether two rows of logits agree within the tolerance. If they agree, their best token is
 * the same, unless the second best is nearer than twice the tolerance. */
static bool agree(struct fixture *fixture, const float *a, const float *b)
{
    float worst = 0;
    for (uint32_t i = 0; i < fixture->vocab; i++) {
        float difference = fabsf(a[i] - b[i]);
        worst = difference <= worst ? worst : difference; /* NaN stays */
        if (isnan(worst)) return false;
    }
    fixture->worst = fmaxf(fixture->worst, worst);
    return worst <= fixture->tolerance;
}

static void remember(struct fixture *fixture, uint64_t history, const float *logits)
{
    const size_t size = fixture->vocab * sizeof *logits;
    const uint64_t bits = hash(logits, size);
    struct seen *seen = seen_of(fixture, history);
    if (seen->history) {
        fixture->compared++;
        fixture->different += seen->row ? !agree(fixture, seen->row, logits) : seen->logits != bits;
        return;
    }
    *seen = (struct seen){.history = history, .logits = bits};
    if (fixture->tolerance == 0) return;
    seen->row = malloc(size);
    assert_non_null(seen->row);
    memcpy(seen->row, logits, size);
}

static struct flight *flight_of(struct fixture *fixture, uint32_t step)
{
    return &fixture->flights[step % (MR_STEPS_AHEAD_MAX + 1)];
}

/* Records the sequence for which a row of a launched step samples, or the logits themselves if they
 * are cached. */
static struct sampled sampled_of(struct fixture *fixture, const struct mr_sample_row *row)
{
    const uint32_t before = row->history_count - 1;
    struct sampled sampled = {.history = row->history,
                              .known = hash(row->history, before * sizeof *row->history),
                              .history_count = row->history_count,
                              .last = row->history[before],
                              .logit_row = row->logit_row};
    if (!row->logits) return sampled;
    remember(fixture, hash(row->history, row->history_count * sizeof *row->history), row->logits);
    sampled.logit_row = UINT32_MAX;
    return sampled;
}

static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    struct fixture *fixture = context;
    struct flight *flight = flight_of(fixture, fixture->launched++);
    assert_true(step->sample_count <= SAMPLES_MAX);
    flight->samples = step->samples;
    flight->count = step->sample_count;
    for (uint32_t i = 0; fixture->compares_logits && i < step->sample_count; i++)
        flight->rows[i] = sampled_of(fixture, &step->rows[i]);
    return fixture->port.launch(fixture->port.context, step, err);
}

/* A token that was not known at the launch is the sample of the step before. */
static uint32_t last_token(struct fixture *fixture, const struct sampled *row)
{
    const struct flight *before = flight_of(fixture, fixture->collected - 1);
    if (row->last != UINT32_MAX) return row->last;
    for (uint32_t i = 0; i < before->count; i++)
        if (before->rows[i].history == row->history &&
            before->rows[i].history_count + 1 == row->history_count)
            return before->tokens[i];
    fail_msg("no step has sampled the token before");
    return 0;
}

static enum mr_status compare_logits(struct fixture *fixture, const struct sampled *row,
                                     struct mr_error *err)
{
    if (row->logit_row == UINT32_MAX) return MR_OK;
    const uint32_t last = last_token(fixture, row);
    const enum mr_status status =
        mr_model_logits(fixture->model, row->logit_row, fixture->logits, err);
    if (status == MR_OK)
        remember(fixture, hash_on(row->known, &last, sizeof last), fixture->logits);
    return status;
}

static enum mr_status collect(void *context, struct mr_error *err)
{
    struct fixture *fixture = context;
    struct flight *flight = flight_of(fixture, fixture->collected);
    enum mr_status status = fixture->port.collect(fixture->port.context, err);
    for (uint32_t i = 0; status == MR_OK && i < flight->count; i++)
        flight->tokens[i] = flight->samples[i].token_id;
    for (uint32_t i = 0; fixture->compares_logits && status == MR_OK && i < flight->count; i++)
        status = compare_logits(fixture, &flight->rows[i], err);
    fixture->collected++;
    return status;
}

static enum mr_status logits(void *context, uint32_t row, float *out, struct mr_error *err)
{
    struct fixture *fixture = context;
    return fixture->port.logits(fixture->port.context, row, out, err);
}

static void kv_copy(void *context, struct mr_kv_place from, struct mr_kv_place to,
                    uint32_t token_count)
{
    struct fixture *fixture = context;
    fixture->port.kv_copy(fixture->port.context, from, to, token_count);
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct fixture *fixture = context;
    fixture->running--;
    if (ticket < PROMPTS) {
        assert_int_equal(result->choices[0].finish, MR_FINISH_LENGTH);
        assert_int_equal(result->choices[0].token_count, OUTPUT);
        memcpy(fixture->tokens[ticket], result->choices[0].token_ids,
               sizeof fixture->tokens[ticket]);
        fixture->counts[ticket]++;
    }
    mr_request_destroy(request);
}

static void submit(struct fixture *fixture, struct mr_engine *engine, uint32_t ticket,
                   uint32_t length, uint32_t output)
{
    uint32_t *ids;
    struct mr_request *request = mr_bench_workload_request("r", ticket, length, output, &ids);
    assert_non_null(request);
    request->speculate = true;
    if (ticket == 0) {
        request->sampling.temperature = 0.8f;
        request->sampling.top_p = 0.9f;
        request->sampling.seed = 7;
        request->sampling.has_seed = true;
    }
    /* prompts 1 and 2 share their first 201 tokens, so that the prefix cache is used */
    uint32_t seed = ticket == 2 ? 1 : ticket;
    for (uint32_t i = 0; i < length; i++) {
        seed = seed * 1664525u + 1013904223u + ((ticket == 2 && i > 200) ? 7u : 0u);
        ids[i] = 100 + (seed >> 8) % (fixture->vocab - 200);
    }
    struct mr_submission submission = {.request = request, .ticket = ticket, .tenant = "default"};
    assert_int_equal(mr_engine_submit(engine, &submission, NULL), MR_OK);
    fixture->running++;
}

/* Slots that one long sequence needs: for a window and a step, and the source of a copy. */
static uint32_t tight_slots(const struct mr_model_info *info)
{
    if (info->window_slots == 0) return 0;
    return mr_kv_window_blocks(info->window_tokens, TIGHT_CHUNK) + 1;
}

static void run(struct fixture *fixture, const struct variant *variant, uint32_t steps_ahead,
                struct mr_engine_stats *stats)
{
    const struct mr_model_info *info = mr_model_info(fixture->model);
    const struct subject *subject = fixture->subject;
    struct mr_engine_options options = {
        .model = {.context = fixture,
                  .vocab_size = fixture->vocab,
                  .steps_ahead = steps_ahead,
                  .launch = launch,
                  .collect = collect,
                  .logits = logits,
                  .kv_copy = kv_copy},
        .tokenizer = mr_model_tokenizer(fixture->model),
        .block_count =
            variant->preempts ? subject->tight_tokens / MR_BLOCK_TOKENS : info->block_count,
        .window_slots = variant->preempts ? tight_slots(info) : info->window_slots,
        .window_tokens = info->window_tokens,
        .context_tokens = subject->context_tokens,
        .sequences_max = 32,
        .rows_max = 1024,
        .draft_rows_max = variant->speculates && !given_backend ? 32 : 0,
        .chunk_tokens = variant->chunk_tokens,
        .prefills_max = 2,
        .prefill_batch_max = 8,
        .prefill_bytes_max = (uint64_t)1 << 32,
        .prefix_cache = variant->prefix_cache,
        .queue_count_max = 64,
        .queue_bytes_max = (uint64_t)1 << 28,
        .force_preempt_every = variant->preempts ? 3 : 0,
        .defaults.temperature = 0,
        .defaults.top_p = 1,
    };
    struct mr_sink sink = {.context = fixture, .result = on_result};
    struct mr_engine *engine;
    struct mr_error err;
    uint64_t wake_ns;
    assert_int_equal(mr_engine_create(&engine, &options, &sink, &err), MR_OK);
    memset(fixture->counts, 0, sizeof fixture->counts);
    for (uint32_t i = 0; i < PROMPTS; i++)
        submit(fixture, engine, i, subject->prompt_tokens[i], OUTPUT);
    for (uint32_t i = 0; variant->background && i < BACKGROUND; i++) {
        submit(fixture, engine, PROMPTS + i, 5 + i * 3, BACKGROUND_OUTPUT);
    }
    for (uint64_t now_ns = 1; fixture->running; now_ns += 10000000) {
        if (mr_engine_step(engine, now_ns, &wake_ns, &err) != MR_OK) fail_msg("%s", err.detail);
        assert_true(now_ns < (uint64_t)10000000 * 100000);
    }
    for (uint32_t i = 0; i < PROMPTS; i++)
        assert_int_equal(fixture->counts[i], 1);
    *stats = mr_engine_stats(engine);
    mr_engine_check(engine);
    mr_engine_destroy(engine);
}

static enum mr_status open_on_cpu(struct fixture *fixture, const char *path, const char *dtype,
                                  enum mr_kv_dtype kv_dtype, struct mr_error *err)
{
    const struct mr_config config = {.model = path,
                                     .device = "cpu",
                                     .dtype = dtype,
                                     .kv_dtype = kv_dtype,
                                     .step_tokens = 1024,
                                     .kv_memory_bytes = (uint64_t)1 << 29,
                                     .max_sequences = 32,
                                     .chunk_tokens = 512};
    return mr_engine_setup_model(&config, NULL, NULL, &fixture->model, err);
}

/* On one thread, with a device that draws. */
static enum mr_status open_on_torch(struct fixture *fixture, const char *path, const char *dtype,
                                    struct mr_error *err)
{
    const struct mr_model_options options = {.path = path,
                                             .device = "cpu",
                                             .backend = given_backend,
                                             .cuda_kernels = &draw_kernels,
                                             .dtype = strcmp(dtype, "fp32") == 0   ? MR_DTYPE_F32
                                                      : strcmp(dtype, "bf16") == 0 ? MR_DTYPE_BF16
                                                                                   : MR_DTYPE_F16,
                                             .thread_count = 1,
                                             .kv_bytes = (uint64_t)1 << 29,
                                             .rows_max = 1024,
                                             .sequences_max = 32};
    return mr_model_open(&fixture->model, &options, err);
}

static void open_model(struct fixture *fixture, const char *dtype, enum mr_kv_dtype kv_dtype)
{
    const char *deps = getenv("MILLRACE_DEPS");
    char real[4096];
    snprintf(real, sizeof real, "%s/model/SmolLM2-135M-Instruct.Q4_1.gguf", deps ? deps : ".deps");
    const char *path = fixture->subject->path ? fixture->subject->path : real;
    struct mr_error err;
    const enum mr_status status = given_backend ? open_on_torch(fixture, path, dtype, &err)
                                                : open_on_cpu(fixture, path, dtype, kv_dtype, &err);
    if (status != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_model_info(fixture->model)->window_slots > 0, fixture->subject->slides);
    fixture->port = mr_model_port_of(fixture->model, NULL);
    fixture->vocab = mr_model_info(fixture->model)->vocab_size;
    fixture->logits = malloc(fixture->vocab * sizeof *fixture->logits);
    assert_non_null(fixture->logits);
}

static void destroy_fixture(struct fixture *fixture)
{
    for (size_t i = 0; i < SEEN_MAX; i++)
        free(fixture->seen[i].row);
    free(fixture->logits);
    mr_model_close(fixture->model);
    free(fixture);
}

/* The checks of a subject: its tokens, and its logits bit by bit, within a tolerance or not at
 * all. */
struct demand {
    const char *dtype;
    enum mr_kv_dtype kv_dtype;
    bool logits, tokens;
    float tolerance;
    bool skips_single_rows; /* leaves out the variant with chunks of 1 token */
};

static void run_variants(const struct subject *subject, const struct demand *demand)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    struct mr_engine_stats stats;
    fixture->subject = subject;
    fixture->compares_logits = demand->logits;
    fixture->tolerance = demand->tolerance;
    open_model(fixture, demand->dtype, demand->kv_dtype);
    const size_t runs_each = given_backend && demand->tokens && subject->path ? 2 : 1;
    uint32_t expected[PROMPTS][OUTPUT];
    assert_int_equal(fixture->port.steps_ahead, given_backend ? 2 : 0);
    for (size_t number = 0; number < runs_each * sizeof variants / sizeof *variants; number++) {
        const size_t i = number / runs_each;
        const uint32_t ahead = given_backend ? 2 - (uint32_t)(number % 2) : 0;
        if (demand->skips_single_rows && variants[i].chunk_tokens == 1) continue;
        const bool speculates = variants[i].speculates && !given_backend;
        if (variants[i].speculates && !speculates && !variants[i].preempts) continue;
        run(fixture, &variants[i], ahead, &stats);
        print_message("%s, %s, %u steps ahead: %u histories compared, %u different, largest "
                      "difference %g, %llu preemptions, %llu of %llu drafts right\n",
                      demand->dtype, variants[i].name, ahead, fixture->compared, fixture->different,
                      (double)fixture->worst, (unsigned long long)stats.preemptions,
                      (unsigned long long)stats.accepted_draft_tokens,
                      (unsigned long long)stats.draft_tokens);
        if (number == 0) memcpy(expected, fixture->tokens, sizeof expected);
        if (demand->tokens) assert_memory_equal(fixture->tokens, expected, sizeof expected);
        assert_int_equal(fixture->different, 0);
        assert_true(!variants[i].preempts || stats.preemptions > 0);
        assert_true(!speculates || stats.accepted_draft_tokens > 0);
    }
    assert_true(!demand->logits || fixture->compared > 100);
    destroy_fixture(fixture);
}

/* Chunks of one token would take a third of a minute; they are tested in bf16 and on the tiny
 * models. */
static void fp32_gives_the_same_tokens(void **state)
{
    (void)state;
    run_variants(&real_model,
                 &(struct demand){.dtype = "fp32", .tokens = true, .skips_single_rows = true});
}

static void bf16_gives_the_same_bits(void **state)
{
    (void)state;
    run_variants(&real_model, &(struct demand){.dtype = "bf16", .logits = true, .tokens = true});
}

static void kv_in_int8_gives_the_same_bits(void **state)
{
    static const char *const dtypes[] = {"fp32", "bf16"};
    (void)state;
    for (size_t i = 0; i < sizeof sliding / sizeof *sliding; i++)
        for (size_t j = 0; j < sizeof dtypes / sizeof *dtypes; j++)
            run_variants(&sliding[i], &(struct demand){.dtype = dtypes[j],
                                                       .kv_dtype = MR_KV_DTYPE_INT8,
                                                       .logits = true,
                                                       .tokens = true});
}

/* Q4_1, the format of the file. */
static void stored_integers_give_the_same_bits(void **state)
{
    (void)state;
    run_variants(&real_model, &(struct demand){.dtype = "auto", .logits = true, .tokens = true});
}

static void sliding_window_layers_give_the_same(void **state)
{
    static const char *const dtypes[] = {"fp32", "bf16", "int8", "int4"};
    (void)state;
    for (size_t i = 0; i < sizeof sliding / sizeof *sliding; i++)
        for (size_t j = 0; j < sizeof dtypes / sizeof *dtypes; j++)
            run_variants(&sliding[i],
                         &(struct demand){.dtype = dtypes[j], .logits = true, .tokens = true});
}

/* ---- on LibTorch's operators ---- */

/* The logits of the real model are up to 36, those of the tiny ones up to 3; ops/README.md has the
 * real model's distance from float64. One row at a time would take 30 s. */
static void torch_fp32_gives_the_same_tokens(void **state)
{
    (void)state;
    run_variants(&real_model, &(struct demand){.dtype = "fp32",
                                               .logits = true,
                                               .tokens = true,
                                               .tolerance = 5e-4f,
                                               .skips_single_rows = true});
}

/* Each layer rounds the results of its products to bf16 or fp16, and so do the logits: a number on
 * the other side of a rounding edge changes all that follows. */
static void torch_sliding_window_layers_give_the_same(void **state)
{
    static const struct demand demands[] = {
        {.dtype = "fp32", .logits = true, .tokens = true, .tolerance = 1e-4f},
        {.dtype = "bf16", .logits = true, .tolerance = 0.2f},
        {.dtype = "fp16", .logits = true, .tolerance = 0.02f},
    };
    (void)state;
    for (size_t i = 0; i < sizeof sliding / sizeof *sliding; i++)
        for (size_t j = 0; j < sizeof demands / sizeof *demands; j++)
            run_variants(&sliding[i], &demands[j]);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_gives_the_same_tokens),
        cmocka_unit_test(bf16_gives_the_same_bits),
        cmocka_unit_test(stored_integers_give_the_same_bits),
        cmocka_unit_test(sliding_window_layers_give_the_same),
        cmocka_unit_test(kv_in_int8_gives_the_same_bits),
    };
    const struct CMUnitTest on_torch[] = {
        cmocka_unit_test(torch_fp32_gives_the_same_tokens),
        cmocka_unit_test(torch_sliding_window_layers_give_the_same),
    };
    if (argument_count == 1) return cmocka_run_group_tests(tests, NULL, NULL);
    given_backend = arguments[1];
    return cmocka_run_group_tests(on_torch, NULL, NULL);
}
