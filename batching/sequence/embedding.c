#include "batching/sequence/embedding.h"

#include "codec/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t mr_embedding_bytes(uint32_t size)
{
    return sizeof(struct mr_embedding) + size * sizeof(double);
}

enum mr_status mr_embedding_create(struct mr_embedding **out, struct mr_pooling pooling,
                                   uint32_t token_count, uint32_t size, struct mr_error *err)
{
    struct mr_embedding *embedding = *out = calloc(1, mr_embedding_bytes(size));
    MR_ASSERT(size > 0);
    if (embedding == NULL) return mr_fail(err, MR_NOMEM, "no memory for a vector of %u", size);
    embedding->pooling = pooling;
    embedding->size = size;
    embedding->sums = (double *)(void *)(embedding + 1);
    mr_embedding_restart(embedding, token_count);
    return MR_OK;
}

void mr_embedding_restart(struct mr_embedding *embedding, uint32_t token_count)
{
    const struct mr_pooling *pooling = &embedding->pooling;
    MR_ASSERT(token_count > 0 && embedding->in_flight == 0);
    embedding->token_count = token_count;
    embedding->pooled = pooling->mean || pooling->first ? 0 : token_count - 1;
    memset(embedding->sums, 0, embedding->size * sizeof *embedding->sums);
}

void mr_embedding_destroy(struct mr_embedding *embedding)
{
    free(embedding);
}

uint32_t mr_embedding_rows(const struct mr_embedding *embedding, uint32_t begin, uint32_t end)
{
    if (embedding == NULL) return 0;
    if (embedding->pooling.first) return begin == 0 && embedding->pooled == 0;
    uint32_t from = begin > embedding->pooled ? begin : embedding->pooled;
    return end > from ? end - from : 0;
}

bool mr_embedding_add(struct mr_embedding *embedding, const float *sum, uint32_t rows)
{
    bool finite = true;
    MR_ASSERT(rows <= embedding->token_count - embedding->pooled);
    for (uint32_t i = 0; i < embedding->size; i++) {
        embedding->sums[i] += (double)sum[i];
        finite &= isfinite(sum[i]) != 0;
    }
    embedding->pooled =
        embedding->pooling.first ? embedding->token_count : embedding->pooled + rows;
    return finite;
}

void mr_embedding_mean(const struct mr_embedding *embedding, float *out)
{
    const double factor = embedding->pooling.mean ? 1.0 / embedding->token_count : 1.0;
    MR_ASSERT(mr_embedding_done(embedding));
    for (uint32_t i = 0; i < embedding->size; i++)
        out[i] = (float)(embedding->sums[i] * factor);
}
