#include "codec/unicode/charsmap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct mr_charsmap {
    uint32_t *units; /* [unit_count] the double array */
    size_t unit_count;
    char *texts; /* [text_bytes] replacements, each ended by a byte of value 0, as is the block */
    size_t text_bytes;
};

static uint32_t word_at(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

enum mr_status mr_charsmap_create(struct mr_charsmap **out, struct mr_text block,
                                  struct mr_error *err)
{
    *out = NULL;
    size_t size = block.length >= 4 ? word_at(block.bytes) : 0;
    if (size == 0 || size % 4 != 0 || size > block.length - 4)
        return mr_fail(err, MR_BAD_FILE, "the precompiled character map is damaged");
    struct mr_charsmap *map = calloc(1, sizeof *map);
    if (!map) return mr_fail(err, MR_NOMEM, "no memory for a character map");
    map->unit_count = size / 4;
    map->text_bytes = block.length - 4 - size;
    map->units = calloc(map->unit_count, sizeof *map->units);
    map->texts = malloc(map->text_bytes + 1);
    if (!map->units || !map->texts) {
        mr_charsmap_destroy(map);
        return mr_fail(err, MR_NOMEM, "no memory for a character map");
    }
    for (size_t i = 0; i < map->unit_count; i++)
        map->units[i] = word_at(block.bytes + 4 + i * 4);
    memcpy(map->texts, block.bytes + 4 + size, map->text_bytes);
    map->texts[map->text_bytes] = '\0';
    *out = map;
    return MR_OK;
}

void mr_charsmap_destroy(struct mr_charsmap *map)
{
    if (!map) return;
    free(map->units);
    free(map->texts);
    free(map);
}

/* Fields of a unit: the byte that leads to it; the distance of its children; and whether the text
 * so far is a sequence of the map, whose value is then in the unit at that distance. */
static uint32_t label_of(uint32_t unit)
{
    return unit & (0x80000000u | 0xffu);
}

static size_t distance_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 0x200u) >> 6);
}

static bool has_value(uint32_t unit)
{
    return (unit >> 8 & 1u) != 0;
}

size_t mr_charsmap_find(const struct mr_charsmap *map, struct mr_text text, bool shortest,
                        struct mr_text *replacement)
{
    size_t found = 0, at = distance_of(map->units[0]);
    for (size_t i = 0; i < text.length && (found == 0 || !shortest); i++) {
        unsigned char byte = (unsigned char)text.bytes[i];
        at ^= byte;
        if (at >= map->unit_count || label_of(map->units[at]) != byte) break;
        uint32_t unit = map->units[at];
        at ^= distance_of(unit);
        if (!has_value(unit)) continue;
        if (at >= map->unit_count) break;
        size_t start = map->units[at] & 0x7fffffffu;
        if (start > map->text_bytes) break;
        found = i + 1;
        *replacement = (struct mr_text){map->texts + start, strlen(map->texts + start)};
    }
    return found;
}
