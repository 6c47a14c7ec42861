#include "ops/decode_graphs.h"

#include "codec/check.h"
#include "ops/decoder.h"

/* Most rows * tokens of a graph: attention's intermediate results, 130 floats for each head and 256
 * tokens of a row, then take 68 MB with 32 heads. */
#define TOKENS_MAX ((uint64_t)1 << 20)

uint32_t mr_decode_graphs_list(uint32_t rows_max, uint32_t context_tokens,
                               struct mr_decode_graph out[MR_DECODE_GRAPHS_MAX])
{
    static const uint32_t tokens[] = {1024, 2048, 4096, 16384};
    uint32_t count = 0, rows = 1;
    if (rows_max == 0) return 0;
    while (rows < rows_max && rows <= UINT32_MAX / 2)
        rows *= 2;
    for (; rows > 0; rows /= 2)
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
