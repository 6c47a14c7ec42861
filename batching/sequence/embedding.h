/* embedding - the pooled hidden state of a text: that of its last token or its first one, or the
 * mean of those of all its tokens, after the model's final norm.
 *
 * A step gives the sum of the hidden states of a sequence's rows. For the mean a chunk's rows are
 * added in order, when the step is collected. `pooled` is the number of rows added so far, also
 * after a preemption; KV from a cache is used only for pooled rows.
 *
 * Owner: engine thread; the submitting thread creates it. Memory: one block in _create.
 * Errors: only _create: MR_NOMEM. */
#ifndef MR_BATCHING_SEQUENCE_EMBEDDING_H
#define MR_BATCHING_SEQUENCE_EMBEDDING_H

#include "codec/records/request.h"
#include "codec/status.h"

struct mr_embedding {
    struct mr_pooling pooling;
    uint32_t token_count; /* of the text */
    uint32_t pooled;      /* leading rows that are in the sums, or need not be */
    uint32_t in_flight;   /* steps in flight that compute rows to pool */
    uint32_t size;        /* of hidden states */
    double *sums;         /* [size] */
};

enum mr_status mr_embedding_create(struct mr_embedding **out, struct mr_pooling pooling,
                                   uint32_t token_count, uint32_t size, struct mr_error *err);
size_t mr_embedding_bytes(uint32_t size);
void mr_embedding_destroy(struct mr_embedding *embedding); /* may be NULL */
/* Begins another text. */
void mr_embedding_restart(struct mr_embedding *embedding, uint32_t token_count);

/* How many of the rows [begin, end) of the sequence are to be pooled: its last ones, or with
 * pooling.first its first one. embedding may be NULL. */
uint32_t mr_embedding_rows(const struct mr_embedding *embedding, uint32_t begin, uint32_t end);
/* Adds the sum of `rows` rows, [size], which a collected step computed. False: the sum has a number
 * that is not finite. */
bool mr_embedding_add(struct mr_embedding *embedding, const float *sum, uint32_t rows);
static inline bool mr_embedding_done(const struct mr_embedding *embedding)
{
    return embedding == NULL || embedding->pooled == embedding->token_count;
}
/* out[size] = the pooled hidden state of a text that is done. */
void mr_embedding_mean(const struct mr_embedding *embedding, float *out);

#endif
