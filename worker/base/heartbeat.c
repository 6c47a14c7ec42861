#include "worker/base/heartbeat.h"

#include <stddef.h>

struct mr_heartbeat *mr_heartbeat_add(struct mr_heartbeats *beats, const char *name,
                                      uint64_t bound_ns)
{
    for (unsigned i = 0; beats && i < MR_HEARTBEATS_MAX; i++) {
        struct mr_heartbeat *beat = &beats->all[i];
        if (atomic_exchange(&beat->used, true)) continue;
        atomic_store(&beat->name, name);
        atomic_store(&beat->bound_ns, bound_ns);
        return beat;
    }
    return NULL;
}

void mr_heartbeat_remove(struct mr_heartbeat *beat)
{
    if (!beat) return;
    atomic_store(&beat->since_ns, 0);
    atomic_store(&beat->used, false);
}

void mr_heartbeat_begin(struct mr_heartbeat *beat, uint64_t now_ns)
{
    if (beat) atomic_store_explicit(&beat->since_ns, now_ns, memory_order_relaxed);
}

void mr_heartbeat_end(struct mr_heartbeat *beat)
{
    if (beat) atomic_store_explicit(&beat->since_ns, 0, memory_order_relaxed);
}

const char *mr_heartbeat_stuck(struct mr_heartbeats *beats, uint64_t now_ns, uint64_t *since_ns)
{
    for (unsigned i = 0; i < MR_HEARTBEATS_MAX; i++) {
        struct mr_heartbeat *beat = &beats->all[i];
        if (!atomic_load(&beat->used)) continue;
        *since_ns = atomic_load(&beat->since_ns);
        if (*since_ns > 0 && now_ns > *since_ns &&
            now_ns - *since_ns > atomic_load(&beat->bound_ns))
            return atomic_load(&beat->name);
    }
    return NULL;
}
