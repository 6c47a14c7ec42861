/* write_gate - whether publish may write what ends a request of one partition.
 *
 * Intake opens the gate while the partition is assigned to this worker, holds it before the
 * partition is given away, and raises the epoch when the partition has been lost or assigned anew:
 * a request of an older epoch may not write at all. Requests whose terminal record was admitted and
 * is not acknowledged yet are counted, so that intake can wait for them before it commits.
 *
 * Threads: _set intake; _admit and _acknowledge publish; the rest any. Memory: the struct, zeroed
 *          at first (closed). Errors: none. */
#ifndef MR_WORKER_TICKET_WRITE_GATE_H
#define MR_WORKER_TICKET_WRITE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum mr_write_permit { MR_WRITE_OPEN, MR_WRITE_HELD, MR_WRITE_CLOSED };

struct mr_write_gate {
    _Atomic uint64_t state;     /* epoch << 1, then one bit: open */
    atomic_uint unacknowledged; /* requests admitted whose terminal record is in flight */
};

void mr_write_gate_set(struct mr_write_gate *gate, uint64_t epoch, bool open);
/* Whether a request of this epoch may write its terminal record now. */
enum mr_write_permit mr_write_gate_look(const struct mr_write_gate *gate, uint64_t epoch);
/* The same; when MR_WRITE_OPEN the request counts as unacknowledged until _acknowledge. */
enum mr_write_permit mr_write_gate_admit(struct mr_write_gate *gate, uint64_t epoch);
void mr_write_gate_acknowledge(struct mr_write_gate *gate);
uint32_t mr_write_gate_unacknowledged(const struct mr_write_gate *gate);

#endif
