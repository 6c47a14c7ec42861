/* The draw of a token: the random number, the order of ids, the cuts and the result are those of
 * the CPU sampler. If the random number is within rounding of the border between two tokens, or a
 * cut is within rounding of the border of a token, both tokens are right. */
#include "cases.h"

#include "ops/cuda/sampling_kernels.h"

#include "ops/cpu_kernels/parallel.h"
#include "ops/sampling/sampler.h"

#include <math.h>
#include <stdlib.h>

#define ROWS_MAX 4u
/* The share of the sum of all weights by which rounding can move a border. */
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

/* Returns the draw of the CPU sampler from the row. */
static struct mr_sample draw_on_cpu(const float *logits, uint32_t vocab_size,
                                    const struct mr_cuda_draw *draw)
{
    const struct mr_sampler_spec spec = {.vocab_size = vocab_size,
                                         .thread_count = mr_parallel_thread_count()};
    const struct mr_sampling settings = {.temperature = draw->temperature,
                                         .top_k = draw->top_k,
                                         .top_p = draw->top_p,
                                         .min_p = draw->min_p,
                                         .typical_p = draw->typical_p,
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

/* ---- the draw in double ---- */

struct item {
    double key, weight;
    uint32_t id;
};

static int by_key(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_id(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static double total_of(const struct item *items, uint32_t count)
{
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++)
        total += items[i].weight;
    return total;
}

/* Returns the number of leading sorted items whose weight reaches `part` of the total. */
static uint32_t cut_by_weight(const struct item *items, uint32_t count, double part)
{
    const double quota = part * total_of(items, count);
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++)
        if ((sum += items[i].weight) >= quota) return i + 1;
    return count;
}

static uint32_t cut_typical(struct item *items, uint32_t count, double typical_p)
{
    const double total = total_of(items, count);
    double mean = 0.0;
    for (uint32_t i = 0; i < count; i++)
        mean -= items[i].weight / total * log(items[i].weight);
    for (uint32_t i = 0; i < count; i++)
        items[i].key = -(double)(float)fabs(-log(items[i].weight) - mean);
    qsort(items, count, sizeof *items, by_key);
    return cut_by_weight(items, count, typical_p);
}

/* Fills `items` with the tokens that remain, in order of id. slack: of the borders of the cuts. */
static uint32_t remaining(const float *logits, uint32_t vocab_size, const struct mr_cuda_draw *draw,
                          double slack, struct item *items)
{
    double top = -INFINITY;
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocab_size; id++)
        top = fmax(top, (double)logits[id]);
    for (uint32_t id = 0; id < vocab_size; id++) {
        const double key = (double)logits[id];
        if (isinf(key)) continue;
        items[count++] = (struct item){key, exp((key - top) / (double)draw->temperature), id};
    }
    qsort(items, count, sizeof *items, by_key);
    if (draw->top_k > 0 && draw->top_k < count) count = draw->top_k;
    if (draw->top_p < 1.0f) count = cut_by_weight(items, count, (double)draw->top_p + slack);
    while (count > 1 && items[count - 1].weight < (double)draw->min_p - slack)
        count--;
    if (draw->typical_p < 1.0f) count = cut_typical(items, count, (double)draw->typical_p + slack);
    qsort(items, count, sizeof *items, by_id);
    return count;
}

/* Returns whether the token and its probability are right, within rounding of the borders. */
static bool is_right(const float *logits, uint32_t vocab_size, const struct mr_cuda_draw *draw,
                     double slack, uint32_t token, double probability)
{
    struct item *items = malloc(vocab_size * sizeof *items);
    if (!items) abort();
    const uint32_t count = remaining(logits, vocab_size, draw, slack, items);
    const double total = total_of(items, count);
    const double target = (double)mr_sampler_uniform(draw->seed, draw->position) * total;
    double before = 0.0;
    bool right = false;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].id == token)
            right = target >= before - BORDER * total &&
                    target <= before + items[i].weight + BORDER * total &&
                    fabs(probability * total - items[i].weight) <= 2e-5 * items[i].weight;
        before += items[i].weight;
    }
    free(items);
    return right;
}

static void compare_row(struct cases *cases, const struct mr_cuda_sampling *sampling, uint32_t row,
                        const struct mr_cuda_draw *draw)
{
    const uint32_t vocab_size = sampling->vocab_size;
    float *logits = malloc(vocab_size * sizeof *logits);
    if (!logits) abort();
    for (uint32_t id = 0; id < vocab_size; id++)
        logits[id] = (float)numbers_get(sampling->type, sampling->logits,
                                        row * (size_t)sampling->logits_stride + id);
    const struct mr_sample expected = draw_on_cpu(logits, vocab_size, draw);
    const int32_t token = sampling->tokens[row];
    const double probability = (double)sampling->probabilities[row];
    const double difference = fabs(probability - (double)expected.probability);
    if (expected.failed) {
        if (token != -1) cases_fail(cases, "row %u cannot be sampled from, token %d", row, token);
    } else if (token < 0 || (uint32_t)token >= vocab_size) {
        cases_fail(cases, "row %u: token %d", row, token);
    } else if ((uint32_t)token != expected.token_id ||
               !(difference <= 1e-5 * (double)expected.probability)) {
        bool right = false;
        for (int slack = -1; draw->temperature > 0.0f && slack <= 1; slack++)
            right = right || is_right(logits, vocab_size, draw, slack * BORDER, (uint32_t)token,
                                      probability);
        if (!right)
            cases_fail(cases,
                       "row %u of %u ids: token %d with %.9g, not %u with %.9g (temperature %g, "
                       "cuts %u %g %g %g)",
                       row, vocab_size, token, probability, expected.token_id,
                       (double)expected.probability, (double)draw->temperature, draw->top_k,
                       (double)draw->top_p, (double)draw->min_p, (double)draw->typical_p);
    }
    free(logits);
}

/* ---- cases ---- */

static float choose_float(struct cases *cases, const float *values, uint32_t count)
{
    return values[cases_pick(cases, count)];
}

static struct mr_cuda_draw make_draw(struct cases *cases, uint32_t vocab_size)
{
    static const float top_ps[] = {1.0f, 1.0f, 0.95f, 0.5f, 0.1f, 0.0f, 0.9999f};
    static const float min_ps[] = {0.0f, 0.0f, 0.05f, 1e-6f, 1.0f};
    static const float typical_ps[] = {1.0f, 1.0f, 1.0f, 0.5f, 0.95f};
    struct mr_cuda_draw draw = {.top_p = 1.0f, .typical_p = 1.0f};
    draw.seed = (uint64_t)cases_pick(cases, UINT32_MAX) << 32 | cases_pick(cases, 1000);
    draw.position = cases_pick(cases, 100000);
    if (cases_pick(cases, 4)) draw.temperature = (float)(1.05 + cases_uniform(cases));
    if (cases_pick(cases, 3) == 0) return draw;
    const uint32_t top_ks[] = {0, 0, 1, 40, vocab_size, 1 + cases_pick(cases, vocab_size)};
    draw.top_k = cases_choose(cases, top_ks, 6);
    draw.top_p = choose_float(cases, top_ps, 7);
    draw.min_p = choose_float(cases, min_ps, 5);
    draw.typical_p = choose_float(cases, typical_ps, 5);
    return draw;
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
    for (uint32_t row = 0; row < sampling.row_count; row++)
        draws[row] = make_draw(cases, sampling.vocab_size);
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
    return cases_run(argc, argv, 30,
                     run_case); /* a case takes as long as four cases of other kernels */
}
