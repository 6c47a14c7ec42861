#include "batching/scheduler/speculate.h"

#include "batching/sequence/next_token.h"
#include "codec/check.h"

#include <math.h>

/* A draft's part of the expected tokens must be larger than its part of the predicted time by this
 * factor, to allow for errors of the cost model and of the learnt chances. */
#define MARGIN 1.2

/* While prompts are to be computed, drafts get this part of the time that the decode rows leave of
 * the step's target. */
#define SHARE_BESIDE_PROMPTS 0.25

/* The tokens that the step is expected to yield, the time that it is predicted to take, and how
 * long it may take with drafts. */
struct outlook {
    double tokens, ms, ms_max;
};

static uint32_t min_of(uint32_t left, uint32_t right)
{
    return left < right ? left : right;
}

/* Most drafts of the row: those that the sequence's blocks have room for and that leave a token to
 * sample. */
static uint32_t room_of(const struct mr_sequence *sequence, uint32_t rows_left)
{
    if (sequence->lookup == NULL || sequence->in_flight > 0 || sequence->unknown > 0) return 0;
    uint32_t covered = mr_blocks_for(sequence->num_tokens) * MR_BLOCK_TOKENS;
    uint32_t room = min_of(covered, sequence->capacity - 1);
    room = room > sequence->num_tokens ? room - sequence->num_tokens : 0;
    return min_of(room, min_of(rows_left, MR_DRAFTS_MAX));
}

/* Number of leading guesses that are worth their rows. Adds them to *outlook and to the plan's
 * work. */
static uint32_t count_worthy(struct mr_schedule *schedule, const struct mr_sequence *sequence,
                             const struct mr_guess *guesses, uint32_t count,
                             struct outlook *outlook)
{
    const struct mr_cost_model *cost = schedule->options.cost;
    struct mr_step_work *work = &schedule->plan.work;
    double chance = 1.0;
    for (uint32_t i = 0; i < count; i++) {
        struct mr_step_work with = *work;
        mr_step_work_add(&with, 1, sequence->num_tokens + i, true);
        double more_ms = mr_cost_model_predict(cost, &with) - outlook->ms;
        chance *= (double)guesses[i].chance;
        if (chance * outlook->ms <= MARGIN * outlook->tokens * more_ms) return i;
        if (outlook->ms + more_ms > outlook->ms_max) return i;
        *work = with;
        outlook->ms += more_ms;
        outlook->tokens += chance;
    }
    return count;
}

/* As count_worthy; a constrained sequence gets no drafts without masks. */
static uint32_t count_masked(struct mr_schedule *schedule, struct mr_plan_row *row,
                             const struct mr_guess *guesses, uint32_t count, uint64_t *bits,
                             struct outlook *outlook)
{
    struct mr_round *round = &schedule->round;
    struct mr_job *job = row->sequence->job;
    const struct outlook before = *outlook;
    const struct mr_step_work work = schedule->plan.work;
    count = count_worthy(schedule, row->sequence, guesses, count, outlook);
    if (job->guidance == NULL || count == 0) return count;
    const uint64_t most = mr_guidance_step_work(job->rules->masks);
    const uint64_t left = most > round->mask_work ? most - round->mask_work : 0;
    const uint64_t used = mr_token_mask_work(job->rules->masks);
    uint32_t masked = mr_next_token_make_draft_masks(row->sequence, guesses, count, left, bits,
                                                     &row->drafts_over);
    round->mask_work += mr_token_mask_work(job->rules->masks) - used;
    row->draft_masks = bits;
    if (masked == count) return count;
    *outlook = before;
    schedule->plan.work = work;
    return count_worthy(schedule, row->sequence, guesses, masked, outlook);
}

static void add_drafts(struct mr_plan_row *row, const struct mr_guess *guesses, uint32_t count)
{
    struct mr_sequence *sequence = row->sequence;
    for (uint32_t i = 0; i < count; i++)
        sequence->tokens[sequence->num_tokens + i] = sequence->drafts[i] = guesses[i].token_id;
    sequence->draft_count = row->draft_count = count;
    row->token_count += count;
}

static struct outlook first_outlook(const struct mr_schedule *schedule, bool prompts_wait)
{
    const struct mr_plan *plan = &schedule->plan;
    const double target_ms = schedule->round.target_ms;
    struct outlook outlook = {.tokens = plan->decode_count,
                              .ms = mr_cost_model_predict(schedule->options.cost, &plan->work),
                              .ms_max = (double)INFINITY};
    if (prompts_wait && target_ms > 0)
        outlook.ms_max = outlook.ms + SHARE_BESIDE_PROMPTS * fmax(0.0, target_ms - outlook.ms);
    return outlook;
}

void mr_speculate(struct mr_schedule *schedule, bool prompts_wait)
{
    struct mr_plan *plan = &schedule->plan;
    uint32_t rows_left = schedule->options.draft_rows_max;
    uint64_t *bits = schedule->draft_masks;
    const struct mr_token_mask *masks = schedule->options.masks;
    struct outlook outlook = first_outlook(schedule, prompts_wait);
    MR_ASSERT(plan->row_count == plan->decode_count);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        struct mr_plan_row *row = &plan->rows[i];
        struct mr_guess guesses[MR_DRAFTS_MAX];
        uint32_t room = room_of(row->sequence, rows_left);
        if (room == 0) continue;
        uint32_t count = mr_next_token_guess(row->sequence, guesses, room);
        count = count_masked(schedule, row, guesses, count, bits, &outlook);
        add_drafts(row, guesses, count);
        if (row->draft_masks != NULL) bits += (size_t)count * mr_token_mask_words(masks);
        plan->token_count += count;
        rows_left -= count;
    }
}
