/* speculate - adds drafts to the decode rows of a plan: guesses of the tokens that follow, so that
 * one step may yield several tokens of a sequence.
 *
 * The step computes a row for each draft and samples the token that follows it, as if the draft
 * were right. The first sampled token shows whether the first draft is right, and so on. The
 * tokens up to the first wrong draft, and the one sampled in its place, are those that steps
 * without drafts would have sampled, because a draw depends only on the tokens before it, the
 * seed and the position (Leviathan, Kalman and Matias, "Fast Inference from Transformers via
 * Speculative Decoding", 2023, for a source of drafts that is certain; the comparison of draws
 * takes the place of their rejection sampling). KV of wrong drafts lies after every token of the
 * sequence; the next step overwrites it.
 *
 * A draft is added while it raises the tokens that the step is expected to yield by a larger part
 * than the time that the cost model predicts for the step. So a full batch, whose rows cost as much
 * as they yield, gets only drafts that are nearly certain, and a sequence whose guesses are wrong
 * gets none.
 *
 * While prompts are to be computed, drafts also take no more than a quarter of the time that the
 * decode rows leave of the step's target: on a CPU a draft costs as much as a token of a prompt,
 * and without this limit the drafts of 16 sequences took most of that time.
 *
 * Drafts take no KV block: a draft that would need another block is left out. Drafts are not
 * counted in rows_max. A sequence with a step in flight gets no drafts, and a sequence with
 * drafts is planned again only when the step that checks them was collected. No draft follows an
 * end token.
 *
 * Owner: engine thread. Memory: none. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_SPECULATE_H
#define MR_BATCHING_SCHEDULER_SPECULATE_H

#include "batching/scheduler/schedule.h"

/* Call when the plan holds all decode rows and nothing else, and the round has its target.
 * prompts_wait: there are prompts that this step could compute. */
void mr_speculate(struct mr_schedule *schedule, bool prompts_wait);

#endif
