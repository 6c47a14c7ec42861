/* bench_perplexity MODEL TEXT [TYPE [TYPE]]: the perplexity of a model on the first 20,000 tokens
 * of a text, in 40 windows of 500 tokens: exp of the mean of -ln p(token | the tokens before it in
 * its window). TYPE: bf16, fp32, int8, int4 or auto on the CPU; with the suffix @cuda on a GPU,
 * with our kernels and graphs. Each step computes one token of every window. With a second type the
 * model is computed in both types. Then the program also prints the perplexity of the second type,
 * the share of tokens for which both types have the same most likely next token, and this share
 * among the tokens for which the first type's best logit leads by MARGIN. perplexity.py computes
 * the perplexity with the reference implementation. */
#include "codec/tokenizer/tokenizer.h"
#include "ops/files/mapped_file.h"
#include "ops/model/model.h"
#include "ops/model/torch_module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS       40u
#define WINDOW_TOKENS 500u
#define WINDOW_BLOCKS ((WINDOW_TOKENS + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS)

#define TYPES_MAX 2u
#define MARGIN    0.05f /* of logits */

/* The model in one type. */
struct side {
    struct mr_model *model;
    float *logits; /* one row */
    double sum;    /* of log probabilities */
};

struct bench {
    struct side sides[TYPES_MAX];
    uint32_t side_count;
    uint32_t ids[WINDOWS * WINDOW_TOKENS];
    uint32_t blocks[WINDOWS][WINDOW_BLOCKS];
    uint32_t vocab_size;
    uint32_t agreed;                  /* tokens for which both sides find the same next token */
    uint32_t decided, decided_agreed; /* among tokens whose best logit leads by MARGIN on side 0 */
    float difference;                 /* largest of two logits */
};

static enum mr_dtype dtype_of(const char *name)
{
    const size_t length = strcspn(name, "@");
    return strncmp(name, "fp32", length) == 0   ? MR_DTYPE_F32
           : strncmp(name, "int8", length) == 0 ? MR_DTYPE_INT8
           : strncmp(name, "int4", length) == 0 ? MR_DTYPE_INT4
           : strncmp(name, "auto", length) == 0 ? MR_DTYPE_AUTO
                                                : MR_DTYPE_BF16;
}

static enum mr_status open_model(struct bench *bench, struct side *side, const char *path,
                                 const char *type, struct mr_error *err)
{
    const bool on_card = strstr(type, "@cuda") != NULL;
    struct mr_model_options options = {.path = path,
                                       .device = on_card ? "cuda" : "cpu",
                                       .backend = strchr(type, '@') ? "torch" : "cpu",
                                       .dtype = dtype_of(type),
                                       .cuda_kernels =
                                           on_card ? mr_torch_module_cuda_kernels() : NULL,
                                       .graph_rows_max = on_card ? WINDOWS : 0,
                                       .kv_bytes = 1,
                                       .rows_max = WINDOWS,
                                       .sequences_max = WINDOWS};
    enum mr_status status = mr_model_open(&side->model, &options, err);
    if (status != MR_OK) return status;
    options.kv_bytes =
        mr_model_info(side->model)->kv_bytes_per_token * MR_BLOCK_TOKENS * WINDOW_BLOCKS * WINDOWS;
    mr_model_close(side->model);
    side->model = NULL;
    status = mr_model_open(&side->model, &options, err);
    if (status != MR_OK) return status;
    bench->vocab_size = mr_model_info(side->model)->vocab_size;
    side->logits = calloc(bench->vocab_size, sizeof(float));
    if (!side->logits) return mr_fail(err, MR_NOMEM, "no memory for logits");
    return MR_OK;
}

static enum mr_status read_tokens(struct bench *bench, const char *path, struct mr_error *err)
{
    struct mr_mapped_file file;
    enum mr_status status = mr_mapped_file_open(&file, path, err);
    if (status != MR_OK) return status;
    const struct mr_tokenizer *tokenizer = mr_model_tokenizer(bench->sides[0].model);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_id_list ids = {.ids = bench->ids, .max = WINDOWS * WINDOW_TOKENS};
    struct mr_text text = {(const char *)file.bytes, file.size};
    status =
        mr_tokenizer_encode(tokenizer, scratch, text, (struct mr_encode_options){0}, &ids, err);
    if (status == MR_PROMPT_TOO_LONG) status = MR_OK; /* the text is longer than needed */
    if (status == MR_OK && ids.count < ids.max)
        status = mr_fail(err, MR_BAD_FILE, "%s has %zu tokens; %u are needed", path, ids.count,
                         WINDOWS * WINDOW_TOKENS);
    mr_tokenizer_scratch_destroy(scratch);
    mr_mapped_file_close(&file);
    return status;
}

static uint32_t most_likely(const struct bench *bench, const float *logits)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < bench->vocab_size; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static double log_probability(const struct bench *bench, const float *logits, uint32_t token)
{
    const float top = logits[most_likely(bench, logits)];
    double sum = 0;
    for (uint32_t i = 0; i < bench->vocab_size; i++)
        sum += (double)expf(logits[i] - top);
    return (double)(logits[token] - top) - log(sum);
}

/* Compares the logits of both sides after one token. */
static void compare(struct bench *bench)
{
    const float *exact = bench->sides[0].logits, *other = bench->sides[1].logits;
    const uint32_t best = most_likely(bench, exact);
    const bool same = most_likely(bench, other) == best;
    float second = -INFINITY;
    for (uint32_t i = 0; i < bench->vocab_size; i++) {
        if (i != best) second = fmaxf(second, exact[i]);
        bench->difference = fmaxf(bench->difference, fabsf(exact[i] - other[i]));
    }
    const bool decided = exact[best] - second > MARGIN;
    bench->agreed += same;
    bench->decided += decided;
    bench->decided_agreed += decided && same;
}

/* Reads the logits after one token of window i on all sides. */
static enum mr_status read_logits(struct bench *bench, uint32_t i, uint32_t position,
                                  struct mr_error *err)
{
    for (uint32_t k = 0; k < bench->side_count; k++) {
        struct side *side = &bench->sides[k];
        enum mr_status status = mr_model_logits(side->model, i, side->logits, err);
        if (status != MR_OK) return status;
        side->sum +=
            log_probability(bench, side->logits, bench->ids[i * WINDOW_TOKENS + position + 1]);
    }
    if (bench->side_count > 1) compare(bench);
    return MR_OK;
}

/* Computes token `position` of every window. */
static enum mr_status step(struct bench *bench, uint32_t position, struct mr_error *err)
{
    uint32_t tokens[WINDOWS];
    struct mr_batch_sequence sequences[WINDOWS] = {0};
    struct mr_batch batch = {tokens, WINDOWS, sequences, WINDOWS};
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; i < WINDOWS; i++) {
        tokens[i] = bench->ids[i * WINDOW_TOKENS + position];
        sequences[i] = (struct mr_batch_sequence){.row_begin = i,
                                                  .row_count = 1,
                                                  .context_tokens = position,
                                                  .blocks = bench->blocks[i],
                                                  .logit_rows = 1};
    }
    for (uint32_t k = 0; k < bench->side_count && status == MR_OK; k++)
        status = mr_model_forward(bench->sides[k].model, &batch, err);
    for (uint32_t i = 0; i < WINDOWS && status == MR_OK; i++)
        status = read_logits(bench, i, position, err);
    return status;
}

static void print(const struct bench *bench, const char *path, char *const *names)
{
    const double count = WINDOWS * (WINDOW_TOKENS - 1);
    printf("{\"model\": \"%s\", \"dtype\": \"%s\", \"tokens\": %u, \"perplexity\": %.4f", path,
           names[0], WINDOWS * WINDOW_TOKENS, exp(-bench->sides[0].sum / count));
    if (bench->side_count > 1)
        printf(", \"other\": \"%s\", \"other_perplexity\": %.4f, \"difference_percent\": %.3f, "
               "\"same_top_percent\": %.2f, \"decided\": %u, \"decided_same\": %u, "
               "\"largest_difference\": %.4f",
               names[1], exp(-bench->sides[1].sum / count),
               100 * expm1((bench->sides[1].sum - bench->sides[0].sum) / count),
               100 * (double)bench->agreed / count, bench->decided, bench->decided_agreed,
               (double)bench->difference);
    printf("}\n");
}

int main(int argument_count, char **arguments)
{
    struct mr_error err = {0};
    static struct bench bench;
    static char *defaults[] = {"bf16"};
    if (argument_count < 3 || argument_count > 5) {
        fprintf(stderr, "bench_perplexity MODEL TEXT [TYPE [TYPE]]\n");
        return 2;
    }
    char *const *names = argument_count > 3 ? arguments + 3 : defaults;
    enum mr_status status = MR_OK;
    bench.side_count = argument_count > 4 ? 2 : 1;
    for (uint32_t i = 0; i < WINDOWS * WINDOW_BLOCKS; i++)
        bench.blocks[i / WINDOW_BLOCKS][i % WINDOW_BLOCKS] = i;
    for (uint32_t k = 0; k < bench.side_count && status == MR_OK; k++)
        status = open_model(&bench, &bench.sides[k], arguments[1], names[k], &err);
    if (status == MR_OK) status = read_tokens(&bench, arguments[2], &err);
    for (uint32_t i = 0; i + 1 < WINDOW_TOKENS && status == MR_OK; i++)
        status = step(&bench, i, &err);
    if (status == MR_OK)
        print(&bench, arguments[1], names);
    else
        fprintf(stderr, "%s\n", err.detail);
    for (uint32_t k = 0; k < bench.side_count; k++) {
        free(bench.sides[k].logits);
        if (bench.sides[k].model) mr_model_close(bench.sides[k].model);
    }
    return status != MR_OK;
}
