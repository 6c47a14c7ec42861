/* The draw of a token: the random number, the order of ids and the result are those of the CPU
 * sampler. Where the random number falls within rounding of the border between two tokens, either
 * is right. */
#include "cases.h"

#include "ops/cpu/parallel.h"
#include "ops/sampling/sampler.h"

#include <math.h>
#include <stdlib.h>

#define ROWS_MAX 4u
/* Part of the sum of all weights by which rounding moves a border. */
#define BORDER 3e-6

enum row_kind { ROW_PLAIN, ROW_PEAK, ROW_EQUAL, ROW_MASKED, ROW_LONELY, ROW_BROKEN, ROW_KINDS };

static void *make_logits(struct cases *cases, struct mr_cuda_sampling *sampling)
{
    const enum mr_cuda_type type = sampling->type;
    const size_t stride = (size_t)sampling->logits_stride;
    void *logits = numbers_random(cases, type, stride * sampling->row_count, 8.0);
    for (uint32_t row = 0; row < sampling->row_count; row++) {
        const size_t begin = row * stride;
        const uint32_t kind = cases_pick(cases, ROW_KINDS);
        const uint32_t special = cases_pick(cases, sampling->vocab_size);
        for (uint32_t id = 0; id < sampling->vocab_size; id++) {
            if (kind == ROW_EQUAL) numbers_set(type, logits, begin + id, 1.5);
            if ((kind == ROW_MASKED && cases_pick(cases, 3)) || kind == ROW_LONELY)
                numbers_set(type, logits, begin + id, -INFINITY);
        }
        static const double broken[] = {NAN, INFINITY, -INFINITY};
        if (kind == ROW_PEAK) numbers_set(type, logits, begin + special, 20.0);
        if (kind == ROW_LONELY) numbers_set(type, logits, begin + special, -3.0);
        if (kind == ROW_BROKEN)
            numbers_set(type, logits, begin + special, broken[cases_pick(cases, 3)]);
    }
    return logits;
}

/* What the CPU sampler draws from the row. */
static struct mr_sample draw_on_cpu(const float *logits, uint32_t vocab_size,
                                    const struct mr_cuda_draw *draw)
{
    const struct mr_sampler_spec spec = {.vocab_size = vocab_size,
                                         .thread_count = mr_parallel_thread_count()};
    const struct mr_sampling settings = {.temperature = draw->temperature,
                                         .top_p = 1.0f,
                                         .typical_p = 1.0f,
                                         .repetition_penalty = 1.0f};
    const struct mr_sample_row row = {
        .logits = logits, .sampling = &settings, .seed = draw->seed, .position = draw->position};
    struct mr_sampler *sampler;
    struct mr_sample sample;
    if (mr_sampler_create(&sampler, &spec, NULL) != MR_OK) abort();
    mr_sampler_run(sampler, &row, 1, &sample);
    mr_sampler_destroy(sampler);
    return sample;
}

/* Fails the case unless the random number falls on the token, or within rounding of it. */
static void check_border(struct cases *cases, const float *logits, uint32_t vocab_size,
                         const struct mr_cuda_draw *draw, uint32_t token)
{
    double top = -INFINITY, total = 0.0, before = 0.0;
    for (uint32_t id = 0; id < vocab_size; id++)
        top = fmax(top, (double)logits[id]);
    for (uint32_t id = 0; id < vocab_size; id++) {
        if (id == token) before = total;
        total += exp(((double)logits[id] - top) / (double)draw->temperature);
    }
    const double weight = exp(((double)logits[token] - top) / (double)draw->temperature);
    const double target = (double)mr_sampler_uniform(draw->seed, draw->position) * total;
    if (target < before - BORDER * total || target > before + weight + BORDER * total)
        cases_fail(cases, "token %u of %u: %.9g is not in [%.9g, %.9g]", token, vocab_size, target,
                   before, before + weight);
}

static void compare_row(struct cases *cases, const struct mr_cuda_sampling *sampling, uint32_t row,
                        const struct mr_cuda_draw *draw)
{
    float *logits = malloc(sampling->vocab_size * sizeof *logits);
    if (!logits) abort();
    for (uint32_t id = 0; id < sampling->vocab_size; id++)
        logits[id] = (float)numbers_get(sampling->type, sampling->logits,
                                        row * (size_t)sampling->logits_stride + id);
    const struct mr_sample expected = draw_on_cpu(logits, sampling->vocab_size, draw);
    const int32_t token = sampling->tokens[row];
    if (expected.failed) {
        if (token != -1) cases_fail(cases, "row %u cannot be sampled from, token %d", row, token);
    } else if (token < 0 || (uint32_t)token >= sampling->vocab_size) {
        cases_fail(cases, "row %u: token %d", row, token);
    } else if ((uint32_t)token != expected.token_id) {
        if (draw->temperature > 0.0f)
            check_border(cases, logits, sampling->vocab_size, draw, (uint32_t)token);
        else
            cases_fail(cases, "row %u: greedy token %d, not %u", row, token, expected.token_id);
    } else {
        numbers_compare(cases,
                        (struct numbers){"probability", MR_CUDA_F32, sampling->probabilities}, row,
                        (double)expected.probability, 1e-5 * (double)expected.probability);
    }
    free(logits);
}

static void run_case(struct cases *cases)
{
    static const uint32_t sizes[] = {1, 2, 31, 32, 33, 511, 512, 1023, 1024, 1025, 2048, 4097};
    struct mr_cuda_sampling sampling = {
        .type = cases_type(cases),
        .row_count = 1 + cases_pick(cases, ROWS_MAX),
        .vocab_size =
            cases_pick(cases, 2) ? 1 + cases_pick(cases, 9000) : cases_choose(cases, sizes, 12),
    };
    if (cases_pick(cases, 100) == 0) sampling.vocab_size = 33000 + cases_pick(cases, 3000);
    sampling.logits_stride = sampling.vocab_size + cases_pick(cases, 9);
    struct mr_cuda_draw *draws = calloc(sampling.row_count, sizeof *draws);
    if (!draws) abort();
    for (uint32_t row = 0; row < sampling.row_count; row++) {
        draws[row].seed = (uint64_t)cases_pick(cases, UINT32_MAX) << 32 | cases_pick(cases, 1000);
        draws[row].position = cases_pick(cases, 100000);
        if (cases_pick(cases, 4)) draws[row].temperature = (float)(1.05 + cases_uniform(cases));
    }
    void *logits = make_logits(cases, &sampling);
    sampling.logits = logits;
    sampling.draws = draws;
    sampling.tokens = malloc(sampling.row_count * sizeof *sampling.tokens);
    sampling.probabilities = numbers_nan(MR_CUDA_F32, sampling.row_count);
    struct mr_error err = {.status = MR_OK};
    if (mr_cuda_sample(&sampling, NULL, &err) != MR_OK) cases_fail(cases, "%s", err.detail);
    for (uint32_t row = 0; row < sampling.row_count && cases->failure[0] == 0; row++)
        compare_row(cases, &sampling, row, &draws[row]);
    free(sampling.probabilities);
    free(sampling.tokens);
    free(logits);
    free(draws);
}

int main(int argc, char **argv)
{
    return cases_run(argc, argv, 100, run_case);
}
