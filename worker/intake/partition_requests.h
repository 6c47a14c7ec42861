/* partition_requests - the requests of one partition, changed together when the partition is
 * revoked, lost or assigned. Fills struct mr_request_port for worker/offsets/ownership.h.
 *
 * Owner:  intake thread. Memory: none. Errors: none. */
#ifndef MR_WORKER_INTAKE_PARTITION_REQUESTS_H
#define MR_WORKER_INTAKE_PARTITION_REQUESTS_H

#include "worker/intake/engine_link.h"
#include "worker/intake/starts.h"
#include "worker/offsets/request_port.h"

/* All pointers are borrowed. */
struct mr_partition_requests {
    struct mr_flight *flight;
    struct mr_starts *starts;
    struct mr_engine_link *engine;
};

struct mr_request_port mr_partition_requests_port(struct mr_partition_requests *requests);
/* Calls `change` for each running request of the partition in its current ownership. partition
 * NULL: of all partitions. change: mr_starts_release, mr_starts_resume or mr_starts_hand_over. */
void mr_partition_requests_change(const struct mr_partition_requests *requests,
                                  const struct mr_partition *partition,
                                  void (*change)(struct mr_starts *starts,
                                                 struct mr_ticket *ticket));
/* Drops the requests that were taken in an earlier ownership of the partition. */
void mr_partition_requests_drop_old(const struct mr_partition_requests *requests,
                                    const struct mr_partition *partition);

#endif
