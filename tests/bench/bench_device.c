/* bench_device MODEL [--device D] [--backend auto|cpu|torch] [--dtype fp32|bf16|fp16]
 *              [--cuda-kernels auto|off]
 *              [--cuda-graphs auto|off] [--kv-mib N] [--context N] [--batches N,N] [--prompts N,N]
 *              [--chunk N] [--seconds S]
 *
 * Prints the speed of a model on a device, without the engine, as JSON: decode of batches of
 * sequences with --context tokens each, prefill of prompts, and steps that decode 64 sequences
 * together with chunks of the longest prompt. Each step samples greedily. On a GPU a step is
 * launched before the step that samples its tokens is collected, like in the engine. A figure is
 * the median of the steps in --seconds, after a warm-up. make gpu-bench runs this on a card. */
#include "ops/model/model.h"
#include "ops/model/torch_module.h"
#include "worker/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX      8u
#define SEQUENCES_MAX 256u
#define STEPS_MAX     4096u
#define MIXED_DECODES 64u

struct list {
    uint32_t values[LIST_MAX], count;
};

struct bench {
    struct mr_model *model;
    uint32_t context, chunk, blocks_per_sequence;
    double seconds;
    struct list batches, prompts;
    uint32_t sequences; /* that decode at most */
    uint32_t *blocks;   /* [sequences][blocks_per_sequence], and those of a prompt */
    uint32_t *tokens;   /* [rows_max] */
    uint32_t *fed_by;   /* [rows_max] */
    struct mr_sample samples[2][SEQUENCES_MAX + 1]; /* of steps in flight, in turn */
    uint32_t ahead, in_flight, parity;              /* ahead: maximum of steps in flight */
    double ended, step_ms[STEPS_MAX];
    uint32_t step_count;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_device: %s\n", what);
    exit(1);
}

static void check(enum mr_status status, const struct mr_error *err)
{
    if (status != MR_OK) fail(err->detail);
}

static double now_ms(void)
{
    return (double)mr_clock_ns() / 1e6;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The `share` (0 to 1) quantile of the steps' times; sorts them. */
static double quantile(double *times, uint32_t count, double share)
{
    qsort(times, count, sizeof *times, by_size);
    return count > 0 ? times[(uint32_t)((double)(count - 1) * share)] : 0.0;
}

static const uint32_t *blocks_of(const struct bench *bench, uint32_t sequence)
{
    return bench->blocks + (size_t)sequence * bench->blocks_per_sequence;
}

static struct mr_batch_sequence sequence_of(const struct bench *bench, uint32_t sequence,
                                            uint32_t row, uint32_t rows, uint32_t context)
{
    return (struct mr_batch_sequence){.row_begin = row,
                                      .row_count = rows,
                                      .context_tokens = context,
                                      .blocks = blocks_of(bench, sequence),
                                      .slots = blocks_of(bench, sequence),
                                      .logit_rows = 1};
}

/* Launches a step that samples one token of each sequence. is_fed: each sequence with one row gets
 * the token that the step before has sampled for it. */
static void launch(struct bench *bench, const struct mr_batch *batch, bool is_fed)
{
    static const struct mr_sampling greedy = {
        .temperature = 0.0f, .top_p = 1.0f, .repetition_penalty = 1.0f, .logprobs = -1};
    static struct mr_sample_row rows[SEQUENCES_MAX + 1];
    struct mr_error err = {.status = MR_OK};
    for (uint32_t i = 0; i < batch->sequence_count; i++)
        rows[i] = (struct mr_sample_row){.logit_row = i, .sampling = &greedy};
    for (uint32_t i = 0; i < batch->row_count; i++)
        bench->fed_by[i] =
            i < batch->sequence_count && batch->sequences[i].row_count == 1 ? i : MR_ROW_KNOWN;
    const struct mr_model_step step = {.batch = batch,
                                       .fed_by = is_fed ? bench->fed_by : NULL,
                                       .rows = rows,
                                       .sample_count = batch->sequence_count,
                                       .samples = bench->samples[bench->parity]};
    check(mr_model_launch(bench->model, &step, &err), &err);
    bench->parity ^= 1;
    bench->in_flight++;
}

/* Collects steps until `left` are in flight. A step's time starts at the end of the step before. */
static void collect(struct bench *bench, uint32_t left)
{
    struct mr_error err = {.status = MR_OK};
    for (; bench->in_flight > left; bench->in_flight--) {
        check(mr_model_collect(bench->model, &err), &err);
        const double now = now_ms();
        if (bench->step_count < STEPS_MAX) bench->step_ms[bench->step_count++] = now - bench->ended;
        bench->ended = now;
    }
}

/* Starts to measure steps. */
static void begin_steps(struct bench *bench)
{
    bench->step_count = 0;
    bench->ended = now_ms();
}

/* Computes `tokens` tokens of a prompt in chunks. */
static void prefill(struct bench *bench, uint32_t sequence, uint32_t tokens)
{
    for (uint32_t begin = 0; begin < tokens; begin += bench->chunk) {
        const uint32_t rows = tokens - begin < bench->chunk ? tokens - begin : bench->chunk;
        const struct mr_batch_sequence chunk = sequence_of(bench, sequence, 0, rows, begin);
        launch(bench, &(struct mr_batch){bench->tokens, rows, &chunk, 1}, false);
        collect(bench, bench->ahead - 1);
    }
    collect(bench, 0);
}

/* Copies the KV of sequence 0 to every sequence. */
static void copy_context(struct bench *bench)
{
    for (uint32_t sequence = 1; sequence < bench->sequences; sequence++)
        for (uint32_t i = 0; i * MR_BLOCK_TOKENS < bench->context; i++) {
            const uint32_t from = blocks_of(bench, 0)[i], to = blocks_of(bench, sequence)[i];
            mr_model_kv_copy(bench->model, (struct mr_kv_place){.block = from, .slot = from},
                             (struct mr_kv_place){.block = to, .slot = to}, MR_BLOCK_TOKENS);
        }
}

/* Tokens of the longest prompt, at least `tokens`. */
static uint32_t longest_prompt(const struct bench *bench, uint32_t tokens)
{
    for (uint32_t i = 0; i < bench->prompts.count; i++)
        if (bench->prompts.values[i] > tokens) tokens = bench->prompts.values[i];
    return tokens;
}

/* Steps of `count` decoding sequences and `rows` rows of a prompt; 0: without prompt. */
static void run_decodes(struct bench *bench, uint32_t count, uint32_t rows)
{
    static struct mr_batch_sequence sequences[SEQUENCES_MAX + 1];
    const uint32_t spare = bench->blocks_per_sequence * MR_BLOCK_TOKENS - bench->context - 1;
    const uint32_t prompt = longest_prompt(bench, bench->context < rows ? rows : bench->context);
    for (uint32_t warm = 0; warm < 2; warm++) {
        const double until = now_ms() + bench->seconds * (warm == 0 ? 100.0 : 1000.0);
        begin_steps(bench);
        for (uint32_t i = 0; i < 5 || (now_ms() < until && bench->step_count < STEPS_MAX); i++) {
            for (uint32_t s = 0; s < count; s++)
                sequences[s] = sequence_of(bench, s, s, 1, bench->context + i % spare);
            const uint32_t begin = rows > 0 ? i * rows % prompt / rows * rows : 0;
            if (rows > 0)
                sequences[count] = sequence_of(bench, bench->sequences, count, rows, begin);
            launch(bench,
                   &(struct mr_batch){bench->tokens, count + rows, sequences,
                                      count + (rows > 0 ? 1 : 0)},
                   i > 0 && bench->ahead > 1);
            collect(bench, bench->ahead - 1);
        }
        collect(bench, 0);
    }
}

static void report_steps(struct bench *bench, const char *separator, uint32_t count, uint32_t rows)
{
    const double p99 = quantile(bench->step_ms, bench->step_count, 0.99);
    const double median = quantile(bench->step_ms, bench->step_count, 0.5);
    printf("%s\n  {\"sequences\": %u, \"prompt_rows\": %u, \"context\": %u, \"steps\": %u, "
           "\"step_ms\": %.3f, \"step_ms_p99\": %.3f, "
           "\"decode_tokens_per_s\": %.1f, \"prefill_tokens_per_s\": %.1f}",
           separator, count, rows, bench->context, bench->step_count, median, p99,
           1000.0 * count / median, 1000.0 * rows / median);
    fflush(stdout);
}

static void bench_decodes(struct bench *bench)
{
    static const uint32_t chunks[] = {64, 128, 256, 512};
    bench->step_count = 0;
    prefill(bench, 0, bench->context);
    copy_context(bench);
    printf("{\"decode\": [");
    for (uint32_t i = 0; i < bench->batches.count; i++) {
        run_decodes(bench, bench->batches.values[i], 0);
        report_steps(bench, i > 0 ? "," : "", bench->batches.values[i], 0);
    }
    printf("],\n\"mixed\": [");
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks && chunks[i] <= bench->chunk; i++) {
        run_decodes(bench, MIXED_DECODES, chunks[i]);
        report_steps(bench, i > 0 ? "," : "", MIXED_DECODES, chunks[i]);
    }
    printf("],\n");
}

static void bench_prompts(struct bench *bench)
{
    printf("\"prefill\": [");
    for (uint32_t i = 0; i < bench->prompts.count; i++) {
        const uint32_t tokens = bench->prompts.values[i];
        double best = 0.0;
        const double until = now_ms() + bench->seconds * 1000.0;
        for (uint32_t run = 0; run < 3 || now_ms() < until; run++) {
            const double begin = now_ms();
            prefill(bench, bench->sequences, tokens);
            const double took = now_ms() - begin;
            if (run > 0 && (best == 0.0 || took < best)) best = took;
        }
        printf("%s\n  {\"tokens\": %u, \"chunk\": %u, \"ms\": %.2f, \"tokens_per_s\": %.1f}",
               i > 0 ? "," : "", tokens, bench->chunk, best, 1000.0 * tokens / best);
        fflush(stdout);
    }
    printf("],\n");
}

/* ---- set up ---- */

static struct list parse_list(const char *text)
{
    struct list list = {.count = 0};
    for (char *end; *text && list.count < LIST_MAX; text = *end ? end + 1 : end)
        list.values[list.count++] = (uint32_t)strtoul(text, &end, 10);
    return list;
}

static enum mr_dtype parse_dtype(const char *text)
{
    return strcmp(text, "fp32") == 0   ? MR_DTYPE_F32
           : strcmp(text, "fp16") == 0 ? MR_DTYPE_F16
                                       : MR_DTYPE_BF16;
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 2; i + 1 < argc; i += 2)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return otherwise;
}

static void open_model(struct bench *bench, int argc, char **argv)
{
    const bool kernels = strcmp(option(argc, argv, "--cuda-kernels", "auto"), "off") != 0;
    const bool graphs = kernels && mr_torch_module_cuda_kernels() &&
                        strcmp(option(argc, argv, "--cuda-graphs", "auto"), "off") != 0;
    const struct mr_model_options options = {
        .path = argv[1],
        .device = option(argc, argv, "--device", "cpu"),
        .backend = option(argc, argv, "--backend", "auto"),
        .dtype = parse_dtype(option(argc, argv, "--dtype", "bf16")),
        .cuda_kernels = kernels ? mr_torch_module_cuda_kernels() : NULL,
        .kv_bytes = strtoull(option(argc, argv, "--kv-mib", "2048"), NULL, 10) << 20,
        .rows_max = bench->chunk + SEQUENCES_MAX,
        .sequences_max = SEQUENCES_MAX + 1,
        .graph_rows_max = graphs ? SEQUENCES_MAX : 0,
        .warm_up = strcmp(option(argc, argv, "--device", "cpu"), "cpu") != 0,
    };
    struct mr_error err = {.status = MR_OK};
    const double begin = now_ms();
    check(mr_model_open(&bench->model, &options, &err), &err);
    const uint32_t ahead = mr_model_steps_ahead(bench->model);
    bench->ahead = ahead > 0 ? ahead : 1;
    const struct mr_decode_graphs *made = &mr_model_info(bench->model)->graphs;
    fprintf(stderr, "bench_device: model opened in %.1f s, %u graphs %s\n",
            (now_ms() - begin) / 1000.0, made->count,
            made->refusal.status == MR_OK ? "" : made->refusal.detail);
}

/* Divides the pool: the same number of blocks for each sequence, and for the prompts. */
static void assign_blocks(struct bench *bench)
{
    const struct mr_model_info *info = mr_model_info(bench->model);
    const uint32_t longest = longest_prompt(bench, bench->context + MR_BLOCK_TOKENS);
    bench->blocks_per_sequence = bench->context / MR_BLOCK_TOKENS + 2;
    const uint32_t prompt_blocks = longest / MR_BLOCK_TOKENS + 1;
    const uint32_t count = bench->sequences * bench->blocks_per_sequence + prompt_blocks;
    if (info->block_count < count || (info->window_slots > 0 && info->window_slots < count))
        fail("the KV pool is too small; raise --kv-mib");
    if (info->context_tokens < longest) fail("the prompts are longer than the model's context");
    bench->blocks = calloc(count, sizeof *bench->blocks);
    bench->tokens = calloc(bench->chunk + SEQUENCES_MAX, sizeof *bench->tokens);
    bench->fed_by = calloc(bench->chunk + SEQUENCES_MAX, sizeof *bench->fed_by);
    if (!bench->blocks || !bench->tokens || !bench->fed_by) fail("no memory");
    for (uint32_t i = 0; i < count; i++)
        bench->blocks[i] = i;
    for (uint32_t i = 0; i < bench->chunk + SEQUENCES_MAX; i++)
        bench->tokens[i] = i * 7919u % info->vocab_size;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    if (argc < 2) fail("usage: see tests/bench/bench_device.c");
    bench.context = (uint32_t)strtoul(option(argc, argv, "--context", "1024"), NULL, 10);
    bench.chunk = (uint32_t)strtoul(option(argc, argv, "--chunk", "2048"), NULL, 10);
    bench.seconds = strtod(option(argc, argv, "--seconds", "2"), NULL);
    bench.batches = parse_list(option(argc, argv, "--batches", "1,64,256"));
    bench.prompts = parse_list(option(argc, argv, "--prompts", "2048,8192"));
    bench.sequences = MIXED_DECODES;
    for (uint32_t i = 0; i < bench.batches.count; i++)
        if (bench.batches.values[i] > bench.sequences) bench.sequences = bench.batches.values[i];
    if (bench.sequences > SEQUENCES_MAX || bench.chunk == 0) fail("a batch or --chunk is invalid");
    open_model(&bench, argc, argv);
    assign_blocks(&bench);
    bench_decodes(&bench);
    bench_prompts(&bench);
    const struct mr_model_info *info = mr_model_info(bench.model);
    printf("\"model\": \"%s\", \"weight_bytes\": %llu, \"kv_bytes_per_token\": %llu, "
           "\"numerics\": \"%s\", \"graphs\": %u}\n",
           info->name, (unsigned long long)info->weight_bytes,
           (unsigned long long)info->kv_bytes_per_token, info->numerics, info->graphs.count);
    mr_model_close(bench.model);
    free(bench.blocks);
    free(bench.tokens);
    free(bench.fed_by);
    return 0;
}
