/* cost_model - how long a step will take, learnt from the steps that were run.
 *
 *     ms = a + b * rows + c * chunk + d * history
 *
 * rows: decode rows; chunk: prefill tokens; history: for every row of the step, decode and prefill
 * alike, the tokens it attends to (a chunk of x tokens behind L of them: x * (L + x / 2)). The four
 * coefficients are fitted by recursive least squares with exponential forgetting (Ljung and
 * Soderstrom, "Theory and Practice of Recursive Identification", 1983, section 2.6), so the model
 * follows the machine it runs on.
 *
 * Guards: a step's noise is taken as proportional to its length; a residual far beyond what was
 * seen lately counts only partly; coefficients are never used
 * below zero; forgetting stops while the
 * covariance is at its first size, so long idle kinds of work are not forgotten without bound.
 *
 * Owner:  engine thread. Memory: the struct itself. Clock: none. Errors: none. Units: ms. */
#ifndef MR_BATCHING_BASE_COST_MODEL_H
#define MR_BATCHING_BASE_COST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MR_COST_TERMS 4u

struct mr_cost_model {
    double theta[MR_COST_TERMS]; /* of the scaled terms */
    double covariance[MR_COST_TERMS][MR_COST_TERMS];
    double spread; /* running mean of |residual| / predicted */
    uint64_t observations;
};

/* What a step consists of. */
struct mr_step_work {
    uint32_t rows, chunk;
    uint64_t history;
};

/* Adds row_count rows of one sequence that has context_tokens computed: a decode row, or a chunk.
 */
void mr_step_work_add(struct mr_step_work *work, uint32_t row_count, uint32_t context_tokens,
                      bool decode);

/* Priors: those of a small model on two cores, with so little weight that the first steps win. */
void mr_cost_model_init(struct mr_cost_model *model);
/* Never negative. */
double mr_cost_model_predict(const struct mr_cost_model *model, const struct mr_step_work *work);
/* One step of this work took ms. Values that are not finite or not positive are ignored. */
void mr_cost_model_observe(struct mr_cost_model *model, const struct mr_step_work *work, double ms);
/* Most prefill tokens behind context_tokens that may join a step of `work` so that the whole stays
 * within ms; 0 when it is over already, UINT32_MAX when tokens cost nothing. Solves the square
 * c x + d x (L + x / 2) = ms - predict(work). */
uint32_t mr_cost_model_chunk(const struct mr_cost_model *model, const struct mr_step_work *work,
                             uint32_t context_tokens, double ms);
/* a, b, c, d for one row, one token, one token of history, in ms. */
void mr_cost_model_coefficients(const struct mr_cost_model *model, double out[MR_COST_TERMS]);

#endif
