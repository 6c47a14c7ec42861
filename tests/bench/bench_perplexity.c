/* bench_perplexity MODEL TEXT [bf16|fp32|int8|int4|auto]: the perplexity of a model on the first
 * 20,000 tokens of a text, in 40 windows of 500 tokens: exp of the mean of -ln p(token | the tokens
 * before it in its window). Each step computes one token of every window. perplexity.py computes
 * the same with the reference implementation. */
#include "codec/tokenizer/tokenizer.h"
#include "ops/files/mapped_file.h"
#include "ops/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS       40u
#define WINDOW_TOKENS 500u
#define WINDOW_BLOCKS ((WINDOW_TOKENS + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS)

struct bench {
    struct mr_model *model;
    uint32_t ids[WINDOWS * WINDOW_TOKENS];
    uint32_t blocks[WINDOWS][WINDOW_BLOCKS];
    float *logits; /* one row */
    uint32_t vocab_size;
};

static enum mr_status open_model(struct bench *bench, const char *path, enum mr_dtype dtype,
                                 struct mr_error *err)
{
    struct mr_model_options options = {.path = path,
                                       .device = "cpu",
                                       .dtype = dtype,
                                       .kv_bytes = 1,
                                       .rows_max = WINDOWS,
                                       .sequences_max = WINDOWS};
    enum mr_status status = mr_model_open(&bench->model, &options, err);
    if (status != MR_OK) return status;
    options.kv_bytes =
        mr_model_info(bench->model)->kv_bytes_per_token * MR_BLOCK_TOKENS * WINDOW_BLOCKS * WINDOWS;
    mr_model_close(bench->model);
    status = mr_model_open(&bench->model, &options, err);
    if (status != MR_OK) return status;
    for (uint32_t i = 0; i < WINDOWS * WINDOW_BLOCKS; i++)
        bench->blocks[i / WINDOW_BLOCKS][i % WINDOW_BLOCKS] = i;
    bench->vocab_size = mr_model_info(bench->model)->vocab_size;
    bench->logits = calloc(bench->vocab_size, sizeof(float));
    return MR_OK;
}

static enum mr_status read_tokens(struct bench *bench, const char *path, struct mr_error *err)
{
    struct mr_mapped_file file;
    enum mr_status status = mr_mapped_file_open(&file, path, err);
    if (status != MR_OK) return status;
    const struct mr_tokenizer *tokenizer = mr_model_tokenizer(bench->model);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_id_list ids = {.ids = bench->ids, .max = WINDOWS * WINDOW_TOKENS};
    struct mr_text text = {(const char *)file.bytes, file.size};
    status =
        mr_tokenizer_encode(tokenizer, scratch, text, (struct mr_encode_options){0}, &ids, err);
    if (status == MR_PROMPT_TOO_LONG) status = MR_OK; /* the text is longer, as it should be */
    if (status == MR_OK && ids.count < ids.max)
        status = mr_fail(err, MR_BAD_FILE, "%s has %zu tokens; %u are needed", path, ids.count,
                         WINDOWS * WINDOW_TOKENS);
    mr_tokenizer_scratch_destroy(scratch);
    mr_mapped_file_close(&file);
    return status;
}

static double log_probability(const struct bench *bench, uint32_t token)
{
    float top = bench->logits[0];
    double sum = 0;
    for (uint32_t i = 1; i < bench->vocab_size; i++)
        top = fmaxf(top, bench->logits[i]);
    for (uint32_t i = 0; i < bench->vocab_size; i++)
        sum += (double)expf(bench->logits[i] - top);
    return (double)(bench->logits[token] - top) - log(sum);
}

/* Computes token `position` of every window; adds the log probabilities of the tokens after it. */
static enum mr_status step(struct bench *bench, uint32_t position, double *sum,
                           struct mr_error *err)
{
    uint32_t tokens[WINDOWS];
    struct mr_batch_sequence sequences[WINDOWS] = {0};
    struct mr_batch batch = {tokens, WINDOWS, sequences, WINDOWS};
    for (uint32_t i = 0; i < WINDOWS; i++) {
        tokens[i] = bench->ids[i * WINDOW_TOKENS + position];
        sequences[i] = (struct mr_batch_sequence){.row_begin = i,
                                                  .row_count = 1,
                                                  .context_tokens = position,
                                                  .blocks = bench->blocks[i],
                                                  .logit_rows = 1};
    }
    enum mr_status status = mr_model_forward(bench->model, &batch, err);
    for (uint32_t i = 0; i < WINDOWS && status == MR_OK; i++) {
        status = mr_model_logits(bench->model, i, bench->logits, err);
        if (status == MR_OK)
            *sum += log_probability(bench, bench->ids[i * WINDOW_TOKENS + position + 1]);
    }
    return status;
}

int main(int argument_count, char **arguments)
{
    struct mr_error err = {0};
    static struct bench bench;
    double sum = 0;
    if (argument_count < 3) {
        fprintf(stderr, "bench_perplexity MODEL TEXT [bf16|fp32|int8|int4|auto]\n");
        return 2;
    }
    const char *name = argument_count > 3 ? arguments[3] : "bf16";
    const enum mr_dtype dtype = strcmp(name, "fp32") == 0   ? MR_DTYPE_F32
                                : strcmp(name, "int8") == 0 ? MR_DTYPE_INT8
                                : strcmp(name, "int4") == 0 ? MR_DTYPE_INT4
                                : strcmp(name, "auto") == 0 ? MR_DTYPE_AUTO
                                                            : MR_DTYPE_BF16;
    enum mr_status status = open_model(&bench, arguments[1], dtype, &err);
    if (status == MR_OK) status = read_tokens(&bench, arguments[2], &err);
    for (uint32_t i = 0; i + 1 < WINDOW_TOKENS && status == MR_OK; i++)
        status = step(&bench, i, &sum, &err);
    if (status == MR_OK)
        printf("{\"model\": \"%s\", \"dtype\": \"%s\", \"tokens\": %u, \"perplexity\": %.4f}\n",
               arguments[1], name, WINDOWS * WINDOW_TOKENS,
               exp(-sum / (WINDOWS * (WINDOW_TOKENS - 1))));
    else
        fprintf(stderr, "%s\n", err.detail);
    free(bench.logits);
    if (bench.model) mr_model_close(bench.model);
    return status != MR_OK;
}
