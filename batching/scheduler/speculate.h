/* speculate - adds drafts to the decode rows of a plan: guesses of the tokens that follow, so that
 * one step may yield several tokens of a sequence.
 *
 * The step computes a row for each draft and samples the token behind it, as if the draft were
 * right. Then the first token that was sampled shows whether the first draft is right, and so on:
 * the tokens up to the first wrong draft, and the one sampled in its place, are those that steps
 * without drafts would have sampled, since what is drawn depends on the tokens before, the seed and
 * the position only (Leviathan, Kalman and Matias, "Fast Inference from Transformers via
 * Speculative Decoding", 2023, for a source of drafts that is certain; the comparison of draws
 * takes the place of their rejection sampling). KV of wrong drafts lies behind every token of the
 * sequence; the next step overwrites it.
 *
 * A draft is added while it raises the tokens that the step is expected to yield by a larger part
 * than the time that the cost model predicts for the step. So a full batch, whose rows cost as much
 * as they yield, gets only drafts that are nearly certain, and a sequence whose guesses are wrong
 * gets none.
 *
 * While prompts are to be computed, drafts also take no more than a quarter of the time that the
 * decode rows leave of the step's target: on a CPU, where a draft costs as much as a token of a
 * prompt, the drafts of 16 sequences else took most of it.
 *
 * Drafts take no KV block: those that would need another one wait for it. They take no place in
 * rows_max either. A sequence with a step in flight gets none, and it waits for a step that checks
 * drafts. A draft never goes behind an end token.
 *
 * Owner: engine thread. Memory: none. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_SPECULATE_H
#define MR_BATCHING_SCHEDULER_SPECULATE_H

#include "batching/scheduler/schedule.h"

/* Call when all decode rows are in the plan and no other row is, and the round has its target.
 * prompts_wait: there are prompts that this step could compute. */
void mr_speculate(struct mr_schedule *schedule, bool prompts_wait);

#endif
