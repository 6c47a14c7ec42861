/* Residual + RMS norm and the gated activations against double. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- residual and norm ---- */

static void compare_norm(struct cases *cases, const struct mr_cuda_add_norm *norm,
                         const float *before)
{
    const enum mr_cuda_type type = norm->type;
    for (uint32_t row = 0; row < norm->row_count; row++) {
        const size_t begin = (size_t)row * norm->width;
        double squares = 0.0;
        for (uint32_t i = 0; i < norm->width; i++) {
            double sum = (double)before[begin + i];
            if (norm->x) {
                const double x = (double)norm->scale * numbers_get(type, norm->x, begin + i);
                const double error = 2e-7 * (fabs(sum) + fabs(x));
                sum += x;
                numbers_compare(cases, (struct numbers){"residual", MR_CUDA_F32, norm->residual},
                                begin + i, sum, error);
                /* The kernel rounds the sum. The check above compares the rounding; here its result
                 * is the input. */
                sum = (double)norm->residual[begin + i];
            }
            squares += sum * sum;
        }
        const double factor = 1.0 / sqrt(squares / norm->width + (double)norm->epsilon);
        for (uint32_t i = 0; i < norm->width; i++) {
            const double number = (double)norm->residual[begin + i];
            const double weight = norm->weight ? (double)norm->weight[i] : 1.0;
            numbers_compare(cases, (struct numbers){"norm", type, norm->out}, begin + i,
                            number * factor * weight, 1e-6 * fabs(number * factor * weight));
        }
    }
}

static void run_norm(struct cases *cases)
{
    static const uint32_t widths[] = {8, 16, 248, 256, 264, 576, 1024, 2040, 2048, 2056, 4096};
    struct mr_cuda_add_norm norm = {
        .type = cases_type(cases),
        .row_count = 1 + cases_pick(cases, 4),
        .width = cases_pick(cases, 2) ? cases_choose(cases, widths, 11)
                                      : 8 * (1 + cases_pick(cases, 300)),
        .scale = cases_pick(cases, 2) ? 1.0f : (float)cases_uniform(cases),
        .epsilon = cases_pick(cases, 2) ? 1e-5f : 1e-2f,
    };
    const size_t count = (size_t)norm.row_count * norm.width;
    const double size = pow(10.0, cases_uniform(cases) * 2.0);
    void *x = numbers_random(cases, norm.type, count, size);
    float *before = floats_random(cases, count, size);
    float *weight = floats_random(cases, norm.width, 2.0);
    norm.residual = malloc(count * sizeof(float));
    memcpy(norm.residual, before, count * sizeof(float));
    norm.x = cases_pick(cases, 4) ? x : NULL;
    norm.weight = cases_pick(cases, 4) ? weight : NULL;
    norm.out = numbers_nan(norm.type, count);
    struct mr_error err = {.status = MR_OK};
    if (mr_cuda_add_rms_norm(&norm, NULL, &err) == MR_OK)
        compare_norm(cases, &norm, before);
    else
        cases_fail(cases, "%s", err.detail);
    free(norm.out);
    free(norm.residual);
    free(weight);
    free(before);
    free(x);
}

/* ---- activations ---- */

static double activated(enum mr_cuda_activation activation, double gate, double up)
{
    if (activation == MR_CUDA_SILU_MUL) return up * gate / (1.0 + exp(-gate));
    if (activation == MR_CUDA_GELU_MUL) return up * gate * 0.5 * erfc(-gate * M_SQRT1_2);
    if (activation == MR_CUDA_GELU_TANH_MUL) {
        const double inner = sqrt(2.0 / M_PI) * (gate + 0.044715 * gate * gate * gate);
        return up * gate / (1.0 + exp(-2.0 * inner)); /* (1 + tanh(x)) / 2 = 1 / (1 + exp(-2x)) */
    }
    gate = gate > 7.0 ? 7.0 : gate;
    up = up > 7.0 ? 7.0 : up < -7.0 ? -7.0 : up;
    return (up + 1.0) * gate / (1.0 + exp(-1.702 * gate));
}

static void run_gated(struct cases *cases)
{
    static const uint32_t widths[] = {8, 16, 2040, 2048, 2056, 4096};
    struct mr_cuda_gated gated = {
        .type = cases_type(cases),
        .activation = (enum mr_cuda_activation)cases_pick(cases, 4),
        .row_count = 1 + cases_pick(cases, 5),
        .width = cases_pick(cases, 3) ? 8 * (1 + cases_pick(cases, 300))
                                      : cases_choose(cases, widths, 6),
    };
    const bool halves = cases_pick(cases, 2) == 0; /* of one matrix, or two matrices */
    gated.input_stride = (int64_t)gated.width * (halves ? 2 : 1) + 8 * cases_pick(cases, 2);
    const size_t count = (size_t)gated.input_stride * gated.row_count;
    void *gate = numbers_random(cases, gated.type, count, 12.0);
    void *up = numbers_random(cases, gated.type, count, 12.0);
    gated.gate = gate;
    gated.up = halves ? (unsigned char *)gate + gated.width * numbers_bytes(gated.type) : up;
    gated.out = numbers_nan(gated.type, (size_t)gated.row_count * gated.width);
    struct mr_error err = {.status = MR_OK};
    if (mr_cuda_gated_mul(&gated, NULL, &err) != MR_OK) cases_fail(cases, "%s", err.detail);
    for (uint32_t row = 0; row < gated.row_count; row++)
        for (uint32_t i = 0; i < gated.width; i++) {
            const size_t at = row * (size_t)gated.input_stride + i;
            const double expected = activated(gated.activation, numbers_get(gated.type, gate, at),
                                              numbers_get(gated.type, gated.up, at));
            numbers_compare(cases, (struct numbers){"activated", gated.type, gated.out},
                            (size_t)row * gated.width + i, expected, 2e-5);
        }
    free(gated.out);
    free(up);
    free(gate);
}

static void run_case(struct cases *cases)
{
    run_norm(cases);
    run_gated(cases);
}

int main(int argc, char **argv)
{
    return cases_run(argc, argv, 100, run_case);
}
