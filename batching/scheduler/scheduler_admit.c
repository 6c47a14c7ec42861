/* Step 3 of the plan: preempted sequences and waiting requests, best first. */
#include "batching/base/forecast.h"
#include "batching/cache/prompt_cache.h"
#include "batching/cache/shared_cache.h"
#include "batching/scheduler/scheduler_state.h"
#include "codec/check.h"

#include <math.h>
#include <string.h>

#define TWIN_TOKENS_MIN 32u /* shared tokens worth a round of waiting (SGLang's bound) */

enum verdict {
    ADMITTED,
    PASSED_OVER, /* not now, and not for want of memory */
    MISFIT,      /* no room in the pool */
    LATE,        /* would be done after its deadline */
    STOP         /* nothing more can be let in this round */
};

/* Between tenants the one served less; within one priority + waited / ageing, as a fixed order
 * between any two (the queue's rules). */
static bool goes_before(const struct mr_scheduler *scheduler, const struct mr_job *left,
                        const struct mr_job *right)
{
    if (left->tenant_index != right->tenant_index)
        return mr_request_queue_is_behind(scheduler->options.queue, left->tenant_index,
                                          right->tenant_index, 0);
    int64_t ageing = (int64_t)scheduler->options.ageing_ns;
    if (ageing == 0 && left->priority != right->priority) return left->priority > right->priority;
    int64_t first = left->priority * ageing - (int64_t)left->arrival_ns;
    int64_t second = right->priority * ageing - (int64_t)right->arrival_ns;
    return first > second;
}

static void sort_parked(struct mr_scheduler *scheduler)
{
    struct mr_sequence **parked = scheduler->parked;
    for (uint32_t i = 1; i < scheduler->parked_count; i++) {
        struct mr_sequence *sequence = parked[i];
        uint32_t place = i;
        for (; place > 0 && goes_before(scheduler, sequence->job, parked[place - 1]->job); place--)
            parked[place] = parked[place - 1];
        parked[place] = sequence;
    }
}

/* ---- capacity ---- */

static uint32_t expected_left(const struct mr_scheduler *scheduler,
                              const struct mr_sequence *sequence)
{
    uint32_t left = sequence->capacity - sequence->num_tokens;
    if (sequence->preemptions > 0) return left;
    double all = sequence->capacity - sequence->prompt_tokens;
    double more = scheduler->output_share * all - mr_sequence_generated(sequence);
    uint32_t expected = more > 0 ? (uint32_t)ceil(more) : 0;
    uint32_t floor_tokens = left / 8;
    if (expected < floor_tokens) expected = floor_tokens;
    return expected < left ? expected : left;
}

static uint32_t count_unseen(struct mr_scheduler *scheduler, const struct mr_sequence *sequence)
{
    uint32_t unseen = 0;
    for (uint32_t i = 0; i < sequence->table->block_count; i++) {
        uint32_t *stamp = &scheduler->stamps[sequence->table->blocks[i]];
        unseen += *stamp != scheduler->stamp;
        *stamp = scheduler->stamp;
    }
    return unseen;
}

/* The running ones and the candidate, most left first, each block counted once. Returns the blocks
 * they hold together. */
static uint32_t fill_entries(struct mr_scheduler *scheduler, struct mr_sequence *candidate)
{
    uint32_t count = 0, held = 0;
    for (uint32_t i = 0; i <= scheduler->running_count; i++) {
        bool last = i == scheduler->running_count;
        struct mr_sequence *sequence = last ? candidate : scheduler->running[i];
        uint32_t left = expected_left(scheduler, sequence), place = count++;
        for (; place > 0 && scheduler->entries[place - 1].left < left; place--) {
            scheduler->entries[place] = scheduler->entries[place - 1];
            scheduler->order[place] = scheduler->order[place - 1];
        }
        scheduler->entries[place] = (struct mr_peak_entry){.left = left};
        scheduler->order[place] = sequence;
    }
    if (++scheduler->stamp == 0) {
        memset(scheduler->stamps, 0, scheduler->options.block_count * sizeof(uint32_t));
        scheduler->stamp = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct mr_peak_entry *entry = &scheduler->entries[i];
        entry->tokens = scheduler->order[i]->num_tokens;
        entry->blocks = scheduler->order[i]->table->block_count;
        entry->unique = count_unseen(scheduler, scheduler->order[i]);
        held += entry->unique;
    }
    return held;
}

/* The candidate's table holds what it matched. Alone, it may have all there is. */
static bool capacity_allows(struct mr_scheduler *scheduler, struct mr_sequence *candidate)
{
    if (scheduler->running_count == 0) return true;
    const struct mr_scheduler_options *options = &scheduler->options;
    uint32_t ours = fill_entries(scheduler, candidate);
    uint32_t foreign = mr_kv_cache_stats(options->cache).held_count - ours;
    uint32_t kept = foreign + options->block_count / MR_WATERMARK_PART;
    if (kept >= options->block_count) return false;
    uint32_t enough = options->block_count - kept;
    return mr_peak_blocks(scheduler->entries, scheduler->running_count + 1, enough) <= enough;
}

/* ---- twins ---- */

static uint32_t common_tokens(const struct mr_sequence *left, const struct mr_sequence *right)
{
    uint32_t most = left->num_tokens < right->num_tokens ? left->num_tokens : right->num_tokens;
    uint32_t count = 0;
    while (count < most && left->tokens[count] == right->tokens[count])
        count++;
    return count;
}

/* Another sequence is just computing a prefix of this one that the cache does not have yet. */
static bool waits_for_twin(const struct mr_scheduler *scheduler, const struct mr_sequence *sequence)
{
    const struct mr_job *job = sequence->job;
    if (!job->request->cache_read) return false;
    uint32_t soon = 0;
    for (uint32_t i = 0; i < scheduler->running_count; i++) {
        const struct mr_sequence *leader = scheduler->running[i];
        if (mr_sequence_pending(leader) <= 1 || !leader->job->request->cache_write ||
            memcmp(leader->job->root, job->root, sizeof job->root) != 0)
            continue;
        uint32_t common = common_tokens(sequence, leader);
        soon = common > soon ? common : soon;
    }
    if (soon >= sequence->num_tokens) soon = sequence->num_tokens - 1;
    if (soon < TWIN_TOKENS_MIN) return false;
    uint32_t now = mr_kv_cache_probe(scheduler->options.cache, job->root, sequence->tokens,
                                     sequence->num_tokens);
    return soon >= now + TWIN_TOKENS_MIN;
}

/* ---- one candidate ---- */

/* Takes back what consider() did. */
static void withdraw(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    if (scheduler->options.shared != NULL)
        mr_shared_cache_leave(scheduler->options.shared, sequence);
    if (sequence->match.copy_tokens > 0) mr_kv_cache_copied(sequence->table, &sequence->match);
    sequence->match = (struct mr_kv_match){0};
    mr_block_table_destroy(sequence->table, scheduler->round.now_ns);
    sequence->table = NULL;
    sequence->num_computed = 0;
}

/* Logits of a prompt known as a whole, when all its KV is here too: then the table holds it. */
static const float *match_whole_prompt(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    struct mr_prompt_cache *prompts = scheduler->options.prompts;
    if (prompts == NULL || mr_sequence_generated(sequence) > 0) return NULL;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(scheduler->options.cache, sequence->job->root, sequence->tokens,
                           sequence->num_tokens, key);
    const float *logits = mr_prompt_cache_find(prompts, key, scheduler->round.now_ns);
    if (logits == NULL || !mr_kv_cache_match_whole(sequence->table, sequence->tokens,
                                                   sequence->num_tokens, &sequence->match))
        return NULL;
    return logits;
}

static const float *match_prefix(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    sequence->match = (struct mr_kv_match){0};
    if (!sequence->job->request->cache_read) return NULL;
    const float *logits = match_whole_prompt(scheduler, sequence);
    if (logits == NULL)
        mr_kv_cache_match(sequence->table, sequence->tokens, sequence->num_tokens,
                          &sequence->match);
    sequence->num_computed = sequence->match.token_count;
    return logits;
}

/* The source of a copy takes a block of its own while it lasts: a pool that is short of just that
 * one computes those tokens instead. */
static void forgo_copy(struct mr_sequence *sequence)
{
    sequence->num_computed -= sequence->match.copy_tokens;
    mr_kv_cache_copied(sequence->table, &sequence->match);
    sequence->match.copy_tokens = 0;
}

/* Rows for a chunk, and the bound on prefills that start together. */
static enum verdict weigh(struct mr_scheduler *scheduler, struct mr_sequence *sequence,
                          struct mr_plan_row *row)
{
    struct mr_round *round = &scheduler->round;
    bool known = row->logits != NULL;
    bool held = mr_sequence_is_held(sequence);
    row->token_count = known || held ? 0 : mr_scheduler_chunk(scheduler, sequence, UINT32_MAX);
    if (row->token_count == 0 && !known && !held) return STOP;
    bool partial = !held && row->token_count < mr_sequence_pending(sequence);
    if (partial && round->partial_count >= scheduler->options.prefills_max) return PASSED_OVER;
    uint64_t bytes =
        mr_memory_estimate(&scheduler->options.geometry, sequence->num_tokens, row->token_count);
    if (!mr_prefill_budget_fits(&round->starts, bytes)) return PASSED_OVER;
    if (!mr_kv_window_reserve(sequence->table, sequence->capacity, false) ||
        mr_kv_cache_reserve(sequence->table, sequence->num_tokens) != MR_OK)
        return MISFIT;
    mr_prefill_budget_take(&round->starts, bytes);
    round->partial_count += partial;
    return ADMITTED;
}

static void start(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    struct mr_job *job = sequence->job;
    if (!job->started) {
        job->started = true;
        job->started_ns = scheduler->round.now_ns;
        job->cached_tokens = sequence->num_computed < sequence->prompt_tokens
                                 ? sequence->num_computed
                                 : sequence->prompt_tokens;
        scheduler->job_count++;
        mr_request_queue_charge(scheduler->options.queue, job->tenant_index,
                                (uint64_t)mr_sequence_pending(sequence) * MR_PROMPT_TOKEN_COST);
    }
    mr_sequence_move(sequence, MR_SEQUENCE_RUNNING);
    scheduler->running[scheduler->running_count++] = sequence;
    scheduler->round.gave = true;
}

/* By what the cost model has learnt, with the steps as they are now, and what a tier saves. */
static bool is_late(const struct mr_scheduler *scheduler, const struct mr_sequence *sequence)
{
    const struct mr_scheduler_options *options = &scheduler->options;
    const struct mr_job *job = sequence->job;
    if (!options->deadline_admission || job->started || job->deadline_ns == 0) return false;
    uint32_t most = sequence->capacity - sequence->num_tokens;
    uint32_t output = job->request->ignore_eos ? most : expected_left(scheduler, sequence);
    if (output < job->request->min_tokens) output = job->request->min_tokens;
    struct mr_forecast forecast = {
        .beside = scheduler->plan.work,
        .computed_tokens = sequence->num_computed,
        .pending_tokens = mr_sequence_pending(sequence),
        .chunk_tokens = options->chunk_tokens > 0 ? (uint32_t)options->chunk_tokens : 0,
        .output_tokens = output < most ? output : most};
    forecast.beside.chunk = 0;
    double ms = mr_forecast_ms(options->cost, &forecast);
    if (options->shared != NULL && ms > 0)
        ms -= mr_shared_cache_saved_ms(options->shared, sequence);
    return scheduler->round.now_ns + (uint64_t)(ms * 1e6) > job->deadline_ns;
}

/* What of it is worth loading; tokens that would be copied into a block to be loaded are not. */
static void consult_tier(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    struct mr_shared_cache *shared = scheduler->options.shared;
    if (shared == NULL || !sequence->job->request->cache_read) return;
    bool busy = scheduler->running_count > 0 || scheduler->parked_count > 0 ||
                !mr_request_queue_is_empty(scheduler->options.queue);
    bool copies = sequence->match.copy_tokens > 0;
    if (mr_shared_cache_decide(shared, sequence, busy, scheduler->round.now_ns) && copies) {
        uint32_t before = sequence->num_computed;
        forgo_copy(sequence);
        if (sequence->held_at == before) sequence->held_at = sequence->num_computed;
    }
}

static enum verdict try_to_place(struct mr_scheduler *scheduler, struct mr_sequence *sequence,
                                 struct mr_plan_row *row)
{
    *row = (struct mr_plan_row){.sequence = sequence};
    row->logits = match_prefix(scheduler, sequence);
    if (row->logits == NULL) consult_tier(scheduler, sequence);
    if (is_late(scheduler, sequence)) return LATE;
    if (!capacity_allows(scheduler, sequence)) return MISFIT;
    enum verdict verdict = weigh(scheduler, sequence, row);
    if (verdict != MISFIT || sequence->match.copy_tokens == 0) return verdict;
    forgo_copy(sequence);
    row->logits = NULL;
    return weigh(scheduler, sequence, row);
}

/* The tier is asked about a request when it is first looked at, and has a moment to answer. */
static bool waits_for_tier(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    struct mr_shared_cache *shared = scheduler->options.shared;
    uint64_t now_ns = scheduler->round.now_ns;
    if (shared == NULL) return false;
    if (sequence->job->tier.state == MR_TIER_UNASKED)
        (void)mr_shared_cache_ask(shared, sequence->job, now_ns);
    bool waits = mr_shared_cache_waits(shared, sequence, now_ns);
    scheduler->round.asking += waits;
    return waits;
}

static enum verdict consider(struct mr_scheduler *scheduler, struct mr_sequence *sequence)
{
    if (mr_scheduler_exhausts(scheduler, sequence)) return PASSED_OVER;
    bool asking = waits_for_tier(scheduler, sequence);
    if (asking || waits_for_twin(scheduler, sequence)) return PASSED_OVER;
    sequence->table = mr_block_table_create(scheduler->options.cache, sequence->job->root);
    MR_ASSERT(sequence->table != NULL); /* one for each that may run */
    struct mr_plan_row row;
    enum verdict verdict = try_to_place(scheduler, sequence, &row);
    if (verdict == ADMITTED) {
        start(scheduler, sequence);
        if (scheduler->options.shared != NULL)
            mr_shared_cache_begin(scheduler->options.shared, sequence, scheduler->round.now_ns);
        mr_scheduler_add_row(scheduler, row);
        return ADMITTED;
    }
    withdraw(scheduler, sequence);
    /* Alone, and yet no room: the rest is lent to the tier, and comes back within a moment. */
    if (verdict == MISFIT && scheduler->running_count == 0 && scheduler->options.shared != NULL)
        scheduler->round.asking += mr_shared_cache_yield(scheduler->options.shared);
    if (verdict != STOP) scheduler->round.tries_left--;
    return verdict;
}

/* ---- the walk ---- */

/* A place was made for this tenant: it goes first, whoever's turn it is. */
static struct mr_sequence *take_favoured(struct mr_scheduler *scheduler)
{
    scheduler->round.favoured = false;
    return &mr_job_of_waiting(mr_request_queue_dequeue_of(scheduler->options.queue,
                                                          scheduler->round.favoured_tenant))
                ->sequences[0];
}

/* The better of the next parked sequence and the queue's head; *head keeps a head that lost. */
static struct mr_sequence *next_candidate(struct mr_scheduler *scheduler, uint32_t *parked_index,
                                          struct mr_sequence **head)
{
    if (scheduler->round.favoured) return take_favoured(scheduler);
    if (*head == NULL && scheduler->job_count < scheduler->jobs_max) {
        struct mr_queue_entry *entry = mr_request_queue_dequeue(scheduler->options.queue);
        *head = entry == NULL ? NULL : &mr_job_of_waiting(entry)->sequences[0];
    }
    struct mr_sequence *parked =
        *parked_index < scheduler->parked_count ? scheduler->parked[*parked_index] : NULL;
    struct mr_sequence *best = *head;
    if (parked != NULL && (best == NULL || !goes_before(scheduler, best->job, parked->job))) {
        ++*parked_index;
        return parked;
    }
    *head = NULL;
    return best;
}

static void set_aside(struct mr_scheduler *scheduler, struct mr_sequence *sequence, bool misfit)
{
    scheduler->asides[scheduler->aside_count++] = (struct mr_aside){sequence, misfit};
}

/* Everybody not let in goes back to the same place; misfits somebody overtook have aged. */
static void put_back(struct mr_scheduler *scheduler, uint32_t overtaken)
{
    for (uint32_t i = 0; i < scheduler->aside_count; i++) {
        struct mr_sequence *sequence = scheduler->asides[i].sequence;
        if (scheduler->asides[i].misfit && i < overtaken) sequence->skipped++;
        if (!sequence->job->started)
            mr_request_queue_return(scheduler->options.queue, &sequence->job->waiting);
    }
    scheduler->aside_count = 0;
}

/* Parked sequences that are running now leave the list. */
static void compact_parked(struct mr_scheduler *scheduler)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < scheduler->parked_count; i++)
        if (scheduler->parked[i]->state != MR_SEQUENCE_RUNNING)
            scheduler->parked[kept++] = scheduler->parked[i];
    scheduler->parked_count = kept;
}

static bool has_room(const struct mr_scheduler *scheduler)
{
    return scheduler->running_count < scheduler->options.sequences_max &&
           scheduler->plan.row_count < scheduler->options.sequences_max &&
           scheduler->round.rows_left > 0 && scheduler->round.chunk_left > 0 &&
           scheduler->round.tries_left > 0 && scheduler->plan.late_count < MR_LATE_MAX;
}

void mr_scheduler_admit(struct mr_scheduler *scheduler)
{
    sort_parked(scheduler);
    uint32_t parked_index = 0, overtaken = 0;
    struct mr_sequence *head = NULL;
    while (has_room(scheduler) && scheduler->aside_count < MR_SCAN_MAX - 1) {
        struct mr_sequence *sequence = next_candidate(scheduler, &parked_index, &head);
        if (sequence == NULL) break;
        enum verdict verdict = consider(scheduler, sequence);
        if (verdict == ADMITTED) {
            overtaken = scheduler->aside_count;
            continue;
        }
        if (verdict == LATE) {
            scheduler->plan.late[scheduler->plan.late_count++] = sequence;
            continue;
        }
        set_aside(scheduler, sequence, verdict == MISFIT);
        if (verdict == STOP || (verdict == MISFIT && sequence->skipped >= MR_SKIPS_MAX)) break;
    }
    if (head != NULL) set_aside(scheduler, head, false);
    /* Alone with the pool somebody must fit, or the wheel would turn for nothing for ever. */
    MR_ASSERT(scheduler->running_count > 0 || scheduler->plan.exhausted_count > 0 ||
              scheduler->aside_count == 0 || scheduler->round.asking > 0);
    put_back(scheduler, overtaken);
    compact_parked(scheduler);
}
