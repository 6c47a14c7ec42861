/* write_gate - whether publish may write terminal records for the requests of one partition.
 *
 * Intake opens the gate while the partition is assigned to this worker, and closes it before the
 * partition is revoked. When the partition was lost or assigned anew intake raises the epoch:
 * requests of an older epoch may not write any more. The gate counts the requests whose terminal
 * records are being written, so that intake can wait for them before it commits.
 *
 * Threads: _set intake; _admit and _acknowledge publish; the rest any. Memory: the struct, zeroed
 *          at first (closed). Errors: none. */
#ifndef MR_WORKER_TICKET_WRITE_GATE_H
#define MR_WORKER_TICKET_WRITE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum mr_write_permit {
    MR_WRITE_OPEN,
    MR_WRITE_HELD,  /* not now: the partition is being revoked or suspended */
    MR_WRITE_CLOSED /* never: the request is of an older epoch */
};

struct mr_write_gate {
    _Atomic uint64_t state;     /* epoch << 1, then one bit: open */
    atomic_uint unacknowledged; /* requests whose terminal records are in flight */
};

void mr_write_gate_set(struct mr_write_gate *gate, uint64_t epoch, bool open);
/* Whether a request of this epoch may write its terminal records now. */
enum mr_write_permit mr_write_gate_look(const struct mr_write_gate *gate, uint64_t epoch);
/* The same. On MR_WRITE_OPEN the request is counted as unacknowledged until _acknowledge. */
enum mr_write_permit mr_write_gate_admit(struct mr_write_gate *gate, uint64_t epoch);
void mr_write_gate_acknowledge(struct mr_write_gate *gate);
uint32_t mr_write_gate_unacknowledged(const struct mr_write_gate *gate);

#endif
