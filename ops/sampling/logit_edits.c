#include "ops/sampling/logit_edits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mr_logit_edits {
    uint32_t vocab_size, count;
    uint32_t *places;           /* [vocab_size] 1 + the id's index in list; 0: not in list */
    uint32_t *occurrences;      /* [vocab_size] of list[i].id in the output */
    struct mr_logit_edit *list; /* [vocab_size] */
    uint64_t *allowed;          /* [(vocab_size + 63) / 64] */
};

static size_t mask_words(uint32_t vocab_size)
{
    return ((size_t)vocab_size + 63) / 64;
}

enum mr_status mr_logit_edits_create(struct mr_logit_edits **out, uint32_t vocab_size,
                                     struct mr_error *err)
{
    *out = NULL;
    struct mr_logit_edits *edits = calloc(1, sizeof *edits);
    if (!edits) return mr_fail(err, MR_NOMEM, "no memory to edit %u logits", vocab_size);
    edits->vocab_size = vocab_size;
    edits->places = calloc(vocab_size, sizeof *edits->places);
    edits->occurrences = calloc(vocab_size, sizeof *edits->occurrences);
    edits->list = malloc(vocab_size * sizeof *edits->list);
    edits->allowed = malloc(mask_words(vocab_size) * sizeof *edits->allowed);
    if (!edits->places || !edits->occurrences || !edits->list || !edits->allowed) {
        mr_logit_edits_destroy(edits);
        return mr_fail(err, MR_NOMEM, "no memory to edit %u logits", vocab_size);
    }
    *out = edits;
    return MR_OK;
}

void mr_logit_edits_destroy(struct mr_logit_edits *edits)
{
    if (!edits) return;
    free(edits->allowed);
    free(edits->list);
    free(edits->occurrences);
    free(edits->places);
    free(edits);
}

static bool has_penalty(const struct mr_sampling *sampling)
{
    return sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
           sampling->frequency_penalty != 0.0f;
}

bool mr_logit_edits_any(const struct mr_sample_row *row)
{
    const struct mr_sampling *sampling = row->sampling;
    return sampling->logit_bias_count > 0 || sampling->allowed_token_count > 0 ||
           row->suppressed_count > 0 || row->bad_word_count > 0 || row->allowed != NULL ||
           (row->history_count > 0 && has_penalty(sampling));
}

/* ---- bias and penalties ---- */

/* Returns the edit of an id, after adding one that changes nothing if it has none; NULL: the id is
 * not in the vocabulary. */
static struct mr_logit_edit *edit_of(struct mr_logit_edits *edits, uint32_t id)
{
    if (id >= edits->vocab_size) return NULL;
    if (edits->places[id] == 0) {
        edits->occurrences[edits->count] = 0;
        edits->list[edits->count] = (struct mr_logit_edit){.id = id, .penalty = 1.0f};
        edits->places[id] = ++edits->count;
    }
    return &edits->list[edits->places[id] - 1];
}

static void list_bias(struct mr_logit_edits *edits, const struct mr_sampling *sampling)
{
    for (size_t i = 0; i < sampling->logit_bias_count; i++) {
        struct mr_logit_edit *edit = edit_of(edits, sampling->logit_bias[i].token_id);
        if (edit) edit->bias += sampling->logit_bias[i].bias;
    }
}

static void list_repetition(struct mr_logit_edits *edits, const struct mr_sample_row *row)
{
    if (row->sampling->repetition_penalty == 1.0f) return;
    for (uint32_t i = 0; i < row->history_count; i++) {
        struct mr_logit_edit *edit = edit_of(edits, row->history[i]);
        if (edit) edit->penalty = row->sampling->repetition_penalty;
    }
}

static void list_output(struct mr_logit_edits *edits, const struct mr_sample_row *row)
{
    const float presence = row->sampling->presence_penalty;
    const float frequency = row->sampling->frequency_penalty;
    if (presence == 0.0f && frequency == 0.0f) return;
    for (uint32_t i = row->prompt_count; i < row->history_count; i++) {
        struct mr_logit_edit *edit = edit_of(edits, row->history[i]);
        if (!edit) continue;
        const uint32_t occurrences = ++edits->occurrences[edit - edits->list];
        edit->subtracted = presence + frequency * (float)occurrences;
    }
}

const struct mr_logit_edit *mr_logit_edits_list(struct mr_logit_edits *edits,
                                                const struct mr_sample_row *row, uint32_t *count)
{
    edits->count = 0;
    list_bias(edits, row->sampling);
    list_repetition(edits, row);
    list_output(edits, row);
    for (uint32_t i = 0; i < edits->count; i++)
        edits->places[edits->list[i].id] = 0;
    *count = edits->count;
    return edits->list;
}

/* ---- masks ---- */

static void forbid(struct mr_logit_edits *edits, uint32_t id)
{
    if (id < edits->vocab_size) edits->allowed[id / 64] &= ~((uint64_t)1 << id % 64);
}

/* Keeps only the ids of the request's list. */
static void mask_not_allowed(struct mr_logit_edits *edits, const struct mr_sampling *sampling)
{
    for (size_t i = 0; i < sampling->allowed_token_count; i++)
        if (sampling->allowed_token_ids[i] < edits->vocab_size)
            edits->places[sampling->allowed_token_ids[i]] = 1;
    for (uint32_t id = 0; id < edits->vocab_size; id++)
        if (edits->places[id])
            edits->places[id] = 0;
        else
            forbid(edits, id);
}

/* Masks the last token of a bad word (a token sequence) when the history ends with the word's
 * tokens before the last. */
static void mask_bad_word(struct mr_logit_edits *edits, const struct mr_sample_row *row,
                          const uint32_t *word, uint32_t count)
{
    if (count == 0 || count - 1 > row->history_count) return;
    const uint32_t *tail = row->history + (row->history_count - (count - 1));
    for (uint32_t i = 0; i + 1 < count; i++)
        if (tail[i] != word[i]) return;
    forbid(edits, word[count - 1]);
}

const uint64_t *mr_logit_edits_mask(struct mr_logit_edits *edits, const struct mr_sample_row *row)
{
    const struct mr_sampling *sampling = row->sampling;
    const size_t bytes = mask_words(edits->vocab_size) * sizeof *edits->allowed;
    if (!row->allowed && sampling->allowed_token_count == 0 && row->suppressed_count == 0 &&
        row->bad_word_count == 0)
        return NULL;
    if (row->allowed)
        memcpy(edits->allowed, row->allowed, bytes);
    else
        memset(edits->allowed, 0xff, bytes);
    if (sampling->allowed_token_count > 0) mask_not_allowed(edits, sampling);
    for (uint32_t i = 0; i < row->suppressed_count; i++)
        forbid(edits, row->suppressed[i]);
    for (uint32_t i = 0; i < row->bad_word_count; i++)
        mask_bad_word(edits, row, row->bad_words[i], row->bad_word_counts[i]);
    return edits->allowed;
}

/* ---- applying ---- */

static float edited(float logit, const struct mr_logit_edit *edit)
{
    const float biased = logit + edit->bias;
    return (biased > 0.0f ? biased / edit->penalty : biased * edit->penalty) - edit->subtracted;
}

static void mask_by_bits(const uint64_t *allowed, uint32_t vocab_size, float *logits)
{
    for (uint32_t begin = 0; begin < vocab_size; begin += 64) {
        const uint64_t word = allowed[begin / 64];
        const uint32_t end = vocab_size - begin < 64 ? vocab_size : begin + 64;
        if (word == UINT64_MAX) continue;
        for (uint32_t id = begin; id < end; id++)
            if ((word >> (id - begin) & 1) == 0) logits[id] = -INFINITY;
    }
}

void mr_logit_edits_apply(struct mr_logit_edits *edits, const struct mr_sample_row *row,
                          float *logits)
{
    uint32_t count;
    const struct mr_logit_edit *list = mr_logit_edits_list(edits, row, &count);
    const uint64_t *allowed = mr_logit_edits_mask(edits, row);
    for (uint32_t i = 0; i < count; i++)
        logits[list[i].id] = edited(logits[list[i].id], &list[i]);
    if (allowed) mask_by_bits(allowed, edits->vocab_size, logits);
}
