#include "batching/sequence/guidance.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

/* Work that an answer may take before it counts as costly, in parts of the most of one mask: once,
 * and for each token. With 50,000 tokens 4 ms and 0.2 ms; ordinary masks take 1 us (P50) and 50 us
 * (P99, tests/bench/grammar_bars.py). */
#define WORK_ONCE      2u
#define WORK_PER_TOKEN 32u

struct choice {
    struct mr_matcher matcher;
    uint64_t work;    /* units of work that it has taken */
    uint32_t matched; /* generated tokens that the matcher has passed */
    bool started;     /* the matcher is set */
    bool lost;        /* a token was drawn that the grammar does not allow */
};

struct mr_guidance {
    const struct mr_grammar *grammar;
    uint32_t choice_count;
    struct mr_matcher trial; /* behind some drafts of a choice */
    struct choice choices[];
};

size_t mr_guidance_bytes(uint32_t choice_count)
{
    return sizeof(struct mr_guidance) + choice_count * sizeof(struct choice);
}

enum mr_status mr_guidance_create(struct mr_guidance **out, const struct mr_grammar *grammar,
                                  uint32_t choice_count, struct mr_error *err)
{
    *out = calloc(1, mr_guidance_bytes(choice_count));
    if (*out == NULL) return mr_fail(err, MR_NOMEM, "no memory for a constrained answer");
    (*out)->grammar = grammar;
    (*out)->choice_count = choice_count;
    return MR_OK;
}

void mr_guidance_destroy(struct mr_guidance *guidance)
{
    free(guidance);
}

enum mr_status mr_guidance_count_allowed(const struct mr_guidance *guidance,
                                         const struct mr_token_mask *masks,
                                         const struct mr_sample *samples, uint32_t count,
                                         uint32_t *kept, struct mr_error *err)
{
    struct mr_parse *parse;
    *kept = 0;
    struct mr_matcher *matcher = malloc(sizeof *matcher);
    if (matcher == NULL) return mr_fail(err, MR_NOMEM, "no memory for a constrained answer");
    enum mr_status status = mr_parse_create(&parse, err);
    if (status == MR_OK) {
        mr_matcher_init(matcher, guidance->grammar, parse);
        while (*kept < count &&
               mr_token_mask_replay(masks, parse, matcher, samples[*kept].token_id))
            (*kept)++;
        mr_parse_destroy(parse);
    }
    free(matcher);
    return status;
}

bool mr_guidance_is_costly(const struct mr_guidance *guidance, const struct mr_token_mask *masks,
                           uint32_t choice, uint32_t token_count)
{
    const uint64_t most = mr_token_mask_work_max(masks);
    return guidance->choices[choice].work >
           most / WORK_ONCE + token_count * (most / WORK_PER_TOKEN);
}

static void catch_up(struct choice *choice, struct mr_token_mask *masks,
                     const struct mr_grammar *grammar, const struct mr_guidance_answer *answer)
{
    if (!choice->started) {
        mr_token_mask_start(masks, &choice->matcher, grammar);
        choice->started = true;
    }
    MR_ASSERT(choice->matched <= answer->token_count);
    for (; choice->matched < answer->token_count; choice->matched++)
        if (!choice->lost)
            choice->lost =
                !mr_token_mask_accept(masks, &choice->matcher, answer->tokens[choice->matched]);
}

static bool is_empty(const uint64_t *bits, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        if (bits[i] != 0) return false;
    return true;
}

/* Writes the mask of the token behind the matcher; NULL: no token is allowed. */
static bool fill(struct mr_token_mask *masks, const struct mr_matcher *matcher,
                 const struct mr_guidance_answer *answer, uint64_t *bits)
{
    const uint32_t words = mr_token_mask_words(masks);
    uint32_t forced, sure = 0;
    if (matcher != NULL) mr_token_mask_forced(masks, matcher, &forced, 1, &sure);
    if (matcher == NULL || sure > 0)
        memset(bits, 0, words * sizeof *bits);
    else
        mr_token_mask_fill(masks, matcher, bits);
    if (sure > 0) {
        bits[forced / 64] |= 1ull << (forced % 64);
        return false;
    }
    bool over = is_empty(bits, words);
    if (over || matcher->can_end)
        for (uint32_t i = 0; i < answer->eos_count; i++)
            if (answer->eos_ids[i] / 64 < words)
                bits[answer->eos_ids[i] / 64] |= 1ull << (answer->eos_ids[i] % 64);
    return over;
}

/* The matcher behind the answer; NULL: the grammar does not allow the answer. */
static const struct mr_matcher *matcher_of(struct mr_guidance *guidance,
                                           struct mr_token_mask *masks,
                                           const struct mr_guidance_answer *answer)
{
    MR_ASSERT(answer->choice < guidance->choice_count);
    struct choice *choice = &guidance->choices[answer->choice];
    catch_up(choice, masks, guidance->grammar, answer);
    return choice->lost ? NULL : &choice->matcher;
}

bool mr_guidance_fill(struct mr_guidance *guidance, struct mr_token_mask *masks,
                      const struct mr_guidance_answer *answer, uint64_t *bits)
{
    const uint64_t before = mr_token_mask_work(masks);
    bool over = fill(masks, matcher_of(guidance, masks, answer), answer, bits);
    guidance->choices[answer->choice].work += mr_token_mask_work(masks) - before;
    return over;
}

uint32_t mr_guidance_forced(struct mr_guidance *guidance, struct mr_token_mask *masks,
                            const struct mr_guidance_answer *answer, uint32_t *ids, uint32_t max,
                            uint32_t *sure)
{
    const struct mr_matcher *matcher = matcher_of(guidance, masks, answer);
    *sure = 0;
    return matcher == NULL ? 0 : mr_token_mask_forced(masks, matcher, ids, max, sure);
}

uint32_t mr_guidance_count_drafts(struct mr_guidance *guidance, struct mr_token_mask *masks,
                                  const struct mr_guidance_answer *answer, const uint32_t *drafts,
                                  uint32_t count)
{
    const struct mr_matcher *matcher = matcher_of(guidance, masks, answer);
    uint32_t allowed = 0;
    if (matcher == NULL) return 0;
    mr_matcher_copy(&guidance->trial, matcher);
    while (allowed < count && mr_token_mask_accept(masks, &guidance->trial, drafts[allowed]))
        allowed++;
    return allowed;
}

bool mr_guidance_fill_behind(struct mr_guidance *guidance, struct mr_token_mask *masks,
                             const struct mr_guidance_answer *answer, const uint32_t *drafts,
                             uint32_t count, uint64_t *bits)
{
    const uint64_t before = mr_token_mask_work(masks);
    uint32_t allowed = mr_guidance_count_drafts(guidance, masks, answer, drafts, count);
    bool over = fill(masks, allowed == count ? &guidance->trial : NULL, answer, bits);
    guidance->choices[answer->choice].work += mr_token_mask_work(masks) - before;
    return over;
}
