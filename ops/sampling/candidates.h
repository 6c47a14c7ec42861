/* candidates - the tokens that a draw may choose from, after the cuts top-k, top-p, min-p and
 * typical (Meister et al., "Locally typical sampling", 2022). No cut sorts the vocabulary: the
 * first cut finds its threshold in a histogram of the logits and selects only inside the bin of the
 * threshold; the later cuts select among the remaining candidates in linear time.
 *
 * Order: a cut keeps the best candidates by its own measure, the lowest id first among equals; the
 * list stays in order of id. State: buffers for one row. Owner: one thread at a time. Memory:
 * allocated in _create, about 8 words for each id of the vocabulary. */
#ifndef MR_OPS_SAMPLING_CANDIDATES_H
#define MR_OPS_SAMPLING_CANDIDATES_H

#include "ops/cpu_kernels/level.h"

struct mr_candidates;

enum mr_status mr_candidates_create(struct mr_candidates **out, uint32_t vocab_size,
                                    enum mr_cpu_level level, struct mr_error *err);
void mr_candidates_destroy(struct mr_candidates *candidates);

struct mr_candidates_cuts {
    uint32_t top_k;                /* 0: no top-k cut */
    float top_p, min_p, typical_p; /* values that cut nothing: 1, 0 and 1, in this order */
    /* Weight of all logits of the row when the search has only some of them. Those include every
     * logit that remains after the first cut. 0: the search has all logits. */
    double total;
};

/* Collects the candidates of a row of logits and applies the cuts. search->count <= vocab_size;
 * search->top is the largest logit, and finite. At least one candidate remains. */
void mr_candidates_find(struct mr_candidates *candidates, const struct mr_cpu_search *search,
                        const struct mr_candidates_cuts *cuts);

/* Returns the remaining candidates in order of id, borrowed until the next mr_candidates_find. */
const struct mr_cpu_candidate *mr_candidates_list(const struct mr_candidates *candidates,
                                                  uint32_t *count);

#endif
