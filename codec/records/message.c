#include "codec/records/message.h"

#include "codec/tools/tool_calls.h"

#include <string.h>

#define OPEN_TAG  "<think>"
#define CLOSE_TAG "</think>"

/* The place of a tag in the text, text.length without one. */
static size_t place_of(struct mr_text text, const char *tag)
{
    size_t length = strlen(tag);
    for (size_t at = 0; at + length <= text.length; at++)
        if (memcmp(text.bytes + at, tag, length) == 0) return at;
    return text.length;
}

static struct mr_text trimmed(struct mr_text text)
{
    size_t start = 0, end = text.length;
    while (end > 0 && mr_text_is_space(text.bytes[end - 1]))
        end--;
    while (start < end && mr_text_is_space(text.bytes[start]))
        start++;
    return mr_text_part(text, start, end);
}

/* Returns the text behind the reasoning. */
static struct mr_text split_reasoning(struct mr_text text, struct mr_text *reasoning)
{
    struct mr_text inner = trimmed(text);
    bool opened = place_of(inner, OPEN_TAG) == 0 && inner.length >= strlen(OPEN_TAG);
    size_t close = place_of(text, CLOSE_TAG);
    *reasoning = (struct mr_text){"", 0};
    if (close == text.length && !opened) return text;
    inner = trimmed(mr_text_part(text, 0, close));
    if (opened) inner = trimmed(mr_text_part(inner, strlen(OPEN_TAG), inner.length));
    *reasoning = inner;
    size_t after = close == text.length ? close : close + strlen(CLOSE_TAG);
    return mr_text_part(text, after, text.length);
}

enum mr_status mr_message_split(struct mr_choice *choice, const struct mr_request *request,
                                struct mr_arena *arena, struct mr_error *err)
{
    const struct mr_tool_use *use = &request->tool_use;
    struct mr_text reasoning;
    if (use->format == MR_TOOLS_NONE && !use->separate_reasoning) return MR_OK;
    struct mr_tool_calls *found = mr_arena_take(arena, sizeof *found);
    if (!found) return mr_fail(err, MR_NOMEM, "no memory for tool calls");
    size_t echoed = request->echoed.length < choice->text.length ? request->echoed.length : 0;
    struct mr_text rest =
        split_reasoning(mr_text_part(choice->text, echoed, choice->text.length), &reasoning);
    found->format = use->format;
    found->count_max = use->single ? 1 : MR_TOOL_CALLS_MAX;
    found->arena = arena;
    enum mr_status status = mr_tool_calls_find(found, rest, true, err);
    if (status != MR_OK) return status;
    choice->content = mr_tool_calls_rest(found, rest);
    if (!choice->content.bytes) return mr_fail(err, MR_NOMEM, "no memory for tool calls");
    choice->parsed = true;
    choice->tool_calls = found->calls;
    choice->tool_call_count = found->count;
    if (use->separate_reasoning) choice->reasoning = reasoning;
    return MR_OK;
}
