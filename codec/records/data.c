#include "codec/records/data.h"

const struct mr_data *mr_data_get(const struct mr_data *map, const char *name)
{
    for (size_t i = 0; map->kind == MR_DATA_MAP && i < map->map.count; i++)
        if (mr_text_is(map->map.members[i].name, name)) return &map->map.members[i].value;
    return NULL;
}

const struct mr_data *mr_data_part_text(const struct mr_data *part)
{
    static const char *const names[] = {"text", "refusal", "thinking"};
    if (part->kind == MR_DATA_TEXT) return part;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct mr_data *text = mr_data_get(part, names[i]);
        if (text && text->kind == MR_DATA_TEXT) return text;
    }
    return NULL;
}
