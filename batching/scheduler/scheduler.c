#include "batching/scheduler/scheduler.h"

#include "batching/cache/remote_prefix.h"
#include "batching/scheduler/admit.h"
#include "batching/scheduler/prediction.h"
#include "batching/scheduler/rebalance.h"
#include "batching/scheduler/schedule.h"
#include "batching/scheduler/speculate.h"
#include "batching/sequence/next_token.h"
#include "codec/check.h"

#include <math.h>
#include <stdlib.h>

#define AUTO_TARGET_MS 100.0 /* streams of ten tokens a second read smoothly */
/* Of a step without decodes. In 20 times the constant cost of a step, prefill has 95 % of its
 * speed: the constant cost is then a 20th of the step. */
#define AUTO_PROMPTS_MS    250.0
#define AUTO_PROMPTS_STEPS 20.0
#define AUTO_TARGET_STEPS  4.0 /* decodes get at most a quarter of a step with prefill */
/* A chunk of the minimum size always fits, even if a long history makes its tokens cost 1.5 times
 * as much. */
#define AUTO_TARGET_TOKENS (MR_CHUNK_TOKENS_MIN * 3 / 2)
#define OUTPUT_SHARE_FIRST 0.7 /* first guess of output / max_tokens: SGLang's estimate */
#define OUTPUT_SHARE_MIN   0.1
#define OUTPUT_SHARE_RATE  0.0625 /* weight of one ended sequence in the learnt output share */
#define OUTPUT_SHARE_STEP  0.1    /* added to the output share when a sequence is preempted */

struct mr_scheduler {
    struct mr_schedule schedule;
    /* consecutive steps without prefill tokens although some were pending */
    uint32_t starved_steps;
    uint64_t round_count;
};

/* ---- creation ---- */

static enum mr_status check_options(const struct mr_scheduler_options *options,
                                    struct mr_error *err)
{
    if (options->sequences_max == 0 || options->block_count == 0)
        return mr_fail(err, MR_BAD_CONFIG, "the engine needs room for a sequence and a block");
    if (options->rows_max <= options->sequences_max)
        return mr_fail(err, MR_BAD_CONFIG,
                       "a step of %u rows has no room in addition to %u sequences",
                       options->rows_max, options->sequences_max);
    if (options->prefills_max == 0 || options->prefill_batch_max == 0)
        return mr_fail(err, MR_BAD_CONFIG, "at least one prefill must be allowed at a time");
    return MR_OK;
}

static bool allocate(struct mr_schedule *schedule)
{
    const struct mr_scheduler_options *options = &schedule->options;
    const uint32_t count = options->sequences_max;
    struct mr_plan *plan = &schedule->plan;
    schedule->jobs_max = 2 * count;
    schedule->parked_max = MR_STARTED_MAX(count) * MR_CHOICES_MAX;
    schedule->running = calloc(count, sizeof *schedule->running);
    schedule->parked = calloc(schedule->parked_max, sizeof *schedule->parked);
    schedule->order = calloc(count + 1, sizeof *schedule->order);
    schedule->entries = calloc(count + 1, sizeof *schedule->entries);
    schedule->stamps = calloc(options->block_count, sizeof *schedule->stamps);
    plan->rows = calloc(count, sizeof *plan->rows);
    plan->exhausted = calloc(count + schedule->parked_max, sizeof *plan->exhausted);
    const size_t words = options->masks == NULL ? 0 : mr_token_mask_words(options->masks);
    schedule->draft_masks =
        calloc(options->draft_rows_max * words + 1, sizeof *schedule->draft_masks);
    return schedule->running != NULL && schedule->parked != NULL && schedule->order != NULL &&
           schedule->entries != NULL && schedule->stamps != NULL && plan->rows != NULL &&
           plan->exhausted != NULL && schedule->draft_masks != NULL;
}

enum mr_status mr_scheduler_create(struct mr_scheduler **out,
                                   const struct mr_scheduler_options *options, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = check_options(options, err);
    if (status != MR_OK) return status;
    struct mr_scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (scheduler == NULL) goto fail;
    scheduler->schedule.options = *options;
    for (uint32_t i = 0; i < MR_TENANTS_MAX; i++)
        scheduler->schedule.output_share[i] = OUTPUT_SHARE_FIRST;
    if (!allocate(&scheduler->schedule)) goto fail_scheduler;
    *out = scheduler;
    return MR_OK;

fail_scheduler:
    mr_scheduler_destroy(scheduler);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for the scheduler");
}

void mr_scheduler_destroy(struct mr_scheduler *scheduler)
{
    if (scheduler == NULL) return;
    struct mr_schedule *schedule = &scheduler->schedule;
    for (uint32_t i = 0; i < schedule->running_count; i++)
        mr_block_table_destroy(schedule->running[i]->table, 0);
    free(schedule->plan.exhausted);
    free(schedule->plan.rows);
    free(schedule->draft_masks);
    free(schedule->stamps);
    free(schedule->entries);
    free(schedule->order);
    free(schedule->parked);
    free(schedule->running);
    free(scheduler);
}

/* ---- preemption ---- */

/* True when `left` ranks above `right` among the running sequences. Preemption takes the last in
 * rank: those of tenants above their share of KV blocks, then the lowest priority, then the least
 * computed, then the newest. */
static bool outranks(const struct mr_schedule *schedule, const struct mr_sequence *left,
                     const struct mr_sequence *right)
{
    const struct mr_shares *shares = &schedule->round.shares;
    const bool left_above = mr_shares_is_above(shares, left->job->tenant_index);
    if (left_above != mr_shares_is_above(shares, right->job->tenant_index)) return !left_above;
    if (left->job->priority != right->job->priority)
        return left->job->priority > right->job->priority;
    if (left->num_computed != right->num_computed) return left->num_computed > right->num_computed;
    if (left->job->arrival_ns != right->job->arrival_ns)
        return left->job->arrival_ns < right->job->arrival_ns;
    return left->choice < right->choice;
}

/* Sorts the running sequences by rank. An insertion sort, as the order changes little each step. */
static void sort_running(struct mr_schedule *schedule)
{
    struct mr_sequence **running = schedule->running;
    for (uint32_t i = 1; i < schedule->running_count; i++) {
        struct mr_sequence *sequence = running[i];
        uint32_t place = i;
        for (; place > 0 && outranks(schedule, sequence, running[place - 1]); place--)
            running[place] = running[place - 1];
        running[place] = sequence;
    }
}

static void preempt_last(struct mr_schedule *schedule)
{
    mr_schedule_preempt(schedule, schedule->running[schedule->running_count - 1]);
}

/* Test hook (force_preempt_every): preempts the last sequence in rank, but only if it has generated
 * a token since its last preemption; otherwise a long prompt in small chunks would never end. */
static void force_preemption(struct mr_scheduler *scheduler)
{
    struct mr_schedule *schedule = &scheduler->schedule;
    uint32_t every = schedule->options.force_preempt_every;
    if (every == 0 || scheduler->round_count % every != 0 || schedule->running_count == 0) return;
    const struct mr_sequence *last = schedule->running[schedule->running_count - 1];
    if (mr_sequence_is_decoding(last) && last->num_tokens > last->tokens_at_preemption)
        preempt_last(schedule);
}

/* Asks the remote cache to release blocks of ended sequences that it still uses. True: it releases
 * them soon, so no sequence need be preempted. */
static bool reclaims_blocks(struct mr_schedule *schedule)
{
    struct mr_remote_prefix *remote = schedule->options.remote;
    return remote != NULL && mr_remote_prefix_reclaim(remote);
}

static bool has_blocks(const struct mr_sequence *sequence)
{
    return (uint64_t)sequence->table->block_count * MR_BLOCK_TOKENS >= sequence->num_tokens;
}

/* True when the sequence's next token cannot be computed and sampled before the token that a step
 * in flight samples is known, which may also end it. */
static bool waits_for_token(const struct mr_sequence *sequence)
{
    return sequence->unknown > 0 &&
           (sequence->num_tokens == sequence->capacity || sequence->draft_count > 0 ||
            !mr_job_samples_ahead(sequence->job, sequence));
}

/* A sequence whose last token is not known may end with that token, without needing a block. */
static bool exhaust(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    if (sequence->unknown == 0) mr_schedule_exhaust(schedule, sequence);
    schedule->round.blocks_short |= sequence->unknown > 0;
    return false;
}

/* A sequence that is preempted for lack of blocks has become longer than expected. */
static void raise_output_share(struct mr_schedule *schedule, const struct mr_sequence *victim)
{
    double *share = &schedule->output_share[victim->job->tenant_index];
    *share = fmin(*share + OUTPUT_SHARE_STEP, 1.0);
}

/* Reserves KV blocks for the next token of running[index], preempting the last sequence in rank if
 * necessary. False: this sequence was preempted, or can never get a block (exhausted), or waits
 * until the remote cache releases blocks. */
static bool reserve_blocks(struct mr_schedule *schedule, uint32_t index)
{
    struct mr_sequence *sequence = schedule->running[index];
    if (mr_blocks_for(sequence->num_tokens) > schedule->options.block_count)
        return exhaust(schedule, sequence);
    while (!has_blocks(sequence) &&
           mr_kv_cache_reserve(sequence->table, sequence->num_tokens) != MR_OK) {
        if (reclaims_blocks(schedule)) {
            schedule->round.blocks_short = true;
            return false;
        }
        if (schedule->running_count == 1) return exhaust(schedule, sequence);
        bool is_last = index == schedule->running_count - 1;
        raise_output_share(schedule, schedule->running[schedule->running_count - 1]);
        preempt_last(schedule);
        schedule->round.blocks_short = true;
        if (is_last) return false;
    }
    return true;
}

/* ---- the plan ---- */

/* The sequence that has waited longest of those with costly masks (batching/sequence/guidance.h);
 * NULL: there is none. */
static const struct mr_sequence *next_costly(const struct mr_schedule *schedule)
{
    const struct mr_sequence *next = NULL;
    for (uint32_t i = 0; i < schedule->running_count; i++) {
        const struct mr_sequence *sequence = schedule->running[i];
        if (!mr_sequence_is_decoding(sequence) || waits_for_token(sequence) ||
            !mr_next_token_is_costly(sequence))
            continue;
        if (next == NULL || sequence->costly_turn < next->costly_turn) next = sequence;
    }
    return next;
}

/* Plans the decode rows; all: those of all costly sequences, otherwise one of them. Returns how
 * many it has passed over. */
static uint32_t add_decodes(struct mr_schedule *schedule, bool all)
{
    uint32_t passed = 0;
    schedule->round.costly = all ? NULL : next_costly(schedule);
    for (uint32_t i = 0; i < schedule->running_count; i++) {
        struct mr_sequence *sequence = schedule->running[i];
        if (!mr_sequence_is_decoding(sequence) || waits_for_token(sequence)) continue;
        bool costly = mr_next_token_is_costly(sequence);
        bool waits = costly && sequence != schedule->round.costly && !all;
        if (waits || !mr_schedule_may_draw(schedule, sequence)) {
            passed++;
            continue;
        }
        if (!reserve_blocks(schedule, i)) continue;
        if (costly) sequence->costly_turn = ++schedule->costly_turns;
        mr_schedule_add_row(
            schedule, (struct mr_plan_row){.sequence = sequence, .token_count = 1, .decode = true});
    }
    return passed;
}

/* When the only costly sequence that may run gets no block, the others run. */
static void plan_decodes(struct mr_schedule *schedule)
{
    uint32_t passed = add_decodes(schedule, false);
    if (passed > 0 && schedule->plan.decode_count == 0) add_decodes(schedule, true);
}

static bool is_prefill(const struct mr_sequence *sequence)
{
    return !mr_sequence_is_decoding(sequence) && !mr_sequence_is_held(sequence);
}

static bool is_short(const struct mr_sequence *sequence)
{
    return mr_sequence_pending(sequence) <= MR_BLOCK_TOKENS;
}

static uint32_t count_prefills(const struct mr_schedule *schedule)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < schedule->running_count; i++)
        count += is_prefill(schedule->running[i]);
    return count;
}

static void note_long_prefills(struct mr_schedule *schedule)
{
    struct mr_round *round = &schedule->round;
    round->long_count = 0;
    round->prefill_priority = INT32_MIN;
    for (uint32_t i = 0; i < schedule->running_count; i++) {
        const struct mr_sequence *sequence = schedule->running[i];
        if (!is_prefill(sequence)) continue;
        round->long_count += !is_short(sequence);
        if (sequence->job->priority > round->prefill_priority)
            round->prefill_priority = sequence->job->priority;
    }
    if (schedule->options.chunk_tokens <= 0) round->long_count = 0;
    if (round->long_count > 0) round->short_left = MR_BLOCK_TOKENS;
}

/* True for a running sequence in prefill that plan_shorts() does not plan. */
static bool is_left_to_plan(const struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    return is_prefill(sequence) && (schedule->round.long_count == 0 || !is_short(sequence));
}

static bool has_candidates(const struct mr_schedule *schedule)
{
    return schedule->parked_count > 0 || !mr_request_queue_is_empty(schedule->options.queue);
}

/* Parts into which the prefill of the step is divided: each tenant gets an equal one, and its
 * sequences divide it. sequences: those of the tenant among the first `count` running ones that are
 * left to plan. A waiting request is one more sequence of its tenant while fewer than prefills_max
 * are running; without tenants that is one more part. */
static uint32_t prefill_parts(const struct mr_schedule *schedule, uint32_t count, uint32_t tenant)
{
    uint64_t tenants = 0;
    uint32_t all = 0, own = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_left_to_plan(schedule, schedule->running[i])) continue;
        const uint32_t other = schedule->running[i]->job->tenant_index;
        tenants |= (uint64_t)1 << other;
        all++;
        own += other == tenant;
    }
    const uint32_t tenant_parts = (uint32_t)__builtin_popcountll(tenants);
    if (has_candidates(schedule) && all < schedule->options.prefills_max) own++;
    return own * (tenant_parts > 0 ? tenant_parts : 1);
}

/* True when the chunk in flight must be collected before the next one is planned: until then its
 * blocks are not in the prefix index, and would lose the KV of sliding-window layers when the
 * window passes them. */
static bool waits_for_chunk(const struct mr_sequence *sequence)
{
    return sequence->in_flight > 0 && sequence->table->window != NULL;
}

static void plan_prefill(struct mr_schedule *schedule, struct mr_sequence *sequence, uint32_t share)
{
    struct mr_round *round = &schedule->round;
    if (waits_for_chunk(sequence)) {
        round->partial_count++;
        round->short_partial |= round->shorts_only;
        return;
    }
    if (sequence->logits != NULL) {
        if (!mr_schedule_may_draw(schedule, sequence)) return;
        mr_schedule_add_row(schedule,
                            (struct mr_plan_row){.sequence = sequence, .logits = sequence->logits});
        return;
    }
    uint32_t count = mr_schedule_chunk(schedule, sequence, share);
    bool partial = count < mr_sequence_pending(sequence);
    round->partial_count += partial;
    round->short_partial |= round->shorts_only && partial;
    round->prefill_missed |= count == 0;
    if (count == 0) return;
    round->prefill_given = true;
    mr_schedule_add_row(schedule, (struct mr_plan_row){.sequence = sequence, .token_count = count});
}

/* Plans the first `count` running sequences as far as they are left to plan. First come those that
 * end within their part; the rest of their parts is divided among the others. */
static void plan_prefills(struct mr_schedule *schedule, uint32_t count)
{
    const struct mr_round *round = &schedule->round;
    const uint32_t all =
        round->prefill_owed ? round->chunk_left : mr_schedule_prefill_room(schedule);
    uint32_t unused = 0, longer = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < count; i++) {
            struct mr_sequence *sequence = schedule->running[i];
            if (!is_left_to_plan(schedule, sequence)) continue;
            const uint32_t pending = mr_sequence_pending(sequence);
            uint32_t part = all / prefill_parts(schedule, count, sequence->job->tenant_index);
            if (part == 0) part = 1;
            if (pass == 0 && pending <= part) {
                unused += part - pending;
                plan_prefill(schedule, sequence, part);
            } else if (pass == 0) {
                longer++;
            } else if (pending > part) {
                plan_prefill(schedule, sequence, part + unused / longer);
            }
        }
}

/* Whether there are prompts of which this step could compute tokens. */
static bool prompts_wait(const struct mr_schedule *schedule)
{
    return count_prefills(schedule) > 0 ||
           (has_candidates(schedule) && !schedule->pool_short &&
            schedule->running_count < schedule->options.sequences_max);
}

/* Most tokens that the tenant's short prefills get in this step: a block, but no more than the
 * tenant's part of the room for prefills, or half of that part if the tenant has a long one too.
 * count: the tenants with a prefill among so many running sequences divide the room. */
static uint32_t short_part(const struct mr_schedule *schedule, uint32_t count, uint32_t tenant,
                           uint32_t room)
{
    uint64_t tenants = 0;
    bool has_long = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct mr_sequence *sequence = schedule->running[i];
        if (!is_prefill(sequence)) continue;
        tenants |= (uint64_t)1 << sequence->job->tenant_index;
        has_long |= sequence->job->tenant_index == tenant && !is_short(sequence);
    }
    uint32_t part = room / (uint32_t)__builtin_popcountll(tenants);
    if (has_long) part /= 2;
    return part < MR_BLOCK_TOKENS ? part : MR_BLOCK_TOKENS;
}

/* Plans the first `count` running sequences as far as they are short prefills. */
static void plan_running_shorts(struct mr_schedule *schedule, uint32_t count, uint32_t room)
{
    uint32_t given[MR_TENANTS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) {
        struct mr_sequence *sequence = schedule->running[i];
        if (!is_prefill(sequence) || !is_short(sequence)) continue;
        const uint32_t tenant = sequence->job->tenant_index, before = schedule->plan.token_count;
        const uint32_t part = short_part(schedule, count, tenant, room);
        plan_prefill(schedule, sequence, part > given[tenant] ? part - given[tenant] : 0);
        given[tenant] += schedule->plan.token_count - before;
    }
}

/* Plans the prefills that need few tokens before a long prefill takes the rest of the step: the
 * first `count` running ones, then candidates. The long prefill gets the tokens that they do not
 * use, and only its own tokens end its starvation. */
static void plan_shorts(struct mr_schedule *schedule, uint32_t count)
{
    struct mr_round *round = &schedule->round;
    bool owed = round->prefill_owed;
    note_long_prefills(schedule);
    if (round->long_count == 0) return;
    const uint32_t room = mr_schedule_prefill_room(schedule);
    round->shorts_only = true;
    round->short_left = room / 2 < MR_BLOCK_TOKENS ? room / 2 : MR_BLOCK_TOKENS;
    plan_running_shorts(schedule, count, room);
    if (!round->blocks_short) mr_admit(schedule);
    round->shorts_only = false;
    round->prefill_owed = owed;
    round->prefill_given = false;
}

/* The time within which the prefill of this step must end, for the sake of the decodes planned and
 * of requests that arrive while the step runs; 0: none. */
static double target_ms(const struct mr_schedule *schedule)
{
    const struct mr_scheduler_options *options = &schedule->options;
    const bool automatic = options->step_target_ms < 0;
    if (options->step_target_ms == 0) return 0;
    if (schedule->plan.decode_count == 0) {
        double coefficients[MR_COST_TERMS];
        mr_cost_model_coefficients(options->cost, coefficients);
        return fmax(automatic ? AUTO_PROMPTS_MS : options->step_target_ms,
                    AUTO_PROMPTS_STEPS * coefficients[0]);
    }
    if (!automatic) return options->step_target_ms;
    struct mr_step_work with = schedule->plan.work;
    double decodes_ms = mr_cost_model_predict(options->cost, &with);
    mr_step_work_add(&with, AUTO_TARGET_TOKENS, 0, false);
    return fmax(fmax(AUTO_TARGET_MS, AUTO_TARGET_STEPS * decodes_ms),
                mr_cost_model_predict(options->cost, &with));
}

static void begin_round(struct mr_scheduler *scheduler, uint64_t now_ns)
{
    struct mr_schedule *schedule = &scheduler->schedule;
    const struct mr_scheduler_options *options = &schedule->options;
    schedule->plan =
        (struct mr_plan){.rows = schedule->plan.rows, .exhausted = schedule->plan.exhausted};
    schedule->round = (struct mr_round){
        .now_ns = now_ns,
        .rows_left = options->rows_max,
        .chunk_left = options->chunk_tokens > 0 ? (uint32_t)options->chunk_tokens : UINT32_MAX,
        .score_left = options->score_rows_max,
        .tries_left = MR_TRIES_MAX,
        .prefill_owed = scheduler->starved_steps + 1 >= MR_STARVED_STEPS_MAX,
        .reserved_tenant = MR_TENANT_NONE,
        .starts = {.count_max = options->prefill_batch_max,
                   .bytes_max = options->prefill_bytes_max},
    };
    scheduler->round_count++;
}

const struct mr_plan *mr_scheduler_plan(struct mr_scheduler *scheduler, uint64_t now_ns)
{
    struct mr_schedule *schedule = &scheduler->schedule;
    const struct mr_scheduler_options *options = &schedule->options;
    begin_round(scheduler, now_ns);
    mr_schedule_update_shares(schedule);
    sort_running(schedule);
    force_preemption(scheduler);
    note_long_prefills(schedule);
    mr_rebalance(schedule);
    plan_decodes(schedule);
    schedule->round.target_ms = target_ms(schedule);
    schedule->round.prefill_owed |= schedule->plan.decode_count == 0;
    mr_speculate(schedule, prompts_wait(schedule));
    mr_predict_urgent(schedule);
    uint32_t running = schedule->running_count;
    mr_admit_owed(schedule);
    plan_shorts(schedule, running);
    plan_prefills(schedule, running);
    if (!schedule->round.blocks_short) mr_admit(schedule);
    bool starved = schedule->round.prefill_wanted && !schedule->round.prefill_given;
    scheduler->starved_steps = starved ? scheduler->starved_steps + 1 : 0;
    schedule->plan.predicted_ms = mr_cost_model_predict(options->cost, &schedule->plan.work);
    return &schedule->plan;
}

/* ---- sequences ---- */

void mr_scheduler_park(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    MR_ASSERT(sequence->state == MR_SEQUENCE_WAITING && sequence->job->started);
    mr_schedule_park(&scheduler->schedule, sequence);
}

void mr_scheduler_put_back(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    mr_schedule_put_back(&scheduler->schedule, sequence);
}

void mr_scheduler_preempt(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    mr_schedule_preempt(&scheduler->schedule, sequence);
}

static void learn_output_share(struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    if (!sequence->job->draws) return;
    double most = (double)(sequence->capacity - sequence->prompt_tokens);
    double share = most > 0 ? (double)mr_sequence_generated(sequence) / most : 1.0;
    double *learnt = &schedule->output_share[sequence->job->tenant_index];
    *learnt = fmax(*learnt + OUTPUT_SHARE_RATE * (share - *learnt), OUTPUT_SHARE_MIN);
}

void mr_scheduler_remove(struct mr_scheduler *scheduler, struct mr_sequence *sequence,
                         uint64_t now_ns)
{
    struct mr_schedule *schedule = &scheduler->schedule;
    struct mr_job *job = sequence->job;
    mr_sequence_drop_unknown(sequence);
    if (sequence->state == MR_SEQUENCE_RUNNING) {
        learn_output_share(schedule, sequence);
        mr_schedule_hand_over(schedule, sequence);
    }
    mr_schedule_remove(schedule, sequence, now_ns);
    mr_sequence_move(sequence, MR_SEQUENCE_FINISHED);
    job->finished_count++;
    if (job->started && job->finished_count == job->choice_count) schedule->job_count--;
}

uint32_t mr_scheduler_running(const struct mr_scheduler *scheduler)
{
    return scheduler->schedule.running_count;
}

uint32_t mr_scheduler_parked(const struct mr_scheduler *scheduler)
{
    return scheduler->schedule.parked_count;
}

uint32_t mr_scheduler_prefilling(const struct mr_scheduler *scheduler)
{
    return count_prefills(&scheduler->schedule);
}

void mr_scheduler_check(const struct mr_scheduler *scheduler)
{
    const struct mr_schedule *schedule = &scheduler->schedule;
    MR_ASSERT(schedule->running_count <= schedule->options.sequences_max);
    MR_ASSERT(schedule->parked_count <= schedule->parked_max);
    MR_ASSERT(schedule->job_count <= MR_STARTED_MAX(schedule->options.sequences_max));
    for (uint32_t i = 0; i < schedule->running_count; i++) {
        MR_ASSERT(schedule->running[i]->state == MR_SEQUENCE_RUNNING);
        mr_sequence_check(schedule->running[i]);
    }
    for (uint32_t i = 0; i < schedule->parked_count; i++) {
        enum mr_sequence_state state = schedule->parked[i]->state;
        MR_ASSERT(state == MR_SEQUENCE_PREEMPTED || state == MR_SEQUENCE_WAITING);
        mr_sequence_check(schedule->parked[i]);
    }
}
