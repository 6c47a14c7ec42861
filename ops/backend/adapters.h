/* adapters - the adapters (LoRA) of a step: each row of a step may have one, which changes the
 * products of linear layers by y += B (A x), before bias, scale and epilogue.
 *
 * Site:    the number by which an adapter finds its change of a layer. A layer that is both token
 *          table and output layer has the site of the output layer; `embed` applies the change of
 *          MR_SITE_EMBEDDING.
 * Threads: _create and _destroy any, also while steps run. A change is destroyed after the last
 * step with its adapter is finished. Memory: copies of the numbers; those of A are rounded to the
 * device's. Errors: those of the backend. */
#ifndef MR_OPS_BACKEND_ADAPTERS_H
#define MR_OPS_BACKEND_ADAPTERS_H

#include "ops/backend/device.h"

struct mr_compute;
struct mr_low_rank; /* the change of one layer */

#define MR_SITE_EMBEDDING 1u

struct mr_adapter {
    struct mr_low_rank **sites; /* [site_count]; NULL: the layer is unchanged */
    uint32_t site_count;        /* more than the largest site of the model */
};

/* The change of a layer with these sizes. */
struct mr_low_rank_spec {
    uint32_t rank, in_size, out_size;
    const float *a;    /* [rank][in_size]; for a table [in_size][rank], a row for each token */
    const float *b;    /* [out_size][rank], with the adapter's scale */
    bool gated, table; /* as in struct mr_linear_spec */
};

struct mr_low_rank_functions {
    enum mr_status (*create)(struct mr_compute *compute, struct mr_low_rank **out,
                             const struct mr_low_rank_spec *spec, struct mr_error *err);
    void (*destroy)(struct mr_low_rank *low_rank);
    size_t (*bytes)(const struct mr_low_rank *low_rank);
};

#endif
