#include "batching/scheduler/shares.h"

#include "batching/scheduler/schedule.h"

void mr_shares_update(struct mr_schedule *schedule)
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

bool mr_shares_is_above(const struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    const struct mr_shares *shares = &schedule->round.shares;
    uint32_t tenant = sequence->job->tenant_index;
    return shares->blocks[tenant] > shares->block_parts[tenant];
}

uint32_t mr_shares_block_limit(const struct mr_schedule *schedule, uint32_t tenant)
{
    const uint32_t part = schedule->round.shares.block_parts[tenant];
    return part - part / MR_WATERMARK_PART;
}

void mr_shares_release(struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    struct mr_shares *shares = &schedule->round.shares;
    uint32_t tenant = sequence->job->tenant_index, held = sequence->table->block_count;
    if (schedule->options.tenant_count <= 1) return;
    shares->places[tenant] -= shares->places[tenant] > 0;
    shares->blocks[tenant] -= held < shares->blocks[tenant] ? held : shares->blocks[tenant];
}
