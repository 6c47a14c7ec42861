#include "worker/intake/cancel_memory.h"

#include <string.h>

void mr_cancel_memory_add(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                          int64_t stamp_ms, uint64_t now_ns)
{
    unsigned char note[MR_ID_NOTE_BYTES] = {0};
    memcpy(note, &stamp_ms, sizeof stamp_ms);
    mr_id_memory_put(memory, tenant_index, id, note, now_ns);
}

bool mr_cancel_memory_take(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                           int64_t stamp_ms, uint64_t now_ns)
{
    unsigned char note[MR_ID_NOTE_BYTES];
    int64_t cancelled_ms;
    if (!mr_id_memory_get(memory, tenant_index, id, note, now_ns)) return false;
    memcpy(&cancelled_ms, note, sizeof cancelled_ms);
    mr_id_memory_remove(memory, tenant_index, id);
    return stamp_ms <= 0 || cancelled_ms <= 0 || stamp_ms <= cancelled_ms + MR_CANCEL_SKEW_MS;
}
