#include "codec/records/data.h"

const struct mr_data *mr_data_get(const struct mr_data *map, const char *name)
{
    for (size_t i = 0; map->kind == MR_DATA_MAP && i < map->map.count; i++)
        if (mr_text_is(map->map.members[i].name, name)) return &map->map.members[i].value;
    return NULL;
}
