/* expert_weights - loads the feed-forward network of a layer with experts: the router, the experts
 * and the shared expert. A file stores each expert in its own tensor, or all experts in one tensor
 * (gate and up separate, or in one).
 *
 * Threads, memory, errors: as ops/weights/weight_loader.h. */
#ifndef MR_OPS_WEIGHTS_EXPERT_WEIGHTS_H
#define MR_OPS_WEIGHTS_EXPERT_WEIGHTS_H

#include "ops/weights/weight_loader.h"

/* The rows of a gate_up layer alternate: gate 0, up 0, gate 1, up 1 ... */
struct mr_expert_weights {
    struct mr_linear *router;           /* [experts, hidden_size]; NULL: no experts */
    struct mr_vector *bias;             /* [experts] of the choice, or NULL */
    struct mr_linear **gate_up, **down; /* [experts] */
    /* NULL, or the shared expert: shared_switch is [1, hidden_size], or NULL. */
    struct mr_linear *shared_gate_up, *shared_down, *shared_switch;
};

/* After an error the caller destroys the part that was loaded. */
enum mr_status mr_expert_weights_load(struct mr_weight_loader *loader, uint32_t layer,
                                      struct mr_expert_weights *to);
/* count: experts. backend: of the device that has the weights; NULL if they were only checked.
 * Destroying zeroed weights does nothing. */
void mr_expert_weights_destroy(struct mr_expert_weights *experts, uint32_t count,
                               const struct mr_backend *backend);

#endif
