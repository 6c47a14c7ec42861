#include "worker/intake/partition_requests.h"

struct visit {
    const struct mr_partition_requests *requests;
    const struct mr_partition *partition; /* NULL: the requests of all partitions */
    void (*change)(struct mr_starts *starts, struct mr_ticket *ticket);
    uint32_t count;
};

static void change_running(void *context, struct mr_ticket *ticket)
{
    const struct visit *visit = context;
    bool here = !visit->partition || ticket->intake.partition == visit->partition;
    if (here && ticket->intake.running && mr_partition_is_current(ticket))
        visit->change(visit->requests->starts, ticket);
}

void mr_partition_requests_change(const struct mr_partition_requests *requests,
                                  const struct mr_partition *partition,
                                  void (*change)(struct mr_starts *starts,
                                                 struct mr_ticket *ticket))
{
    struct visit visit = {.requests = requests, .partition = partition, .change = change};
    mr_ticket_table_each(requests->flight->submitted, change_running, &visit);
}

static void drop_if_old(void *context, struct mr_ticket *ticket)
{
    const struct visit *visit = context;
    if (ticket->intake.partition != visit->partition || mr_partition_is_current(ticket)) return;
    if (atomic_exchange(&ticket->dropped, true)) return;
    mr_engine_link_cancel(visit->requests->engine, ticket->tenant_index, mr_ticket_id(ticket));
}

void mr_partition_requests_drop_old(const struct mr_partition_requests *requests,
                                    const struct mr_partition *partition)
{
    struct visit visit = {.requests = requests, .partition = partition};
    mr_ticket_table_each(requests->flight->submitted, drop_if_old, &visit);
}

/* ---- struct mr_request_port ---- */

static bool can_end(void *self)
{
    return !mr_engine_link_is_closed(((struct mr_partition_requests *)self)->engine);
}

static void add_if_revoking(void *context, struct mr_ticket *ticket)
{
    struct visit *visit = context;
    visit->count += ticket->intake.running && ticket->intake.partition->revoking &&
                    mr_partition_is_current(ticket);
}

static uint32_t count_revoking(void *self)
{
    const struct mr_partition_requests *requests = self;
    struct visit visit = {.requests = requests};
    mr_ticket_table_each(requests->flight->submitted, add_if_revoking, &visit);
    return visit.count;
}

static void resume(void *self, const struct mr_partition *partition)
{
    mr_partition_requests_change(self, partition, mr_starts_resume);
}

static void release(void *self, const struct mr_partition *partition)
{
    mr_partition_requests_change(self, partition, mr_starts_release);
}

static void retry_parked(void *self)
{
    ((struct mr_partition_requests *)self)->flight->retry_parked = true;
}

static void forget(void *self, struct mr_partition *partition)
{
    release(self, partition);
    if (partition->acked_version < mr_offset_ledger_version(partition->ledger))
        mr_partition_requests_change(self, partition, mr_starts_hand_over);
    mr_partition_forget(partition);
    mr_partition_requests_drop_old(self, partition);
    retry_parked(self);
}

static void drop_old(void *self, const struct mr_partition *partition)
{
    mr_partition_requests_drop_old(self, partition);
}

struct mr_request_port mr_partition_requests_port(struct mr_partition_requests *requests)
{
    return (struct mr_request_port){.self = requests,
                                    .can_end = can_end,
                                    .count_revoking = count_revoking,
                                    .resume = resume,
                                    .release = release,
                                    .forget = forget,
                                    .drop_old = drop_old,
                                    .retry_parked = retry_parked};
}
