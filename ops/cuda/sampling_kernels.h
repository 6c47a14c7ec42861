/* sampling_kernels - the draw of tokens from rows of logits on a CUDA device, and the numbers that
 * the host reads from these rows. Pointers, types, streams, errors and threads are as in
 * cuda_kernels.h. */
#ifndef MR_OPS_CUDA_SAMPLING_KERNELS_H
#define MR_OPS_CUDA_SAMPLING_KERNELS_H

#include "ops/cuda/cuda_kernels.h"

struct mr_cuda_draw { /* the settings of one row's draw */
    uint64_t seed;
    uint32_t position;
    float temperature; /* 0: the largest logit, lowest id first; else at least MR_GREEDY_BELOW */
    /* In this order, as in ops/sampling/candidates.h; 0, 1, 0 and 1 cut nothing. */
    uint32_t top_k;
    float top_p, min_p, typical_p;
};
struct mr_cuda_sampling {
    enum mr_cuda_type type;
    uint32_t row_count, vocab_size;
    const void *logits; /* [row_count][vocab_size], rows logits_stride apart */
    int64_t logits_stride;
    const struct mr_cuda_draw *draws; /* [row_count] */
    int32_t *tokens;      /* [row_count]; -1: the row has a NaN, +infinity or no finite logit */
    float *probabilities; /* [row_count] probability of the token after temperature and cuts;
                             greedy: at temperature 1 */
};
/* Draws one token of each row from those that remain after the cuts, with the random number and the
 * order of ids of the CPU sampler: the first id at which the sum of weights exceeds uniform *
 * total. */
enum mr_status mr_cuda_sample(const struct mr_cuda_sampling *sampling, void *stream,
                              struct mr_error *err);

/* Of struct mr_logit_findings (ops/backend/logit_search.h): token, largest, model_largest,
 * token_model_logit, total and model_total in two words each, probability. */
#define MR_CUDA_FOUND_WORDS 9u
struct mr_cuda_find {
    uint32_t row_count, vocab_size;
    const float *model, *edited; /* [row_count][vocab_size]; equal: nothing is edited */
    const float *factors;        /* [row_count] of the totals of edited rows; NULL: 1 */
    /* [row_count] the tokens drawn by mr_cuda_sample; NULL, or a token of -1: the token of the
     * largest edited logit is reported */
    const int32_t *drawn;
    const float *probabilities;   /* [row_count] of drawn tokens, or NULL */
    const int32_t *masked_tokens; /* [row_count] for rows whose edited logits are all -infinity; or
                                   * NULL */
    int64_t *tokens;              /* [row_count] */
    uint32_t *words;              /* [row_count][MR_CUDA_FOUND_WORDS] */
};
/* Finds the numbers that the host reads from each row, and the row's token, which the next step can
 * read from device memory. */
enum mr_status mr_cuda_find_tokens(const struct mr_cuda_find *find, void *stream,
                                   struct mr_error *err);

#endif
