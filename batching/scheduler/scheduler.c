#include "batching/scheduler/scheduler.h"

#include "batching/cache/shared_cache.h"
#include "batching/scheduler/scheduler_state.h"
#include "codec/check.h"

#include <stdlib.h>

#define SHARE_FIRST 0.7 /* of max_tokens: SGLang's first estimate */
#define SHARE_LEAST 0.1
#define SHARE_RATE  0.0625 /* weight of one ended sequence */
#define SHARE_STEP  0.1    /* up after a preemption */

static uint32_t least(uint32_t left, uint32_t right)
{
    return left < right ? left : right;
}

static uint32_t most_of(uint32_t left, uint32_t right)
{
    return left > right ? left : right;
}

static enum mr_status check_options(const struct mr_scheduler_options *options,
                                    struct mr_error *err)
{
    if (options->sequences_max == 0 || options->block_count == 0)
        return mr_fail(err, MR_BAD_CONFIG, "the engine needs room for a sequence and a block");
    if (options->rows_max <= options->sequences_max)
        return mr_fail(err, MR_BAD_CONFIG, "a step of %u rows has no room beside %u sequences",
                       options->rows_max, options->sequences_max);
    if (options->prefills_max == 0 || options->prefill_batch_max == 0)
        return mr_fail(err, MR_BAD_CONFIG, "at least one prefill must be allowed at a time");
    return MR_OK;
}

enum mr_status mr_scheduler_create(struct mr_scheduler **out,
                                   const struct mr_scheduler_options *options, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = check_options(options, err);
    if (status != MR_OK) return status;
    struct mr_scheduler *made = calloc(1, sizeof *made);
    if (made == NULL) return mr_fail(err, MR_NOMEM, "no memory for the scheduler");
    uint32_t most = options->sequences_max;
    made->options = *options;
    made->output_share = SHARE_FIRST;
    made->jobs_max = 2 * most;
    made->parked_max = made->jobs_max * MR_CHOICES_MAX;
    made->running = calloc(most, sizeof *made->running);
    made->parked = calloc(made->parked_max, sizeof *made->parked);
    made->asides = calloc(MR_SCAN_MAX, sizeof *made->asides);
    made->order = calloc(most + 1, sizeof *made->order);
    made->entries = calloc(most + 1, sizeof *made->entries);
    made->stamps = calloc(options->block_count, sizeof *made->stamps);
    made->plan.rows = calloc(most, sizeof *made->plan.rows);
    made->plan.exhausted = calloc(most + made->parked_max, sizeof *made->plan.exhausted);
    if (made->running == NULL || made->parked == NULL || made->asides == NULL ||
        made->order == NULL || made->entries == NULL || made->stamps == NULL ||
        made->plan.rows == NULL || made->plan.exhausted == NULL) {
        mr_scheduler_destroy(made);
        return mr_fail(err, MR_NOMEM, "no memory for the scheduler");
    }
    *out = made;
    return MR_OK;
}

void mr_scheduler_destroy(struct mr_scheduler *scheduler)
{
    if (scheduler == NULL) return;
    for (uint32_t i = 0; i < scheduler->running_count; i++)
        mr_block_table_destroy(scheduler->running[i]->table, 0);
    free(scheduler->plan.exhausted);
    free(scheduler->plan.rows);
    free(scheduler->stamps);
    free(scheduler->entries);
    free(scheduler->order);
    free(scheduler->asides);
    free(scheduler->parked);
    free(scheduler->running);
    free(scheduler);
}

/* Who is worth most to keep: victims are taken from the other end. */
static bool outranks(const struct mr_sequence *left, const struct mr_sequence *right)
{
    if (left->job->priority != right->job->priority)
        return left->job->priority > right->job->priority;
    if (left->num_computed != right->num_computed) return left->num_computed > right->num_computed;
    if (left->job->arrival_ns != right->job->arrival_ns)
        return left->job->arrival_ns < right->job->arrival_ns;
    return left->choice < right->choice;
}

/* Insertion sort: the order hardly changes from step to step. */
static void sort_running(struct mr_scheduler *scheduler)
{
    struct mr_sequence **running = scheduler->running;
    for (uint32_t i = 1; i < scheduler->running_count; i++) {
        struct mr_sequence *sequence = running[i];
        uint32_t place = i;
        for (; place > 0 && outranks(sequence, running[place - 1]); place--)
            running[place] = running[place - 1];
        running[place] = sequence;
    }
}

static void remove_from(struct mr_sequence **list, uint32_t *count,
                        const struct mr_sequence *sequence)
{
    uint32_t place = 0;
    while (place < *count && list[place] != sequence)
        place++;
    MR_ASSERT(place < *count);
    for (uint32_t i = place + 1; i < *count; i++)
        list[i - 1] = list[i];
    --*count;
}

static void park(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    MR_ASSERT(scheduler->parked_count < scheduler->parked_max);
    scheduler->parked[scheduler->parked_count++] = sequence;
}

/* Its blocks are findable from now on, here and in the tier; what it was waiting for is given up.
 */
static void part_from_blocks(struct mr_scheduler *scheduler, struct mr_sequence *sequence,
                             uint64_t now_ns)
{
    struct mr_shared_cache *shared = scheduler->options.shared;
    if (shared != NULL) mr_shared_cache_leave(shared, sequence);
    if (sequence->job->request->cache_write && sequence->match.copy_tokens == 0) {
        mr_kv_cache_publish(sequence->table, sequence->tokens, sequence->num_computed, true);
        if (shared != NULL) mr_shared_cache_store(shared, sequence, true);
        if (sequence->job->request->session.length > 0)
            mr_kv_cache_keep(sequence->table, now_ns + scheduler->options.session_keep_ns);
    }
    bool lent = shared != NULL && mr_shared_cache_take_table(shared, sequence);
    if (!lent) mr_block_table_destroy(sequence->table, now_ns);
    sequence->table = NULL;
}

void mr_scheduler_preempt(struct mr_scheduler *scheduler, struct mr_sequence *victim)
{
    remove_from(scheduler->running, &scheduler->running_count, victim);
    part_from_blocks(scheduler, victim, scheduler->round.now_ns);
    victim->match = (struct mr_kv_match){0};
    victim->num_computed = 0;
    victim->preemptions++;
    victim->tokens_at_preemption = victim->num_tokens;
    victim->job->preemptions++;
    mr_sequence_move(victim, MR_SEQUENCE_PREEMPTED);
    park(scheduler, victim);
    scheduler->plan.preempted_count++;
}

static void preempt_last(struct mr_scheduler *scheduler)
{
    mr_scheduler_preempt(scheduler, scheduler->running[scheduler->running_count - 1]);
}

/* The test hook takes one that has produced something since the last time, or a long prompt in
 * small chunks would never end. */
static void force_preemption(struct mr_scheduler *scheduler)
{
    uint32_t every = scheduler->options.force_preempt_every;
    if (every == 0 || scheduler->round_count % every != 0 || scheduler->running_count == 0) return;
    const struct mr_sequence *last = scheduler->running[scheduler->running_count - 1];
    if (mr_sequence_is_decoding(last) && last->num_tokens > last->tokens_at_preemption)
        preempt_last(scheduler);
}

static bool covers(const struct mr_sequence *sequence)
{
    return (uint64_t)sequence->table->block_count * MR_BLOCK_TOKENS >= sequence->num_tokens;
}

static void exhaust(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    struct mr_plan *plan = &scheduler->plan;
    MR_ASSERT(plan->exhausted_count < scheduler->options.sequences_max + scheduler->parked_max);
    plan->exhausted[plan->exhausted_count++] = sequence;
}

bool mr_scheduler_exhausts(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    if (mr_blocks_for(sequence->num_tokens) <= scheduler->options.block_count) return false;
    exhaust(scheduler, sequence);
    return true;
}

/* Blocks the tier still has a hand on come back within a moment: nobody goes for them. */
static bool waits_for_blocks(struct mr_scheduler *scheduler)
{
    struct mr_shared_cache *shared = scheduler->options.shared;
    if (shared == NULL || !mr_shared_cache_yield(shared)) return false;
    scheduler->round.preempted = true; /* and nobody comes */
    return true;
}

/* Blocks for the next token of running[index], preempting from the end if it must. False: this
 * sequence itself had to go or must wait, or is exhausted. */
static bool make_room(struct mr_scheduler *scheduler, uint32_t index)
{
    struct mr_sequence *sequence = scheduler->running[index];
    if (mr_scheduler_exhausts(scheduler, sequence)) return false;
    while (!covers(sequence) &&
           mr_kv_cache_reserve(sequence->table, sequence->num_tokens) != MR_OK) {
        if (waits_for_blocks(scheduler)) return false;
        if (scheduler->running_count == 1) {
            exhaust(scheduler, sequence);
            return false;
        }
        bool itself = index == scheduler->running_count - 1;
        preempt_last(scheduler);
        scheduler->round.preempted = true;
        scheduler->output_share += SHARE_STEP;
        if (scheduler->output_share > 1.0) scheduler->output_share = 1.0;
        if (itself) return false;
    }
    return true;
}

void mr_scheduler_add_row(struct mr_scheduler *scheduler, struct mr_plan_row row)
{
    struct mr_plan *plan = &scheduler->plan;
    struct mr_round *round = &scheduler->round;
    MR_ASSERT(plan->row_count < scheduler->options.sequences_max);
    MR_ASSERT(row.token_count <= round->rows_left);
    row.samples = row.logits != NULL || row.token_count == mr_sequence_pending(row.sequence);
    mr_kv_window_slide(row.sequence->table, row.sequence->num_computed,
                       row.sequence->num_computed + row.token_count);
    plan->rows[plan->row_count++] = row;
    plan->decode_count += row.decode;
    plan->token_count += row.token_count;
    round->rows_left -= row.token_count;
    if (!row.decode) round->chunk_left -= least(round->chunk_left, row.token_count);
    if (row.token_count > 0)
        mr_step_work_add(&plan->work, row.token_count, row.sequence->num_computed, row.decode);
}

static void plan_decodes(struct mr_scheduler *scheduler)
{
    for (uint32_t i = 0; i < scheduler->running_count; i++) {
        struct mr_sequence *sequence = scheduler->running[i];
        if (!mr_sequence_is_decoding(sequence) || !make_room(scheduler, i)) continue;
        mr_scheduler_add_row(
            scheduler,
            (struct mr_plan_row){.sequence = sequence, .token_count = 1, .decode = true});
    }
}

/* Whole prompts only, but for one longer than a step beside a full house of decodes. */
static uint32_t whole(const struct mr_scheduler *scheduler, uint32_t need)
{
    const struct mr_scheduler_options *options = &scheduler->options;
    if (need <= scheduler->round.rows_left) return need;
    bool never = need > options->rows_max - options->sequences_max;
    return never ? scheduler->round.rows_left : 0;
}

/* Tokens the step's time has room for. */
static uint32_t timed_room(struct mr_scheduler *scheduler, uint32_t context_tokens, uint32_t need)
{
    const struct mr_scheduler_options *options = &scheduler->options;
    const struct mr_step_work *work = &scheduler->plan.work;
    uint32_t room =
        mr_cost_model_chunk(options->cost, work, context_tokens, options->step_target_ms);
    if (room >= least(need, MR_CHUNK_TOKENS_MIN)) return room;
    if (!scheduler->round.starving) return 0;
    scheduler->round.starving = false;
    double until = mr_cost_model_predict(options->cost, work) + options->step_target_ms / 2;
    return most_of(MR_CHUNK_TOKENS_MIN,
                   mr_cost_model_chunk(options->cost, work, context_tokens, until));
}

uint32_t mr_scheduler_chunk(struct mr_scheduler *scheduler, const struct mr_sequence *sequence,
                            uint32_t most)
{
    struct mr_round *round = &scheduler->round;
    uint32_t need = mr_sequence_pending(sequence);
    if (mr_sequence_is_held(sequence)) return 0;
    if (sequence->halts) need = least(need, sequence->held_at - sequence->num_computed);
    round->wanted = true;
    if (scheduler->options.chunk_tokens <= 0) return whole(scheduler, need);
    uint32_t room = least(most, least(round->rows_left, round->chunk_left));
    if (round->timed) room = least(room, timed_room(scheduler, sequence->num_computed, need));
    if (need <= room || room == 0) return least(need, room);
    uint32_t quantum = MR_BLOCK_TOKENS;
    while (quantum > room)
        quantum /= 2;
    uint32_t end = sequence->num_computed + room;
    return end - end % quantum - sequence->num_computed;
}

/* What one unfinished prefill may take of the round: all, or its part when more are allowed. */
static uint32_t share_of_chunk(const struct mr_scheduler *scheduler)
{
    uint32_t parts = mr_scheduler_prefilling(scheduler);
    bool others =
        scheduler->parked_count > 0 || !mr_request_queue_is_empty(scheduler->options.queue);
    if (others && parts < scheduler->options.prefills_max) parts++;
    return most_of(scheduler->round.chunk_left / most_of(parts, 1), 1);
}

static void plan_prefills(struct mr_scheduler *scheduler)
{
    uint32_t share = share_of_chunk(scheduler);
    for (uint32_t i = 0; i < scheduler->running_count; i++) {
        struct mr_sequence *sequence = scheduler->running[i];
        if (mr_sequence_is_decoding(sequence) || mr_sequence_is_held(sequence)) continue;
        if (sequence->logits != NULL) {
            mr_scheduler_add_row(
                scheduler, (struct mr_plan_row){.sequence = sequence, .logits = sequence->logits});
            continue;
        }
        uint32_t count = mr_scheduler_chunk(scheduler, sequence, share);
        if (count < mr_sequence_pending(sequence)) scheduler->round.partial_count++;
        if (count == 0) continue;
        scheduler->round.gave = true;
        mr_scheduler_add_row(scheduler,
                             (struct mr_plan_row){.sequence = sequence, .token_count = count});
    }
}

static void begin_round(struct mr_scheduler *scheduler, uint64_t now_ns)
{
    const struct mr_scheduler_options *options = &scheduler->options;
    scheduler->plan =
        (struct mr_plan){.rows = scheduler->plan.rows, .exhausted = scheduler->plan.exhausted};
    scheduler->round = (struct mr_round){
        .now_ns = now_ns,
        .rows_left = options->rows_max,
        .chunk_left = options->chunk_tokens > 0 ? (uint32_t)options->chunk_tokens : UINT32_MAX,
        .tries_left = MR_TRIES_MAX,
        .starving = scheduler->starved_steps + 1 >= MR_STARVED_STEPS_MAX,
        .starts = {.count_max = options->prefill_batch_max,
                   .bytes_max = options->prefill_bytes_max},
    };
    scheduler->round_count++;
}

const struct mr_plan *mr_scheduler_plan(struct mr_scheduler *scheduler, uint64_t now_ns)
{
    const struct mr_scheduler_options *options = &scheduler->options;
    begin_round(scheduler, now_ns);
    sort_running(scheduler);
    force_preemption(scheduler);
    mr_scheduler_even_out(scheduler);
    plan_decodes(scheduler);
    scheduler->round.timed = options->step_target_ms > 0 && scheduler->plan.decode_count > 0;
    plan_prefills(scheduler);
    if (!scheduler->round.preempted) mr_scheduler_admit(scheduler);
    bool starved = scheduler->round.wanted && !scheduler->round.gave;
    scheduler->starved_steps = starved ? scheduler->starved_steps + 1 : 0;
    scheduler->plan.predicted_ms = mr_cost_model_predict(options->cost, &scheduler->plan.work);
    return &scheduler->plan;
}

void mr_scheduler_park(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    MR_ASSERT(sequence->state == MR_SEQUENCE_WAITING && sequence->job->started);
    park(scheduler, sequence);
}

static void learn_output_share(struct mr_scheduler *scheduler, const struct mr_sequence *sequence)
{
    double most = (double)(sequence->capacity - sequence->prompt_tokens);
    double share = most > 0 ? (double)mr_sequence_generated(sequence) / most : 1.0;
    scheduler->output_share += SHARE_RATE * (share - scheduler->output_share);
    if (scheduler->output_share < SHARE_LEAST) scheduler->output_share = SHARE_LEAST;
}

void mr_scheduler_leave(struct mr_scheduler *scheduler, struct mr_sequence *sequence,
                        uint64_t now_ns)
{
    struct mr_job *job = sequence->job;
    if (sequence->state == MR_SEQUENCE_RUNNING) {
        remove_from(scheduler->running, &scheduler->running_count, sequence);
        part_from_blocks(scheduler, sequence, now_ns);
        sequence->match = (struct mr_kv_match){0};
        learn_output_share(scheduler, sequence);
    } else {
        for (uint32_t i = 0; i < scheduler->parked_count; i++)
            if (scheduler->parked[i] == sequence) {
                remove_from(scheduler->parked, &scheduler->parked_count, sequence);
                break;
            }
    }
    mr_sequence_move(sequence, MR_SEQUENCE_FINISHED);
    job->finished_count++;
    if (job->started && job->finished_count == job->choice_count) scheduler->job_count--;
}

uint32_t mr_scheduler_running(const struct mr_scheduler *scheduler)
{
    return scheduler->running_count;
}

uint32_t mr_scheduler_parked(const struct mr_scheduler *scheduler)
{
    return scheduler->parked_count;
}

uint32_t mr_scheduler_prefilling(const struct mr_scheduler *scheduler)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scheduler->running_count; i++)
        count += !mr_sequence_is_decoding(scheduler->running[i]) &&
                 !mr_sequence_is_held(scheduler->running[i]);
    return count;
}

void mr_scheduler_check(const struct mr_scheduler *scheduler)
{
    MR_ASSERT(scheduler->running_count <= scheduler->options.sequences_max);
    MR_ASSERT(scheduler->parked_count <= scheduler->parked_max);
    MR_ASSERT(scheduler->job_count <= scheduler->jobs_max);
    MR_ASSERT(scheduler->aside_count == 0);
    for (uint32_t i = 0; i < scheduler->running_count; i++) {
        MR_ASSERT(scheduler->running[i]->state == MR_SEQUENCE_RUNNING);
        mr_sequence_check(scheduler->running[i]);
    }
    for (uint32_t i = 0; i < scheduler->parked_count; i++) {
        enum mr_sequence_state state = scheduler->parked[i]->state;
        MR_ASSERT(state == MR_SEQUENCE_PREEMPTED || state == MR_SEQUENCE_WAITING);
        mr_sequence_check(scheduler->parked[i]);
    }
}
