/* low_rank - the changes that adapters (LoRA: Hu et al., 2021) make to a linear layer on the CPU:
 * y = x W^T + B (A x), with A [rank, in_size] and B [out_size, rank].
 *
 * The rows of one product may have different adapters, or none. mr_cpu_shrink computes A x for all
 * rows in one parallel loop. The product with W (linear.c, experts.c) then adds B (A x) to the sums
 * of each tile, before bias, scale and epilogue, so that adapters work with every weight format and
 * every epilogue.
 *
 * Order:   as in kernels.h: the bits of a row do not depend on the other rows or their adapters.
 * Threads: _create, _destroy any; the rest as in kernels.h. Memory: A in the numbers of x, B in
 *          floats. Errors: MR_NOMEM. */
#ifndef MR_OPS_CPU_KERNELS_LOW_RANK_H
#define MR_OPS_CPU_KERNELS_LOW_RANK_H

#include "ops/cpu_kernels/level.h"

struct mr_cpu_low_rank;

struct mr_cpu_low_rank_spec {
    uint32_t rank, in_size, out_size;
    const float *a; /* [rank][in_size]; table: [in_size][rank] */
    const float *b; /* [out_size][rank] */
    bool bf16;      /* the numbers of x; without meaning for a table */
    bool table;     /* x is a token id, and A x the row of `a` for it, in floats */
    enum mr_cpu_level level;
};
enum mr_status mr_cpu_low_rank_create(struct mr_cpu_low_rank **out,
                                      const struct mr_cpu_low_rank_spec *spec,
                                      struct mr_error *err);
void mr_cpu_low_rank_destroy(struct mr_cpu_low_rank *low_rank);
size_t mr_cpu_low_rank_bytes(const struct mr_cpu_low_rank *low_rank);
/* Floats of a row of A x. */
uint32_t mr_cpu_low_rank_width(const struct mr_cpu_low_rank *low_rank);
#define MR_CPU_LOW_RANK_WIDTH(rank)                                                                \
    (((rank) + MR_PANEL_COLUMNS - 1) / MR_PANEL_COLUMNS * MR_PANEL_COLUMNS)

/* The changes of the rows of a product. */
struct mr_cpu_adapted {
    struct mr_cpu_low_rank *const
        *layers;     /* [rows], NULL: the row is unchanged; or NULL: all are */
    float *shrunk;   /* [rows][stride] A x, memory of the caller, filled by mr_cpu_shrink */
    uint32_t stride; /* set by mr_cpu_shrink: the largest width of the rows */
};

struct mr_cpu_shrink_rows {
    const unsigned char *x;  /* rows of the layer's numbers */
    size_t x_bytes;          /* of a row */
    const uint32_t *sources; /* the row of x of each row; NULL: the row of the same index */
    uint32_t rows;
};
/* Sets stride and computes A x of all rows into `shrunk`. When no row has a change, sets layers to
 * NULL. */
void mr_cpu_shrink(struct mr_cpu_adapted *adapted, const struct mr_cpu_shrink_rows *rows);
/* The changes of the rows from `row` on. */
static inline struct mr_cpu_adapted mr_cpu_adapted_from(struct mr_cpu_adapted adapted, uint32_t row)
{
    if (!adapted.layers) return adapted;
    adapted.layers += row;
    adapted.shrunk += (size_t)row * adapted.stride;
    return adapted;
}
/* c[r] += B shrunk[r] for rows [row, row + rows) in the columns of panels [panel, panel + panels).
 * c: [rows][c_stride], at most MR_CPU_EXPAND_FLOATS floats. Runs on the calling thread. */
#define MR_CPU_EXPAND_FLOATS 4096u
struct mr_cpu_expand {
    uint32_t row, rows, panel, panels;
    float *c;
    size_t c_stride;
};
void mr_cpu_expand(const struct mr_cpu_adapted *adapted, const struct mr_cpu_expand *expand);
/* out[out_size] += B a[id]: the change of a token's embedding. */
void mr_cpu_low_rank_embed(const struct mr_cpu_low_rank *table, uint32_t id, float *out);

#endif
