/* gpu_start - the work that a model does once on a GPU when it is opened, so that no request waits
 * for it.
 *
 * Decode steps are recorded as graphs (struct mr_graph_spec of ops/backend/step.h), so that the
 * host enqueues one graph instead of about ten kernels for each layer. A graph has a number of rows
 * and a number of tokens; a step uses the smallest graph with room for it. Numbers of rows are
 * powers of two up to 64 and from 256 on, so at most half of a step is padding, and padding does
 * not add to the reading of weights, which takes most of a small decode step. Between 64 and 256
 * rows the products take as long as the reading, so the numbers are 32 apart. The number of tokens
 * sizes the grid of attention, whose thread blocks without tokens end at once.
 *
 * Steps of many other sizes are run once. CUDA's libraries choose a different kernel for almost
 * every number of rows, and load it on first use: on an H200 the first step of a size took 20 to 30
 * ms longer. Such a step computes the last n tokens of a sequence in the first blocks of the KV
 * pool, which are still empty, and draws a token that is discarded.
 *
 * Memory: _warm_up allocates arrays of block and token ids and frees them before it returns.
 * Errors: those of mr_decoder_record; MR_NOMEM, MR_BACKEND. */
#ifndef MR_OPS_MODEL_GPU_START_H
#define MR_OPS_MODEL_GPU_START_H

#include "codec/status.h"

#include <stdint.h>

#define MR_DECODE_GRAPHS_MAX 64u
#define MR_WARM_UP_SIZES_MAX 128u

struct mr_decoder;
struct mr_step_queue;

/* ---- graphs ---- */

struct mr_decode_graph {
    uint32_t rows, tokens;
};

/* Lists the graphs for up to rows_max rows and sequences of up to context_tokens tokens in `out`,
 * the largest number of rows first, so that smaller ones reuse its memory. Long and large steps
 * have no graph: they take so long that the host keeps up. */
uint32_t mr_decode_graphs_list(uint32_t rows_max, uint32_t context_tokens,
                               struct mr_decode_graph out[MR_DECODE_GRAPHS_MAX]);

struct mr_decode_graphs_spec {
    uint32_t rows_max; /* 0: no graphs */
    uint32_t context_tokens;
    /* Called before each graph with the number of graphs recorded so far and of all. May be
     * NULL. */
    void (*progress)(void *context, uint32_t done, uint32_t total);
    void *progress_context;
};

struct mr_decode_graphs {
    uint32_t count;
    struct mr_error refusal; /* the reason why recording stopped before the end of the list; MR_OK:
                                all listed graphs exist */
};

/* Records the listed graphs, and stops at the first that cannot be recorded. */
enum mr_status mr_decode_graphs_record(struct mr_decode_graphs *out, struct mr_decoder *decoder,
                                       const struct mr_decode_graphs_spec *spec,
                                       struct mr_error *err);

/* ---- other steps ---- */

/* Lists the numbers of rows of the steps in `out`, the largest first, so that smaller ones reuse
 * its memory: rows_max, a few above 768, and all multiples of 32 up to 768, where steps mix prompts
 * and decoding sequences. Returns their count. */
uint32_t mr_warm_up_sizes(uint32_t rows_max, uint32_t out[MR_WARM_UP_SIZES_MAX]);

struct mr_warm_up_spec {
    uint32_t rows_max;   /* of a step */
    uint32_t tokens_max; /* most tokens of a sequence, limited by the KV pool and the model */
};

/* Runs the steps. No step may be in flight, and no sequence may have KV. */
enum mr_status mr_warm_up(struct mr_step_queue *queue, const struct mr_warm_up_spec *spec,
                          struct mr_error *err);

#endif
