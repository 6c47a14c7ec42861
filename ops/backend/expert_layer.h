/* expert_layer - the arguments of the operation `experts` (ops/backend/backend.h): how a row
 * chooses its experts, and their networks.
 *
 * Memory: pointers are borrowed for the call. */
#ifndef MR_OPS_BACKEND_EXPERT_LAYER_H
#define MR_OPS_BACKEND_EXPERT_LAYER_H

#include "ops/backend/step.h"

/* How a row chooses and weights its experts, from the router's logits.
 *     score   softmax over the logits of all experts, or the sigmoid of the expert's own logit
 *     choice  the top_k largest of score + bias, the lower id among equals, NaN last. With groups,
 *             group_count runs of neighbouring experts of equal size, only experts of the best
 *             groups_kept groups are chosen.
 *     weight  score * scale, where `normalize` divides the score by the sum of the chosen ones
 * With mixer_margin each of the top_k experts is the one with the best logit b among those not yet
 * chosen. Its weight is the softmax over the experts not yet chosen whose logit l fulfils (b - l)
 * <= mixer_margin * max(|l|, b) (sparse mixer; Liu et al., "GRIN: GRadient-INformed MoE", 2024). */
struct mr_router {
    uint32_t count, top_k;
    bool sigmoid; /* false: softmax */
    bool normalize;
    const struct mr_vector *bias;      /* [count], for the choice only; NULL: none */
    uint32_t group_count, groups_kept; /* group_count 0 or 1: no groups */
    bool group_pairs;   /* groups are compared by the sum of their two best score + bias; false: by
                         * the best one */
    float scale;        /* 0 means 1 */
    float sum_min;      /* lower limit of the sum that `normalize` divides by; 0 means 1e-20 */
    float mixer_margin; /* 0: not a sparse mixer; the other fields after top_k do not apply to one
                         */
};

/* The experts of a layer: router.count of each, hidden to 2 * ffn in alternating rows, and ffn to
 * hidden. */
struct mr_expert_layer {
    struct mr_linear *const *gate_up, *const *down;
    struct mr_router router;
    enum mr_epilogue activation;
    enum mr_step_buffer to; /* MR_RESIDUAL or MR_BRANCH, to which the weighted results are added */
    bool clear;             /* `to` is zero before the first addition */
};

#endif
