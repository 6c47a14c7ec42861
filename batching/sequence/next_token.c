#include "batching/sequence/next_token.h"

#include "codec/check.h"

bool mr_next_token_is_costly(const struct mr_sequence *sequence)
{
    const struct mr_job *job = sequence->job;
    return job->guidance != NULL &&
           mr_guidance_is_costly(job->guidance, job->rules->masks, sequence->choice,
                                 mr_sequence_generated(sequence));
}

static struct mr_guidance_answer answer_of(const struct mr_sequence *sequence)
{
    const struct mr_completion_model *model = &sequence->job->rules->completion;
    return (struct mr_guidance_answer){.choice = sequence->choice,
                                       .tokens = sequence->tokens + sequence->prompt_tokens,
                                       .token_count = mr_sequence_generated(sequence),
                                       .eos_ids = model->eos_ids,
                                       .eos_count = model->eos_count};
}

bool mr_next_token_is_ready(const struct mr_sequence *sequence)
{
    const struct mr_guidance *guidance = sequence->job->guidance;
    return guidance == NULL ||
           mr_guidance_has_mask(guidance, sequence->choice, mr_sequence_generated(sequence));
}

uint64_t mr_next_token_make_mask(struct mr_sequence *sequence)
{
    if (mr_next_token_is_ready(sequence)) return 0;
    struct mr_token_mask *masks = sequence->job->rules->masks;
    const struct mr_guidance_answer answer = answer_of(sequence);
    const uint64_t before = mr_token_mask_work(masks);
    mr_guidance_make_mask(sequence->job->guidance, masks, &answer);
    return mr_token_mask_work(masks) - before;
}

uint32_t mr_next_token_make_draft_masks(struct mr_sequence *sequence,
                                        const struct mr_guess *guesses, uint32_t count,
                                        uint64_t work, uint64_t *bits, uint32_t *over)
{
    struct mr_guidance *guidance = sequence->job->guidance;
    struct mr_token_mask *masks = sequence->job->rules->masks;
    const struct mr_guidance_answer answer = answer_of(sequence);
    const uint64_t end = mr_token_mask_work(masks) + work;
    uint32_t ids[MR_DRAFTS_MAX];
    *over = 0;
    MR_ASSERT(count <= MR_DRAFTS_MAX);
    for (uint32_t i = 0; i < count; i++, bits += mr_token_mask_words(masks)) {
        if (mr_token_mask_work(masks) >= end) return i;
        ids[i] = guesses[i].token_id;
        if (mr_guidance_fill_behind(guidance, masks, &answer, ids, i + 1, bits)) *over |= 1u << i;
    }
    return count;
}

/* Chance of a token that spells forced bytes where a longer token or another spelling is also
 * allowed: the share of right guesses in tests/bench/bench_constrained.c. */
#define LIKELY 0.7f

/* The guesses for a constrained answer: its forced tokens, if it has any. */
static uint32_t guess_constrained(struct mr_sequence *sequence, struct mr_guess *guesses,
                                  uint32_t count, uint32_t max)
{
    uint32_t ids[MR_DRAFTS_MAX];
    struct mr_guidance *guidance = sequence->job->guidance;
    struct mr_token_mask *masks = sequence->job->rules->masks;
    const struct mr_guidance_answer answer = answer_of(sequence);
    uint32_t sure, forced = mr_guidance_forced(guidance, masks, &answer, ids, max, &sure);
    for (uint32_t i = 0; i < count && forced == 0; i++)
        ids[i] = guesses[i].token_id;
    if (forced > 0) count = forced;
    for (uint32_t i = 0; i < forced; i++)
        guesses[i] = (struct mr_guess){.token_id = ids[i], .chance = i < sure ? 1.0f : LIKELY};
    return mr_guidance_count_drafts(guidance, masks, &answer, ids, count);
}

uint32_t mr_next_token_guess(struct mr_sequence *sequence, struct mr_guess *guesses, uint32_t max)
{
    MR_ASSERT(max <= MR_DRAFTS_MAX);
    if (mr_thinking_is_open(mr_completion_thinking(sequence->completion))) return 0;
    uint32_t count = mr_prompt_lookup_guess(sequence->lookup, sequence->tokens,
                                            sequence->num_tokens, guesses, max);
    if (sequence->job->guidance != NULL) count = guess_constrained(sequence, guesses, count, max);
    for (uint32_t i = 0; i < count; i++)
        if (mr_completion_may_end(sequence->completion, guesses[i].token_id)) return i;
    return count;
}
