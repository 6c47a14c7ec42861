#include "batching/sequence/scores.h"

#include "codec/check.h"

#include <stdlib.h>

/* Entries of the list. The first token of a prompt has one too, which stays zero. */
static uint64_t count_entries(const struct mr_scores_spec *spec)
{
    uint64_t count = spec->continuations == NULL ? spec->token_count : 0;
    for (uint32_t i = 0; i < spec->continuation_count; i++)
        count += spec->continuations[i].token_count;
    return count;
}

size_t mr_scores_bytes(const struct mr_scores_spec *spec)
{
    const size_t entries = count_entries(spec);
    return sizeof(struct mr_scores) + entries * sizeof(struct mr_logprobs) +
           entries * spec->top_width * sizeof(struct mr_token_logprob) +
           (spec->continuation_count + 2u) * sizeof(uint32_t);
}

static void begin_continuation(struct mr_scores *scores, uint32_t index, uint32_t known)
{
    scores->current = index;
    scores->end = scores->first + (scores->offsets[index + 1] - scores->offsets[index]);
    scores->known = known;
}

static void place_parts(struct mr_scores *scores, const struct mr_scores_spec *spec)
{
    const size_t entries = count_entries(spec);
    scores->top_width = spec->top_width;
    scores->continuations = spec->continuations;
    scores->head_count = spec->continuations == NULL ? 1 : spec->continuation_count;
    scores->first = spec->continuations == NULL ? 1 : spec->token_count;
    scores->list = (struct mr_logprobs *)(void *)(scores + 1);
    scores->top = (struct mr_token_logprob *)(void *)(scores->list + entries);
    scores->offsets = (uint32_t *)(void *)(scores->top + entries * spec->top_width);
    scores->offsets[0] = spec->continuations == NULL ? 1 : 0;
    scores->offsets[1] = spec->token_count;
    for (uint32_t i = 0; i < spec->continuation_count; i++)
        scores->offsets[i + 1] = scores->offsets[i] + (uint32_t)spec->continuations[i].token_count;
}

enum mr_status mr_scores_create(struct mr_scores **out, const struct mr_scores_spec *spec,
                                struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(spec->token_count >= 1 && spec->top_width <= MR_LOGPROBS_MAX);
    MR_ASSERT((spec->continuations == NULL) == (spec->continuation_count == 0));
    const uint64_t entries = count_entries(spec);
    if (entries * (1 + spec->top_width) > MR_SCORES_MAX)
        return mr_fail(err, MR_INVALID_REQUEST,
                       "%s: %u for each of %llu tokens are more than the %u log-probabilities that "
                       "a result may have: request fewer, or send fewer tokens",
                       spec->continuations == NULL ? "prompt_logprobs" : "continuations",
                       1 + spec->top_width, (unsigned long long)entries, MR_SCORES_MAX);
    struct mr_scores *scores = calloc(1, mr_scores_bytes(spec));
    if (scores == NULL)
        return mr_fail(err, MR_NOMEM, "no memory for the log-probabilities of %llu tokens",
                       (unsigned long long)entries);
    place_parts(scores, spec);
    begin_continuation(scores, 0, scores->first);
    *out = scores;
    return MR_OK;
}

void mr_scores_destroy(struct mr_scores *scores)
{
    free(scores);
}

bool mr_scores_next(struct mr_scores *scores)
{
    if (scores == NULL) return false;
    MR_ASSERT(mr_scores_done(scores));
    while (scores->current + 1 < scores->head_count) {
        begin_continuation(scores, scores->current + 1, scores->first + 1);
        if (!mr_scores_done(scores)) return true;
    }
    return false;
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

uint32_t mr_scores_samples(const struct mr_scores *scores, uint32_t begin, uint32_t count)
{
    bool heads = count > 0 && begin + 1 == scores->first;
    return heads ? count + scores->head_count - 1 : count;
}

uint32_t mr_scores_chunk_end(const struct mr_scores *scores, uint32_t begin, uint32_t token_count,
                             uint32_t samples_max)
{
    uint32_t count;
    const uint32_t from = mr_scores_rows(scores, begin, scores->end, &count);
    const uint32_t extra = mr_scores_samples(scores, from, count) - count;
    if (count > 0 && samples_max <= extra) return from;
    if (count > samples_max - extra) return from + samples_max - extra;
    if (count == 0 || token_count <= scores->end) return token_count;
    return scores->end;
}

static void put(struct mr_scores *scores, uint32_t index, const struct mr_sample *sample,
                const struct mr_token_text *texts)
{
    struct mr_token_logprob *top = scores->top + (size_t)index * scores->top_width;
    uint32_t count = sample->top_count < scores->top_width ? sample->top_count : scores->top_width;
    for (uint32_t i = 0; i < count; i++)
        top[i] = mr_token_text_logprob(texts, sample->top_ids[i], sample->top_logprobs[i]);
    scores->list[index] = (struct mr_logprobs){
        .chosen = mr_token_text_logprob(texts, sample->token_id, sample->logprob),
        .top = top,
        .top_count = count};
}

void mr_scores_put(struct mr_scores *scores, uint32_t position, const struct mr_sample *sample,
                   const struct mr_token_text *texts)
{
    MR_ASSERT(position >= scores->first && position <= scores->known && position < scores->end);
    put(scores, scores->offsets[scores->current] + position - scores->first, sample, texts);
    if (position == scores->known) scores->known++;
}

void mr_scores_put_heads(struct mr_scores *scores, const struct mr_sample *samples,
                         const struct mr_token_text *texts)
{
    for (uint32_t i = 0; i < scores->head_count; i++)
        put(scores, scores->offsets[i], &samples[i], texts);
    if (scores->known == scores->first) scores->known++;
}
