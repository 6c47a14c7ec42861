#include "codec/tools/tool_types.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

static int compare_texts(struct mr_text a, struct mr_text b)
{
    size_t common = a.length < b.length ? a.length : b.length;
    int order = common > 0 ? memcmp(a.bytes, b.bytes, common) : 0;
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare(const struct mr_tool_parameter *a, const struct mr_tool_parameter *b)
{
    int order = compare_texts(a->tool, b->tool);
    return order != 0 ? order : compare_texts(a->name, b->name);
}

/* Compares two pointers into one array. Equal parameters keep the order of the array. */
static int compare_places(const void *a, const void *b)
{
    const struct mr_tool_parameter *one = *(const struct mr_tool_parameter *const *)a;
    const struct mr_tool_parameter *other = *(const struct mr_tool_parameter *const *)b;
    int order = compare(one, other);
    return order != 0 ? order : (one > other) - (one < other);
}

static int compare_entries(const void *key, const void *entry)
{
    return compare(key, entry);
}

static struct mr_text copy_to(char **at, struct mr_text text)
{
    struct mr_text copy = {*at, text.length};
    if (text.length > 0) memcpy(*at, text.bytes, text.length);
    *at += text.length;
    return copy;
}

/* True if places[i] has the same tool as the entry before it. */
static bool has_tool(const struct mr_tool_parameter *const *places, size_t i)
{
    return i > 0 && mr_text_equal(places[i]->tool, places[i - 1]->tool);
}

/* Creates the list from the sorted places. */
static struct mr_tool_types *copy_sorted(const struct mr_tool_parameter *const *places,
                                         size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += places[i]->name.length + (has_tool(places, i) ? 0 : places[i]->tool.length);
    struct mr_tool_types *types = malloc(sizeof *types + count * sizeof *types->parameters + bytes);
    if (!types) return NULL;
    *types = (struct mr_tool_types){0, (struct mr_tool_parameter *)(void *)(types + 1)};
    char *at = (char *)(types->parameters + count);
    struct mr_text tool = {at, 0};
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && compare(places[i], places[i - 1]) == 0) continue;
        if (!has_tool(places, i)) tool = copy_to(&at, places[i]->tool);
        types->parameters[types->count++] =
            (struct mr_tool_parameter){tool, copy_to(&at, places[i]->name), places[i]->type};
    }
    return types;
}

enum mr_status mr_tool_types_create(struct mr_tool_types **out,
                                    const struct mr_tool_parameter *parameters, size_t count,
                                    struct mr_error *err)
{
    MR_ASSERT(count <= MR_TOOL_TYPES_MAX);
    const struct mr_tool_parameter **places = calloc(count + 1, sizeof *places);
    *out = NULL;
    for (size_t i = 0; places && i < count; i++) {
        MR_ASSERT(parameters[i].tool.length <= MR_TOOL_NAME_BYTES_MAX);
        MR_ASSERT(parameters[i].name.length <= MR_TOOL_NAME_BYTES_MAX);
        places[i] = &parameters[i];
    }
    if (places) {
        qsort(places, count, sizeof *places, compare_places);
        *out = copy_sorted(places, count);
    }
    free(places);
    return *out ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for the types of tools");
}

enum mr_tool_type mr_tool_types_find(const struct mr_tool_types *types, struct mr_text tool,
                                     struct mr_text name)
{
    const struct mr_tool_parameter key = {tool, name, MR_TOOL_TEXT};
    if (!types || types->count == 0) return MR_TOOL_TEXT;
    const struct mr_tool_parameter *found =
        bsearch(&key, types->parameters, types->count, sizeof *types->parameters, compare_entries);
    return found ? found->type : MR_TOOL_TEXT;
}

void mr_tool_types_check(const struct mr_tool_types *types)
{
    for (size_t i = 1; types && i < types->count; i++)
        MR_ASSERT(compare(&types->parameters[i - 1], &types->parameters[i]) < 0);
}
