#include "ops/weights/weight_rows.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#define PADDING UINT64_MAX

/* Where one row of a linear layer comes from: the tensor (a share, weight_rows.h), and the row in
 * this tensor or PADDING. */
struct place {
    const struct mr_weight_share *share;
    uint64_t row;
};

/* Returns the index of a row in the tensor of its share, or PADDING. */
static uint64_t stored_row(const struct mr_weight_share *share, uint32_t row)
{
    uint32_t size = share->rows.size;
    if (size > 0) {
        uint32_t in_head = row % share->rows.padded;
        if (in_head >= size) return PADDING;
        row = row / share->rows.padded * size + in_head;
    }
    if (share->groups.take > 0)
        row = row / share->groups.take * share->groups.size + row % share->groups.take;
    if (share->pair_dim == 0) return row;
    uint32_t half = share->pair_dim / 2;
    uint32_t in_head = row % share->pair_head;
    if (in_head >= share->pair_dim) return row;
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

/* Moves the heads of a row that was stored without padding to their padded places. */
static void pad_columns(struct mr_head_padding heads, uint32_t width, float *row)
{
    for (uint32_t head = width / heads.padded; head-- > 0;) {
        float *to = row + (size_t)head * heads.padded;
        memmove(to, row + (size_t)head * heads.size, heads.size * sizeof(*row));
        memset(to + heads.size, 0, (heads.padded - heads.size) * sizeof(*row));
    }
}

void mr_weight_rows_read(void *context, uint32_t row, float *out)
{
    const struct mr_weight_rows *rows = context;
    struct place place = locate(rows, row);
    const struct mr_weight_share *share = place.share;
    if (place.row == PADDING) {
        memset(out, 0, rows->width * sizeof(*out));
        return;
    }
    if (share->transposed) {
        const uint32_t width = rows->columns.size > 0
                                   ? rows->width / rows->columns.padded * rows->columns.size
                                   : rows->width;
        for (uint32_t i = 0; i < width; i++)
            out[i] = share->transposed[(size_t)i * share->stride + place.row];
    } else {
        mr_stored_tensor_row(share->weight, share->first_row + place.row, out);
    }
    if (rows->columns.size > 0) pad_columns(rows->columns, rows->width, out);
    for (uint32_t i = 0; share->scale != 0.0f && i < rows->width; i++)
        out[i] *= share->scale;
}

/* ---- rows as they are stored ---- */

_Static_assert(MR_QUANT_BANDS_MAX >= MR_WEIGHT_SHARES_MAX, "each share may have its own storage");

static uint32_t join_bands(struct mr_quant_band *bands, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 1; i < count; i++)
        if (bands[i].format == bands[kept].format)
            bands[kept].rows += bands[i].rows;
        else
            bands[++kept] = bands[i];
    for (uint32_t i = 0; i < kept; i++)
        if (bands[i].rows % MR_QUANT_COLUMNS != 0) return 0;
    return kept + 1;
}

uint32_t mr_weight_rows_bands(const struct mr_weight_rows *rows,
                              struct mr_quant_band bands[MR_QUANT_BANDS_MAX])
{
    if (rows->columns.size > 0) return 0;
    for (uint32_t i = 0; i < rows->share_count; i++) {
        const struct mr_weight_share *share = &rows->shares[i];
        const enum mr_quant_format format = mr_quant_format_of(share->weight->storage);
        if (format == MR_QUANT_NONE || share->transposed || share->scale != 0.0f) return 0;
        bands[i] = (struct mr_quant_band){share->row_count, format};
        if (rows->alternate && format != bands[0].format) return 0;
    }
    return join_bands(bands, rows->share_count);
}

const unsigned char *mr_weight_rows_bytes(void *context, uint32_t row)
{
    const struct mr_weight_rows *rows = context;
    const struct place place = locate(rows, row);
    if (place.row == PADDING) return NULL;
    const struct mr_stored_tensor *weight = place.share->weight;
    const size_t row_bytes = rows->width / mr_storage_block_numbers(weight->storage) *
                             mr_storage_block_bytes(weight->storage);
    return weight->bytes + (place.share->first_row + place.row) * row_bytes;
}

/* ---- biases ---- */

/* Fills in the biases of one share. stored: room for a row of the bias tensor, which has the biases
 * of one or of several shares. */
static void fill_bias(const struct mr_weight_rows *rows, uint32_t index, float *stored, float *out)
{
    const struct mr_weight_share *share = &rows->shares[index];
    uint64_t width = share->bias->dims[share->bias->dim_count - 1];
    uint32_t count = mr_weight_rows_count(rows);
    mr_stored_tensor_row(share->bias, share->first_row / width, stored);
    for (uint32_t row = 0; row < count; row++) {
        struct place place = locate(rows, row);
        if (place.share != share || place.row == PADDING) continue;
        uint64_t at = share->first_row % width + place.row;
        MR_ASSERT(at < width);
        out[row] = share->bias_scale != 0.0f ? stored[at] * share->bias_scale : stored[at];
    }
}

enum mr_status mr_weight_rows_bias(const struct mr_weight_rows *rows, float **out,
                                   struct mr_error *err)
{
    uint64_t width = 0;
    *out = NULL;
    for (uint32_t i = 0; i < rows->share_count; i++) {
        const struct mr_stored_tensor *bias = rows->shares[i].bias;
        if (bias && bias->dims[bias->dim_count - 1] > width)
            width = bias->dims[bias->dim_count - 1];
    }
    if (width == 0) return MR_OK;
    uint32_t count = mr_weight_rows_count(rows);
    float *bias = calloc(count, sizeof(float));
    float *stored = calloc(width, sizeof(float));
    for (uint32_t i = 0; bias && stored && i < rows->share_count; i++)
        if (rows->shares[i].bias) fill_bias(rows, i, stored, bias);
    free(stored);
    if (!bias || !stored) {
        free(bias);
        return mr_fail(err, MR_NOMEM, "no memory for a bias of %u numbers", count);
    }
    *out = bias;
    return MR_OK;
}
