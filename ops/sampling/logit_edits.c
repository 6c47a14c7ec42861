#include "ops/sampling/logit_edits.h"

#include <math.h>

bool mr_logit_edits_any(const struct mr_sample_row *row)
{
    const struct mr_sampling *sampling = row->sampling;
    return sampling->logit_bias_count > 0 || sampling->allowed_token_count > 0 ||
           row->suppressed_count > 0 || row->bad_word_count > 0 || row->allowed != NULL ||
           (row->history_count > 0 &&
            (sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
             sampling->frequency_penalty != 0.0f));
}

static void add_bias(const struct mr_sampling *sampling, uint32_t vocab_size, float *logits)
{
    for (size_t i = 0; i < sampling->logit_bias_count; i++)
        if (sampling->logit_bias[i].token_id < vocab_size)
            logits[sampling->logit_bias[i].token_id] += sampling->logit_bias[i].bias;
}

static void mask_not_allowed(const struct mr_sampling *sampling, uint32_t vocab_size, float *logits,
                             uint32_t *marks)
{
    for (size_t i = 0; i < sampling->allowed_token_count; i++)
        if (sampling->allowed_token_ids[i] < vocab_size) marks[sampling->allowed_token_ids[i]] = 1;
    for (uint32_t id = 0; id < vocab_size; id++) {
        if (!marks[id]) logits[id] = -INFINITY;
        marks[id] = 0;
    }
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

/* Masks the last token of a bad word (a token sequence) when the history ends with the word's
 * tokens before the last. */
static void mask_bad_word(const struct mr_sample_row *row, const uint32_t *word, uint32_t count,
                          uint32_t vocab_size, float *logits)
{
    if (count == 0 || count - 1 > row->history_count || word[count - 1] >= vocab_size) return;
    const uint32_t *tail = row->history + (row->history_count - (count - 1));
    for (uint32_t i = 0; i + 1 < count; i++)
        if (tail[i] != word[i]) return;
    logits[word[count - 1]] = -INFINITY;
}

static void mask(const struct mr_sample_row *row, uint32_t vocab_size, float *logits,
                 uint32_t *marks)
{
    if (row->allowed) mask_by_bits(row->allowed, vocab_size, logits);
    if (row->sampling->allowed_token_count > 0)
        mask_not_allowed(row->sampling, vocab_size, logits, marks);
    for (uint32_t i = 0; i < row->suppressed_count; i++)
        if (row->suppressed[i] < vocab_size) logits[row->suppressed[i]] = -INFINITY;
    for (uint32_t i = 0; i < row->bad_word_count; i++)
        mask_bad_word(row, row->bad_words[i], row->bad_word_counts[i], vocab_size, logits);
}

static void penalize_repetition(const struct mr_sample_row *row, uint32_t vocab_size, float *logits,
                                uint32_t *marks)
{
    const float penalty = row->sampling->repetition_penalty;
    if (penalty == 1.0f) return;
    for (uint32_t i = 0; i < row->history_count; i++) {
        const uint32_t id = row->history[i];
        if (id >= vocab_size || marks[id]) continue;
        marks[id] = 1;
        logits[id] = logits[id] > 0.0f ? logits[id] / penalty : logits[id] * penalty;
    }
    for (uint32_t i = 0; i < row->history_count; i++)
        if (row->history[i] < vocab_size) marks[row->history[i]] = 0;
}

static void penalize_output(const struct mr_sample_row *row, uint32_t vocab_size, float *logits,
                            uint32_t *marks)
{
    const float presence = row->sampling->presence_penalty;
    const float frequency = row->sampling->frequency_penalty;
    if (presence == 0.0f && frequency == 0.0f) return;
    for (uint32_t i = row->prompt_count; i < row->history_count; i++)
        if (row->history[i] < vocab_size) marks[row->history[i]]++;
    for (uint32_t i = row->prompt_count; i < row->history_count; i++) {
        const uint32_t id = row->history[i];
        if (id >= vocab_size || marks[id] == 0) continue;
        logits[id] -= presence + frequency * (float)marks[id];
        marks[id] = 0;
    }
}

void mr_logit_edits_apply(const struct mr_sample_row *row, uint32_t vocab_size, float *logits,
                          uint32_t *marks)
{
    add_bias(row->sampling, vocab_size, logits);
    mask(row, vocab_size, logits, marks);
    penalize_repetition(row, vocab_size, logits, marks);
    penalize_output(row, vocab_size, logits, marks);
}
