/* cost_model - predicts how long a step takes; it is fitted to measured steps.
 *
 *     ms = a + b * rows + c * chunk + d * history + e * scored
 *
 * rows: decode rows; chunk: prefill tokens; history: the sum over all rows of the step, decode and
 * prefill alike, of the tokens that the row attends to (for a chunk of x tokens that follows L
 * earlier tokens: x * (L + x / 2)); scored: prefill tokens whose logits score given tokens. The
 * five coefficients are fitted by recursive least squares with directional forgetting (Kulhavy,
 * "Restricted exponential forgetting in real-time identification", Automatica 1987), so the model
 * adapts to the machine it runs on: a step reduces the weight of earlier steps of its kind by 8 %,
 * and of no others. So the fit remembers rare kinds of steps. It follows a change
 * of speed within some dozens of steps of a kind, however long the engine has run.
 *
 * After four steps in a row that were far too long, or far too short, the speed of the machine has
 * changed: all coefficients are scaled, as after the first step. Without this, the short steps,
 * whose noise is small, would outweigh the long ones for thousands of steps. After a pause of the
 * machine during decodes, prefill would also seem slow until prompts were computed. If the next
 * such change goes the other way, perhaps only one kind of step has become slower or faster. Every
 * coefficient is then marked as uncertain.
 *
 * The first step sets only the speed: the initial coefficients and their uncertainty are scaled
 * to it. A first step may be slower than later ones of its kind; the next steps of each kind
 * correct that. Guards: a step's noise is assumed proportional to its length. A step far beyond
 * the recent residuals is weighted as noise. No coefficient becomes negative: one that
 * would is set to zero, and the others move to the best fit that has it at zero (constrained least
 * squares; Simon, "Optimal State Estimation", 2006, section 7.5).
 *
 * Owner: engine thread. Memory: the struct itself. Clock: none. Errors: none. Units: ms. */
#ifndef MR_BATCHING_BASE_COST_MODEL_H
#define MR_BATCHING_BASE_COST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MR_COST_TERMS 5u

/* The value of the options step_target_ms for which the scheduler derives the target from the
 * cost model. */
#define MR_STEP_TARGET_AUTO (-1.0)

struct mr_cost_model {
    /* coefficients of the scaled terms: of a step, a decode row, a prefill token, a token of
     * history, a scored row */
    double theta[MR_COST_TERMS];
    double covariance[MR_COST_TERMS][MR_COST_TERMS];
    double spread;      /* running mean of |measured - predicted| / the shorter of the two times */
    uint32_t far_steps; /* the last steps that were all far too long, or all far too short */
    double far_factor;  /* measured / predicted time of these steps, the value nearest to 1 */
    double last_factor; /* factor by which such steps last changed the speed; 0: the speed has
                           changed back */
    uint64_t observations, prefills; /* steps observed, and those of them with prefill tokens */
};

/* The work of one step, as the cost model counts it. */
struct mr_step_work {
    uint32_t rows, chunk;
    uint32_t scored; /* of the chunk: rows whose logits score given tokens */
    uint64_t history;
};

/* Adds to `work` row_count rows of one sequence that already has context_tokens tokens with KV.
 * decode: the rows are decode rows; otherwise they are prefill tokens. */
void mr_step_work_add(struct mr_step_work *work, uint32_t row_count, uint32_t context_tokens,
                      bool decode);

/* Sets the coefficients to those of a small model on two cores. The first observed step scales
 * them; their weight in the fit is so low that the next ones replace them. */
void mr_cost_model_init(struct mr_cost_model *model);
/* Predicted ms of a step with this work, never negative. */
double mr_cost_model_predict(const struct mr_cost_model *model, const struct mr_step_work *work);
/* Fits the model to one observed step of this work that took `ms`. Ignores an `ms` that is not
 * finite and positive. */
void mr_cost_model_observe(struct mr_cost_model *model, const struct mr_step_work *work, double ms);
/* The most prefill tokens of a sequence with context_tokens computed tokens that can be added to a
 * step of `work` so that the step is still predicted to end within `ms`. 0: the step is already
 * longer than `ms`. UINT32_MAX: prefill tokens cost nothing. Of these tokens, all after the first
 * plain_tokens are scored. Solves c x + d x (L + x / 2) + e max(0, x - p) = ms - predict(work) for
 * x, where L is context_tokens and p is plain_tokens. */
uint32_t mr_cost_model_chunk(const struct mr_cost_model *model, const struct mr_step_work *work,
                             uint32_t context_tokens, uint32_t plain_tokens, double ms);
/* out: the fitted coefficients a, b, c, d, e: ms for each step, decode row, prefill token, token of
 * history and scored row. */
void mr_cost_model_coefficients(const struct mr_cost_model *model, double out[MR_COST_TERMS]);

#endif
