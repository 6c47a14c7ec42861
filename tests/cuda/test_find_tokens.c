/* Compares the numbers that the host reads of rows of logits with double; and checks the token for
 * the next step. */
#include "cases.h"

#include "ops/cuda/sampling_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 4u

enum row_kind { ROW_PLAIN, ROW_EQUAL, ROW_MASKED, ROW_ALL_MASKED, ROW_NAN, ROW_KINDS };

static float *make_rows(struct cases *cases, uint32_t rows, uint32_t vocab_size)
{
    float *logits = floats_random(cases, (size_t)rows * vocab_size, 9.0);
    for (uint32_t row = 0; row < rows; row++) {
        float *begin = logits + (size_t)row * vocab_size;
        const uint32_t kind = cases_pick(cases, ROW_KINDS);
        for (uint32_t id = 0; id < vocab_size; id++) {
            if (kind == ROW_EQUAL) begin[id] = 2.5f;
            if (kind == ROW_ALL_MASKED || (kind == ROW_MASKED && cases_pick(cases, 3)))
                begin[id] = -INFINITY;
        }
        if (kind == ROW_NAN) begin[cases_pick(cases, vocab_size)] = NAN;
    }
    return logits;
}

/* The id of the largest logit, the lowest among equals; *largest is NaN if a logit is NaN. */
static uint32_t largest_of(const float *logits, uint32_t vocab_size, float *largest)
{
    uint32_t best = 0;
    bool broken = false;
    for (uint32_t id = 0; id < vocab_size; id++) {
        broken = broken || isnan(logits[id]);
        if (isnan(logits[best]) || logits[id] > logits[best]) best = id;
    }
    *largest = broken ? NAN : logits[best];
    return best;
}

static double total_of(const float *logits, uint32_t vocab_size, float largest, float factor)
{
    double total = 0.0;
    for (uint32_t id = 0; id < vocab_size; id++)
        total += exp(((double)logits[id] - (double)largest) * (double)factor);
    return total;
}

static float float_of(const uint32_t *word)
{
    float number;
    memcpy(&number, word, sizeof number);
    return number;
}

static void compare_float(struct cases *cases, const char *name, const uint32_t *word, float wanted)
{
    const float found = float_of(word);
    if (found == wanted || (isnan(found) && isnan(wanted))) return;
    cases_fail(cases, "%s is %g, not %g", name, (double)found, (double)wanted);
}

static void compare_total(struct cases *cases, const char *name, const uint32_t *words,
                          double wanted)
{
    double found;
    memcpy(&found, words, sizeof found);
    if (fabs(found - wanted) <= 1e-6 * wanted || (isnan(found) && isnan(wanted))) return;
    cases_fail(cases, "%s is %.9g, not %.9g", name, found, wanted);
}

static void compare_row(struct cases *cases, const struct mr_cuda_find *find, uint32_t row)
{
    const float *edited = find->edited + (size_t)row * find->vocab_size;
    const float *model = find->model + (size_t)row * find->vocab_size;
    const uint32_t *words = find->words + (size_t)row * MR_CUDA_FOUND_WORDS;
    float largest, model_largest;
    uint32_t token = largest_of(edited, find->vocab_size, &largest);
    (void)largest_of(model, find->vocab_size, &model_largest);
    if (isnan(largest)) token = find->vocab_size - 1;
    const bool drawn = find->drawn && find->drawn[row] >= 0;
    const bool masked = find->masked_tokens && largest == -INFINITY;
    if (drawn) token = (uint32_t)find->drawn[row];
    if (masked) token = (uint32_t)find->masked_tokens[row];
    if (words[0] != token || find->tokens[row] != token)
        cases_fail(cases, "row %u: token %u and %lld, not %u", row, words[0],
                   (long long)find->tokens[row], token);
    compare_float(cases, "largest", words + 1, largest);
    compare_float(cases, "model_largest", words + 2, model_largest);
    compare_float(cases, "token_model_logit", words + 3, model[token]);
    const float factor = find->factors ? find->factors[row] : 1.0f;
    compare_total(cases, "total", words + 4, total_of(edited, find->vocab_size, largest, factor));
    compare_total(cases, "model_total", words + 6,
                  total_of(model, find->vocab_size, model_largest, 1.0f));
    if (find->probabilities)
        compare_float(cases, "probability", words + 8, find->probabilities[row]);
}

static void run_case(struct cases *cases)
{
    static const uint32_t sizes[] = {1, 2, 31, 1023, 1024, 1025, 5000, 8192, 20000};
    const uint32_t rows = 1 + cases_pick(cases, ROWS_MAX);
    const uint32_t vocab_size = cases_choose(cases, sizes, sizeof sizes / sizeof *sizes);
    float *model = make_rows(cases, rows, vocab_size), *edited = make_rows(cases, rows, vocab_size);
    float factors[ROWS_MAX], probabilities[ROWS_MAX];
    int32_t drawn[ROWS_MAX], masked[ROWS_MAX];
    int64_t tokens[ROWS_MAX];
    uint32_t words[ROWS_MAX * MR_CUDA_FOUND_WORDS];
    for (uint32_t row = 0; row < rows; row++) {
        factors[row] =
            cases_pick(cases, 3) ? (float)(0.2 + 2.0 * fabs(cases_uniform(cases))) : 1.0f;
        probabilities[row] = (float)fabs(cases_uniform(cases));
        drawn[row] = (int32_t)cases_pick(cases, vocab_size + 1) - 1;
        masked[row] = (int32_t)cases_pick(cases, vocab_size);
    }
    const bool is_edited = cases_pick(cases, 2) == 0;
    const struct mr_cuda_find find = {
        .row_count = rows,
        .vocab_size = vocab_size,
        .model = model,
        .edited = is_edited ? edited : model,
        .factors = cases_pick(cases, 2) ? factors : NULL,
        .drawn = cases_pick(cases, 2) ? drawn : NULL,
        .probabilities = cases_pick(cases, 2) ? probabilities : NULL,
        .masked_tokens = cases_pick(cases, 2) ? masked : NULL,
        .tokens = tokens,
        .words = words,
    };
    struct mr_error err = {.status = MR_OK};
    if (mr_cuda_find_tokens(&find, NULL, &err) != MR_OK) cases_fail(cases, "%s", err.detail);
    for (uint32_t row = 0; row < rows && cases->failure[0] == 0; row++)
        compare_row(cases, &find, row);
    free(model);
    free(edited);
}

int main(int argc, char **argv)
{
    return cases_run(argc, argv, 100, run_case);
}
