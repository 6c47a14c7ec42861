/* text_set - the texts of a request that computes vectors or classes (tasks embed, classify and
 * rerank), and their results. The sequences of the job compute one text each, and then the next one
 * that nobody has begun, so that a request of many texts fills the steps and takes little memory.
 *
 * A step gives the pooled hidden state of a text (batching/sequence/embedding.h). The layers of
 * the model's files that follow the pooling are computed here (ops/files/text_heads.h).
 *
 * Owner: engine thread; the submitting thread creates it. Memory: one block in _create.
 * Errors: only _create: MR_NOMEM. */
#ifndef MR_BATCHING_SEQUENCE_TEXT_SET_H
#define MR_BATCHING_SEQUENCE_TEXT_SET_H

#include "batching/sequence/embedding.h"
#include "batching/sequence/sequence.h"
#include "codec/records/request.h"
#include "codec/records/result.h"
#include "ops/files/text_heads.h"

struct mr_text_set {
    const struct mr_request *request;  /* borrowed */
    const struct mr_text_heads *heads; /* borrowed */
    struct mr_input single;            /* a request with a prompt */
    struct mr_input *list;             /* [count] borrowed, or &single */
    uint32_t count;
    uint32_t next;                 /* texts before it have begun, or have an error */
    uint32_t done;                 /* texts with a result */
    uint32_t good;                 /* texts without an error */
    uint32_t longest, token_count; /* tokens of the longest text; of all texts */
    uint32_t hidden_size, width;   /* numbers of a hidden state; of a result */
    float *scratch;
    struct mr_data_entry *entries; /* [count] */
    float *numbers;                /* [count * width] of the entries */
};

/* Checks that the model has what the results of the request need. heads may be NULL; hidden_size 0:
 * the model computes no vectors. MR_UNSUPPORTED, MR_INVALID_REQUEST. */
enum mr_status mr_text_set_check(const struct mr_request *request,
                                 const struct mr_text_heads *heads, uint32_t hidden_size,
                                 struct mr_error *err);
/* Checks the tokens of a text. */
typedef enum mr_status mr_text_check(const void *context, const uint32_t *ids, size_t count,
                                     struct mr_error *err);
/* Checks each text of the request. A text that cannot run gets an error of its own. The request
 * fails with the last of these errors if every text has one. */
enum mr_status mr_text_set_check_inputs(struct mr_request *request, mr_text_check *check,
                                        const void *context, struct mr_error *err);

/* Numbers of a result of the request. */
uint32_t mr_text_set_width(const struct mr_request *request, const struct mr_text_heads *heads,
                           uint32_t hidden_size);
/* The texts of the request. request->inputs or its prompt has been encoded and checked. heads may
 * be NULL for task embed. */
enum mr_status mr_text_set_create(struct mr_text_set **out, struct mr_request *request,
                                  const struct mr_text_heads *heads, uint32_t hidden_size,
                                  struct mr_error *err);
void mr_text_set_destroy(struct mr_text_set *set); /* may be NULL */
/* Bytes that the set takes with the pooled hidden states of so many sequences. */
size_t mr_text_set_bytes(const struct mr_text_set *set, uint32_t sequences);

/* Gives each sequence a pooled hidden state, which the caller owns, and a text. usual: pooling of
 * task embed if the request names none. count is at most `good`. */
enum mr_status mr_text_set_begin(struct mr_text_set *set, struct mr_sequence *sequences,
                                 uint32_t count, enum mr_model_pooling usual, struct mr_error *err);
/* Gives the sequence the next text. It has no block table. False: all texts have begun. */
bool mr_text_set_next(struct mr_text_set *set, struct mr_sequence *sequence);
/* Sets the result of a text from its pooled hidden state. */
void mr_text_set_finish(struct mr_text_set *set, uint32_t index,
                        const struct mr_embedding *embedding);
static inline bool mr_text_set_done(const struct mr_text_set *set)
{
    return set->done == set->good;
}
/* Puts the results into the result: those of task rerank in descending order of their scores. All
 * texts are done. */
void mr_text_set_report(struct mr_text_set *set, struct mr_result *result);

#endif
