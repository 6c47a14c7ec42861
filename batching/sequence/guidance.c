#include "batching/sequence/guidance.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

/* Work that an answer may take before it is treated as costly, as parts of the limit on one mask:
 * once, and for each token. With 50,000 tokens 4 ms and 0.2 ms; ordinary masks take 1 us (P50) and
 * 50 us (P99, tests/bench/grammar_bars.py). */
#define WORK_ONCE      2u
#define WORK_PER_TOKEN 32u

/* A step makes no more masks after this part of the limit on one mask. */
#define STEP_WORK_PART 2u

struct choice {
    struct mr_matcher matcher;
    uint64_t *mask;   /* [word_count] of the token after the first `masked` generated tokens */
    uint64_t work;    /* units of work that it has taken */
    uint32_t matched; /* generated tokens that the matcher has passed */
    uint32_t masked;
    bool started;   /* the matcher is set */
    bool lost;      /* a token was drawn that the grammar does not allow */
    bool has_mask;  /* mask, masked and mask_over are set */
    bool mask_over; /* the mask allows an end token only */
};

struct mr_guidance {
    const struct mr_grammar *grammar;
    uint32_t choice_count, word_count;
    uint64_t *rows;          /* [choice_count][word_count] the masks of the choices */
    struct mr_matcher trial; /* advanced past some drafts of a choice */
    struct choice choices[];
};

size_t mr_guidance_bytes(const struct mr_token_mask *masks, uint32_t choice_count)
{
    const size_t row = mr_token_mask_words(masks) * sizeof(uint64_t);
    return sizeof(struct mr_guidance) + choice_count * (sizeof(struct choice) + row);
}

enum mr_status mr_guidance_create(struct mr_guidance **out, const struct mr_grammar *grammar,
                                  const struct mr_token_mask *masks, uint32_t choice_count,
                                  struct mr_error *err)
{
    const uint32_t words = mr_token_mask_words(masks);
    struct mr_guidance *made = calloc(1, sizeof *made + choice_count * sizeof *made->choices);
    *out = made;
    if (made != NULL) made->rows = calloc((size_t)choice_count * words, sizeof *made->rows);
    if (made == NULL || made->rows == NULL) {
        mr_guidance_destroy(made);
        *out = NULL;
        return mr_fail(err, MR_NOMEM, "no memory for a constrained answer");
    }
    made->grammar = grammar;
    made->choice_count = choice_count;
    made->word_count = words;
    for (uint32_t i = 0; i < choice_count; i++)
        made->choices[i].mask = made->rows + (size_t)i * words;
    return MR_OK;
}

void mr_guidance_destroy(struct mr_guidance *guidance)
{
    if (guidance == NULL) return;
    free(guidance->rows);
    free(guidance);
}

/* Starts the matcher and moves it past the first samples that the grammar allows, at most *count of
 * them, which becomes their number. */
static enum mr_status replay(const struct mr_guidance *guidance, const struct mr_token_mask *masks,
                             const struct mr_sample *samples, uint32_t *count,
                             struct mr_matcher *matcher, struct mr_error *err)
{
    struct mr_parse *parse;
    uint32_t kept = 0;
    enum mr_status status = mr_parse_create(&parse, err);
    if (status != MR_OK) return status;
    mr_matcher_init(matcher, guidance->grammar, parse);
    while (kept < *count && mr_token_mask_replay(masks, parse, matcher, samples[kept].token_id))
        kept++;
    mr_parse_destroy(parse);
    *count = kept;
    return MR_OK;
}

enum mr_status mr_guidance_count_allowed(const struct mr_guidance *guidance,
                                         const struct mr_token_mask *masks,
                                         const struct mr_sample *samples, uint32_t count,
                                         uint32_t *kept, struct mr_error *err)
{
    *kept = 0;
    struct mr_matcher *matcher = malloc(sizeof *matcher);
    if (matcher == NULL) return mr_fail(err, MR_NOMEM, "no memory for a constrained answer");
    enum mr_status status = replay(guidance, masks, samples, &count, matcher, err);
    if (status == MR_OK) *kept = count;
    free(matcher);
    return status;
}

enum mr_status mr_guidance_resume(struct mr_guidance *guidance, const struct mr_token_mask *masks,
                                  const struct mr_sample *samples, uint32_t count,
                                  struct mr_error *err)
{
    struct choice *choice = &guidance->choices[0];
    choice->matched = count;
    enum mr_status status =
        replay(guidance, masks, samples, &choice->matched, &choice->matcher, err);
    choice->started = status == MR_OK;
    MR_ASSERT(status != MR_OK || choice->matched == count);
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

/* Writes the mask of the token that the matcher may read next; NULL: no token is allowed. */
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

/* The matcher advanced past the answer; NULL: the grammar does not allow the answer. */
static const struct mr_matcher *matcher_of(struct mr_guidance *guidance,
                                           struct mr_token_mask *masks,
                                           const struct mr_guidance_answer *answer)
{
    MR_ASSERT(answer->choice < guidance->choice_count);
    struct choice *choice = &guidance->choices[answer->choice];
    catch_up(choice, masks, guidance->grammar, answer);
    return choice->lost ? NULL : &choice->matcher;
}

uint64_t mr_guidance_step_work(const struct mr_token_mask *masks)
{
    return mr_token_mask_work_max(masks) / STEP_WORK_PART;
}

bool mr_guidance_has_mask(const struct mr_guidance *guidance, uint32_t choice, uint32_t token_count)
{
    const struct choice *of = &guidance->choices[token_count == 0 ? 0 : choice];
    return of->has_mask && of->masked == token_count;
}

void mr_guidance_make_mask(struct mr_guidance *guidance, struct mr_token_mask *masks,
                           const struct mr_guidance_answer *answer)
{
    const uint64_t before = mr_token_mask_work(masks);
    const struct mr_matcher *matcher = matcher_of(guidance, masks, answer);
    struct choice *choice = &guidance->choices[answer->choice];
    MR_ASSERT(answer->choice == 0 || answer->token_count > 0);
    choice->mask_over = fill(masks, matcher, answer, choice->mask);
    choice->masked = answer->token_count;
    choice->has_mask = true;
    choice->work += mr_token_mask_work(masks) - before;
}

bool mr_guidance_copy_mask(const struct mr_guidance *guidance, uint32_t choice,
                           uint32_t token_count, uint64_t *bits)
{
    const struct choice *of = &guidance->choices[token_count == 0 ? 0 : choice];
    MR_ASSERT(mr_guidance_has_mask(guidance, choice, token_count));
    memcpy(bits, of->mask, guidance->word_count * sizeof *bits);
    return of->mask_over;
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
