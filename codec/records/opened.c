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

#define WORD(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

struct mr_text mr_opened_text(enum mr_tool_format format, enum mr_opened opened)
{
    static const struct mr_text headers[] = {
        [MR_OPENED_NOTHING] = WORD(""),
        [MR_OPENED_HEADER] = WORD("<|channel|>"),
        [MR_OPENED_TAG] = WORD("<|channel|>analysis"),
        [MR_OPENED_TEXT] = WORD("<|channel|>analysis<|message|>"),
    };
    static const struct mr_text tag = WORD(MR_REASONING_BEGIN);
    bool tagged = format != MR_TOOLS_HARMONY && opened != MR_OPENED_NOTHING;
    return tagged ? tag : headers[opened];
}

const struct mr_text *mr_opened_words(enum mr_tool_format format, size_t *count)
{
    static const struct mr_text tags[] = {WORD(MR_REASONING_BEGIN), WORD(MR_REASONING_END)};
    static const struct mr_text marks[] = {WORD("<|channel|>analysis"), WORD("<|channel|>final"),
                                           WORD("<|channel|>commentary"), WORD("<|start|>"),
                                           WORD("<|end|>")};
    bool harmony = format == MR_TOOLS_HARMONY;
    *count = harmony ? sizeof marks / sizeof marks[0] : sizeof tags / sizeof tags[0];
    return harmony ? marks : tags;
}

struct mr_text mr_opened_end(enum mr_tool_format format)
{
    static const struct mr_text tag = WORD(MR_REASONING_END);
    static const struct mr_text header =
        WORD("<|end|><|start|>assistant<|channel|>final<|message|>");
    return format == MR_TOOLS_HARMONY ? header : tag;
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
