#include "batching/base/peak_blocks.h"

#include "codec/check.h"

uint32_t mr_peak_blocks_insert(struct mr_peak_blocks_entry *entries, uint32_t count,
                               struct mr_peak_blocks_entry entry)
{
    uint32_t place = count;
    while (place > 0 && entries[place - 1].left < entry.left) {
        entries[place] = entries[place - 1];
        place--;
    }
    entries[place] = entry;
    return place;
}

static uint32_t growth(const struct mr_peak_blocks_entry *entry, uint32_t tokens)
{
    uint32_t blocks = mr_blocks_for(entry->tokens + tokens);
    return blocks > entry->blocks ? blocks - entry->blocks : 0;
}

/* Upper bound of the peak of KV blocks. Each sequence's growth is rounded up to whole blocks, so
 * the bound is never too low, and at most one block too high for each sequence. */
static uint32_t upper_bound(const struct mr_peak_blocks_entry *entries, uint32_t count)
{
    uint32_t peak = 0, present = 0;
    for (uint32_t i = 0; i < count; i++) {
        present += entries[i].unique + growth(&entries[i], 0);
        uint32_t then = present + (i + 1) * mr_blocks_for(entries[i].left);
        peak = then > peak ? then : peak;
    }
    return peak;
}

uint32_t mr_peak_blocks_most(const struct mr_peak_blocks_entry *entries, uint32_t count,
                             uint32_t enough)
{
    uint32_t peak = upper_bound(entries, count);
    if (peak <= enough) return peak;
    peak = 0;
    uint32_t held = 0;
    for (uint32_t i = 0; i < count; i++) {
        MR_ASSERT(i == 0 || entries[i - 1].left >= entries[i].left);
        held += entries[i].unique;
        uint32_t then = held;
        for (uint32_t j = 0; j <= i; j++)
            then += growth(&entries[j], entries[i].left);
        peak = then > peak ? then : peak;
    }
    return peak;
}
