#include "batching/scheduler/rebalance.h"

/* Of the tenants with waiting requests that have fewer running places than their share, the one
 * that was served least; a tenant that is owed a start goes before the others. */
static uint32_t find_least_served(const struct mr_schedule *schedule)
{
    struct mr_request_queue *queue = schedule->options.queue;
    const struct mr_shares *shares = &schedule->round.shares;
    uint64_t waiting = shares->owed != 0 ? shares->owed : mr_request_queue_waiting(queue);
    uint32_t least = MR_TENANT_NONE;
    for (uint32_t i = 0; i < schedule->options.tenant_count; i++)
        if ((waiting >> i & 1) && shares->places[i] < shares->place_parts[i] &&
            (least == MR_TENANT_NONE || mr_request_queue_is_behind(queue, i, least, 0)))
            least = i;
    return least;
}

/* Cost charged to the tenant for the prompts of its running requests. It was charged at admission,
 * before the prompts were computed. */
static uint64_t charged_prompts(const struct mr_schedule *schedule, uint32_t tenant)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < schedule->running_count; i++) {
        const struct mr_sequence *sequence = schedule->running[i];
        const struct mr_job *job = sequence->job;
        if (job->tenant_index != tenant || sequence->choice > 0) continue;
        cost += (uint64_t)(sequence->prompt_tokens - job->cached_tokens) * MR_PROMPT_TOKEN_COST;
    }
    return cost;
}

/* The sequence to preempt for a running place: the lowest in rank that belongs to a tenant which
 * has more running places than its share and, unless `least` is owed a start, was served more than
 * tenant `least`. NULL: none. */
static struct mr_sequence *find_victim(const struct mr_schedule *schedule, uint32_t least)
{
    const struct mr_shares *shares = &schedule->round.shares;
    uint64_t allowance = charged_prompts(schedule, least);
    for (uint32_t i = schedule->running_count; i-- > 0;) {
        uint32_t tenant = schedule->running[i]->job->tenant_index;
        if (tenant != least && shares->places[tenant] > shares->place_parts[tenant] &&
            (mr_shares_is_owed(shares, least) ||
             mr_request_queue_is_behind(schedule->options.queue, least, tenant, allowance)))
            return schedule->running[i];
    }
    return NULL;
}

/* The sequence to preempt for its KV blocks: the lowest in rank of a tenant above its share. */
static struct mr_sequence *find_holder(const struct mr_schedule *schedule, uint32_t least)
{
    const struct mr_shares *shares = &schedule->round.shares;
    for (uint32_t i = schedule->running_count; i-- > 0;)
        if (schedule->running[i]->job->tenant_index != least &&
            mr_shares_is_above(shares, schedule->running[i]->job->tenant_index))
            return schedule->running[i];
    return NULL;
}

/* True when the next request of the tenant could start in this round: while prefills_max long
 * prefills run, only a short one starts, and the first one of a tenant that is owed a start. A
 * place freed for any other request would stay empty until these prefills end. */
static bool could_start(const struct mr_schedule *schedule, uint32_t tenant, struct mr_job *next)
{
    return schedule->round.long_count < schedule->options.prefills_max ||
           mr_shares_is_owed(&schedule->round.shares, tenant) ||
           mr_schedule_may_start_beside(schedule, &next->sequences[0]);
}

/* Whether the request waits for no cache and the sink lets it start: nothing is preempted for a
 * request that could not run. */
static bool may_start(struct mr_schedule *schedule, struct mr_job *next)
{
    return !mr_schedule_waits_for_cache(schedule, &next->sequences[0]) &&
           mr_schedule_may_start(schedule, next);
}

/* Preempts sequences of tenants above their share until the first request of a tenant has the
 * blocks of its tokens, when these are within the share of its tenant. Until it has started, no
 * other candidate is admitted, because the preempted sequences would take their blocks back. */
static void free_blocks(struct mr_schedule *schedule, struct mr_job *next)
{
    const struct mr_scheduler_options *options = &schedule->options;
    uint32_t need = mr_blocks_for(next->sequences[0].num_tokens);
    if (need > mr_shares_block_limit(&schedule->round.shares, next->tenant_index)) return;
    need += options->block_count / MR_WATERMARK_PART; /* decodes of this step may take some */
    for (;;) {
        struct mr_kv_cache_stats cache = mr_kv_cache_stats(options->cache);
        if (cache.free_count + cache.cached_count >= need) return;
        struct mr_sequence *victim = find_holder(schedule, next->tenant_index);
        if (victim == NULL || !may_start(schedule, next)) return;
        mr_schedule_preempt(schedule, victim);
        schedule->round.blocks_short = true;
    }
}

void mr_rebalance(struct mr_schedule *schedule)
{
    if (schedule->options.tenant_count <= 1) return;
    uint32_t least = find_least_served(schedule);
    if (least == MR_TENANT_NONE) return;
    const bool owed = mr_shares_is_owed(&schedule->round.shares, least);
    if (!owed && schedule->job_count >= schedule->jobs_max) return;
    struct mr_queue_entry *entry = mr_request_queue_first_of(schedule->options.queue, least);
    if (entry == NULL) return;
    struct mr_job *next = mr_job_of_waiting(entry);
    if (!could_start(schedule, least, next)) return;
    if (schedule->running_count == schedule->options.sequences_max) {
        struct mr_sequence *victim = find_victim(schedule, least);
        if (victim == NULL || !may_start(schedule, next)) return;
        mr_schedule_preempt(schedule, victim);
        if (!owed) schedule->round.reserved_tenant = least;
    }
    if (owed) free_blocks(schedule, next);
}
