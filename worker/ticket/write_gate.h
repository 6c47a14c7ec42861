/* write_gate - whether publish may write terminal records (result, reply, dead letter) for the
 * requests of one partition.
 *
 * Intake opens the gate while the partition is assigned to this worker. While the partition is
 * being revoked, requests whose terminal records are partly written may write the rest for a short
 * time
 * (_finish); then the gate is held. When the partition is lost or assigned again, intake raises the
 * epoch (the number of the ownership): requests of an older epoch may no longer write. The gate
 * counts the requests whose terminal records are in flight, so that intake can wait for those
 * records before it commits.
 *
 * Publish reads the gate before it passes a record to the producer. A record passed earlier may
 * still reach the broker later. At worst a result is repeated, because the next owner runs the
 * request again.
 *
 * Threads: intake calls _set and _finish; publish calls _admit and _acknowledge; any thread the
 *          others.
 * Memory:  the struct; a zeroed struct is a closed gate. Errors: none. */
#ifndef MR_WORKER_TICKET_WRITE_GATE_H
#define MR_WORKER_TICKET_WRITE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum mr_write_permit {
    MR_WRITE_OPEN,
    MR_WRITE_HELD,  /* not now: the partition is being revoked, or is suspended in a rebalance */
    MR_WRITE_CLOSED /* never: the request was taken in an earlier ownership of the partition */
};

struct mr_write_gate {
    _Atomic uint64_t state; /* epoch of the ownership << 2, plus HELD, OPEN or FINISHING */
    /* number of requests whose terminal records (result, reply, dead letter) are in flight */
    atomic_uint unacknowledged;
};

void mr_write_gate_set(struct mr_write_gate *gate, uint64_t epoch, bool open);
/* From now on only requests that _admit has already admitted may write. */
void mr_write_gate_finish(struct mr_write_gate *gate, uint64_t epoch);
/* Whether a request that _admit admitted in this epoch may write its next terminal record now. */
enum mr_write_permit mr_write_gate_continue(const struct mr_write_gate *gate, uint64_t epoch);
/* Whether a request that was taken in this epoch may write its first terminal record now. */
enum mr_write_permit mr_write_gate_look(const struct mr_write_gate *gate, uint64_t epoch);
/* As mr_write_gate_look; with MR_WRITE_OPEN the request is also treated as unacknowledged until
 * mr_write_gate_acknowledge. */
enum mr_write_permit mr_write_gate_admit(struct mr_write_gate *gate, uint64_t epoch);
void mr_write_gate_acknowledge(struct mr_write_gate *gate);
uint32_t mr_write_gate_unacknowledged(const struct mr_write_gate *gate);

#endif
