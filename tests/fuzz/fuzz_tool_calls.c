/* Tool calls: the calls found while a text grows are those found in the whole text. Calls do not
 * overlap, and the work is bounded.
 *
 * Input: a byte that selects the format; a byte with the size of the pieces (low four bits) and the
 * maximum number of calls (high four bits); then the text. */
#include "codec/limits.h"
#include "codec/tools/tool_calls.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static const struct mr_tool_types *types_of_f(void)
{
    static const struct mr_tool_parameter parameters[] = {
        {{"f", 1}, {"i", 1}, MR_TOOL_INTEGER},
        {{"f", 1}, {"n", 1}, MR_TOOL_NUMBER},
        {{"f", 1}, {"b", 1}, MR_TOOL_BOOL},
        {{"f", 1}, {"j", 1}, MR_TOOL_JSON},
        {{"f", 1}, {"t", 1}, MR_TOOL_TEXT_OR_NULL}};
    static struct mr_tool_types *types;
    struct mr_error err;
    if (!types) MR_ASSERT(mr_tool_types_create(&types, parameters, 5, &err) == MR_OK);
    return types;
}

/* The settings of all searches in one input. */
struct search {
    enum mr_tool_format format;
    size_t count_max;
    struct mr_arena *arena;
};

static struct mr_tool_calls *find(const struct search *search, struct mr_text text, size_t step)
{
    struct mr_tool_calls *found = mr_arena_take(search->arena, sizeof *found);
    struct mr_error err;
    MR_ASSERT(found);
    found->format = search->format;
    found->count_max = search->count_max;
    found->arena = search->arena;
    found->types = types_of_f();
    for (size_t length = step; step > 0 && length < text.length; length += step)
        MR_ASSERT(mr_tool_calls_find(found, mr_text_part(text, 0, length), false, &err) == MR_OK);
    MR_ASSERT(mr_tool_calls_find(found, text, true, &err) == MR_OK);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    enum mr_tool_format format = (enum mr_tool_format)(fuzz_u8(&cursor) % MR_TOOLS_FORMAT_COUNT);
    uint8_t byte = fuzz_u8(&cursor);
    size_t step = byte % 16u + 1, least = format == MR_TOOLS_LLAMA || format == MR_TOOLS_PYTHONIC;
    size_t count_max = byte < 16 ? MR_TOOL_CALLS_MAX : byte / 16u - 1;
    if (count_max < least) count_max = least;
    struct mr_text text = fuzz_take(&cursor, cursor.left);
    if (!text.bytes) text.bytes = "";
    struct mr_arena *arena = mr_arena_create((size_t)64 << 20);
    MR_ASSERT(arena);
    const struct search search = {format, count_max, arena};
    const struct mr_tool_calls *whole = find(&search, text, 0);
    const struct mr_tool_calls *parts = find(&search, text, step);
    size_t end = 0;
    MR_ASSERT(whole->count <= count_max);
    MR_ASSERT(whole->count == parts->count && whole->place_count == parts->place_count);
    for (size_t i = 0; i < whole->count; i++) {
        MR_ASSERT(mr_text_equal(whole->calls[i].name, parts->calls[i].name));
        MR_ASSERT(mr_text_equal(whole->calls[i].arguments, parts->calls[i].arguments));
    }
    MR_ASSERT(whole->from == text.length);
    for (size_t i = 0; i < whole->place_count; i++) {
        MR_ASSERT(whole->places[i].start >= end && whole->places[i].end > whole->places[i].start);
        MR_ASSERT(whole->places[i].start == parts->places[i].start);
        MR_ASSERT(whole->places[i].end == parts->places[i].end);
        end = whole->places[i].end;
    }
    MR_ASSERT(end <= text.length && whole->work <= MR_TOOL_WORK_MAX + text.length);
    if (format == MR_TOOLS_QWEN_CODER) MR_ASSERT(whole->work <= 2 * text.length);
    mr_arena_destroy(arena);
    return 0;
}
