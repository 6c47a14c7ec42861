#include "batching/base/cost_model.h"

#include <math.h>

/* Factors that scale the four terms of the cost model to about 1 for a busy step, which keeps the
 * covariance matrix well conditioned. */
static const double scale[MR_COST_TERMS] = {1.0, 1.0 / 16.0, 1.0 / 256.0, 1.0 / (256.0 * 1024.0)};

#define FORGETTING   0.99
#define VARIANCE_MAX 2500.0 /* initial variance of a coefficient: (50 ms) squared */
#define NOISE_SHARE  0.05   /* assumed noise of a measured step time, as a part of that time */
#define NOISE_MS     0.05
#define SPREAD_RATE  0.05

void mr_step_work_add(struct mr_step_work *work, uint32_t row_count, uint32_t context_tokens,
                      bool decode)
{
    if (decode)
        work->rows += row_count;
    else
        work->chunk += row_count;
    work->history += (uint64_t)row_count * context_tokens + (uint64_t)row_count * row_count / 2;
}

void mr_cost_model_init(struct mr_cost_model *model)
{
    *model = (struct mr_cost_model){.theta = {10.0, 10.0, 130.0, 20.0}, .spread = 0.1};
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        model->covariance[i][i] = VARIANCE_MAX;
}

static void terms_of(const struct mr_step_work *work, double terms[MR_COST_TERMS])
{
    terms[0] = scale[0];
    terms[1] = scale[1] * work->rows;
    terms[2] = scale[2] * work->chunk;
    terms[3] = scale[3] * (double)work->history;
}

static double product(const double *left, const double *right)
{
    double sum = 0;
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        sum += left[i] * right[i];
    return sum;
}

double mr_cost_model_predict(const struct mr_cost_model *model, const struct mr_step_work *work)
{
    double terms[MR_COST_TERMS];
    terms_of(work, terms);
    return product(model->theta, terms);
}

/* Limits a residual that is larger than the recent residuals and than the fit's own uncertainty
 * explain. */
static double clipped(struct mr_cost_model *model, double residual, double predicted,
                      double variance)
{
    double size = fmax(predicted, NOISE_MS);
    double limit = fmax(4.0 * fmax(model->spread, NOISE_SHARE) * size, 3.0 * sqrt(variance));
    model->spread += SPREAD_RATE * (fmin(fabs(residual) / size, 4.0) - model->spread);
    return fmax(-limit, fmin(limit, residual));
}

/* covariance = (covariance - gain * transposed direction) / forgetting, kept symmetric. */
static void shrink_covariance(struct mr_cost_model *model, const double *gain,
                              const double *direction)
{
    double largest = 0;
    for (uint32_t i = 0; i < MR_COST_TERMS; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double value = model->covariance[i][j] - gain[i] * direction[j];
            model->covariance[i][j] = value;
            model->covariance[j][i] = value;
        }
        largest = fmax(largest, model->covariance[i][i]);
    }
    if (largest > FORGETTING * VARIANCE_MAX) return;
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        for (uint32_t j = 0; j < MR_COST_TERMS; j++)
            model->covariance[i][j] /= FORGETTING;
}

static uint32_t smallest_of(const double *values)
{
    uint32_t smallest = 0;
    for (uint32_t i = 1; i < MR_COST_TERMS; i++)
        if (values[i] < values[smallest]) smallest = i;
    return smallest;
}

/* Moves the coefficients to the nearest ones, in the metric of the covariance, of which none is
 * negative. Predicting with negative ones as zeros instead would leave out what the others make up
 * for: with the fit right, predictions were 40 % too long. */
static void keep_positive(struct mr_cost_model *model)
{
    for (uint32_t round = 0; round < MR_COST_TERMS; round++) {
        const uint32_t term = smallest_of(model->theta);
        const double variance = model->covariance[term][term];
        if (model->theta[term] >= 0.0) return;
        if (!(variance > 0.0)) break; /* by rounding */
        const double share = model->theta[term] / variance;
        for (uint32_t i = 0; i < MR_COST_TERMS; i++)
            model->theta[i] -= model->covariance[i][term] * share;
        model->theta[term] = 0.0;
    }
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        model->theta[i] = fmax(model->theta[i], 0.0);
}

void mr_cost_model_observe(struct mr_cost_model *model, const struct mr_step_work *work, double ms)
{
    if (!isfinite(ms) || ms <= 0.0) return;
    double terms[MR_COST_TERMS], direction[MR_COST_TERMS], gain[MR_COST_TERMS];
    terms_of(work, terms);
    double predicted = product(model->theta, terms);
    model->observations++;
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        direction[i] = product(model->covariance[i], terms);
    double noise = NOISE_SHARE * predicted + NOISE_MS;
    double weight = FORGETTING * noise * noise + product(terms, direction);
    double residual = clipped(model, ms - predicted, predicted, weight);
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        gain[i] = direction[i] / weight;
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        model->theta[i] += gain[i] * residual;
    shrink_covariance(model, gain, direction);
    keep_positive(model);
}

uint32_t mr_cost_model_chunk(const struct mr_cost_model *model, const struct mr_step_work *work,
                             uint32_t context_tokens, double ms)
{
    double room = ms - mr_cost_model_predict(model, work);
    if (room <= 0.0) return 0;
    double linear = model->theta[2] * scale[2] + model->theta[3] * scale[3] * context_tokens;
    double square = 0.5 * model->theta[3] * scale[3];
    double below = linear + sqrt(linear * linear + 4.0 * square * room);
    if (below <= 0.0) return UINT32_MAX;
    double tokens = 2.0 * room / below;
    return tokens >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
}

void mr_cost_model_coefficients(const struct mr_cost_model *model, double out[MR_COST_TERMS])
{
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        out[i] = model->theta[i] * scale[i];
}
