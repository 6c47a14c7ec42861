/* gpu_start - what a model does on a GPU when it is opened, so that no request waits for it.
 *
 * It records decode steps as graphs (struct mr_graph_spec of ops/backend/step.h): the host then
 * enqueues one graph in place of some ten kernels for each layer. A graph has a number of rows and
 * a number of tokens; a step uses the smallest that has room for it. Rows go in powers of two, so
 * at most half of a step is padding, and reading the weights, which takes most of a decode step, is
 * the same. Tokens size the grid of attention, whose thread blocks without tokens end at once.
 *
 * It runs steps of many other sizes once. CUDA's libraries choose another kernel for almost every
 * number of rows, and load it when it is first used: on an H200 the first step of a size took 20 to
 * 30 ms longer. A step computes the last n tokens of a sequence in the first blocks of the KV pool,
 * which hold nothing yet, and draws a token that nobody reads.
 *
 * Memory: of _warm_up ids of blocks and tokens, for the call. Errors: those of mr_decoder_record;
 * MR_NOMEM, MR_BACKEND. */
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
 * the largest number of rows first, so that smaller ones use the same memory. Long and large steps
 * have none: they take so long that the host keeps up. */
uint32_t mr_decode_graphs_list(uint32_t rows_max, uint32_t context_tokens,
                               struct mr_decode_graph out[MR_DECODE_GRAPHS_MAX]);

struct mr_decode_graphs_spec {
    uint32_t rows_max; /* 0: no graphs */
    uint32_t context_tokens;
    /* Called before each graph with the numbers of recorded and of all graphs. May be NULL. */
    void (*progress)(void *context, uint32_t done, uint32_t total);
    void *progress_context;
};

struct mr_decode_graphs {
    uint32_t count;
    struct mr_error refusal; /* why there are no more of those listed; MR_OK: there are all */
};

/* Records the listed graphs, up to one that cannot be recorded. */
enum mr_status mr_decode_graphs_record(struct mr_decode_graphs *out, struct mr_decoder *decoder,
                                       const struct mr_decode_graphs_spec *spec,
                                       struct mr_error *err);

/* ---- other steps ---- */

/* Lists the numbers of rows of the steps in `out`, the largest first, so that smaller ones use the
 * same memory: all multiples of 32 up to 768, where prompts are computed beside decoding sequences,
 * beyond that fewer, and rows_max. Returns their count. */
uint32_t mr_warm_up_sizes(uint32_t rows_max, uint32_t out[MR_WARM_UP_SIZES_MAX]);

struct mr_warm_up_spec {
    uint32_t rows_max;   /* of a step */
    uint32_t tokens_max; /* that a sequence can have, by the KV pool and the model */
};

/* Runs the steps. No step may be in flight, and no sequence have KV. */
enum mr_status mr_warm_up(struct mr_step_queue *queue, const struct mr_warm_up_spec *spec,
                          struct mr_error *err);

#endif
