#include "tests/golden/logits_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *fixture_backend;
const char *fixture_device = "cpu";
const struct mr_cuda_kernels *fixture_kernels;
uint32_t fixture_graph_rows;
float fixture_tolerance = 1e-4f;

const struct golden_model golden_models[] = {
    {.name = "grouped_tied", .int8 = true},
    {.name = "multi_head_untied_biases", .int8 = true},
    {.name = "llama3_rope_sharded", .gguf = true, .int8 = true},
    {.name = "llama_linear", .gguf = true},
    {.name = "llama_dynamic"},
    {.name = "llama_yarn", .gguf = true},
    {.name = "llama_yarn_attention_factor"},
    {.name = "llama_gelu"},
    {.name = "llama_head_dim_24", .gguf = true, .int8 = true},
    {.name = "falcon3", .gguf = true, .int8 = true},
    {.name = "mistral_window"},
    {.name = "mistral_slides", .int8 = true},
    {.name = "mistral_head_dim", .gguf = true},
    {.name = "mistral_small", .gguf = true},
    {.name = "qwen2", .gguf = true},
    {.name = "qwen2_slides_above", .int8 = true},
    {.name = "qwen3_head_norm", .int8 = true},
    {.name = "qwen3_head_dim_20", .gguf = true},
    {.name = "gemma", .gguf = true},
    {.name = "gemma2", .gguf = true},
    {.name = "gemma2_scalar"},
    {.name = "gemma3", .int8 = true},
    {.name = "gemma3_published", .gguf = true},
    {.name = "phi3"},
    {.name = "phi3_longrope_short", .gguf = true, .context_tokens = 256},
    {.name = "phi3_longrope_long", .gguf = true},
    {.name = "phi4_partial_rotary", .gguf = true},
    {.name = "smollm3", .gguf = true},
    {.name = "olmo2", .gguf = true},
    {.name = "olmo3", .gguf = true},
    {.name = "olmo3_published"},
    {.name = "granite", .gguf = true},
    {.name = "stablelm", .gguf = true},
    {.name = "stablelm_parallel", .gguf = true},
    {.name = "gpt_neox", .gguf = true},
    {.name = "lfm2"},
    {.name = "granite_hybrid"},
    {.name = "qwen3_next", .experts = true, .delta_rule = true},
    {.name = "mixtral", .gguf = true, .experts = true},
    {.name = "qwen2_moe", .experts = true},
    {.name = "qwen2_moe_sparse", .gguf = true, .experts = true},
    {.name = "qwen3_moe", .gguf = true, .experts = true},
    {.name = "qwen3_moe_sparse_step", .experts = true},
    {.name = "granite_moe", .gguf = true, .experts = true},
    {.name = "deepseek_v2", .int8 = true, .experts = true},
    {.name = "gpt_oss", .experts = true},
    {.name = "gpt_oss_mxfp4", .gguf = true, .experts = true},
};
const size_t golden_model_count = sizeof(golden_models) / sizeof(golden_models[0]);

void choose_slots(struct fixture *fixture, uint32_t step_rows)
{
    const struct mr_model_info *info = mr_model_info(fixture->model);
    if (info->window_slots == 0) return;
    uint32_t ring = mr_kv_window_blocks(info->window_tokens, step_rows);
    assert_true(ring <= info->window_slots);
    for (uint32_t i = 0; i < BLOCKS; i++)
        fixture->slots[i] = i % ring;
}

/* ---- reading the expected logits ---- */

static uint32_t read_u32(struct fixture *fixture)
{
    uint32_t value;
    memcpy(&value, fixture->next, sizeof(value));
    fixture->next += sizeof(value);
    return value;
}

static const void *take(struct fixture *fixture, size_t count)
{
    const unsigned char *begin = fixture->next;
    fixture->next += count * sizeof(uint32_t);
    assert_true(fixture->next <= fixture->expected.bytes + fixture->expected.size);
    return begin;
}

struct prompt read_prompt(struct fixture *fixture)
{
    struct prompt prompt = {0};
    prompt.token_count = read_u32(fixture);
    prompt.first = read_u32(fixture);
    prompt.continuation_count = read_u32(fixture);
    prompt.tokens = take(fixture, prompt.token_count);
    prompt.continuation = take(fixture, prompt.continuation_count);
    prompt.logits =
        take(fixture, (size_t)(prompt.token_count - prompt.first) * fixture->vocab_size);
    return prompt;
}

bool all_prompts_read(const struct fixture *fixture)
{
    return fixture->next == fixture->expected.bytes + fixture->expected.size;
}

void open_fixture(struct fixture *fixture, const char *model, const char *expected,
                  enum mr_dtype dtype, enum kv_form kv, uint32_t context_tokens)
{
    struct mr_error err = {0};
    struct mr_model_options options = {.path = model,
                                       .device = fixture_device,
                                       .backend = fixture_backend,
                                       .cuda_kernels = fixture_kernels,
                                       .graph_rows_max = fixture_graph_rows,
                                       .thread_count = fixture_backend ? 1 : 0,
                                       .dtype = dtype,
                                       .context_tokens = context_tokens,
                                       .rows_max = STEP_ROWS,
                                       .sequences_max = STEP_SEQUENCES,
                                       .kv_int8 = kv == KV_INT8,
                                       .export_int8 = kv == KV_EXPORTED_INT8};
    options.kv_bytes = 1;
    *fixture = (struct fixture){0};
    for (uint32_t i = 0; i < BLOCKS; i++)
        fixture->blocks[i] = (5 * i + 5) % BLOCKS; /* each block once, not in order */
    if (mr_model_open(&fixture->model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    const struct mr_model_info *info = mr_model_info(fixture->model);
    const uint64_t kv_bytes = info->kv_bytes_per_token * CONTEXT_TOKENS;
    options.kv_bytes = info->state_slots > 0 ? 2 * kv_bytes : kv_bytes;
    mr_model_close(fixture->model);
    if (mr_model_open(&fixture->model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_true(mr_model_info(fixture->model)->block_count >= BLOCKS);
    assert_int_equal(mr_mapped_file_open(&fixture->expected, expected, &err), MR_OK);
    assert_memory_equal(fixture->expected.bytes, "MRLOGIT1", 8);
    fixture->next = fixture->expected.bytes + 8;
    fixture->vocab_size = read_u32(fixture);
    fixture->prompt_count = read_u32(fixture);
    assert_int_equal(fixture->vocab_size, mr_model_info(fixture->model)->vocab_size);
    fixture->row = calloc(fixture->vocab_size, sizeof(float));
}

void open_golden(struct fixture *fixture, const struct golden_model *golden, enum mr_dtype dtype,
                 enum kv_form kv)
{
    char model[128], expected[160];
    snprintf(model, sizeof(model), "tests/golden/models/%s", golden->name);
    snprintf(expected, sizeof(expected), "%s/expected.bin", model);
    open_fixture(fixture, model, expected, dtype, kv, golden->context_tokens);
}

void open_golden_gguf(struct fixture *fixture, const struct golden_model *golden)
{
    char model[128], expected[160];
    snprintf(model, sizeof(model), "tests/golden/gguf/%s.gguf", golden->name);
    snprintf(expected, sizeof(expected), "tests/golden/models/%s/expected.bin", golden->name);
    open_fixture(fixture, model, expected, MR_DTYPE_F32, KV_NUMBERS, golden->context_tokens);
}

void close_fixture(struct fixture *fixture)
{
    mr_mapped_file_close(&fixture->expected);
    free(fixture->row);
    mr_model_close(fixture->model);
}

/* ---- comparing ---- */

uint32_t best(const float *logits, uint32_t count, float *margin)
{
    uint32_t top = 0;
    float second = -INFINITY;
    for (uint32_t i = 1; i < count; i++) {
        if (logits[i] > logits[top]) {
            second = logits[top];
            top = i;
        } else if (logits[i] > second) {
            second = logits[i];
        }
    }
    *margin = logits[top] - second;
    return top;
}

void decode(struct fixture *fixture, uint32_t token, uint32_t position)
{
    struct mr_batch_sequence next = {.row_count = 1,
                                     .context_tokens = position,
                                     .blocks = fixture->blocks,
                                     .logit_rows = 1,
                                     .slots = fixture->slots};
    struct mr_batch batch = {&token, 1, &next, 1};
    assert_int_equal(mr_model_forward(fixture->model, &batch, NULL), MR_OK);
}

static void compare_row(struct fixture *fixture, const struct prompt *prompt, uint32_t position,
                        uint32_t logit_row)
{
    const float *expected =
        prompt->logits + (size_t)(position - prompt->first) * fixture->vocab_size;
    assert_int_equal(mr_model_logits(fixture->model, logit_row, fixture->row, NULL), MR_OK);
    float worst = 0, margin, ours;
    for (uint32_t i = 0; i < fixture->vocab_size; i++) {
        float difference = fabsf(fixture->row[i] - expected[i]);
        if (!(difference <= fixture_tolerance)) /* true for NaN */
            fail_msg("position %u of %u: logit %u differs by %g", position, prompt->token_count, i,
                     (double)difference);
        worst = difference > worst ? difference : worst;
    }
    uint32_t wanted = best(expected, fixture->vocab_size, &margin);
    if (margin > fixture_tolerance)
        assert_int_equal(best(fixture->row, fixture->vocab_size, &ours), wanted);
    fixture->worst = worst > fixture->worst ? worst : fixture->worst;
    fixture->positions++;
}

/* Computes one step of rows [begin, end), cut into sequences of `width` rows that share their
 * blocks. The step writes all keys before any attention, so each sequence attends to the tokens of
 * those before. */
static void run_step(struct fixture *fixture, const struct prompt *prompt, uint32_t begin,
                     uint32_t end, uint32_t width)
{
    struct mr_batch_sequence sequences[STEP_SEQUENCES] = {0};
    struct mr_batch batch = {prompt->tokens + begin, end - begin, sequences, 0};
    for (uint32_t at = begin; at < end; at += width) {
        assert_true(batch.sequence_count < STEP_SEQUENCES);
        sequences[batch.sequence_count++] =
            (struct mr_batch_sequence){.row_begin = at - begin,
                                       .row_count = end - at < width ? end - at : width,
                                       .context_tokens = at,
                                       .blocks = fixture->blocks,
                                       .logit_rows = 1,
                                       .slots = fixture->slots};
    }
    assert_int_equal(mr_model_forward(fixture->model, &batch, NULL), MR_OK);
    for (uint32_t i = 0; i < batch.sequence_count; i++) {
        uint32_t position = begin + sequences[i].row_begin + sequences[i].row_count - 1;
        if (position >= prompt->first) compare_row(fixture, prompt, position, i);
    }
}

void run_prompt(struct fixture *fixture, const struct prompt *prompt, uint32_t step_rows,
                uint32_t width)
{
    choose_slots(fixture, step_rows);
    for (uint32_t begin = 0; begin < prompt->token_count; begin += step_rows) {
        uint32_t left = prompt->token_count - begin;
        run_step(fixture, prompt, begin, begin + (left < step_rows ? left : step_rows), width);
    }
}
