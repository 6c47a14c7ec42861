/* expert_stack - the place of a linear layer among the same layers of all experts, for backends
 * that keep them in one tensor.
 *
 * Memory: pointers are borrowed for the call. */
#ifndef MR_OPS_BACKEND_EXPERT_STACK_H
#define MR_OPS_BACKEND_EXPERT_STACK_H

#include <stdint.h>

struct mr_linear;
struct mr_expert_stack {
    uint32_t index, count;           /* expert `index` of `count`; count 0: no expert's layer */
    struct mr_linear *const *layers; /* [index] those created before it, of the same shape */
};

#endif
