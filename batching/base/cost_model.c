#include "batching/base/cost_model.h"

#include <math.h>

/* Factors that scale the terms of the cost model to about 1 for a busy step, which keeps the
 * covariance matrix well conditioned. */
static const double scale[MR_COST_TERMS] = {1.0, 1.0 / 16.0, 1.0 / 256.0, 1.0 / (256.0 * 1024.0),
                                            1.0 / 256.0};

/* Scaled coefficients of a small model on two cores, and their variance: on another machine, one
 * may be many times larger than the others. */
static const double first_theta[MR_COST_TERMS] = {6.0, 24.0, 425.0, 20.0, 200.0};
#define FIRST_VARIANCE 40000.0

#define FORGETTING  0.92
#define NOISE_SHARE 0.05 /* assumed noise of a measured step time, as a part of that time */
#define NOISE_MS    0.05
#define SPREAD_RATE 0.05
#define SPREAD      0.1 /* first guess of the spread */
/* This many consecutive steps, all far too long or all far too short, change the speed. */
#define FAR_STEPS 4u

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
    *model = (struct mr_cost_model){.spread = SPREAD};
    for (uint32_t i = 0; i < MR_COST_TERMS; i++) {
        model->theta[i] = first_theta[i];
        model->covariance[i][i] = FIRST_VARIANCE;
    }
}

static void terms_of(const struct mr_step_work *work, double terms[MR_COST_TERMS])
{
    terms[0] = scale[0];
    terms[1] = scale[1] * work->rows;
    terms[2] = scale[2] * work->chunk;
    terms[3] = scale[3] * (double)work->history;
    terms[4] = scale[4] * work->scored;
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

/* Makes the coefficients those of a machine that takes `factor` times as long, each as certain as
 * before. */
static void set_speed(struct mr_cost_model *model, double factor)
{
    for (uint32_t i = 0; i < MR_COST_TERMS; i++) {
        model->theta[i] *= factor;
        for (uint32_t j = 0; j < MR_COST_TERMS; j++)
            model->covariance[i][j] *= factor * factor;
    }
}

/* Factor by which the residual exceeds the size explained by recent residuals and the fit's own
 * uncertainty; at least 1. size: ms of the shorter of the predicted and the measured step.
 * uncertainty: standard deviation of the residual. */
static double excess(struct mr_cost_model *model, double residual, double size, double uncertainty)
{
    size = fmax(size, NOISE_MS);
    double limit = fmax(4.0 * fmax(model->spread, NOISE_SHARE) * size, 3.0 * uncertainty);
    model->spread += SPREAD_RATE * (fmin(fabs(residual) / size, 4.0) - model->spread);
    return fmax(1.0, fabs(residual) / limit);
}

/* Multiplies the variance of the step's prediction by `factor`. direction: the covariance times the
 * step's terms. The variance of steps about which this one has no information does not change. */
static void scale_variance(struct mr_cost_model *model, const double *direction, double variance,
                           double factor)
{
    const double part = (1.0 - factor) / variance;
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        for (uint32_t j = 0; j < MR_COST_TERMS; j++)
            model->covariance[i][j] -= part * (direction[i] * direction[j]);
}

/* True when this step and the last ones were all far too long, or all far too short: the
 * coefficients are scaled to the step that was least too long or too short. If that undoes the last
 * change, only one kind of step may have changed, and each coefficient is learnt again. far: noise
 * does not explain the step's time. factor: measured / predicted time. */
static bool changes_speed(struct mr_cost_model *model, bool far, double factor)
{
    const bool alike = model->far_steps > 0 && (factor > 1.0) == (model->far_factor > 1.0);
    if (!far || !alike) model->far_steps = 0;
    if (!far) return false;
    const bool least = !alike || fabs(log(factor)) < fabs(log(model->far_factor));
    if (least) model->far_factor = factor;
    if (++model->far_steps < FAR_STEPS) return false;
    set_speed(model, model->far_factor);
    const bool undone = model->last_factor > 0.0 && (model->last_factor > 1.0) != (factor > 1.0);
    for (uint32_t i = 0; undone && i < MR_COST_TERMS; i++)
        model->covariance[i][i] += model->theta[i] * model->theta[i];
    model->last_factor = undone ? 0.0 : model->far_factor;
    model->spread = SPREAD;
    model->far_steps = 0;
    return true;
}

static uint32_t smallest_of(const double *values)
{
    uint32_t smallest = 0;
    for (uint32_t i = 1; i < MR_COST_TERMS; i++)
        if (values[i] < values[smallest]) smallest = i;
    return smallest;
}

/* Moves the coefficients to the nearest ones, in the metric of the covariance, that are not
 * negative. Treating negative ones as zero only in predictions would ignore that the other
 * coefficients compensate for them: predictions of a correct fit were 40 % too long. */
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
    double terms[MR_COST_TERMS], direction[MR_COST_TERMS];
    terms_of(work, terms);
    const double predicted = product(model->theta, terms), residual = ms - predicted;
    model->prefills += work->chunk > 0;
    if (model->observations++ == 0) {
        set_speed(model, ms / predicted);
        return;
    }
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        direction[i] = product(model->covariance[i], terms);
    const double variance = product(terms, direction);
    if (!(variance > 0.0)) return; /* by rounding */
    /* of the longer one: a step that was predicted far too short is not a precise one */
    const double noise = NOISE_SHARE * fmax(predicted, ms) + NOISE_MS;
    /* a step that is too far off is weighted as noise, so it moves the fit little */
    double total = variance + noise * noise;
    const double beyond = excess(model, residual, fmin(predicted, ms), sqrt(total));
    if (changes_speed(model, beyond > 1.0, ms / predicted)) return;
    total *= beyond;
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        model->theta[i] += direction[i] / total * residual;
    scale_variance(model, direction, variance, (1.0 - variance / total) / FORGETTING);
    keep_positive(model);
}

/* The positive x of linear x + square x^2 = ms; infinity: tokens cost nothing. */
static double tokens_within(double linear, double square, double ms)
{
    const double below = linear + sqrt(linear * linear + 4.0 * square * ms);
    return below > 0.0 ? 2.0 * ms / below : (double)INFINITY;
}

uint32_t mr_cost_model_chunk(const struct mr_cost_model *model, const struct mr_step_work *work,
                             uint32_t context_tokens, uint32_t plain_tokens, double ms)
{
    const double room = ms - mr_cost_model_predict(model, work);
    if (room <= 0.0) return 0;
    const double history = model->theta[3] * scale[3], score = model->theta[4] * scale[4];
    const double linear = model->theta[2] * scale[2] + history * context_tokens;
    double tokens = tokens_within(linear, 0.5 * history, room);
    if (tokens > plain_tokens)
        tokens = tokens_within(linear + score, 0.5 * history, room + score * plain_tokens);
    return tokens >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
}

void mr_cost_model_coefficients(const struct mr_cost_model *model, double out[MR_COST_TERMS])
{
    for (uint32_t i = 0; i < MR_COST_TERMS; i++)
        out[i] = model->theta[i] * scale[i];
}
