/* guidance - the positions of one constrained request's choices in its grammar, and the tokens that
 * each may draw next (codec/grammar/token_mask.h).
 *
 * A choice is advanced past its generated tokens when its next mask is made, so preemption, cached
 * prompts and resumed answers need no additional code.
 *
 * Forced tokens: where the grammar forces the next bytes, such as the rest of a property's name,
 * only the longest token that spells them is allowed, unless a token that continues past them
 * might be. So the ids are nearly those that the tokenizer would make of the text, and they are
 * known before the model has run. They are drafts that are always right
 * (batching/scheduler/speculate.h), so long names take few steps. The row after a draft has the
 * mask of the answer with the draft.
 *
 * The mask of a choice's next token is made when a step with it is planned and kept until the
 * choice has that token, so it is made once. The first masks of all choices are those of choice 0.
 *
 * Costly answers: the masks of some grammars take milliseconds each. The work of each answer is
 * compared with a limit, far above the work of ordinary schemas: a share of the largest work of one
 * mask for each token, plus a constant. The scheduler runs one of the answers above that limit in a
 * step (batching/scheduler/scheduler.c), so costly answers delay each other and hardly delay the
 * others. The work of a mask is known only when it is made. When the masks of the other answers in
 * a step have taken mr_guidance_step_work(), the step makes no more masks.
 *
 * Owner:  the job: made by the submitting thread, used by the engine thread. Memory: all in
 *         _create: about 19 KiB for each choice, 19 KiB once, and a mask for each choice. It
 * borrows grammar and masks. Errors: only _create. */
#ifndef MR_BATCHING_SEQUENCE_GUIDANCE_H
#define MR_BATCHING_SEQUENCE_GUIDANCE_H

#include "codec/grammar/token_mask.h"
#include "ops/sampling/sample.h"

struct mr_guidance;

enum mr_status mr_guidance_create(struct mr_guidance **out, const struct mr_grammar *grammar,
                                  const struct mr_token_mask *masks, uint32_t choice_count,
                                  struct mr_error *err);
/* guidance may be NULL. */
void mr_guidance_destroy(struct mr_guidance *guidance);
/* Bytes that mr_guidance_create() allocates. */
size_t mr_guidance_bytes(const struct mr_token_mask *masks, uint32_t choice_count);

/* Sets *kept to how many of the first tokens of an earlier attempt the grammar allows. Any thread;
 * the guidance does not change. MR_NOMEM. */
enum mr_status mr_guidance_count_allowed(const struct mr_guidance *guidance,
                                         const struct mr_token_mask *masks,
                                         const struct mr_sample *samples, uint32_t count,
                                         uint32_t *kept, struct mr_error *err);
/* Moves choice 0 past the first `count` tokens of an earlier attempt, which the grammar allows. The
 * submitting thread. MR_NOMEM. */
enum mr_status mr_guidance_resume(struct mr_guidance *guidance, const struct mr_token_mask *masks,
                                  const struct mr_sample *samples, uint32_t count,
                                  struct mr_error *err);

/* The tokens that a choice has generated so far. */
struct mr_guidance_answer {
    uint32_t choice;
    const uint32_t *tokens; /* [token_count] without an end token */
    uint32_t token_count;
    const uint32_t *eos_ids; /* [eos_count] end tokens of the model */
    uint32_t eos_count;
};

/* True when the masks of a choice that has generated token_count tokens have been costly. */
bool mr_guidance_is_costly(const struct mr_guidance *guidance, const struct mr_token_mask *masks,
                           uint32_t choice, uint32_t token_count);
/* Units of work (codec/grammar/parse.h) after which a step makes no more masks. A mask may take
 * twice as many. */
uint64_t mr_guidance_step_work(const struct mr_token_mask *masks);
/* True when the mask of the token after the first token_count tokens of the choice is made. */
bool mr_guidance_has_mask(const struct mr_guidance *guidance, uint32_t choice,
                          uint32_t token_count);
/* Makes the mask of the next token, which includes end tokens where the answer may end. */
void mr_guidance_make_mask(struct mr_guidance *guidance, struct mr_token_mask *masks,
                           const struct mr_guidance_answer *answer);
/* Copies that mask, which must exist, to bits[mr_token_mask_words(masks)]. True when only an end
 * token may follow. */
bool mr_guidance_copy_mask(const struct mr_guidance *guidance, uint32_t choice,
                           uint32_t token_count, uint64_t *bits);
/* Writes at most `max` tokens that the grammar forces next, and returns their number. The first
 * *sure of them are the only ones that are allowed, the others are likely. */
uint32_t mr_guidance_forced(struct mr_guidance *guidance, struct mr_token_mask *masks,
                            const struct mr_guidance_answer *answer, uint32_t *ids, uint32_t max,
                            uint32_t *sure);
/* Number of leading drafts that the grammar allows after the answer. */
uint32_t mr_guidance_count_drafts(struct mr_guidance *guidance, struct mr_token_mask *masks,
                                  const struct mr_guidance_answer *answer, const uint32_t *drafts,
                                  uint32_t count);
/* Writes the mask of the token after the answer and drafts[0, count), which are allowed, to
 * bits[mr_token_mask_words(masks)]. True when only an end token may follow. */
bool mr_guidance_fill_behind(struct mr_guidance *guidance, struct mr_token_mask *masks,
                             const struct mr_guidance_answer *answer, const uint32_t *drafts,
                             uint32_t count, uint64_t *bits);

#endif
