#include "batching/sequence/scores.h"

#include "codec/check.h"

#include <stdlib.h>

size_t mr_scores_bytes(uint32_t token_count, uint32_t top_width)
{
    return sizeof(struct mr_scores) + (size_t)token_count * sizeof(struct mr_logprobs) +
           (size_t)token_count * top_width * sizeof(struct mr_token_logprob);
}

enum mr_status mr_scores_create(struct mr_scores **out, uint32_t token_count, uint32_t top_width,
                                struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(token_count >= 1 && top_width <= MR_LOGPROBS_MAX);
    if ((uint64_t)token_count * (1 + top_width) > MR_SCORES_MAX)
        return mr_fail(err, MR_INVALID_REQUEST,
                       "prompt_logprobs: %u for each of %u tokens are more than the %u that a "
                       "result may have: ask for fewer, or shorten the prompt",
                       1 + top_width, token_count, MR_SCORES_MAX);
    struct mr_scores *scores = calloc(1, mr_scores_bytes(token_count, top_width));
    if (scores == NULL)
        return mr_fail(err, MR_NOMEM, "no memory for the log-probabilities of %u tokens",
                       token_count);
    scores->first = scores->known = 1;
    scores->end = token_count;
    scores->top_width = top_width;
    scores->list = (struct mr_logprobs *)(void *)(scores + 1);
    scores->top = (struct mr_token_logprob *)(void *)(scores->list + token_count);
    *out = scores;
    return MR_OK;
}

void mr_scores_destroy(struct mr_scores *scores)
{
    free(scores);
}

uint32_t mr_scores_rows(const struct mr_scores *scores, uint32_t begin, uint32_t end,
                        uint32_t *count)
{
    *count = 0;
    if (mr_scores_done(scores)) return begin;
    uint32_t from = begin > scores->known - 1 ? begin : scores->known - 1;
    uint32_t to = end < scores->end - 1 ? end : scores->end - 1;
    if (to > from) *count = to - from;
    return from;
}

uint32_t mr_scores_chunk_end(const struct mr_scores *scores, uint32_t begin, uint32_t token_count,
                             uint32_t rows_max)
{
    uint32_t count;
    uint32_t from = mr_scores_rows(scores, begin, scores->end, &count);
    if (count > rows_max) return from + rows_max;
    if (count == 0 || token_count <= scores->end) return token_count;
    return scores->end;
}

void mr_scores_put(struct mr_scores *scores, uint32_t position, const struct mr_sample *sample,
                   const struct mr_token_text *texts)
{
    MR_ASSERT(position >= scores->first && position <= scores->known && position < scores->end);
    struct mr_token_logprob *top = scores->top + (size_t)position * scores->top_width;
    uint32_t count = sample->top_count < scores->top_width ? sample->top_count : scores->top_width;
    for (uint32_t i = 0; i < count; i++)
        top[i] = (struct mr_token_logprob){sample->top_ids[i], sample->top_logprobs[i],
                                           mr_token_text_of(texts, sample->top_ids[i])};
    scores->list[position] = (struct mr_logprobs){
        .chosen = {sample->token_id, sample->logprob, mr_token_text_of(texts, sample->token_id)},
        .top = top,
        .top_count = count};
    if (position == scores->known) scores->known++;
}
