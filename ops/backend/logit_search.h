/* logit_search - the search that a device runs on its rows of logits, so that the host reads the
 * few numbers that a sample depends on instead of the whole row.
 *
 * A query edits a copy of a row. The findings are the largest edited logit, the sums that turn
 * logits into probabilities, and, if the query wants them, the largest logits of the model. Some
 * devices draw the token (steps_ahead 2 in ops/backend/backend.h), and the next step can read it
 * from their memory. The others find the list of the largest edited logits, from which the host
 * draws.
 *
 * Lists: a list has the ids with the largest logits, in any order. When several ids equal the
 * smallest logit of the list, it is not defined which of them are in it.
 * Memory: plain values. Pointers of a query are borrowed for the call; those of findings point into
 * the step and are valid until its next `stage`. */
#ifndef MR_OPS_BACKEND_LOGIT_SEARCH_H
#define MR_OPS_BACKEND_LOGIT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

struct mr_step; /* ops/backend/step.h */

#define MR_LIST_IDS 256u /* most ids in the list of the largest edited logits */
#define MR_TOP_IDS  64u  /* most ids in the list of the model's largest logits */

/* x becomes x + bias; then x / penalty if x is above 0, else x * penalty; then x - subtracted. */
struct mr_logit_edit {
    uint32_t id;
    float bias, penalty, subtracted;
};

struct mr_logit_query {
    uint32_t row;                      /* of MR_LOGITS */
    const struct mr_logit_edit *edits; /* [edit_count] of different ids */
    uint32_t edit_count;
    /* [(width + 63) / 64] after the edits a logit becomes -infinity unless bit id % 64 of word
     * id / 64 is set; NULL: all bits are set. */
    const uint64_t *allowed;
    float factor; /* of total: 1 / temperature */
    bool top;     /* wants the model's largest logits */
    /* draw: choose the token at random, at temperature 1 / factor with the cuts below
     * (ops/sampling/sampler.h); false: the largest logit. list: a device that does not draw finds
     * the largest edited logits. */
    bool draw, list;
    uint64_t seed;
    uint32_t position;
    uint32_t top_k;
    float top_p, min_p, typical_p;
    uint32_t masked_token; /* the token when all edited logits are -infinity */
};

struct mr_logit_list {
    const int32_t *ids;  /* [count] */
    const float *logits; /* [count] descending */
    uint32_t count;      /* MR_LIST_IDS or MR_TOP_IDS, or the width if it is less; 0: no list */
};

struct mr_logit_findings {
    /* From a device that draws: the drawn token, or masked_token. From the others: the id of
     * `largest`, the lowest among equals. */
    uint32_t token;
    float token_model_logit;        /* the model's logit of `token` */
    bool drawn;                     /* token is the result of `draw` */
    float probability;              /* of a drawn token */
    float largest;                  /* of the edited logits */
    float model_largest;            /* of the model's logits; NaN if one of them is NaN */
    double total;                   /* sum of exp(factor * (edited logit - largest)) */
    double model_total;             /* sum of exp(model's logit - model_largest) */
    struct mr_logit_list list;      /* of edited logits */
    const float *list_model_logits; /* [list.count] the model's logits of the same ids */
    struct mr_logit_list top;       /* of the model's logits */
};

/* Rows of a step whose token ids only the device knows: row rows[i] takes the token that the device
 * drew for query queries[i] of the last search of `from`. */
struct mr_fed_rows {
    const struct mr_step *from;
    const uint32_t *rows, *queries; /* [count] */
    uint32_t count;
};

#endif
