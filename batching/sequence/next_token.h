/* next_token - the tokens that a sequence may draw next: the masks of constrained sequences
 * (batching/sequence/guidance.h), and guesses of the tokens that follow.
 *
 * Owner: engine thread. Memory: none of its own; the masks belong to the job's guidance. Errors:
 * none. */
#ifndef MR_BATCHING_SEQUENCE_NEXT_TOKEN_H
#define MR_BATCHING_SEQUENCE_NEXT_TOKEN_H

#include "batching/sequence/job.h"

/* True when the masks of the sequence have been costly. */
bool mr_next_token_is_costly(const struct mr_sequence *sequence);
/* True when the mask of the sequence's next token is made, or it needs none. */
bool mr_next_token_is_ready(const struct mr_sequence *sequence);
/* Makes the mask of the sequence's next token unless that is true. Returns the units of work
 * (codec/grammar/parse.h). */
uint64_t mr_next_token_make_mask(struct mr_sequence *sequence);
/* Makes the masks after the first 1 to `count` guesses of a constrained sequence, until they have
 * taken `work` units, and returns how many there are. bits: [count][words of a mask]. *over: bit i
 * is set when after i + 1 guesses only an end token may follow. */
uint32_t mr_next_token_make_draft_masks(struct mr_sequence *sequence,
                                        const struct mr_guess *guesses, uint32_t count,
                                        uint64_t work, uint64_t *bits, uint32_t *over);
/* Writes at most `max`, <= MR_DRAFTS_MAX, guesses of the sequence's next tokens: those that the
 * grammar of the answer forces, or else those that its text suggests, before the first that may end
 * the choice. Returns their number. The sequence must have a lookup, and no unknown token. */
uint32_t mr_next_token_guess(struct mr_sequence *sequence, struct mr_guess *guesses, uint32_t max);

#endif
