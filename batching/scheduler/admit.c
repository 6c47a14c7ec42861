#include "batching/scheduler/admit.h"

#include "batching/cache/prompt_cache.h"
#include "batching/cache/remote_prefix.h"
#include "batching/queue/pass_over.h"
#include "batching/scheduler/prediction.h"
#include "batching/sequence/embedding.h"
#include "batching/sequence/scores.h"
#include "codec/check.h"

#include <string.h>

#define SCAN_MAX 31u /* most candidates passed over in one planning round */
/* After this many rejections for a deadline, and at least this long after the last trial, a request
 * starts as a trial of the forecast. */
#define TRIAL_REJECTIONS 8u
#define TRIAL_NS         ((uint64_t)10000000000)

enum verdict {
    ADMITTED,
    PASSED_OVER, /* the candidate cannot start in this round, but not for lack of KV blocks */
    MISFIT,      /* the KV block pool has not enough blocks */
    LATE,        /* the candidate is predicted to end after its deadline */
    EXHAUSTED,   /* the candidate has more tokens than the pool holds: the caller ends it */
    STOP         /* no rows or chunk tokens are left in this round */
};

/* True when `left` goes before `right` in the request queue's order: between tenants the job whose
 * tenant was served less; within a tenant the job with the higher priority + time waited / ageing,
 * an order that does not change with time. */
static bool goes_before(const struct mr_schedule *schedule, const struct mr_job *left,
                        const struct mr_job *right)
{
    if (left->tenant_index != right->tenant_index)
        return mr_request_queue_is_behind(schedule->options.queue, left->tenant_index,
                                          right->tenant_index, 0);
    int64_t ageing = (int64_t)schedule->options.ageing_ns;
    if (ageing == 0 && left->priority != right->priority) return left->priority > right->priority;
    int64_t first = left->priority * ageing - (int64_t)left->arrival_ns;
    int64_t second = right->priority * ageing - (int64_t)right->arrival_ns;
    return first > second;
}

static void sort_parked(struct mr_schedule *schedule)
{
    struct mr_sequence **parked = schedule->parked;
    for (uint32_t i = 1; i < schedule->parked_count; i++) {
        struct mr_sequence *sequence = parked[i];
        uint32_t place = i;
        for (; place > 0 && goes_before(schedule, sequence->job, parked[place - 1]->job); place--)
            parked[place] = parked[place - 1];
        parked[place] = sequence;
    }
}

/* ---- capacity ---- */

/* Fills schedule->entries with the candidate and the running sequences, or with those of the
 * candidate's tenant only, those with most tokens left first. Returns their number. *held: the
 * blocks that these sequences hold together; a block that several share is counted once. */
static uint32_t fill_entries(struct mr_schedule *schedule, struct mr_sequence *candidate,
                             bool own_only, uint32_t *held)
{
    struct mr_sequence **order = schedule->order;
    uint32_t count = 0;
    for (uint32_t i = 0; i <= schedule->running_count; i++) {
        struct mr_sequence *sequence =
            i < schedule->running_count ? schedule->running[i] : candidate;
        if (own_only && sequence->job->tenant_index != candidate->job->tenant_index) continue;
        struct mr_peak_blocks_entry entry = {.left = mr_predict_left(schedule, sequence)};
        uint32_t index = mr_peak_blocks_insert(schedule->entries, count, entry);
        memmove(&order[index + 1], &order[index], (count++ - index) * sizeof *order);
        order[index] = sequence;
    }
    mr_schedule_begin_stamps(schedule);
    *held = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct mr_peak_blocks_entry *entry = &schedule->entries[i];
        entry->tokens = order[i]->num_tokens;
        entry->blocks = order[i]->table->block_count;
        entry->unique = mr_schedule_stamp_blocks(schedule, order[i]);
        *held += entry->unique;
    }
    return count;
}

/* True when the predicted peak of the candidate's tenant stays within the tenant's share of the
 * pool: predictions for other tenants are then ignored. For the first sequence of a tenant, only
 * its current blocks must be within the share. */
static bool fits_share(struct mr_schedule *schedule, struct mr_sequence *candidate)
{
    uint32_t enough = mr_shares_block_limit(&schedule->round.shares, candidate->job->tenant_index),
             held;
    uint32_t count = fill_entries(schedule, candidate, true, &held);
    if (count == 1) return mr_blocks_for(candidate->num_tokens) <= enough;
    return mr_peak_blocks_most(schedule->entries, count, enough) <= enough;
}

/* True when the KV pool has enough blocks for the predicted peak of the running sequences and the
 * candidate, whose block table already holds the blocks of its prefix match; or when the candidate
 * fits its tenant's share. A sequence that would run alone always fits. */
static bool fits_pool(struct mr_schedule *schedule, struct mr_sequence *candidate)
{
    if (schedule->running_count == 0) return true;
    const struct mr_scheduler_options *options = &schedule->options;
    uint32_t own, count = fill_entries(schedule, candidate, false, &own);
    uint32_t foreign = mr_kv_cache_stats(options->cache).held_count - own;
    uint32_t kept = foreign + options->block_count / MR_WATERMARK_PART;
    uint32_t enough = options->block_count > kept ? options->block_count - kept : 0;
    if (mr_peak_blocks_most(schedule->entries, count, enough) <= enough) return true;
    return options->tenant_count > 1 && fits_share(schedule, candidate);
}

/* ---- one candidate ---- */

/* Undoes consider() for a candidate that is not admitted: ends its load, releases its blocks. */
static void withdraw(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    if (schedule->options.remote != NULL)
        mr_remote_prefix_end_load(schedule->options.remote, sequence);
    if (sequence->match.copy_tokens > 0) mr_kv_cache_copied(sequence->table, &sequence->match);
    sequence->match = (struct mr_kv_match){0};
    mr_block_table_destroy(sequence->table, schedule->round.now_ns);
    sequence->table = NULL;
    mr_sequence_restart(sequence, 0);
}

/* Returns the cached logits of the complete prompt if all its KV is cached too; the sequence's
 * block table then holds this KV. Otherwise NULL. */
static const float *match_whole_prompt(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    struct mr_prompt_cache *prompts = schedule->options.prompts;
    if (prompts == NULL || mr_sequence_generated(sequence) > 0) return NULL;
    if (!sequence->job->draws || !mr_scores_done(sequence->scores)) return NULL;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(schedule->options.cache, sequence->job->root, sequence->tokens,
                           sequence->num_tokens, key);
    const float *logits = mr_prompt_cache_find(prompts, key, schedule->round.now_ns);
    if (logits == NULL || !mr_kv_cache_match_whole(sequence->table, sequence->tokens,
                                                   sequence->num_tokens, &sequence->match))
        return NULL;
    return logits;
}

static const float *match_prefix(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    sequence->match = (struct mr_kv_match){0};
    const bool reads = mr_schedule_reads_cache(sequence);
    const float *logits = reads ? match_whole_prompt(schedule, sequence) : NULL;
    if (reads && logits == NULL)
        mr_kv_cache_match(sequence->table, sequence->tokens, mr_sequence_reusable(sequence),
                          &sequence->match);
    const struct mr_sequence *sibling = mr_schedule_sibling(sequence);
    if (sibling != NULL && sequence->match.token_count < sequence->prompt_tokens)
        (void)mr_kv_cache_share(sequence->table, sibling->table, sequence->prompt_tokens,
                                &sequence->match);
    sequence->junction = sequence->match.chain_tokens;
    mr_sequence_restart(sequence, sequence->match.token_count);
    return logits;
}

static bool can_drop_copy(const struct mr_sequence *sequence)
{
    uint32_t copied = sequence->match.copy_tokens;
    return copied > 0 && mr_kv_cache_can_go_back(sequence->table, sequence->num_computed - copied);
}

/* Cancels the copy of KV from the partly matching block that the prefix match found; its tokens are
 * computed instead. Such a copy holds its source block until the copy is done, and the pool may
 * lack just that one block. */
static void drop_copy(struct mr_sequence *sequence)
{
    mr_sequence_restart(sequence, sequence->num_computed - sequence->match.copy_tokens);
    mr_kv_cache_copied(sequence->table, &sequence->match);
    sequence->match.copy_tokens = 0;
}

/* True when the candidate may start although its prefill stays unfinished in this step. */
static bool may_be_partial(const struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    const struct mr_round *round = &schedule->round;
    if (round->owed_only) return true;
    if (!round->shorts_only) return round->partial_count < schedule->options.prefills_max;
    return !round->short_partial || sequence->job->priority > round->prefill_priority;
}

/* Tokens for which an admitted candidate gets blocks. Further continuations of its prompt may be
 * longer than the first. */
static uint32_t to_reserve(const struct mr_sequence *sequence)
{
    return sequence->job->draws ? sequence->num_tokens : sequence->capacity;
}

/* Reserves the resources of an admitted candidate: rows of its first chunk, a part of the budget of
 * prefills that start together, and KV blocks. */
static enum verdict reserve(struct mr_schedule *schedule, struct mr_sequence *sequence,
                            struct mr_plan_row *row)
{
    struct mr_round *round = &schedule->round;
    bool known = row->logits != NULL;
    bool held = mr_sequence_is_held(sequence);
    if (known && !mr_schedule_may_draw(schedule, sequence)) return PASSED_OVER;
    uint32_t share = round->shorts_only ? round->short_left : UINT32_MAX;
    if (round->owed_only) share = round->owed_tokens;
    row->token_count = known || held ? 0 : mr_schedule_chunk(schedule, sequence, share);
    if (row->token_count == 0 && !known && !held) {
        /* which score nothing, draw nothing that needs a mask, or are shorter */
        bool others = schedule->options.whole_prompts || !mr_scores_done(sequence->scores) ||
                      !mr_schedule_may_draw(schedule, sequence);
        return round->shorts_only || round->owed_only || others ? PASSED_OVER : STOP;
    }
    bool partial = !held && row->token_count < mr_sequence_pending(sequence);
    if (partial && !may_be_partial(schedule, sequence)) return PASSED_OVER;
    uint64_t bytes =
        mr_memory_estimate(&schedule->options.geometry, sequence->num_tokens, row->token_count);
    if (!mr_prefill_budget_fits(&round->starts, bytes)) return PASSED_OVER;
    if (!mr_kv_window_reserve(sequence->table, sequence->capacity, false) ||
        mr_kv_cache_reserve(sequence->table, to_reserve(sequence)) != MR_OK)
        return MISFIT;
    mr_prefill_budget_take(&round->starts, bytes);
    round->partial_count += partial;
    round->short_partial |= round->shorts_only && partial;
    return ADMITTED;
}

/* True when a request that is late according to the forecast may start anyway. Its steps correct a
 * wrong forecast; if every request were rejected, the forecast would stay wrong. */
static bool tries_forecast(const struct mr_schedule *schedule)
{
    return schedule->late_count >= TRIAL_REJECTIONS &&
           schedule->round.now_ns - schedule->trial_ns >= TRIAL_NS;
}

/* Starts the candidate of the row. The candidate's tokens end the starvation of prefill, unless a
 * running prefill got none in this round. */
static void start(struct mr_schedule *schedule, const struct mr_plan_row *row)
{
    struct mr_round *round = &schedule->round;
    struct mr_sequence *sequence = row->sequence;
    struct mr_job *job = sequence->job;
    if (mr_predict_is_late(schedule, sequence)) {
        schedule->late_count = 0;
        schedule->trial_ns = round->now_ns;
    }
    if (!job->started) {
        job->started = true;
        job->started_ns = round->now_ns;
        job->cached_tokens = sequence->num_computed < sequence->prompt_tokens
                                 ? sequence->num_computed
                                 : sequence->prompt_tokens;
        schedule->job_count++;
        mr_request_queue_charge(schedule->options.queue, job->tenant_index,
                                (uint64_t)mr_sequence_pending(sequence) * MR_PROMPT_TOKEN_COST);
    }
    mr_sequence_move(sequence, MR_SEQUENCE_RUNNING);
    schedule->running[schedule->running_count++] = sequence;
    round->prefill_given |= row->token_count > 0 && !round->prefill_missed;
}

/* Decides what to load from the remote cache. When a block is to be loaded, cached tokens are not
 * copied into this block. */
static void decide_load(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    struct mr_remote_prefix *remote = schedule->options.remote;
    if (remote == NULL || !sequence->job->reads_cache || sequence->scores != NULL ||
        sequence->embedding != NULL)
        return;
    bool busy = schedule->running_count > 0 || schedule->parked_count > 0 ||
                !mr_request_queue_is_empty(schedule->options.queue);
    bool copies = sequence->match.copy_tokens > 0;
    if (mr_remote_prefix_decide_load(remote, sequence, busy, schedule->round.now_ns) && copies) {
        uint32_t before = sequence->num_computed;
        drop_copy(sequence);
        if (sequence->held_at == before) sequence->held_at = sequence->num_computed;
    }
}

static enum verdict reserve_room(struct mr_schedule *schedule, struct mr_sequence *sequence,
                                 struct mr_plan_row *row)
{
    if (!fits_pool(schedule, sequence)) return MISFIT;
    enum verdict verdict = reserve(schedule, sequence, row);
    if (verdict != MISFIT || !can_drop_copy(sequence)) return verdict;
    drop_copy(sequence);
    row->logits = NULL;
    return reserve(schedule, sequence, row);
}

static enum verdict try_to_admit(struct mr_schedule *schedule, struct mr_sequence *sequence,
                                 struct mr_plan_row *row)
{
    *row = (struct mr_plan_row){.sequence = sequence};
    row->logits = match_prefix(schedule, sequence);
    if (row->logits == NULL && mr_sequence_needs_prefill(sequence)) decide_load(schedule, sequence);
    const bool late = mr_predict_is_late(schedule, sequence);
    if (late && !tries_forecast(schedule)) return LATE;
    enum verdict verdict = reserve_room(schedule, sequence, row);
    /* a trial does not wait, because punctual requests come after it in the queue */
    return late && verdict != ADMITTED ? LATE : verdict;
}

/* True when the sink was called for this request before and it may not start yet, or when the
 * requests that wait for their start will take all running places that are left. */
static bool waits_for_start(struct mr_schedule *schedule, struct mr_job *job)
{
    if (job->may_start) return false;
    if (job->start_asked) return !mr_schedule_may_start(schedule, job);
    return schedule->running_count + schedule->plan.start_waits >= schedule->options.sequences_max;
}

static enum verdict consider(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    if (schedule->round.shorts_only && !mr_schedule_may_start_beside(schedule, sequence))
        return PASSED_OVER;
    if (sequence->unknown > 0) { /* preempted while a step in flight samples its next token */
        schedule->round.remote_waits++;
        return PASSED_OVER;
    }
    /* A preempted sequence may have rows in flight that would be added to its vector twice. */
    if (sequence->embedding != NULL && sequence->embedding->in_flight > 0) {
        schedule->round.remote_waits++;
        return PASSED_OVER;
    }
    if (mr_schedule_exhaust_oversize(schedule, sequence)) return EXHAUSTED;
    if (mr_schedule_waits_for_cache(schedule, sequence)) return PASSED_OVER;
    if (waits_for_start(schedule, sequence->job)) return PASSED_OVER;
    sequence->table = mr_block_table_create(schedule->options.cache, sequence->job->root);
    /* the KV cache has a table for each sequence that may run */
    MR_ASSERT(sequence->table != NULL);
    struct mr_plan_row row;
    enum verdict verdict = try_to_admit(schedule, sequence, &row);
    if (verdict == ADMITTED && !mr_schedule_may_start(schedule, sequence->job))
        verdict = PASSED_OVER;
    if (verdict == ADMITTED) {
        start(schedule, &row);
        if (schedule->options.remote != NULL)
            mr_remote_prefix_begin_load(schedule->options.remote, sequence, schedule->round.now_ns);
        mr_schedule_add_row(schedule, row);
        return ADMITTED;
    }
    withdraw(schedule, sequence);
    /* Too few blocks although nothing runs: the remote cache still uses the other blocks and
     * releases them soon. */
    if (verdict == MISFIT && schedule->running_count == 0 && schedule->options.remote != NULL)
        schedule->round.remote_waits += mr_remote_prefix_reclaim(schedule->options.remote);
    if (verdict != STOP) schedule->round.tries_left--;
    return verdict;
}

/* ---- the walk ---- */

/* Dequeues the next request of the tenant for which rebalancing freed a running place, even if
 * another tenant's turn is next. */
static struct mr_sequence *take_reserved(struct mr_schedule *schedule)
{
    struct mr_queue_entry *entry =
        mr_request_queue_dequeue_of(schedule->options.queue, schedule->round.reserved_tenant);
    schedule->round.reserved_tenant = MR_TENANT_NONE;
    return &mr_job_of_waiting(entry)->sequences[0];
}

/* Returns the next sequence to consider: the first one of the parked list (preempted sequences and
 * further choices of running requests) or of the request queue, whichever goes first in the queue's
 * order. *head keeps a dequeued request that goes second, for the next call. */
static struct mr_sequence *next_candidate(struct mr_schedule *schedule, uint32_t *parked_index,
                                          struct mr_sequence **head)
{
    if (schedule->round.reserved_tenant != MR_TENANT_NONE && !schedule->round.place_kept)
        return take_reserved(schedule);
    if (*head == NULL && schedule->job_count < schedule->jobs_max) {
        struct mr_queue_entry *entry = mr_request_queue_dequeue(schedule->options.queue);
        *head = entry == NULL ? NULL : &mr_job_of_waiting(entry)->sequences[0];
    }
    struct mr_sequence *parked =
        *parked_index < schedule->parked_count ? schedule->parked[*parked_index] : NULL;
    struct mr_sequence *best = *head;
    if (parked != NULL && (best == NULL || !goes_before(schedule, best->job, parked->job))) {
        ++*parked_index;
        return parked;
    }
    *head = NULL;
    return best;
}

/* Puts requests that were considered and not admitted back at their places in the queue. */
static void return_passed(struct mr_schedule *schedule, struct mr_pass_over *walk)
{
    mr_pass_over_age(walk);
    for (uint32_t i = 0; i < walk->count; i++) {
        struct mr_sequence *sequence = walk->passed[i].candidate;
        if (!sequence->job->started)
            mr_request_queue_return(schedule->options.queue, &sequence->job->waiting);
    }
}

/* Removes sequences that are running now from the list of parked sequences (preempted ones and
 * further choices). */
static void compact_parked(struct mr_schedule *schedule)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < schedule->parked_count; i++)
        if (schedule->parked[i]->state != MR_SEQUENCE_RUNNING)
            schedule->parked[kept++] = schedule->parked[i];
    schedule->parked_count = kept;
}

/* Candidates with known logits need no tokens, so during a long prefill the walk continues when the
 * tokens set aside are used up. */
static bool has_room(const struct mr_schedule *schedule)
{
    const struct mr_round *round = &schedule->round;
    bool has_tokens = round->shorts_only || (round->rows_left > 0 && round->chunk_left > 0);
    return schedule->running_count + round->place_kept < schedule->options.sequences_max &&
           schedule->plan.row_count < schedule->options.sequences_max && has_tokens &&
           round->tries_left > 0 && schedule->plan.late_count < MR_LATE_MAX;
}

/* True when the walk must end at this candidate, which was not admitted: the round's resources are
 * used up, or the candidate was passed over for lack of blocks as often as it may be. */
static bool ends_walk(const struct mr_schedule *schedule, const struct mr_sequence *sequence,
                      enum verdict verdict)
{
    bool misfit = verdict == MISFIT || schedule->round.shorts_only;
    return verdict == STOP || (misfit && sequence->skipped >= MR_SKIPS_MAX);
}

static void note_late(struct mr_schedule *schedule, struct mr_sequence *sequence)
{
    schedule->late_count++;
    schedule->plan.late[schedule->plan.late_count++] = sequence;
}

/* Considers candidates until one stops the scan or the round's resources are used up. Returns the
 * request that was dequeued and not considered, or NULL. */
static struct mr_sequence *walk_candidates(struct mr_schedule *schedule, struct mr_pass_over *walk)
{
    uint32_t parked_index = 0;
    struct mr_sequence *head = NULL;
    while (has_room(schedule) && walk->count < SCAN_MAX) {
        struct mr_sequence *sequence = next_candidate(schedule, &parked_index, &head);
        if (sequence == NULL) break;
        enum verdict verdict = consider(schedule, sequence);
        if (verdict == ADMITTED) mr_pass_over_taken(walk);
        if (verdict == ADMITTED || verdict == MISFIT) schedule->pool_short = verdict == MISFIT;
        if (verdict == ADMITTED || verdict == EXHAUSTED) continue;
        if (verdict == LATE) {
            note_late(schedule, sequence);
            continue;
        }
        uint32_t *skipped = verdict == MISFIT ? &sequence->skipped : NULL;
        (void)mr_pass_over_add(walk, sequence, skipped, MR_SKIPS_MAX);
        if (ends_walk(schedule, sequence, verdict)) break;
    }
    return head;
}

/* True when the place that rebalancing freed is for a request that cannot start during a long
 * prefill; no short one may take the place then. */
static bool keeps_place(const struct mr_schedule *schedule)
{
    const struct mr_round *round = &schedule->round;
    if (!round->shorts_only || round->reserved_tenant == MR_TENANT_NONE) return false;
    struct mr_queue_entry *next =
        mr_request_queue_first_of(schedule->options.queue, round->reserved_tenant);
    return next != NULL &&
           !mr_schedule_may_start_beside(schedule, &mr_job_of_waiting(next)->sequences[0]);
}

/* The tenant that is served next of those in the mask; MR_TENANT_NONE: the mask is empty. */
static uint32_t least_served(const struct mr_schedule *schedule, uint64_t tenants)
{
    uint32_t least = MR_TENANT_NONE;
    for (uint32_t i = 0; i < schedule->options.tenant_count; i++)
        if ((tenants >> i & 1) &&
            (least == MR_TENANT_NONE ||
             mr_request_queue_is_behind(schedule->options.queue, i, least, 0)))
            least = i;
    return least;
}

/* Tenants of the running sequences that have prompt tokens to compute. */
static uint32_t prefilling_tenants(const struct mr_schedule *schedule)
{
    uint64_t tenants = 0;
    for (uint32_t i = 0; i < schedule->running_count; i++)
        if (!mr_sequence_is_decoding(schedule->running[i]))
            tenants |= (uint64_t)1 << schedule->running[i]->job->tenant_index;
    return (uint32_t)__builtin_popcountll(tenants);
}

void mr_admit_owed(struct mr_schedule *schedule)
{
    struct mr_round *round = &schedule->round;
    uint64_t owed = round->shares.owed;
    const uint32_t tries = round->tries_left;
    uint32_t parts = (uint32_t)__builtin_popcountll(owed) + prefilling_tenants(schedule);
    round->owed_only = true;
    round->tries_left = UINT32_MAX; /* each tenant has one */
    while (owed != 0 && schedule->running_count < schedule->options.sequences_max &&
           schedule->plan.row_count < schedule->options.sequences_max &&
           schedule->job_count < MR_STARTED_MAX(schedule->options.sequences_max) &&
           schedule->plan.late_count < MR_LATE_MAX) {
        uint32_t tenant = least_served(schedule, owed);
        owed &= ~((uint64_t)1 << tenant);
        struct mr_queue_entry *entry = mr_request_queue_dequeue_of(schedule->options.queue, tenant);
        if (entry == NULL) continue;
        struct mr_sequence *sequence = &mr_job_of_waiting(entry)->sequences[0];
        round->owed_tokens = mr_schedule_prefill_room(schedule) / parts--;
        enum verdict verdict = consider(schedule, sequence);
        if (verdict == LATE)
            note_late(schedule, sequence);
        else if (verdict != ADMITTED && verdict != EXHAUSTED)
            mr_request_queue_return(schedule->options.queue, entry);
    }
    round->owed_only = false;
    round->tries_left = tries;
}

void mr_admit(struct mr_schedule *schedule)
{
    struct mr_pass_over walk = {.count = 0};
    schedule->round.place_kept = keeps_place(schedule);
    sort_parked(schedule);
    struct mr_sequence *head = walk_candidates(schedule, &walk);
    if (head != NULL) (void)mr_pass_over_add(&walk, head, NULL, 0);
    /* When nothing runs, a candidate must be admitted or wait for the remote cache or for its
     * start; otherwise the engine would repeat this round for ever. */
    MR_ASSERT(schedule->running_count > 0 || schedule->plan.exhausted_count > 0 ||
              walk.count == 0 || schedule->round.remote_waits > 0 ||
              schedule->plan.start_waits > 0);
    return_passed(schedule, &walk);
    compact_parked(schedule);
}
