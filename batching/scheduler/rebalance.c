#include "batching/scheduler/rebalance.h"

static void count_places(const struct mr_schedule *schedule, uint32_t taken[MR_TENANTS_MAX])
{
    for (uint32_t i = 0; i < MR_TENANTS_MAX; i++)
        taken[i] = 0;
    for (uint32_t i = 0; i < schedule->running_count; i++)
        taken[schedule->running[i]->job->tenant_index]++;
}

/* Of the tenants with waiting requests that have fewer running places than their weight gives them,
 * the tenant that was served least. */
static uint32_t find_least_served(struct mr_request_queue *queue, const uint32_t *taken,
                                  const uint32_t *parts)
{
    uint64_t waiting = mr_request_queue_waiting(queue);
    uint32_t least = MR_TENANT_NONE;
    for (uint32_t i = 0; i < MR_TENANTS_MAX; i++)
        if ((waiting >> i & 1) && taken[i] < parts[i] &&
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

/* The sequence to preempt: the lowest in rank that belongs to a tenant which has more running
 * places than its weight gives it and was served more than tenant `least`. NULL: none. */
static struct mr_sequence *find_victim(const struct mr_schedule *schedule, uint32_t least,
                                       const uint32_t *taken, const uint32_t *parts)
{
    uint64_t allowance = charged_prompts(schedule, least);
    for (uint32_t i = schedule->running_count; i-- > 0;) {
        uint32_t tenant = schedule->running[i]->job->tenant_index;
        if (tenant != least && taken[tenant] > parts[tenant] &&
            mr_request_queue_is_behind(schedule->options.queue, least, tenant, allowance))
            return schedule->running[i];
    }
    return NULL;
}

/* True when the next request of the tenant could start in this round: beside prefills_max long
 * prefills only a short one starts, and a place for another would stay empty until they end. */
static bool could_start(const struct mr_schedule *schedule, uint32_t tenant)
{
    if (schedule->round.long_count < schedule->options.prefills_max) return true;
    struct mr_queue_entry *next = mr_request_queue_first_of(schedule->options.queue, tenant);
    return next != NULL &&
           mr_schedule_may_start_beside(schedule, &mr_job_of_waiting(next)->sequences[0]);
}

/* Whether the tenant's next request waits for no cache and the sink lets it start: nothing is
 * preempted for a request that could not take the place. */
static bool may_start(struct mr_schedule *schedule, uint32_t tenant)
{
    struct mr_queue_entry *next = mr_request_queue_first_of(schedule->options.queue, tenant);
    if (next == NULL) return false;
    struct mr_job *job = mr_job_of_waiting(next);
    return !mr_schedule_waits_for_cache(schedule, &job->sequences[0]) &&
           mr_schedule_may_start(schedule, job);
}

void mr_rebalance(struct mr_schedule *schedule)
{
    struct mr_request_queue *queue = schedule->options.queue;
    uint32_t taken[MR_TENANTS_MAX], parts[MR_TENANTS_MAX];
    if (schedule->running_count < schedule->options.sequences_max ||
        schedule->job_count >= schedule->jobs_max)
        return;
    count_places(schedule, taken);
    mr_request_queue_divide(queue, schedule->options.sequences_max, taken, parts);
    uint32_t least = find_least_served(queue, taken, parts);
    if (least == MR_TENANT_NONE || !could_start(schedule, least)) return;
    struct mr_sequence *victim = find_victim(schedule, least, taken, parts);
    if (victim == NULL || !may_start(schedule, least)) return;
    mr_schedule_preempt(schedule, victim);
    schedule->round.reserved_tenant = least;
}
