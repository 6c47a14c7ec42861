#include "worker/ticket/write_gate.h"

#include "codec/check.h"

void mr_write_gate_set(struct mr_write_gate *gate, uint64_t epoch, bool open)
{
    atomic_store(&gate->state, epoch << 1 | (open ? 1u : 0u));
}

enum mr_write_permit mr_write_gate_look(const struct mr_write_gate *gate, uint64_t epoch)
{
    uint64_t state = atomic_load(&gate->state);
    if (state == (epoch << 1 | 1u)) return MR_WRITE_OPEN;
    return state == epoch << 1 ? MR_WRITE_HELD : MR_WRITE_CLOSED;
}

enum mr_write_permit mr_write_gate_admit(struct mr_write_gate *gate, uint64_t epoch)
{
    /* Publish first counts a request and then reads the gate; intake first closes the gate and then
     * reads the count. So publish sees the closed gate, or intake sees the counted request, or
     * both. */
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
