/* expert_kernels - the experts of a layer on a CPU: the choice of experts for each row, and their
 * networks. Levels, types, order of sums, threads and memory are those of kernels.h. */
#ifndef MR_OPS_CPU_KERNELS_EXPERT_KERNELS_H
#define MR_OPS_CPU_KERNELS_EXPERT_KERNELS_H

#include "ops/cpu_kernels/kernels.h"

#define MR_CPU_EXPERTS_MAX 1024u

/* How a row chooses and weights its experts. The fields are those of struct mr_router
 * (ops/backend/expert_layer.h), where scale 0 means 1. */
struct mr_cpu_routing {
    uint32_t expert_count, top_k;
    bool sigmoid, normalize, group_pairs;
    uint32_t group_count, groups_kept;
    const float *bias; /* [expert_count], or NULL */
    float scale, sum_min, mixer_margin;
};
/* Chooses top_k experts for each row by the router's logits, float [rows, expert_count]. NaN is
 * treated as -infinity. experts, weights: [rows, top_k], the best choice first. Asserts
 * expert_count
 * <= MR_CPU_EXPERTS_MAX. */
void mr_cpu_route(const struct mr_cpu_routing *routing, const float *logits, uint32_t rows,
                  uint32_t *experts, float *weights);

struct mr_cpu_low_rank;
struct mr_cpu_expert_layer {
    /* [expert_count] hidden to 2 * ffn, and ffn to hidden; of one shape and dtype, with integer
     * weights in all or none. */
    struct mr_cpu_linear *const *gate_up, *const *down;
    struct mr_cpu_routing routing;
    enum mr_cpu_epilogue activation;                /* of gate_up: one of the gated ones */
    struct mr_cpu_low_rank *const *const *adapters; /* [rows] by site (low_rank.h), or NULL */
};
/* Memory of a step, owned by the caller and shared by all layers. The sizes are the largest of any
 * layer and step. memory: mr_cpu_expert_bytes, aligned to 64 bytes. */
struct mr_cpu_expert_buffers {
    uint32_t rows_max, expert_count, top_k, hidden_size, ffn_size;
    uint32_t rank_max; /* of the adapters; 0: none */
    bool bf16;
    void *memory;
};
size_t mr_cpu_expert_bytes(const struct mr_cpu_expert_buffers *buffers);
/* out[r] += the sum of weight * down(activation(gate_up(x[r]))) over the experts chosen for row r,
 * in ascending order of their ids. x: [rows, hidden] in the layer's dtype; out: float [rows,
 * hidden]; logits: as mr_cpu_route. Asserts that the sizes fit into the buffers. */
void mr_cpu_experts_run(const struct mr_cpu_expert_layer *layer,
                        const struct mr_cpu_expert_buffers *buffers, const void *x,
                        const float *logits, uint32_t rows, float *out);

#endif
