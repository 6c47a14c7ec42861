/* Places between tenants: when all are taken, one that was served less is not kept out until the
 * others' answers end. */
#include "batching/scheduler/scheduler_state.h"

static void count_places(const struct mr_scheduler *scheduler, uint32_t taken[MR_TENANTS_MAX])
{
    for (uint32_t i = 0; i < MR_TENANTS_MAX; i++)
        taken[i] = 0;
    for (uint32_t i = 0; i < scheduler->running_count; i++)
        taken[scheduler->running[i]->job->tenant_index]++;
}

/* Of the waiting tenants with fewer places than their part the one served least. */
static uint32_t find_poorest(struct mr_request_queue *queue, const uint32_t *taken,
                             const uint32_t *parts)
{
    uint64_t waiting = mr_request_queue_waiting(queue);
    uint32_t poorest = MR_TENANT_NONE;
    for (uint32_t i = 0; i < MR_TENANTS_MAX; i++)
        if ((waiting >> i & 1) && taken[i] < parts[i] &&
            (poorest == MR_TENANT_NONE || mr_request_queue_is_behind(queue, i, poorest, 0)))
            poorest = i;
    return poorest;
}

/* What it was charged for the prompts it runs now: paid in advance, not yet served. */
static uint64_t prompts_of(const struct mr_scheduler *scheduler, uint32_t tenant)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < scheduler->running_count; i++)
        if (scheduler->running[i]->job->tenant_index == tenant)
            cost += (uint64_t)scheduler->running[i]->prompt_tokens * MR_PROMPT_TOKEN_COST;
    return cost;
}

/* The last in rank of a tenant that has more places than its part and was served more. */
static struct mr_sequence *find_victim(const struct mr_scheduler *scheduler, uint32_t poorest,
                                       const uint32_t *taken, const uint32_t *parts)
{
    uint64_t allowance = prompts_of(scheduler, poorest);
    for (uint32_t i = scheduler->running_count; i-- > 0;) {
        uint32_t tenant = scheduler->running[i]->job->tenant_index;
        if (tenant != poorest && taken[tenant] > parts[tenant] &&
            mr_request_queue_is_behind(scheduler->options.queue, poorest, tenant, allowance))
            return scheduler->running[i];
    }
    return NULL;
}

void mr_scheduler_even_out(struct mr_scheduler *scheduler)
{
    struct mr_request_queue *queue = scheduler->options.queue;
    uint32_t taken[MR_TENANTS_MAX], parts[MR_TENANTS_MAX];
    if (scheduler->running_count < scheduler->options.sequences_max ||
        scheduler->job_count >= scheduler->jobs_max)
        return;
    count_places(scheduler, taken);
    mr_request_queue_divide(queue, scheduler->options.sequences_max, taken, parts);
    uint32_t poorest = find_poorest(queue, taken, parts);
    if (poorest == MR_TENANT_NONE) return;
    struct mr_sequence *victim = find_victim(scheduler, poorest, taken, parts);
    if (victim == NULL) return;
    mr_scheduler_preempt(scheduler, victim);
    scheduler->round.favoured = true;
    scheduler->round.favoured_tenant = poorest;
}
