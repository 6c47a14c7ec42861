#include "codec/records/opened.h"

#include "codec/constraint/constraint.h"

#include <string.h>

/* The end of the last occurrence of a word in the text; 0: there is none. */
static size_t end_of_last(struct mr_text text, const char *word)
{
    size_t length = strlen(word);
    for (size_t at = text.length; at >= length; at--)
        if (memcmp(text.bytes + at - length, word, length) == 0) return at;
    return 0;
}

static enum mr_opened find_tag(struct mr_text turn)
{
    size_t from = end_of_last(turn, MR_REASONING_BEGIN);
    if (from == 0 || end_of_last(turn, MR_REASONING_END) > from) return MR_OPENED_NOTHING;
    struct mr_text after = mr_text_trim(mr_text_part(turn, from, turn.length));
    return after.length == 0 ? MR_OPENED_TAG : MR_OPENED_TEXT;
}

static enum mr_opened find_channel(struct mr_text turn)
{
    static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
    static const char name[] = "analysis";
    size_t from = end_of_last(turn, "<|channel|>");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (end_of_last(turn, ends[i]) > from) return MR_OPENED_NOTHING;
    if (from == 0) return MR_OPENED_NOTHING;
    if (from == turn.length) return MR_OPENED_HEADER;
    struct mr_text header = mr_text_part(turn, from, turn.length);
    if (header.length < sizeof name - 1 || memcmp(header.bytes, name, sizeof name - 1) != 0)
        return MR_OPENED_NOTHING;
    return end_of_last(header, "<|message|>") > 0 ? MR_OPENED_TEXT : MR_OPENED_TAG;
}

enum mr_opened mr_opened_find(enum mr_tool_format format, struct mr_text turn)
{
    return format == MR_TOOLS_HARMONY ? find_channel(turn) : find_tag(turn);
}

bool mr_opened_is_tag(enum mr_tool_format format, struct mr_text token)
{
    static const char *const tags[] = {MR_REASONING_BEGIN, MR_REASONING_END}, *const marks[] = {
                                                                                  "<|channel|>",
                                                                                  "<|message|>",
                                                                                  "<|constrain|>"};
    bool harmony = format == MR_TOOLS_HARMONY, found = false;
    for (size_t i = 0; i < (harmony ? 3u : 2u); i++)
        found |= mr_text_is(token, harmony ? marks[i] : tags[i]);
    return found;
}
