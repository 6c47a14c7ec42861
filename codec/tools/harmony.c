#include "codec/tools/harmony.h"

#include "codec/tools/tool_cursor.h"

#include <string.h>

#define HEADER_BYTES_MAX 512u
#define FUNCTIONS        "functions."

enum mark { MARK_END, MARK_CALL, MARK_RETURN, MARK_START, MARK_CHANNEL, MARK_COUNT };
/* The marks that end the text of a message. The last two belong to the header of the next message.
 */
static const char *const marks[MARK_COUNT] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                              "<|channel|>"};

static struct mr_tool_cursor cursor_at(struct mr_tool_calls *found, struct mr_text text, size_t at,
                                       bool ended)
{
    return (struct mr_tool_cursor){text, at, ended, found, found->arena};
}

/* Index of a word in the text; text.length if it does not occur. */
static size_t place_of(struct mr_text text, const char *word)
{
    size_t length = strlen(word);
    for (size_t at = 0; at + length <= text.length; at++)
        if (memcmp(text.bytes + at, word, length) == 0) return at;
    return text.length;
}

/* The part of a header after a word, up to the next space or tag; empty if the word does not occur.
 */
static struct mr_text_range word_behind(struct mr_text text, size_t from, size_t to,
                                        const char *word)
{
    size_t at = from + place_of(mr_text_part(text, from, to), word);
    if (at == to) return (struct mr_text_range){to, to};
    size_t start = at + strlen(word), end = start;
    while (end < to && text.bytes[end] != '<' && !mr_text_is_space(text.bytes[end]))
        end++;
    return (struct mr_text_range){start, end};
}

/* Sets the message's kind from its header [from, to). */
static void read_header(struct mr_harmony *harmony, const struct mr_tool_calls *found,
                        struct mr_text text, size_t from, size_t to)
{
    struct mr_text_range channel = word_behind(text, from, to, "<|channel|>");
    struct mr_text_range to_whom = word_behind(text, from, to, "to=");
    struct mr_text recipient = mr_text_part(text, to_whom.start, to_whom.end);
    bool analysis = mr_text_is(mr_text_part(text, channel.start, channel.end), "analysis");
    bool call = recipient.length > strlen(FUNCTIONS) &&
                memcmp(recipient.bytes, FUNCTIONS, strlen(FUNCTIONS)) == 0;
    harmony->kind = analysis ? MR_HARMONY_REASONING : MR_HARMONY_CONTENT;
    if (call && found->count < found->count_max) harmony->kind = MR_HARMONY_CALL;
    harmony->name = (struct mr_text_range){to_whom.start + strlen(FUNCTIONS), to_whom.end};
}

static void begin_body(struct mr_harmony *harmony, size_t at)
{
    harmony->in_body = true;
    harmony->begun = false;
    harmony->from = harmony->searched = at;
}

/* Reads the header of a message. FOUND: the body begins at harmony->from. */
static enum mr_tool_outcome read_start(struct mr_harmony *harmony, struct mr_tool_calls *found,
                                       struct mr_text text, bool ended)
{
    static const char *const starts[] = {"<|start|>", "<|channel|>", "to=", "<|message|>"};
    struct mr_tool_cursor cursor = cursor_at(found, text, harmony->from, ended);
    enum mr_tool_outcome outcome = MR_TOOL_BAD;
    mr_tool_skip_space(&cursor);
    harmony->header = harmony->from;
    if (cursor.at == text.length) return MR_TOOL_MORE;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct mr_tool_cursor start = cursor;
        enum mr_tool_outcome one = mr_tool_read_word(&start, starts[i]);
        if (one == MR_TOOL_FOUND || (one == MR_TOOL_MORE && outcome == MR_TOOL_BAD)) outcome = one;
    }
    if (outcome == MR_TOOL_MORE) return outcome;
    if (outcome == MR_TOOL_FOUND) {
        size_t most = text.length - cursor.at;
        if (most > HEADER_BYTES_MAX) most = HEADER_BYTES_MAX;
        size_t end =
            cursor.at + place_of(mr_text_part(text, cursor.at, cursor.at + most), "<|message|>");
        if (end < cursor.at + most) {
            read_header(harmony, found, text, cursor.at, end);
            begin_body(harmony, end + strlen("<|message|>"));
            return MR_TOOL_FOUND;
        }
        if (most < HEADER_BYTES_MAX && !ended) return MR_TOOL_MORE;
    }
    harmony->kind = MR_HARMONY_CONTENT; /* a text without a header */
    begin_body(harmony, harmony->from);
    if (outcome == MR_TOOL_FOUND) harmony->searched = cursor.at + 1; /* continue after this mark */
    return MR_TOOL_FOUND;
}

/* Searches for the end of the body from harmony->searched on, and moves that index to the first
 * byte that may begin a mark. FOUND: a mark begins there. */
static enum mr_tool_outcome find_mark(struct mr_harmony *harmony, struct mr_tool_calls *found,
                                      struct mr_text text, bool ended, enum mark *mark)
{
    for (; harmony->searched < text.length; harmony->searched++) {
        struct mr_tool_cursor cursor = cursor_at(found, text, harmony->searched, ended);
        if (text.bytes[harmony->searched] != '<') continue;
        for (*mark = 0; *mark < MARK_COUNT; (*mark)++) {
            enum mr_tool_outcome outcome = mr_tool_read_word(&cursor, marks[*mark]);
            if (outcome != MR_TOOL_BAD) return outcome;
        }
    }
    return MR_TOOL_MORE;
}

/* Adds the call whose body is [from, end), or makes the whole message content. */
static enum mr_status take_call(struct mr_harmony *harmony, struct mr_tool_calls *found,
                                struct mr_text text, size_t end, struct mr_harmony_piece *piece,
                                struct mr_error *err)
{
    struct mr_tool_cursor cursor = cursor_at(found, text, harmony->from, true);
    struct mr_text name = mr_text_part(text, harmony->name.start, harmony->name.end);
    mr_tool_skip_space(&cursor);
    cursor.text.length = end;
    struct mr_text arguments = {"{}", 2}; /* of a message without text */
    enum mr_tool_outcome outcome =
        cursor.at < end ? mr_tool_read_object(&cursor, &arguments) : MR_TOOL_FOUND;
    mr_tool_skip_space(&cursor);
    if (outcome == MR_TOOL_FOUND && cursor.at < end) outcome = MR_TOOL_BAD;
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_add(&cursor, name, arguments);
    if (outcome == MR_TOOL_NOMEM) return mr_fail(err, MR_NOMEM, "no memory for tool calls");
    piece->kind = outcome == MR_TOOL_FOUND ? MR_HARMONY_CALL : MR_HARMONY_CONTENT;
    piece->text = mr_text_part(text, harmony->header, end);
    return MR_OK;
}

enum mr_status mr_harmony_read(struct mr_harmony *harmony, struct mr_tool_calls *found,
                               struct mr_text text, bool ended, struct mr_harmony_piece *piece,
                               struct mr_error *err)
{
    enum mark mark = MARK_COUNT;
    *piece = (struct mr_harmony_piece){.kind = MR_HARMONY_NONE};
    for (;;) {
        if (!harmony->in_body && read_start(harmony, found, text, ended) != MR_TOOL_FOUND)
            return MR_OK;
        bool closed = find_mark(harmony, found, text, ended, &mark) == MR_TOOL_FOUND;
        size_t end = harmony->searched;
        bool last = closed || (ended && end == text.length);
        if (harmony->kind == MR_HARMONY_CALL) {
            if (!last) return MR_OK;
            enum mr_status status = take_call(harmony, found, text, end, piece, err);
            if (status != MR_OK) return status;
        } else if (end > harmony->from) {
            piece->kind = harmony->kind;
            piece->text = mr_text_part(text, harmony->from, end);
        }
        piece->begins = !harmony->begun;
        harmony->begun |= piece->kind != MR_HARMONY_NONE;
        harmony->from = end;
        if (closed && mark < MARK_START) harmony->from += strlen(marks[mark]);
        if (last) harmony->in_body = false;
        if (piece->kind != MR_HARMONY_NONE || !last || harmony->from == text.length) return MR_OK;
    }
}
