#include "ops/weights/weight_repack.h"

#include "ops/cpu_kernels/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>

struct conversion {
    const struct mr_quantized *from;
    uint64_t first_row;
    size_t row_bytes;
    unsigned char *blocks;
    float *numbers;     /* a row for each thread */
    atomic_bool failed; /* a scale is not a half */
};

static void convert(void *context, size_t begin, size_t end)
{
    struct conversion *conversion = context;
    float *numbers =
        conversion->numbers + (size_t)mr_parallel_thread_index() * conversion->from->width;
    for (size_t row = begin; row < end; row++)
        if (!mr_quantized_row_q4_1(conversion->from, conversion->first_row + row, numbers,
                                   conversion->blocks + row * conversion->row_bytes))
            atomic_store(&conversion->failed, true);
}

/* Rows of the share in its tensor. */
static uint32_t stored_rows(const struct mr_weight_share *share)
{
    return share->rows.size > 0 ? share->row_count / share->rows.padded * share->rows.size
                                : share->row_count;
}

bool mr_weight_repack_fits(const struct mr_weight_rows *rows)
{
    if (rows->columns.size > 0) return false;
    for (uint32_t i = 0; i < rows->share_count; i++) {
        const struct mr_weight_share *share = &rows->shares[i];
        if (share->transposed || share->groups.take > 0 || share->scale != 0.0f) return false;
        if (!share->weight->quantized) return false;
        if (!mr_quantized_fits_q4_1(share->weight->quantized)) return false;
    }
    return true;
}

static enum mr_status repack_share(struct mr_weight_repack *repack, uint32_t index,
                                   const struct mr_weight_rows *rows, bool *done,
                                   struct mr_error *err)
{
    const struct mr_weight_share *share = &rows->shares[index];
    const uint32_t count = stored_rows(share);
    struct conversion conversion = {.from = share->weight->quantized,
                                    .first_row = share->first_row,
                                    .row_bytes = rows->width /
                                                 mr_storage_block_numbers(MR_STORAGE_Q4_1) *
                                                 mr_storage_block_bytes(MR_STORAGE_Q4_1)};
    repack->blocks[index] = malloc(count * conversion.row_bytes);
    conversion.numbers =
        malloc((size_t)mr_parallel_thread_count() * rows->width * sizeof *conversion.numbers);
    if (!repack->blocks[index] || !conversion.numbers) {
        free(conversion.numbers);
        return mr_fail(err, MR_NOMEM, "no memory for a matrix of %u x %u numbers", count,
                       rows->width);
    }
    conversion.blocks = repack->blocks[index];
    atomic_init(&conversion.failed, false);
    mr_parallel_for(count, 16, convert, &conversion);
    free(conversion.numbers);
    *done = !atomic_load(&conversion.failed);
    repack->tensors[index] = (struct mr_stored_tensor){.name = share->weight->name,
                                                       .storage = MR_STORAGE_Q4_1,
                                                       .dim_count = 2,
                                                       .dims = {count, rows->width},
                                                       .bytes = repack->blocks[index],
                                                       .size_bytes = count * conversion.row_bytes};
    return MR_OK;
}

enum mr_status mr_weight_repack_begin(struct mr_weight_repack *repack, struct mr_weight_rows *rows,
                                      struct mr_error *err)
{
    enum mr_status status = MR_OK;
    *repack = (struct mr_weight_repack){0};
    bool done = mr_weight_repack_fits(rows);
    for (uint32_t i = 0; done && status == MR_OK && i < rows->share_count; i++)
        status = repack_share(repack, i, rows, &done, err);
    for (uint32_t i = 0; done && status == MR_OK && i < rows->share_count; i++) {
        rows->shares[i].weight = &repack->tensors[i];
        rows->shares[i].first_row = 0;
    }
    return status;
}

void mr_weight_repack_end(struct mr_weight_repack *repack)
{
    for (uint32_t i = 0; i < MR_WEIGHT_SHARES_MAX; i++)
        free(repack->blocks[i]);
}
