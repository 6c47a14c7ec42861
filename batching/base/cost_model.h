/* cost_model - predicts how long a step takes, fitted to the steps that were run.
 *
 *     ms = a + b * rows + c * chunk + d * history
 *
 * rows: decode rows; chunk: prefill tokens; history: for every row of the step, decode and prefill
 * alike, the tokens it attends to (a chunk of x tokens behind L of them: x * (L + x / 2)). The four
 * coefficients are fitted by recursive least squares with exponential forgetting (Ljung and
 * Soderstrom, "Theory and Practice of Recursive Identification", 1983, section 2.6), so the model
 * adapts to the machine it runs on.
 *
 * Guards: a step's noise is assumed proportional to its length. A residual far beyond the recent
 * ones counts only partly. Predictions use coefficients cut at zero. Forgetting stops while the
 * covariance is at its initial size, so what was learnt of a rare kind of step is not lost.
 *
 * Owner:  engine thread. Memory: the struct itself. Clock: none. Errors: none. Units: ms. */
#ifndef MR_BATCHING_BASE_COST_MODEL_H
#define MR_BATCHING_BASE_COST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MR_COST_TERMS 4u

struct mr_cost_model {
    double theta[MR_COST_TERMS]; /* coefficients of the scaled terms */
    double covariance[MR_COST_TERMS][MR_COST_TERMS];
    double spread; /* running mean of |residual| / predicted */
    uint64_t observations;
};

/* The work of one step. */
struct mr_step_work {
    uint32_t rows, chunk;
    uint64_t history;
};

/* Adds row_count rows of one sequence with context_tokens computed: a decode row, or a chunk. */
void mr_step_work_add(struct mr_step_work *work, uint32_t row_count, uint32_t context_tokens,
                      bool decode);

/* Starts from the coefficients of a small model on two cores. Their weight is so low that the first
 * observed steps replace them. */
void mr_cost_model_init(struct mr_cost_model *model);
/* Predicted ms, never negative. */
double mr_cost_model_predict(const struct mr_cost_model *model, const struct mr_step_work *work);
/* Fits the model to one step of this work that took ms. Ignores values that are not finite and
 * positive. */
void mr_cost_model_observe(struct mr_cost_model *model, const struct mr_step_work *work, double ms);
/* The most prefill tokens, behind context_tokens, that can be added to a step of `work` while it is
 * predicted to end within ms. 0: the step is longer already; UINT32_MAX: tokens cost nothing.
 * Solves the quadratic c x + d x (L + x / 2) = ms - predict(work) for x. */
uint32_t mr_cost_model_chunk(const struct mr_cost_model *model, const struct mr_step_work *work,
                             uint32_t context_tokens, double ms);
/* a, b, c, d: ms for a step, a row, a token, a token of history. */
void mr_cost_model_coefficients(const struct mr_cost_model *model, double out[MR_COST_TERMS]);

#endif
