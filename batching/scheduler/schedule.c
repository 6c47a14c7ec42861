#include "batching/scheduler/schedule.h"

#include "batching/cache/remote_prefix.h"
#include "batching/sequence/embedding.h"
#include "batching/sequence/next_token.h"
#include "batching/sequence/scores.h"
#include "codec/check.h"

#include <string.h>

static uint32_t min_of(uint32_t left, uint32_t right)
{
    return left < right ? left : right;
}

static uint32_t max_of(uint32_t left, uint32_t right)
{
    return left > right ? left : right;
}

/* ---- chunks and rows ---- */

/* Tokens of a prompt to compute in this step when chunking is off: all of them, or 0 until a step
 * has enough free rows. A prompt longer than rows_max - sequences_max rows never fits one step, so
 * it is computed in parts that fill the free rows. */
static uint32_t whole_prompt(const struct mr_schedule *schedule, uint32_t need)
{
    const struct mr_scheduler_options *options = &schedule->options;
    if (need <= schedule->round.rows_left) return need;
    bool never_fits = need > options->rows_max - options->sequences_max;
    return never_fits ? schedule->round.rows_left : 0;
}

/* Tokens of an encoder's prompt to compute in this step: all or none. A prompt larger than a step
 * should be has a step of its own. */
static uint32_t whole_text(const struct mr_schedule *schedule, uint32_t need)
{
    const struct mr_round *round = &schedule->round;
    MR_ASSERT(need <= schedule->options.rows_max);
    const bool fits = need <= min_of(round->rows_left, round->chunk_left);
    return fits || schedule->plan.token_count == 0 ? need : 0;
}

/* How many of the next tokens to compute of the sequence come before the first one that is scored;
 * UINT32_MAX: none is scored. */
static uint32_t plain_tokens(const struct mr_sequence *sequence)
{
    uint32_t count;
    const uint32_t begin = sequence->num_computed;
    const uint32_t from = mr_scores_rows(sequence->scores, begin, sequence->num_tokens, &count);
    return count > 0 ? from - begin : UINT32_MAX;
}

/* Prefill tokens that can be added so that the step is still predicted to end within
 * the target; a minimum when prefill got nothing in the last steps. */
static uint32_t timed_room(struct mr_schedule *schedule, const struct mr_sequence *sequence,
                           uint32_t need)
{
    const struct mr_scheduler_options *options = &schedule->options;
    const struct mr_step_work *work = &schedule->plan.work;
    const double target_ms = schedule->round.target_ms;
    const uint32_t context = sequence->num_computed, plain = plain_tokens(sequence);
    uint32_t room = mr_cost_model_chunk(options->cost, work, context, plain, target_ms);
    if (room >= min_of(need, MR_CHUNK_TOKENS_MIN)) return room;
    if (!schedule->round.prefill_owed) return 0;
    schedule->round.prefill_owed = false;
    double until_ms = mr_cost_model_predict(options->cost, work) + target_ms / 2;
    return max_of(MR_CHUNK_TOKENS_MIN,
                  mr_cost_model_chunk(options->cost, work, context, plain, until_ms));
}

uint32_t mr_schedule_prefill_room(const struct mr_schedule *schedule)
{
    const struct mr_round *round = &schedule->round;
    uint32_t room = min_of(round->rows_left, round->chunk_left);
    if (round->target_ms <= 0 || schedule->options.chunk_tokens <= 0) return room;
    uint32_t timed = mr_cost_model_chunk(schedule->options.cost, &schedule->plan.work, 0,
                                         UINT32_MAX, round->target_ms);
    if (timed < MR_CHUNK_TOKENS_MIN && round->prefill_owed) timed = 2 * MR_CHUNK_TOKENS_MIN;
    return min_of(room, timed);
}

void mr_schedule_begin_stamps(struct mr_schedule *schedule)
{
    if (++schedule->stamp > 0) return;
    memset(schedule->stamps, 0, schedule->options.block_count * sizeof(uint32_t));
    schedule->stamp = 1;
}

uint32_t mr_schedule_stamp_blocks(struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    uint32_t unstamped = 0;
    for (uint32_t i = 0; i < sequence->table->block_count; i++) {
        uint32_t *stamp = &schedule->stamps[sequence->table->blocks[i]];
        unstamped += *stamp != schedule->stamp;
        *stamp = schedule->stamp;
    }
    return unstamped;
}

bool mr_schedule_may_draw(const struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    const struct mr_round *round = &schedule->round;
    if (sequence == round->costly || mr_next_token_is_ready(sequence)) return true;
    return schedule->plan.row_count == 0 ||
           round->mask_work < mr_guidance_step_work(sequence->job->rules->masks);
}

static uint32_t chunk_of(struct mr_schedule *schedule, const struct mr_sequence *sequence,
                         uint32_t share_tokens)
{
    struct mr_round *round = &schedule->round;
    uint32_t need = mr_sequence_pending(sequence);
    if (mr_sequence_is_held(sequence)) return 0;
    if (sequence->halts) need = min_of(need, sequence->held_at - sequence->num_computed);
    if (!mr_scores_done(sequence->scores))
        need = min_of(need, mr_scores_chunk_end(sequence->scores, sequence->num_computed,
                                                sequence->num_tokens, round->score_left) -
                                sequence->num_computed);
    need =
        min_of(need, mr_job_next_border(sequence, sequence->num_computed) - sequence->num_computed);
    round->prefill_wanted = true;
    if (schedule->options.whole_prompts) return whole_text(schedule, need);
    if (schedule->options.chunk_tokens <= 0) return whole_prompt(schedule, need);
    uint32_t room = min_of(share_tokens, min_of(round->rows_left, round->chunk_left));
    if (round->target_ms > 0) room = min_of(room, timed_room(schedule, sequence, need));
    if (need <= room || room == 0) return min_of(need, room);
    /* A chunk ends with a block where that leaves no more than a quarter of the room unused, else
     * with a half of one, and so on. */
    uint32_t quantum = MR_BLOCK_TOKENS;
    while (quantum > MR_CHUNK_TOKENS_MIN ? quantum > room / 4 : quantum > room)
        quantum /= 2;
    uint32_t end = sequence->num_computed + room;
    return end - end % quantum - sequence->num_computed;
}

uint32_t mr_schedule_chunk(struct mr_schedule *schedule, const struct mr_sequence *sequence,
                           uint32_t share_tokens)
{
    uint32_t count = chunk_of(schedule, sequence, share_tokens);
    bool draws = count == mr_sequence_pending(sequence) && sequence->job->draws;
    return draws && !mr_schedule_may_draw(schedule, sequence) ? 0 : count;
}

const struct mr_sequence *mr_schedule_sibling(const struct mr_sequence *candidate)
{
    const struct mr_job *job = candidate->job;
    for (uint32_t i = 0; i < job->choice_count && job->texts == NULL; i++) {
        const struct mr_sequence *sequence = &job->sequences[i];
        if (sequence != candidate && sequence->state == MR_SEQUENCE_RUNNING &&
            sequence->num_settled >= sequence->prompt_tokens && sequence->match.copy_tokens == 0)
            return sequence;
    }
    return NULL;
}

bool mr_schedule_reads_cache(const struct mr_sequence *candidate)
{
    const struct mr_job *job = candidate->job;
    bool wrote = job->writes_cache && (candidate->choice > 0 || candidate->computed_before > 0);
    return job->reads_cache || wrote;
}

bool mr_schedule_may_start_beside(const struct mr_schedule *schedule,
                                  const struct mr_sequence *candidate)
{
    const struct mr_round *round = &schedule->round;
    const struct mr_job *job = candidate->job;
    if (job->priority > round->prefill_priority) return true;
    uint32_t most = round->short_left > 0 ? MR_BLOCK_TOKENS : 1;
    uint32_t cached = mr_schedule_sibling(candidate) != NULL ? candidate->prompt_tokens : 0;
    if (candidate->num_tokens > cached + most && mr_schedule_reads_cache(candidate))
        cached = mr_kv_cache_probe(schedule->options.cache, job->root, candidate->tokens,
                                   mr_sequence_reusable(candidate));
    return candidate->num_tokens - cached <= most;
}

void mr_schedule_add_row(struct mr_schedule *schedule, struct mr_plan_row row)
{
    struct mr_plan *plan = &schedule->plan;
    struct mr_round *round = &schedule->round;
    MR_ASSERT(plan->row_count < schedule->options.sequences_max);
    MR_ASSERT(row.token_count <= round->rows_left);
    const uint32_t begin = row.sequence->num_computed, end = begin + row.token_count;
    const bool is_last = row.logits != NULL || row.token_count == mr_sequence_pending(row.sequence);
    row.samples = is_last && row.sequence->job->draws;
    if (row.samples) {
        uint64_t work = mr_next_token_make_mask(row.sequence);
        if (row.sequence != round->costly) round->mask_work += work;
    }
    row.hidden_rows = mr_embedding_rows(row.sequence->embedding, begin, end);
    row.score_begin = mr_scores_rows(row.sequence->scores, begin, end, &row.score_count);
    row.score_samples = mr_scores_samples(row.sequence->scores, row.score_begin, row.score_count);
    MR_ASSERT(row.score_samples <= round->score_left);
    mr_kv_window_slide(row.sequence->table, begin, end);
    plan->rows[plan->row_count++] = row;
    plan->decode_count += row.decode;
    plan->token_count += row.token_count;
    round->rows_left -= row.token_count;
    round->score_left -= row.score_samples;
    if (!row.decode) round->chunk_left -= min_of(round->chunk_left, row.token_count);
    if (round->shorts_only) round->short_left -= min_of(round->short_left, row.token_count);
    if (row.token_count > 0)
        mr_step_work_add(&plan->work, row.token_count, row.sequence->num_computed, row.decode);
    if (!row.decode) plan->work.scored += row.score_count;
}

void mr_schedule_exhaust(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    struct mr_plan *plan = &schedule->plan;
    for (uint32_t i = 0; i < plan->exhausted_count; i++)
        if (plan->exhausted[i] == sequence) return;
    /* A waiting request is no longer in the queue; ending its only choice ends it. */
    MR_ASSERT(sequence->job->started || sequence->job->choice_count == 1);
    MR_ASSERT(plan->exhausted_count < schedule->options.sequences_max + schedule->parked_max);
    plan->exhausted[plan->exhausted_count++] = sequence;
}

bool mr_schedule_exhaust_oversize(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    if (mr_blocks_for(sequence->num_tokens) <= schedule->options.block_count) return false;
    mr_schedule_exhaust(schedule, sequence);
    return true;
}

/* ---- waiting for caches ---- */

/* Common tokens at the start, at most `most` of `left`. */
static uint32_t common_tokens(const struct mr_sequence *left, const struct mr_sequence *right,
                              uint32_t most)
{
    if (right->num_tokens < most) most = right->num_tokens;
    uint32_t count = 0;
    while (count < most && left->tokens[count] == right->tokens[count])
        count++;
    return count;
}

/* With recurrent layers only the tokens before a snapshot can be shared: returns the last border of
 * the leader within `common` tokens. */
static uint32_t kept_tokens(const struct mr_sequence *leader, uint32_t common)
{
    uint32_t kept = 0, next;
    while ((next = mr_job_next_border(leader, kept)) <= common)
        kept = next;
    return kept;
}

/* True when a running sequence is computing a prefix of this sequence that the cache does not have
 * yet, so that waiting for it saves computing. */
static bool waits_for_prefix(const struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    const struct mr_job *job = sequence->job;
    if (!job->reads_cache) return false;
    const uint32_t reusable = mr_sequence_reusable(sequence);
    uint32_t shared = 0;
    for (uint32_t i = 0; i < schedule->running_count; i++) {
        const struct mr_sequence *leader = schedule->running[i];
        if (leader->num_tokens - leader->num_settled <= 1 + leader->unknown ||
            !leader->job->writes_cache ||
            memcmp(leader->job->root, job->root, sizeof job->root) != 0)
            continue;
        uint32_t common = common_tokens(sequence, leader, reusable);
        if (leader->table->state != MR_NO_STATE) common = kept_tokens(leader, common);
        shared = common > shared ? common : shared;
    }
    if (shared >= reusable) shared = reusable - 1;
    if (shared < MR_COMMON_TOKENS_MIN) return false;
    uint32_t cached =
        mr_kv_cache_probe(schedule->options.cache, job->root, sequence->tokens, reusable);
    return shared >= cached + MR_COMMON_TOKENS_MIN;
}

/* Starts the request's lookup in the remote cache when the request is a candidate for the first
 * time. True while the answer is pending and worth waiting for. */
static bool waits_for_remote(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    struct mr_remote_prefix *remote = schedule->options.remote;
    uint64_t now_ns = schedule->round.now_ns;
    if (remote == NULL || sequence->scores != NULL || sequence->embedding != NULL) return false;
    if (sequence->job->fetch.state == MR_FETCH_NEW)
        (void)mr_remote_prefix_start_lookup(remote, sequence->job, now_ns);
    bool waits = mr_remote_prefix_awaits_lookup(remote, sequence, now_ns);
    schedule->round.remote_waits += waits;
    return waits;
}

bool mr_schedule_waits_for_cache(struct mr_schedule *schedule, struct mr_sequence *candidate)
{
    return waits_for_remote(schedule, candidate) || waits_for_prefix(schedule, candidate);
}

/* ---- running and parked ---- */

static bool remove_from(struct mr_sequence **list, uint32_t *count,
                        const struct mr_sequence *sequence)
{
    uint32_t index = 0;
    while (index < *count && list[index] != sequence)
        index++;
    if (index == *count) return false;
    for (uint32_t i = index + 1; i < *count; i++)
        list[i - 1] = list[i];
    --*count;
    return true;
}

/* Ends the sequence's load. Inserts its computed blocks into the prefix index and stores them in
 * the remote cache, then releases them. */
static void release_blocks(struct mr_schedule *schedule, struct mr_sequence *sequence,
                           uint64_t now_ns)
{
    struct mr_remote_prefix *remote = schedule->options.remote;
    if (remote != NULL) mr_remote_prefix_end_load(remote, sequence);
    const struct mr_job *job = sequence->job;
    if (job->writes_cache && !job->broken && sequence->match.copy_tokens == 0) {
        mr_kv_cache_publish(sequence->table, sequence->tokens,
                            mr_job_lasting_tokens(job, sequence->num_settled), true);
        if (remote != NULL) mr_remote_prefix_store(remote, sequence, true);
        if (job->request->session.length > 0)
            mr_kv_cache_keep(sequence->table, now_ns + schedule->options.session_keep_ns);
    }
    bool lent = remote != NULL && mr_remote_prefix_take_table(remote, sequence->table);
    if (!lent) mr_block_table_destroy(sequence->table, now_ns);
    sequence->table = NULL;
    sequence->match = (struct mr_kv_match){0};
}

/* The first choice of the request that waits to run and has its first token; NULL: none. */
static struct mr_sequence *find_heir(const struct mr_schedule *schedule, const struct mr_job *job)
{
    for (uint32_t i = 0; i < schedule->parked_count && job->texts == NULL; i++)
        if (schedule->parked[i]->job == job) return schedule->parked[i];
    return NULL;
}

/* True when the sequence's blocks hold nothing but KV of its prompt that another choice could not
 * use: they are not in the prefix index beyond the prompt, and nothing loads into them. */
static bool can_hand_over(const struct mr_sequence *sequence)
{
    return !sequence->job->writes_cache && !sequence->job->broken && sequence->load == NULL &&
           !mr_sequence_needs_prefill(sequence) && sequence->match.copy_tokens == 0 &&
           mr_kv_cache_can_go_back(sequence->table, sequence->prompt_tokens);
}

void mr_schedule_hand_over(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    MR_ASSERT(sequence->state == MR_SEQUENCE_RUNNING);
    struct mr_sequence *heir = find_heir(schedule, sequence->job);
    if (heir == NULL || !can_hand_over(sequence) ||
        mr_kv_cache_reserve(sequence->table, heir->num_tokens) != MR_OK)
        return;
    MR_ASSERT(remove_from(schedule->parked, &schedule->parked_count, heir));
    mr_sequence_move(heir, MR_SEQUENCE_RUNNING);
    heir->table = sequence->table;
    mr_sequence_restart(heir, heir->prompt_tokens);
    sequence->table = NULL;
    for (uint32_t i = 0; i < schedule->running_count; i++)
        if (schedule->running[i] == sequence) schedule->running[i] = heir;
}

bool mr_schedule_may_start(struct mr_schedule *schedule, struct mr_job *job)
{
    const struct mr_scheduler_options *options = &schedule->options;
    if (job->may_start) return true;
    job->start_asked = true;
    job->may_start =
        options->may_start == NULL || options->may_start(options->sink_context, job->ticket);
    schedule->plan.start_waits += !job->may_start;
    return job->may_start;
}

void mr_schedule_remove(struct mr_schedule *schedule, struct mr_sequence *sequence, uint64_t now_ns)
{
    if (sequence->table == NULL) {
        (void)remove_from(schedule->parked, &schedule->parked_count, sequence);
        return;
    }
    MR_ASSERT(remove_from(schedule->running, &schedule->running_count, sequence));
    release_blocks(schedule, sequence, now_ns);
}

void mr_schedule_update_shares(struct mr_schedule *schedule)
{
    const struct mr_scheduler_options *options = &schedule->options;
    struct mr_shares *shares = &schedule->round.shares;
    uint32_t started[MR_TENANTS_MAX] = {0};
    if (options->tenant_count <= 1) return;
    mr_schedule_begin_stamps(schedule);
    for (uint32_t i = 0; i < schedule->running_count; i++) {
        const struct mr_sequence *sequence = schedule->running[i];
        uint32_t tenant = sequence->job->tenant_index;
        started[tenant]++;
        shares->places[tenant]++;
        shares->blocks[tenant] += mr_schedule_stamp_blocks(schedule, sequence);
    }
    for (uint32_t i = 0; i < schedule->parked_count; i++)
        started[schedule->parked[i]->job->tenant_index]++;
    mr_request_queue_divide(options->queue, options->sequences_max, started, shares->place_parts);
    mr_request_queue_divide(options->queue, options->block_count, started, shares->block_parts);
    shares->owed = mr_request_queue_waiting(options->queue);
    for (uint32_t i = 0; i < options->tenant_count; i++)
        if (started[i] > 0) shares->owed &= ~((uint64_t)1 << i);
}

void mr_schedule_park(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    MR_ASSERT(schedule->parked_count < schedule->parked_max);
    schedule->parked[schedule->parked_count++] = sequence;
}

void mr_schedule_put_back(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    MR_ASSERT(sequence->state == MR_SEQUENCE_RUNNING);
    if (schedule->options.tenant_count > 1)
        mr_shares_release(&schedule->round.shares, sequence->job->tenant_index,
                          sequence->table->block_count);
    mr_schedule_remove(schedule, sequence, schedule->round.now_ns);
    mr_sequence_restart(sequence, 0);
    mr_sequence_move(sequence, MR_SEQUENCE_PREEMPTED);
    mr_schedule_park(schedule, sequence);
}

void mr_schedule_preempt(struct mr_schedule *schedule, struct mr_sequence *victim)
{
    mr_schedule_put_back(schedule, victim);
    victim->preemptions++;
    victim->tokens_at_preemption = victim->num_tokens;
    victim->job->preemptions++;
    schedule->plan.preempted_count++;
}
