/* decode_graphs - which decode steps are recorded as graphs when a model is opened (struct
 * mr_graph_spec of ops/backend/step.h). On a GPU the host then enqueues one graph in place of some
 * ten kernels for each layer.
 *
 * A graph has a number of rows and a number of tokens; a step uses the smallest that has room for
 * it. Rows go in powers of two, so at most half of a step is padding, and reading the weights,
 * which takes most of a decode step, is the same. Tokens size the grid of attention, whose thread
 * blocks without tokens end at once.
 *
 * Memory: none. Errors: those of mr_decoder_record. */
#ifndef MR_OPS_DECODE_GRAPHS_H
#define MR_OPS_DECODE_GRAPHS_H

#include "codec/status.h"

#include <stdint.h>

#define MR_DECODE_GRAPHS_MAX 64u

struct mr_decoder;

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

#endif
