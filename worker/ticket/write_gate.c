#include "worker/ticket/write_gate.h"

#include "codec/check.h"

enum { HELD, OPEN, FINISHING, MODE_BITS };

static void set(struct mr_write_gate *gate, uint64_t epoch, unsigned mode)
{
    atomic_store(&gate->state, epoch << 2 | mode);
}

void mr_write_gate_set(struct mr_write_gate *gate, uint64_t epoch, bool open)
{
    set(gate, epoch, open ? OPEN : HELD);
}

void mr_write_gate_finish(struct mr_write_gate *gate, uint64_t epoch)
{
    set(gate, epoch, FINISHING);
}

static enum mr_write_permit permit(const struct mr_write_gate *gate, uint64_t epoch, bool admitted)
{
    uint64_t state = atomic_load(&gate->state);
    unsigned mode = (unsigned)(state & MODE_BITS);
    if (state >> 2 != epoch) return MR_WRITE_CLOSED;
    return mode == OPEN || (mode == FINISHING && admitted) ? MR_WRITE_OPEN : MR_WRITE_HELD;
}

enum mr_write_permit mr_write_gate_look(const struct mr_write_gate *gate, uint64_t epoch)
{
    return permit(gate, epoch, false);
}

enum mr_write_permit mr_write_gate_continue(const struct mr_write_gate *gate, uint64_t epoch)
{
    return permit(gate, epoch, true);
}

enum mr_write_permit mr_write_gate_admit(struct mr_write_gate *gate, uint64_t epoch)
{
    /* Publish counts the request and then reads the gate; intake closes the gate and then reads the
     * count. So publish sees the closed gate, or intake sees the counted request. */
    atomic_fetch_add(&gate->unacknowledged, 1);
    enum mr_write_permit permit = mr_write_gate_look(gate, epoch);
    if (permit != MR_WRITE_OPEN) atomic_fetch_sub(&gate->unacknowledged, 1);
    return permit;
}

void mr_write_gate_acknowledge(struct mr_write_gate *gate)
{
    unsigned before = atomic_fetch_sub(&gate->unacknowledged, 1);
    MR_ASSERT(before > 0);
}

uint32_t mr_write_gate_unacknowledged(const struct mr_write_gate *gate)
{
    return atomic_load(&gate->unacknowledged);
}
