/* bench_kernels - measures the CPU kernels in the shapes of SmolLM2-135M: all linear layers for
 * several numbers of rows, attention of prompts and of decode steps, norms and rotary embedding,
 * the sampler; and layers of experts. Prints the best of several runs; run it on an idle machine.
 * bench_kernels [--level NAME] [memory|linear|experts|attention|rows|sampler] ...
 * none: all; NAME: an instruction set by its name in mr_cpu_level_name, by default the best */
#include "ops/cpu_kernels/expert_kernels.h"
#include "ops/cpu_kernels/kv_kernels.h"
#include "ops/cpu_kernels/parallel.h"
#include "ops/sampling/sampler.h"
#include "tests/bench/measure.h"
#include "worker/bench/bench_roof.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYERS = 30,
    HIDDEN = 576,
    HEADS = 9,
    KV_HEADS = 3,
    DIM = 64,
    FFN = 1536,
    VOCAB = 49152,
    QKV = (HEADS + 2 * KV_HEADS) * DIM,
    RUNS = 5
};

static enum mr_cpu_level level; /* of every measurement */

static float *random_floats(size_t count, float spread)
{
    uint32_t state = 12345;
    float *x = check_memory(malloc(count * sizeof *x));
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) / 8388608.0f - 1.0f) * spread;
    }
    return x;
}

/* ---- memory ---- */

/* The upper limit of the GB/s figures below, at this moment. */
static void bench_memory(void)
{
    double bytes_per_s;
    struct mr_error err;
    check_status(mr_bench_roof_memory(&bytes_per_s, &err), &err);
    printf("memory read, all threads: %.1f GB/s\n", bytes_per_s / 1e9);
}

/* ---- linear layers ---- */

struct stack {
    struct mr_cpu_linear *qkv[LAYERS], *out[LAYERS], *gate_up[LAYERS], *down[LAYERS], *head;
    double bytes;
    uint16_t *narrow, *ffn; /* inputs, bf16 */
    float *residual, *wide, *logits;
};

static void weight_row(void *context, uint32_t row, float *out)
{
    const uint32_t in_size = *(const uint32_t *)context;
    for (uint32_t i = 0; i < in_size; i++)
        out[i] = (float)((row * 31u + i * 17u) % 97u) / 970.0f - 0.05f;
}

static struct mr_cpu_linear *make_linear(struct stack *stack, uint32_t out_size, uint32_t in_size)
{
    struct mr_cpu_linear *linear;
    struct mr_error err;
    const struct mr_cpu_linear_spec spec = {.out_size = out_size,
                                            .in_size = in_size,
                                            .bf16 = true,
                                            .source = weight_row,
                                            .source_context = &in_size,
                                            .level = level};
    check_status(mr_cpu_linear_create(&linear, &spec, &err), &err);
    stack->bytes += (double)mr_cpu_linear_bytes(linear);
    return linear;
}

static struct stack *stack_make(uint32_t rows)
{
    struct stack *stack = check_memory(calloc(1, sizeof *stack));
    for (int i = 0; i < LAYERS; i++) {
        stack->qkv[i] = make_linear(stack, QKV, HIDDEN);
        stack->out[i] = make_linear(stack, HIDDEN, HIDDEN);
        stack->gate_up[i] = make_linear(stack, 2 * FFN, HIDDEN);
        stack->down[i] = make_linear(stack, HIDDEN, FFN);
    }
    stack->head = make_linear(stack, VOCAB, HIDDEN);
    stack->narrow = check_memory(calloc((size_t)rows * HIDDEN, 2));
    for (size_t i = 0; i < (size_t)rows * HIDDEN; i++)
        stack->narrow[i] = (uint16_t)(0x3c00u + i % 251u);
    stack->ffn = check_memory(calloc((size_t)rows * FFN, 2));
    stack->residual = check_memory(calloc((size_t)rows * HIDDEN, 4));
    stack->wide = check_memory(calloc((size_t)rows * QKV, 4));
    stack->logits = check_memory(calloc((size_t)64 * VOCAB, 4));
    return stack;
}

static double stack_run(const struct stack *stack, uint32_t rows, uint32_t logit_rows)
{
    const double start = now_ms();
    for (int i = 0; i < LAYERS; i++) {
        mr_cpu_linear_run(stack->qkv[i], stack->narrow, rows, MR_CPU_STORE_F32, stack->wide, NULL);
        mr_cpu_linear_run(stack->out[i], stack->narrow, rows, MR_CPU_ADD_F32, stack->residual,
                          NULL);
        mr_cpu_linear_run(stack->gate_up[i], stack->narrow, rows, MR_CPU_SILU_MUL, stack->ffn,
                          NULL);
        mr_cpu_linear_run(stack->down[i], stack->ffn, rows, MR_CPU_ADD_F32, stack->residual, NULL);
    }
    if (logit_rows > 0)
        mr_cpu_linear_run(stack->head, stack->narrow, logit_rows, MR_CPU_STORE_F32, stack->logits,
                          NULL);
    return now_ms() - start;
}

static void bench_linear(void)
{
    static const uint32_t rows[] = {1, 2, 4, 8, 12, 16, 24, 32, 64, 73, 128, 172, 256, 512};
    struct stack *stack = stack_make(512);
    const double layer_weights = (double)LAYERS * HIDDEN * (QKV + HIDDEN + 3 * FFN);
    printf("linear stack, bf16: rows, ms, GFLOP/s, GB/s of weights (head for up to 64 rows)\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t logit_rows = rows[i] <= 64 ? rows[i] : 0;
        double best = INFINITY;
        for (int run = 0; run < 2 * RUNS; run++)
            best = fmin(best, stack_run(stack, rows[i], logit_rows));
        const double flop = 2.0 * (layer_weights * rows[i] + (double)VOCAB * HIDDEN * logit_rows);
        const double bytes = stack->bytes - (logit_rows ? 0.0 : 2.0 * VOCAB * HIDDEN);
        printf("  %4u  %8.2f  %7.1f  %6.1f\n", rows[i], best, flop / best / 1e6,
               bytes / best / 1e6);
    }
}

/* ---- experts ---- */

struct expert_stack {
    struct mr_cpu_expert_layer layer;
    struct mr_cpu_expert_buffers buffers;
    struct mr_cpu_linear **gate_up, **down;
    float *logits, *out;
    uint16_t *x, *ffn;
    uint32_t *experts, *counts;
    float *weights;
};

/* Runs the selected experts as plain linear layers one after the other, with the same number of
 * rows each. */
static double run_plain(struct expert_stack *stack, uint32_t rows, double *bytes)
{
    const struct mr_cpu_routing *routing = &stack->layer.routing;
    memset(stack->counts, 0, routing->expert_count * sizeof *stack->counts);
    mr_cpu_route(routing, stack->logits, rows, stack->experts, stack->weights);
    for (uint32_t i = 0; i < rows * routing->top_k; i++)
        stack->counts[stack->experts[i]]++;
    *bytes = 0.0;
    const double start = now_ms();
    for (uint32_t e = 0; e < routing->expert_count; e++) {
        if (stack->counts[e] == 0) continue;
        mr_cpu_linear_run(stack->gate_up[e], stack->x, stack->counts[e], MR_CPU_SILU_MUL,
                          stack->ffn, NULL);
        mr_cpu_linear_run(stack->down[e], stack->ffn, stack->counts[e], MR_CPU_ADD_F32, stack->out,
                          NULL);
        *bytes += (double)mr_cpu_linear_bytes(stack->gate_up[e]) +
                  (double)mr_cpu_linear_bytes(stack->down[e]);
    }
    return now_ms() - start;
}

/* The runs alternate, each with different experts. */
static void bench_expert_rows(struct expert_stack *stack, uint32_t rows)
{
    const uint32_t count = rows * stack->layer.routing.expert_count;
    double best = INFINITY, best_plain = INFINITY, bytes = 0.0, largest = 0.0;
    for (int run = 0; run < 4 * RUNS; run++) {
        for (uint32_t i = 0; i < count; i++)
            stack->logits[i] = (float)((i * 2654435761u + (uint32_t)run * 40503u) >> 7 & 4095u);
        best_plain = fmin(best_plain, run_plain(stack, rows, &bytes));
        const double start = now_ms();
        mr_cpu_experts_run(&stack->layer, &stack->buffers, stack->x, stack->logits, rows,
                           stack->out);
        best = fmin(best, now_ms() - start);
        largest = fmax(largest, bytes);
    }
    printf("  %4u  %8.3f  %8.3f  %5.2f  %6.1f\n", rows, best, best_plain, best / best_plain,
           largest / best / 1e6);
}

static void bench_expert_layer(uint32_t hidden, uint32_t ffn, uint32_t count, uint32_t top_k)
{
    static const uint32_t rows[] = {1, 8, 32, 512};
    struct stack bytes = {0};
    struct expert_stack stack = {
        .buffers = {.rows_max = 512, count, top_k, hidden, ffn, .bf16 = true}};
    stack.gate_up = check_memory(calloc(count, sizeof(void *)));
    stack.down = check_memory(calloc(count, sizeof(void *)));
    for (uint32_t e = 0; e < count; e++) {
        stack.gate_up[e] = make_linear(&bytes, 2 * ffn, hidden);
        stack.down[e] = make_linear(&bytes, hidden, ffn);
    }
    stack.layer = (struct mr_cpu_expert_layer){
        .gate_up = stack.gate_up,
        .down = stack.down,
        .routing = {.expert_count = count, .top_k = top_k, .normalize = true},
        .activation = MR_CPU_SILU_MUL};
    stack.buffers.memory = check_memory(aligned_alloc(64, mr_cpu_expert_bytes(&stack.buffers)));
    stack.x = check_memory(calloc((size_t)512 * hidden, 2));
    stack.ffn = check_memory(calloc((size_t)512 * ffn, 2));
    stack.out = check_memory(calloc((size_t)512 * hidden, 4));
    stack.logits = check_memory(calloc((size_t)512 * count, 4));
    stack.experts = check_memory(calloc((size_t)512 * top_k, 4));
    stack.weights = check_memory(calloc((size_t)512 * top_k, 4));
    stack.counts = check_memory(calloc(count, 4));
    printf(
        "experts, %u of %u, %u to %u, bf16, one layer: rows, ms, ms as plain linear layers, ratio, "
        "GB/s of weights\n",
        top_k, count, hidden, ffn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_expert_rows(&stack, rows[i]);
    for (uint32_t e = 0; e < count; e++) {
        mr_cpu_linear_destroy(stack.gate_up[e]);
        mr_cpu_linear_destroy(stack.down[e]);
    }
    void *const owned[] = {stack.gate_up, stack.down,  stack.buffers.memory, stack.x,
                           stack.ffn,     stack.out,   stack.logits,         stack.experts,
                           stack.weights, stack.counts};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

static void bench_experts(void)
{
    bench_expert_layer(2048, 768, 128, 8); /* Qwen3-30B-A3B */
    bench_expert_layer(4096, 3584, 8, 2);  /* Mixtral 8x7B, with a quarter of its ffn */
}

/* ---- attention ---- */

struct fixture {
    struct mr_cpu_kv *kv;
    struct mr_cpu_rope rope;
    struct mr_cpu_rope_args rope_args;
    uint32_t *blocks; /* [sequences][blocks_each] */
    struct mr_cpu_attention_sequence *sequences;
    uint32_t sequence_count;
    float *qkv;
    void *out;
};

/* Sets tables of real rotations. With factors below 1 the numbers would shrink with every layer and
 * become denormals, which are slow. */
static void fixture_set_angles(struct fixture *fixture, size_t count)
{
    float *cos = check_memory(malloc(count * sizeof *cos)),
          *sin = check_memory(malloc(count * sizeof *sin));
    for (size_t i = 0; i < count; i++) {
        cos[i] = cosf((float)i);
        sin[i] = sinf((float)i);
    }
    fixture->rope = (struct mr_cpu_rope){.cos = cos, .sin = sin, .rotary_dim = DIM};
}

static struct fixture fixture_create(uint32_t sequence_count, uint32_t tokens, uint32_t rows,
                                     bool int8)
{
    struct fixture fixture = {.sequence_count = sequence_count};
    const uint32_t each = (tokens + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS;
    struct mr_error err;
    const struct mr_cpu_kv_spec spec = {.layer_count = LAYERS,
                                        .kv_head_count = KV_HEADS,
                                        .head_dim = DIM,
                                        .block_count = each * sequence_count,
                                        .bf16 = true,
                                        .int8 = int8,
                                        .level = level};
    check_status(mr_cpu_kv_create(&fixture.kv, &spec, &err), &err);
    fixture.blocks = check_memory(malloc((size_t)each * sequence_count * sizeof *fixture.blocks));
    fixture.sequences = check_memory(calloc(sequence_count, sizeof *fixture.sequences));
    for (uint32_t i = 0; i < each * sequence_count; i++)
        fixture.blocks[i] = i;
    for (uint32_t s = 0; s < sequence_count; s++)
        fixture.sequences[s].blocks = fixture.blocks + (size_t)s * each;
    fixture_set_angles(&fixture, (size_t)tokens * DIM / 2);
    fixture.qkv = random_floats((size_t)rows * QKV, 1.0f);
    fixture.out = check_memory(malloc((size_t)rows * HIDDEN * 2));
    return fixture;
}

static void fixture_destroy(struct fixture *fixture)
{
    mr_cpu_kv_destroy(fixture->kv);
    free(fixture->blocks);
    free(fixture->sequences);
    free((void *)(uintptr_t)fixture->rope.cos);
    free((void *)(uintptr_t)fixture->rope.sin);
    free(fixture->qkv);
    free(fixture->out);
}

/* Runs all layers of one step; adds the time of each part. */
static void fixture_step(struct fixture *fixture, double *write_ms, double *attention_ms)
{
    struct mr_cpu_attention_args args = {.head_count = HEADS,
                                         .scale = 0.125f,
                                         .sequences = fixture->sequences,
                                         .sequence_count = fixture->sequence_count};
    const struct mr_cpu_rope_args rope = {.rope = &fixture->rope};
    for (args.layer = 0; args.layer < LAYERS; args.layer++) {
        const double start = now_ms();
        mr_cpu_rope_write(fixture->kv, &args, &rope, fixture->qkv);
        const double middle = now_ms();
        mr_cpu_attention(fixture->kv, &args, fixture->qkv, fixture->out);
        *write_ms += middle - start;
        *attention_ms += now_ms() - middle;
    }
}

static void bench_prompt(uint32_t tokens, uint32_t chunk, bool int8)
{
    struct fixture fixture = fixture_create(1, tokens, chunk, int8);
    double best_write = INFINITY, best = INFINITY;
    for (int run = 0; run < 3; run++) {
        double write_ms = 0.0, attention_ms = 0.0;
        for (uint32_t at = 0; at < tokens; at += chunk) {
            fixture.sequences[0].context_tokens = at;
            fixture.sequences[0].row_count = tokens - at < chunk ? tokens - at : chunk;
            fixture_step(&fixture, &write_ms, &attention_ms);
        }
        best_write = fmin(best_write, write_ms);
        best = fmin(best, attention_ms);
    }
    const double flop = 4.0 * LAYERS * HEADS * DIM * tokens * (tokens + 1.0) / 2;
    printf("  prompt %5u by %4u   write %6.2f ms  attention %7.2f ms  %6.1f GFLOP/s\n", tokens,
           chunk, best_write, best, flop / best / 1e6);
    fixture_destroy(&fixture);
}

/* The new tokens of a conversation's turn, after `context` earlier tokens. */
static void bench_turn(uint32_t rows, uint32_t context)
{
    struct fixture fixture = fixture_create(1, context + rows, rows, false);
    double best_write = INFINITY, best = INFINITY;
    for (int run = 0; run < RUNS + 1; run++) { /* the first run only makes pages resident */
        double write_ms = 0.0, attention_ms = 0.0;
        for (uint32_t at = run == 0 ? 0 : context; at <= context; at += rows) {
            fixture.sequences[0].context_tokens = at;
            fixture.sequences[0].row_count = rows;
            fixture_step(&fixture, &write_ms, &attention_ms);
        }
        if (run == 0) continue;
        best_write = fmin(best_write, write_ms);
        best = fmin(best, attention_ms);
    }
    const double flop = 4.0 * LAYERS * HEADS * DIM * rows * (context + (rows + 1.0) / 2);
    printf("  turn %4u after %4u  write %6.2f ms  attention %7.2f ms  %6.1f GFLOP/s\n", rows,
           context, best_write, best, flop / best / 1e6);
    fixture_destroy(&fixture);
}

/* The GB/s count K and V in the number format of the pool. */
static void bench_decode(uint32_t sequence_count, uint32_t context, bool int8)
{
    struct fixture fixture = fixture_create(sequence_count, context + 1, sequence_count, int8);
    double best_write = INFINITY, best = INFINITY;
    for (uint32_t s = 0; s < sequence_count; s++) {
        fixture.sequences[s].row_begin = s;
        fixture.sequences[s].row_count = 1;
    }
    for (uint32_t at = 0; at < context; at += MR_BLOCK_TOKENS - 1) { /* makes pages resident */
        for (uint32_t s = 0; s < sequence_count; s++)
            fixture.sequences[s].context_tokens = at;
        double ignored = 0.0;
        fixture_step(&fixture, &ignored, &ignored);
    }
    for (uint32_t s = 0; s < sequence_count; s++)
        fixture.sequences[s].context_tokens = context;
    for (int run = 0; run < RUNS; run++) {
        double write_ms = 0.0, attention_ms = 0.0;
        fixture_step(&fixture, &write_ms, &attention_ms);
        best_write = fmin(best_write, write_ms);
        best = fmin(best, attention_ms);
    }
    const double bytes = (int8 ? 2.0 : 4.0) * LAYERS * KV_HEADS * DIM * context * sequence_count;
    printf("  decode %3u x %5u     write %6.2f ms  attention %7.2f ms  %6.1f GB/s\n",
           sequence_count, context, best_write, best, bytes / best / 1e6);
    fixture_destroy(&fixture);
}

static void bench_attention(void)
{
    printf("rotary embedding with KV write, attention, bf16, all layers\n");
    bench_prompt(512, 512, false);
    bench_prompt(2048, 512, false);
    bench_prompt(2048, 2048, false);
    bench_turn(73, 300);
    bench_turn(73, 2100);
    bench_turn(172, 300);
    bench_turn(172, 2100);
    bench_decode(1, 500, false);
    bench_decode(1, 4000, false);
    bench_decode(8, 500, false);
    bench_decode(16, 500, false);
    bench_decode(32, 100, false);
    bench_decode(32, 500, false);
    bench_decode(8, 4000, false);
    printf("the same with K and V in int8\n");
    bench_prompt(512, 512, true);
    bench_prompt(2048, 512, true);
    bench_decode(1, 500, true);
    bench_decode(1, 4000, true);
    bench_decode(16, 500, true);
    bench_decode(8, 4000, true);
}

static void bench_rows(void)
{
    static const uint32_t rows[] = {1, 32, 512};
    float *x = random_floats((size_t)512 * HIDDEN, 1.0f), *weight = random_floats(HIDDEN, 1.0f);
    void *out = check_memory(malloc((size_t)512 * HIDDEN * 2));
    const struct mr_cpu_norm norm = {
        .weight = weight, .epsilon = 1e-5f, .width = HIDDEN, .bf16 = true, .level = level};
    printf("norms of one step (%d)\n", 2 * LAYERS + 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double best = INFINITY;
        for (int run = 0; run < RUNS; run++) {
            const double start = now_ms();
            for (int n = 0; n < 2 * LAYERS + 1; n++)
                mr_cpu_norm(&norm, x, rows[i], out);
            best = fmin(best, now_ms() - start);
        }
        printf("  %4u rows  %6.3f ms\n", rows[i], best);
    }
    free(out);
    free(weight);
    free(x);
}

/* Samples from 32 rows of logits that are distributed roughly like those of a language model. */
static void bench_sampler(void)
{
    enum { ROWS = 32 };
    static const struct {
        const char *name;
        struct mr_sampling sampling;
    } cases[] = {
        {"greedy", {.top_p = 1, .typical_p = 1, .repetition_penalty = 1}},
        {"greedy, 20 logprobs",
         {.top_p = 1, .typical_p = 1, .repetition_penalty = 1, .logprobs = 20}},
        {"temperature", {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1}},
        {"top-p 0.9", {.temperature = 1, .top_p = 0.9f, .typical_p = 1, .repetition_penalty = 1}},
        {"top-k 50, top-p 0.9",
         {.temperature = 1, .top_k = 50, .top_p = 0.9f, .typical_p = 1, .repetition_penalty = 1}},
        {"min-p, penalties",
         {.temperature = 1,
          .top_p = 1,
          .min_p = 0.05f,
          .typical_p = 1,
          .repetition_penalty = 1.1f}},
        {"typical", {.temperature = 1, .top_p = 1, .typical_p = 0.9f, .repetition_penalty = 1}},
    };
    const struct mr_sampler_spec spec = {
        .vocab_size = VOCAB, .thread_count = mr_parallel_thread_count(), .level = level};
    struct mr_sampler *sampler;
    struct mr_error err;
    struct mr_sample_row rows[ROWS];
    struct mr_sample samples[ROWS];
    uint32_t history[500];
    check_status(mr_sampler_create(&sampler, &spec, &err), &err);
    float *logits = random_floats((size_t)ROWS * VOCAB, 1.0f);
    for (size_t i = 0; i < (size_t)ROWS * VOCAB; i++)
        logits[i] = -2.5f * logf(1.0f - 0.99999f * fabsf(logits[i]));
    for (uint32_t i = 0; i < 500; i++)
        history[i] = i * 97u;
    printf("sampler, %d rows of %d logits\n", ROWS, VOCAB);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double best = INFINITY;
        for (uint32_t i = 0; i < ROWS; i++)
            rows[i] = (struct mr_sample_row){.logits = logits + (size_t)i * VOCAB,
                                             .sampling = &cases[c].sampling,
                                             .seed = i,
                                             .history = history,
                                             .history_count = 500,
                                             .prompt_count = 200};
        for (int run = 0; run < 4 * RUNS; run++) {
            const double start = now_ms();
            mr_sampler_run(sampler, rows, ROWS, samples);
            best = fmin(best, now_ms() - start);
        }
        printf("  %-20s  %6.3f ms\n", cases[c].name, best);
    }
    free(logits);
    mr_sampler_destroy(sampler);
}

static void set_level(const char *name)
{
    for (level = MR_CPU_SCALAR; level <= MR_CPU_AMX; level++)
        if (strcmp(mr_cpu_level_name(level), name) == 0 && mr_cpu_level(level) == level) return;
    fprintf(stderr, "bench_kernels: this machine has no level %s\n", name);
    exit(1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"memory", bench_memory},   {"linear", bench_linear},
                 {"experts", bench_experts}, {"attention", bench_attention},
                 {"rows", bench_rows},       {"sampler", bench_sampler}};
    struct mr_error err;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--level") == 0) {
        set_level(argv[2]);
        first = 3;
    }
    check_status(mr_parallel_set_thread_count(2, &err), &err);
    printf("level %s\n", mr_cpu_level_name(mr_cpu_level(level)));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool wanted = argc == first;
        for (int a = first; a < argc; a++)
            wanted = wanted || strcmp(argv[a], parts[i].name) == 0;
        if (wanted) parts[i].run();
    }
    return 0;
}
