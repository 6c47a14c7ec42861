#include "codec/tokenizer_files/scored_merges.h"

#include <math.h>
#include <stdlib.h>

struct scored {
    float score;
    uint32_t id;
};

/* Sorts tokens by score, best first. */
static int by_score(const void *a, const void *b)
{
    const struct scored *left = a, *right = b;
    if (left->score > right->score) return -1;
    if (left->score < right->score) return 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* Adds a merge for each way to cut the token into two tokens. */
static void add_cuts(struct mr_tokenizer_parts *parts, const float *scores, uint32_t id,
                     uint32_t rank)
{
    struct mr_text text = mr_vocab_text(parts->vocab, id);
    for (size_t cut = 1; cut < text.length; cut++) {
        uint32_t left = mr_vocab_find(parts->vocab, mr_text_part(text, 0, cut));
        if (left == MR_TOKEN_NONE || isnan(scores[left])) continue;
        uint32_t right = mr_vocab_find(parts->vocab, mr_text_part(text, cut, text.length));
        if (right == MR_TOKEN_NONE || isnan(scores[right])) continue;
        parts->merges[parts->merge_count++] = (struct mr_merge){left, right, id, rank};
    }
}

/* Collects the tokens with a score. Sets *cuts to the sum of their bytes, more than the number of
 * merges. */
static enum mr_status collect(const struct mr_vocab *vocab, const float *scores,
                              struct scored *order, size_t *count, size_t *cuts,
                              struct mr_error *err)
{
    for (uint32_t id = 0; id < mr_vocab_size(vocab); id++) {
        size_t length = mr_vocab_text(vocab, id).length;
        if (isnan(scores[id])) continue;
        if (length > MR_SCORED_TOKEN_BYTES_MAX)
            return mr_fail(err, MR_BAD_FILE, "token %u has %zu bytes, the limit is %zu", id, length,
                           MR_SCORED_TOKEN_BYTES_MAX);
        order[(*count)++] = (struct scored){scores[id], id};
        *cuts += length;
    }
    if (*cuts < MR_VOCAB_TOKENS_MAX) return MR_OK;
    return mr_fail(err, MR_BAD_FILE, "a vocabulary of %zu bytes that has scores", *cuts);
}

enum mr_status mr_scored_merges(struct mr_tokenizer_parts *parts, const float *scores,
                                struct mr_error *err)
{
    size_t count = 0, cuts = 0;
    struct scored *order = calloc((size_t)mr_vocab_size(parts->vocab) + 1, sizeof *order);
    if (!order) return mr_fail(err, MR_NOMEM, "no memory for merges");
    enum mr_status status = collect(parts->vocab, scores, order, &count, &cuts, err);
    if (status == MR_OK) {
        parts->merges = calloc(cuts + 1, sizeof *parts->merges);
        if (!parts->merges) status = mr_fail(err, MR_NOMEM, "no memory for merges");
    }
    if (status == MR_OK) qsort(order, count, sizeof *order, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; i < count && status == MR_OK; i++) {
        if (i > 0 && order[i].score < order[i - 1].score) rank++;
        add_cuts(parts, scores, order[i].id, rank);
    }
    free(order);
    return status;
}
