#include "ops/weight_rows.h"

#include "codec/check.h"

#include <stdlib.h>

/* Where one row of a merged linear layer comes from: the tensor (a share, weight_rows.h), and the
 * row in this tensor. */
struct place {
    const struct mr_weight_share *share;
    uint32_t row;
};

static uint32_t stored_row(const struct mr_weight_share *share, uint32_t row)
{
    if (share->pair_dim == 0) return row;
    uint32_t half = share->pair_dim / 2;
    uint32_t in_head = row % share->pair_dim;
    uint32_t paired = in_head < half ? 2 * in_head : 2 * (in_head - half) + 1;
    return row - in_head + paired;
}

static struct place locate(const struct mr_weight_rows *rows, uint32_t row)
{
    uint32_t index = 0;
    if (rows->alternate) {
        index = row % rows->share_count;
        row /= rows->share_count;
    } else {
        while (index + 1 < rows->share_count && row >= rows->shares[index].row_count)
            row -= rows->shares[index++].row_count;
    }
    MR_ASSERT(row < rows->shares[index].row_count);
    return (struct place){&rows->shares[index], stored_row(&rows->shares[index], row)};
}

uint32_t mr_weight_rows_count(const struct mr_weight_rows *rows)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rows->share_count; i++) {
        MR_ASSERT(!rows->alternate || rows->shares[i].row_count == rows->shares[0].row_count);
        count += rows->shares[i].row_count;
    }
    return count;
}

void mr_weight_rows_read(void *context, uint32_t row, float *out)
{
    struct place place = locate(context, row);
    mr_stored_tensor_row(place.share->weight, place.row, out);
}

static void fill_bias(const struct mr_weight_rows *rows, uint32_t share, const float *stored,
                      float *out)
{
    uint32_t count = mr_weight_rows_count(rows);
    for (uint32_t row = 0; row < count; row++) {
        struct place place = locate(rows, row);
        if (place.share == &rows->shares[share]) out[row] = stored[place.row];
    }
}

enum mr_status mr_weight_rows_bias(const struct mr_weight_rows *rows, float **out,
                                   struct mr_error *err)
{
    *out = NULL;
    bool any = false;
    for (uint32_t i = 0; i < rows->share_count; i++)
        any |= rows->shares[i].bias != NULL;
    if (!any) return MR_OK;
    uint32_t count = mr_weight_rows_count(rows);
    float *bias = calloc(count, sizeof(float));
    float *stored = calloc(count, sizeof(float));
    for (uint32_t i = 0; bias && stored && i < rows->share_count; i++) {
        if (!rows->shares[i].bias) continue;
        mr_stored_tensor_row(rows->shares[i].bias, 0, stored);
        fill_bias(rows, i, stored, bias);
    }
    if (!bias || !stored) {
        free(bias);
        free(stored);
        return mr_fail(err, MR_NOMEM, "no memory for a bias of %u numbers", count);
    }
    free(stored);
    *out = bias;
    return MR_OK;
}
