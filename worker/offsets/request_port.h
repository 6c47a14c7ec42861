/* request_port - the operations on the requests of partitions that worker/offsets/ownership.h
 * needs. Intake keeps the requests and fills the port (worker/intake/partition_requests.h), because
 * intake includes this folder, which must not include intake.
 *
 * A request is "running" from the time its start is recorded in the offset ledger until its ticket
 * ends.
 *
 * Threads: intake. Memory: none. Errors: none. */
#ifndef MR_WORKER_OFFSETS_REQUEST_PORT_H
#define MR_WORKER_OFFSETS_REQUEST_PORT_H

#include "worker/offsets/partition.h"

struct mr_request_port {
    void *self;
    /* Whether running requests can still end; false: the engine is closed. */
    bool (*can_end)(void *self);
    /* Number of running requests of partitions that are being revoked. */
    uint32_t (*count_revoking)(void *self);
    /* The partition is assigned to this worker again: its running requests continue. */
    void (*resume)(void *self, const struct mr_partition *partition);
    /* Records that the partition's running requests are stopped on purpose, so that no worker
     * counts a crash. */
    void (*release)(void *self, const struct mr_partition *partition);
    /* Releases the partition's running requests, sets the partition's state to MR_PARTITION_NONE
     * and drops its requests. A release that no acknowledged commit contains is written to the
     * handover file. */
    void (*forget)(void *self, struct mr_partition *partition);
    /* Drops the requests that were taken in an earlier ownership of the partition: the engine
     * cancels them and publish writes nothing more for them. */
    void (*drop_old)(void *self, const struct mr_partition *partition);
    /* Requests that wait in intake may be submittable now. */
    void (*retry_parked)(void *self);
};

#endif
