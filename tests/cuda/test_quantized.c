/* Products with weights of 4 and 8 bits, and their conversion to numbers, against double. */
#include "cases.h"
#include "ops/cuda/quantized_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The weights of a case, as codes and floats, and packed as tiles. */
struct weights {
    struct mr_cuda_tiles tiles;
    uint32_t experts, groups; /* groups: of an output */
    unsigned char *codes;     /* [experts][out_size][in_size] */
    double *scales, *lows;    /* [experts][out_size][groups] */
    unsigned char *bytes;
};

static double value_of(const struct mr_cuda_tiles *tiles, unsigned char code)
{
    static const double fp4[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    if (tiles->code == MR_CUDA_FP4) return code < 8 ? fp4[code] : -fp4[code - 8];
    return (double)code - tiles->zero;
}

static double weight_of(const struct weights *weights, uint64_t output, uint32_t input)
{
    const uint64_t at = output * weights->groups + input / weights->tiles.group;
    const double value =
        value_of(&weights->tiles, weights->codes[output * weights->tiles.in_size + input]);
    return value * weights->scales[at] + weights->lows[at];
}

/* ---- packing, from the description in quantized_kernels.h ---- */

static void put_code(const struct mr_cuda_tiles *tiles, unsigned char *tile, uint32_t output,
                     uint32_t input, uint32_t code)
{
    const uint32_t j = input % 64 / 16, pair = output / 8 % 2 + input / 8 % 2 * 2;
    const uint32_t lane = output % 8 * 4 + input % 8 / 2, second = input % 2;
    if (tiles->code == MR_CUDA_U8) {
        tile[((j / 2 * 32 + lane) * 2 + j % 2) * 8 + pair * 2 + second] = (unsigned char)code;
        return;
    }
    uint32_t word;
    memcpy(&word, tile + (lane * 4 + j) * 4, sizeof word);
    const uint32_t shift = 4 * pair + 16 * second;
    word = (word & ~(15u << shift)) | code << shift;
    memcpy(tile + (lane * 4 + j) * 4, &word, sizeof word);
}

static void put_scales(const struct weights *weights, unsigned char *tile, uint32_t output,
                       uint32_t group, uint64_t at)
{
    const uint32_t each = weights->tiles.lows ? 2 : 1;
    const enum mr_cuda_type type = weights->tiles.code == MR_CUDA_FP4 ? MR_CUDA_BF16 : MR_CUDA_F16;
    void *scales = tile + mr_cuda_tile_code_bytes(&weights->tiles);
    const uint32_t index = (group * 16 + output % 8 * 2 + output / 8 % 2) * each;
    numbers_set(type, scales, index, weights->scales[at]);
    if (weights->tiles.lows) numbers_set(type, scales, index + 1, weights->lows[at]);
}

/* Codes outside the matrix are random. */
static void pack_tiles(struct cases *cases, struct weights *weights)
{
    const struct mr_cuda_tiles *tiles = &weights->tiles;
    const uint32_t outputs = (tiles->out_size + 15) / 16, inputs = (tiles->in_size + 63) / 64;
    const uint32_t tile_bytes = mr_cuda_tile_bytes(tiles);
    const size_t count = (size_t)weights->experts * outputs * inputs;
    weights->bytes = aligned_alloc(16, count * tile_bytes);
    for (size_t i = 0; i < count; i++) {
        unsigned char *tile = weights->bytes + i * tile_bytes;
        memset(tile, 0, tile_bytes);
        for (uint32_t k = 0; k < mr_cuda_tile_code_bytes(tiles); k++)
            tile[k] = (unsigned char)cases_pick(cases, 256);
    }
    for (uint64_t row = 0; row < (uint64_t)weights->experts * tiles->out_size; row++) {
        const uint64_t expert = row / tiles->out_size;
        const uint32_t output = (uint32_t)(row % tiles->out_size);
        unsigned char *first =
            weights->bytes + (expert * outputs + output / 16) * inputs * tile_bytes;
        for (uint32_t input = 0; input < tiles->in_size; input++) {
            unsigned char *tile = first + (size_t)(input / 64) * tile_bytes;
            put_code(tiles, tile, output, input, weights->codes[row * tiles->in_size + input]);
            if (input % tiles->group == 0)
                put_scales(weights, tile, output, input % 64 / tiles->group,
                           row * weights->groups + input / tiles->group);
        }
    }
}

static void open_weights(struct cases *cases, struct weights *weights, uint32_t experts)
{
    static const uint32_t outs[] = {8, 16, 24, 64, 128, 136};
    static const uint32_t ins[] = {32, 64, 96, 256, 544, 1088};
    struct mr_cuda_tiles *tiles = &weights->tiles;
    tiles->code = (enum mr_cuda_code)cases_pick(cases, 3);
    tiles->group = tiles->code == MR_CUDA_U8 && cases_pick(cases, 2) ? 16 : 32;
    tiles->lows = tiles->code != MR_CUDA_FP4 && tiles->group == 32 && cases_pick(cases, 2);
    tiles->zero = tiles->code == MR_CUDA_FP4  ? 0
                  : tiles->code == MR_CUDA_U8 ? cases_pick(cases, 129)
                                              : cases_pick(cases, 16);
    tiles->out_size =
        cases_pick(cases, 2) ? cases_choose(cases, outs, 6) : 1 + cases_pick(cases, 100);
    tiles->in_size =
        cases_pick(cases, 2) ? cases_choose(cases, ins, 6) : 8 * (1 + cases_pick(cases, 40));
    weights->experts = experts;
    weights->groups = (tiles->in_size + tiles->group - 1) / tiles->group;
    const size_t rows = (size_t)experts * tiles->out_size;
    weights->codes = malloc(rows * tiles->in_size);
    weights->scales = malloc(rows * weights->groups * sizeof(double));
    weights->lows = malloc(rows * weights->groups * sizeof(double));
    for (size_t i = 0; i < rows * tiles->in_size; i++)
        weights->codes[i] = (unsigned char)cases_pick(cases, tiles->code == MR_CUDA_U8 ? 256 : 16);
    for (size_t i = 0; i < rows * weights->groups; i++) {
        const enum mr_cuda_type type = tiles->code == MR_CUDA_FP4 ? MR_CUDA_BF16 : MR_CUDA_F16;
        weights->scales[i] = numbers_round(type, cases_uniform(cases) * 0.1);
        weights->lows[i] = tiles->lows ? numbers_round(type, cases_uniform(cases)) : 0.0;
    }
    pack_tiles(cases, weights);
    tiles->bytes = weights->bytes;
}

static void close_weights(struct weights *weights)
{
    free(weights->codes);
    free(weights->scales);
    free(weights->lows);
    free(weights->bytes);
}

/* ---- products ---- */

/* Compares row `row` with the product of `expert`. */
static void compare_row(struct cases *cases, const struct weights *weights,
                        const struct mr_cuda_quantized *product, uint32_t row, uint32_t expert)
{
    const struct mr_cuda_tiles *tiles = &weights->tiles;
    for (uint32_t output = 0; output < tiles->out_size; output++) {
        const uint64_t at = (uint64_t)expert * tiles->out_size + output;
        double sum = 0.0, size = 0.0;
        for (uint32_t input = 0; input < tiles->in_size; input++) {
            const double x = numbers_get(product->type, product->x,
                                         (size_t)row * (size_t)product->x_stride + input);
            const uint64_t group = at * weights->groups + input / tiles->group;
            sum += x * weight_of(weights, at, input);
            size += fabs(x) * (fabs(weight_of(weights, at, input) - weights->lows[group]) +
                               fabs(weights->lows[group]));
        }
        numbers_compare(cases, (struct numbers){"product", product->type, product->y},
                        (size_t)row * (size_t)product->y_stride + output, sum, 2e-6 * size);
    }
}

static void enqueue(struct cases *cases, struct mr_cuda_quantized *product)
{
    struct mr_error err = {.status = MR_OK};
    const size_t bytes = mr_cuda_quantized_scratch_bytes(product);
    product->scratch = bytes > 0 ? numbers_nan(MR_CUDA_F32, bytes / sizeof(float)) : NULL;
    if (mr_cuda_quantized_product(product, NULL, &err) != MR_OK)
        cases_fail(cases, "%s", err.detail);
    free(product->scratch);
}

/* A row alone has the same bits as among others. */
static void compare_alone(struct cases *cases, const struct mr_cuda_quantized *product)
{
    struct mr_cuda_quantized alone = *product;
    const size_t bytes = numbers_bytes(product->type);
    const size_t row = cases_pick(cases, product->row_count);
    alone.row_count = 1;
    alone.x = (const unsigned char *)product->x + row * (size_t)product->x_stride * bytes;
    alone.y = numbers_nan(product->type, (size_t)product->y_stride);
    enqueue(cases, &alone);
    if (memcmp(alone.y, (const unsigned char *)product->y + row * (size_t)product->y_stride * bytes,
               product->weights.out_size * bytes) != 0)
        cases_fail(cases, "row %zu alone is not equal to the row among others", row);
    free(alone.y);
}

/* Ends of the rows of each expert; some have none. */
static int32_t *random_ends(struct cases *cases, uint32_t experts, uint32_t rows)
{
    int32_t *ends = malloc(experts * sizeof *ends);
    for (uint32_t i = 0; i + 1 < experts; i++) {
        const uint32_t before = i > 0 ? (uint32_t)ends[i - 1] : 0;
        const uint32_t most = cases_pick(cases, 3) ? rows - before : 0;
        ends[i] = (int32_t)(before + cases_pick(cases, most + 1));
    }
    ends[experts - 1] = (int32_t)rows;
    return ends;
}

static void run_product(struct cases *cases)
{
    static const uint32_t counts[] = {1, 2, 8, 9, 32, 33, 64, 70};
    struct weights weights;
    const uint32_t experts = cases_pick(cases, 2) ? 1 + cases_pick(cases, 4) : 0;
    open_weights(cases, &weights, experts > 0 ? experts : 1);
    struct mr_cuda_quantized product = {
        .weights = weights.tiles,
        .type = cases_pick(cases, 2) ? MR_CUDA_BF16 : MR_CUDA_F16,
        .row_count = cases_choose(cases, counts, weights.tiles.in_size > 320 ? 5 : 8),
        .x_stride = weights.tiles.in_size + 8 * (int64_t)cases_pick(cases, 2),
        .y_stride = weights.tiles.out_size + (int64_t)cases_pick(cases, 2),
        .expert_count = experts,
    };
    const size_t rows = product.row_count;
    int32_t *ends = experts > 0 ? random_ends(cases, experts, product.row_count) : NULL;
    void *x = numbers_random(cases, product.type,
                             (rows - 1) * (size_t)product.x_stride + weights.tiles.in_size, 2.0);
    product.ends = ends;
    product.x = x;
    product.y = numbers_nan(product.type, rows * (size_t)product.y_stride);
    enqueue(cases, &product);
    for (uint32_t row = 0, expert = 0; row < product.row_count; row++) {
        while (ends && row >= (uint32_t)ends[expert])
            expert++;
        compare_row(cases, &weights, &product, row, expert);
    }
    if (!ends) compare_alone(cases, &product);
    free(product.y);
    free(x);
    free(ends);
    close_weights(&weights);
}

/* ---- numbers ---- */

static void run_unpack(struct cases *cases)
{
    struct weights weights;
    open_weights(cases, &weights, 1 + cases_pick(cases, 2));
    const uint32_t all = weights.experts * weights.tiles.out_size;
    struct mr_cuda_unpack unpack = {
        .weights = weights.tiles,
        .type = cases_type(cases),
        .row_count = cases_pick(cases, 2) ? all : 1 + cases_pick(cases, 5),
        .out_stride = weights.tiles.in_size + 8 * (int64_t)cases_pick(cases, 2),
    };
    int64_t *ids = malloc(unpack.row_count * sizeof *ids);
    for (uint32_t i = 0; i < unpack.row_count; i++)
        ids[i] = unpack.row_count == all ? i : cases_pick(cases, all);
    unpack.ids = unpack.row_count == all ? NULL : ids;
    unpack.out = numbers_nan(unpack.type, unpack.row_count * (size_t)unpack.out_stride);
    struct mr_error err = {.status = MR_OK};
    if (mr_cuda_unpack_weights(&unpack, NULL, &err) != MR_OK) cases_fail(cases, "%s", err.detail);
    for (uint32_t row = 0; row < unpack.row_count; row++)
        for (uint32_t input = 0; input < weights.tiles.in_size; input++) {
            const double number = weight_of(&weights, (uint64_t)ids[row], input);
            numbers_compare(cases, (struct numbers){"number", unpack.type, unpack.out},
                            row * (size_t)unpack.out_stride + input, number, 1e-7 * fabs(number));
        }
    free(unpack.out);
    free(ids);
    close_weights(&weights);
}

static void run_case(struct cases *cases)
{
    run_product(cases);
    run_unpack(cases);
}

int main(int argc, char **argv)
{
    return cases_run(argc, argv, 30, run_case);
}
