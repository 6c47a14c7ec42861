#include "ops/model/gpu_start.h"

#include "codec/check.h"
#include "ops/decoder/decoder.h"
#include "ops/model/step_queue.h"

#include <stdlib.h>

/* Most rows * tokens of a graph: attention's intermediate results, 130 floats for each head and 256
 * tokens of a row, then take 68 MB with 32 heads. */
#define TOKENS_MAX ((uint64_t)1 << 20)

#define FINE_STEP   32u
#define FINE_MAX    768u
#define COARSE_STEP 256u
#define COARSE_MAX  8192u
#define HISTORY_MAX 4096u /* attention has other kernels for few rows after a long history */

#define EVEN_FROM 64u /* numbers of rows of graphs are EVEN_STEP apart up to EVEN_TO */
#define EVEN_STEP 32u
#define EVEN_TO   256u

/* ---- graphs ---- */

uint32_t mr_decode_graphs_list(uint32_t rows_max, uint32_t context_tokens,
                               struct mr_decode_graph out[MR_DECODE_GRAPHS_MAX])
{
    static const uint32_t tokens[] = {1024, 2048, 4096, 16384};
    uint32_t count = 0, rows = 1;
    if (rows_max == 0) return 0;
    while (rows < rows_max && rows <= UINT32_MAX / 2)
        rows = rows >= EVEN_FROM && rows < EVEN_TO ? rows + EVEN_STEP : rows * 2;
    for (; rows > 0; rows = rows > EVEN_FROM && rows <= EVEN_TO ? rows - EVEN_STEP : rows / 2)
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            const bool needed = i == 0 || tokens[i - 1] < context_tokens;
            const uint32_t used = rows < rows_max ? rows : rows_max;
            if (!needed || (uint64_t)used * tokens[i] > TOKENS_MAX) continue;
            MR_ASSERT(count < MR_DECODE_GRAPHS_MAX);
            out[count++] = (struct mr_decode_graph){used, tokens[i]};
        }
    return count;
}

enum mr_status mr_decode_graphs_record(struct mr_decode_graphs *out, struct mr_decoder *decoder,
                                       const struct mr_decode_graphs_spec *spec,
                                       struct mr_error *err)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    const uint32_t total = mr_decode_graphs_list(spec->rows_max, spec->context_tokens, graphs);
    *out = (struct mr_decode_graphs){.refusal.status = MR_OK};
    for (uint32_t i = 0; i < total; i++) {
        if (spec->progress) spec->progress(spec->progress_context, i, total);
        enum mr_status status =
            mr_decoder_record(decoder, graphs[i].rows, graphs[i].tokens, &out->refusal);
        if (status == MR_UNSUPPORTED) return MR_OK;
        if (status != MR_OK) return mr_fail(err, status, "%s", out->refusal.detail);
        out->count++;
    }
    return MR_OK;
}

/* ---- other steps ---- */

uint32_t mr_warm_up_sizes(uint32_t rows_max, uint32_t out[MR_WARM_UP_SIZES_MAX])
{
    uint32_t count = 0;
    for (uint32_t rows = rows_max; rows > 0; count++) {
        const uint32_t step = rows <= FINE_MAX ? FINE_STEP : COARSE_STEP;
        MR_ASSERT(count < MR_WARM_UP_SIZES_MAX);
        out[count] = rows;
        rows = rows > COARSE_MAX ? rows / 2 : (rows - 1) / step * step;
    }
    return count;
}

/* Computes and samples `rows` tokens after the longest history allowed, at most HISTORY_MAX
 * tokens. */
static enum mr_status run(struct mr_step_queue *queue, const struct mr_warm_up_spec *spec,
                          const uint32_t *blocks, const uint32_t *token_ids, uint32_t rows,
                          struct mr_error *err)
{
    static const struct mr_sampling greedy = {
        .top_p = 1.0f, .repetition_penalty = 1.0f, .logprobs = -1};
    const uint32_t before = spec->tokens_max - rows;
    const struct mr_batch_sequence sequence = {.row_count = rows,
                                               .context_tokens =
                                                   before < HISTORY_MAX ? before : HISTORY_MAX,
                                               .blocks = blocks,
                                               .slots = blocks,
                                               .logit_rows = 1};
    const struct mr_batch batch = {token_ids, rows, &sequence, 1};
    const struct mr_sample_row row = {.sampling = &greedy};
    struct mr_sample sample;
    const struct mr_model_step step = {
        .batch = &batch, .rows = &row, .sample_count = 1, .samples = &sample};
    enum mr_status status = mr_step_queue_launch(queue, &step, err);
    return status == MR_OK ? mr_step_queue_collect(queue, err) : status;
}

enum mr_status mr_warm_up(struct mr_step_queue *queue, const struct mr_warm_up_spec *spec,
                          struct mr_error *err)
{
    uint32_t sizes[MR_WARM_UP_SIZES_MAX];
    const uint32_t rows_max = spec->rows_max < spec->tokens_max ? spec->rows_max : spec->tokens_max;
    const uint32_t count = mr_warm_up_sizes(rows_max, sizes);
    const uint32_t block_count = (rows_max + HISTORY_MAX) / MR_BLOCK_TOKENS + 1;
    uint32_t *blocks = calloc(block_count, sizeof *blocks);
    uint32_t *token_ids = calloc(rows_max, sizeof *token_ids);
    enum mr_status status = MR_OK;
    if (!blocks || !token_ids) status = mr_fail(err, MR_NOMEM, "no memory for the warm-up");
    for (uint32_t i = 0; status == MR_OK && i < block_count; i++)
        blocks[i] = i;
    for (uint32_t i = 0; status == MR_OK && i < count; i++)
        status = run(queue, spec, blocks, token_ids, sizes[i], err);
    free(token_ids);
    free(blocks);
    return status;
}
