#include "codec/tools/tool_calls.h"

#include "codec/tools/tool_cursor.h"

#include <string.h>

/* DeepSeek's markers, written with a full-width bar and a low one-eighth block. */
#define BAR         "\xef\xbd\x9c"
#define GAP         "\xe2\x96\x81"
#define CALLS_BEGIN "<" BAR "tool" GAP "calls" GAP "begin" BAR ">"
#define CALLS_END   "<" BAR "tool" GAP "calls" GAP "end" BAR ">"
#define CALL_BEGIN  "<" BAR "tool" GAP "call" GAP "begin" BAR ">"
#define CALL_END    "<" BAR "tool" GAP "call" GAP "end" BAR ">"
#define SEPARATOR   "<" BAR "tool" GAP "sep" BAR ">"

#define OPENERS_MAX 3

typedef enum mr_tool_outcome reader(struct mr_tool_cursor *cursor);

/* ---- the formats; each reader begins behind the opener ---- */

static enum mr_tool_outcome read_hermes(struct mr_tool_cursor *cursor)
{
    mr_tool_skip_space(cursor);
    enum mr_tool_outcome outcome = mr_tool_read_call(cursor);
    if (outcome != MR_TOOL_FOUND) return outcome;
    mr_tool_skip_space(cursor);
    /* some models end the answer in place of the closing tag */
    if (cursor->ended && cursor->at == cursor->text.length) return MR_TOOL_FOUND;
    return mr_tool_read_word(cursor, "</tool_call>");
}

static enum mr_tool_outcome read_granite(struct mr_tool_cursor *cursor)
{
    mr_tool_skip_space(cursor);
    return mr_tool_read_array(cursor);
}

static enum mr_tool_outcome read_mistral(struct mr_tool_cursor *cursor)
{
    struct mr_text name, id, arguments;
    mr_tool_skip_space(cursor);
    if (cursor->at == cursor->text.length) return mr_tool_end(cursor);
    if (cursor->text.bytes[cursor->at] == '[') return mr_tool_read_array(cursor);
    enum mr_tool_outcome outcome = mr_tool_read_name(cursor, &name);
    if (outcome != MR_TOOL_FOUND) return outcome;
    outcome = mr_tool_read_word(cursor, "[CALL_ID]");
    if (outcome == MR_TOOL_FOUND)
        outcome = mr_tool_read_name(cursor, &id);
    else if (outcome == MR_TOOL_BAD)
        outcome = MR_TOOL_FOUND;
    if (outcome != MR_TOOL_FOUND) return outcome;
    outcome = mr_tool_read_word(cursor, "[ARGS]");
    if (outcome == MR_TOOL_MORE) return outcome;
    mr_tool_skip_space(cursor);
    outcome = mr_tool_read_object(cursor, &arguments);
    return outcome == MR_TOOL_FOUND ? mr_tool_add(cursor, name, arguments) : outcome;
}

static enum mr_tool_outcome read_harmony(struct mr_tool_cursor *cursor)
{
    struct mr_text name, arguments;
    enum mr_tool_outcome outcome = mr_tool_read_name(cursor, &name);
    if (outcome != MR_TOOL_FOUND) return outcome;
    for (;;) { /* the rest of the header: a channel, a type of content */
        if (cursor->at == cursor->text.length) return mr_tool_end(cursor);
        outcome = mr_tool_read_word(cursor, "<|message|>");
        if (outcome != MR_TOOL_BAD) break;
        if (cursor->text.bytes[cursor->at] == '{' || cursor->text.bytes[cursor->at] == '\n')
            return MR_TOOL_BAD;
        cursor->at++;
    }
    if (outcome != MR_TOOL_FOUND) return outcome;
    mr_tool_skip_space(cursor);
    outcome = mr_tool_read_object(cursor, &arguments);
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_add(cursor, name, arguments);
    if (outcome != MR_TOOL_FOUND) return outcome;
    mr_tool_skip_space(cursor);
    if (cursor->ended && cursor->at == cursor->text.length) return MR_TOOL_FOUND;
    outcome = mr_tool_read_word(cursor, "<|call|>");
    return outcome == MR_TOOL_BAD ? mr_tool_read_word(cursor, "<|end|>") : outcome;
}

static enum mr_tool_outcome read_marker(struct mr_tool_cursor *cursor)
{
    (void)cursor;
    return MR_TOOL_FOUND;
}

static enum mr_tool_outcome read_deepseek(struct mr_tool_cursor *cursor)
{
    struct mr_text name, arguments;
    bool fenced = false;
    enum mr_tool_outcome outcome = mr_tool_read_name(cursor, &name);
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_word(cursor, SEPARATOR);
    if (outcome != MR_TOOL_FOUND) return outcome;
    mr_tool_skip_space(cursor);
    if (cursor->at == cursor->text.length) return mr_tool_end(cursor);
    if (cursor->text.bytes[cursor->at] != '{') { /* "function", separator, name, fenced JSON */
        fenced = true;
        outcome = mr_tool_read_name(cursor, &name);
        mr_tool_skip_space(cursor);
        if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_word(cursor, "```json");
        if (outcome != MR_TOOL_FOUND) return outcome;
        mr_tool_skip_space(cursor);
    }
    outcome = mr_tool_read_object(cursor, &arguments);
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_add(cursor, name, arguments);
    mr_tool_skip_space(cursor);
    if (outcome == MR_TOOL_FOUND && fenced) outcome = mr_tool_read_word(cursor, "```");
    mr_tool_skip_space(cursor);
    return outcome == MR_TOOL_FOUND ? mr_tool_read_word(cursor, CALL_END) : outcome;
}

/* ---- formats in which the whole answer is calls ---- */

static enum mr_tool_outcome read_llama(struct mr_tool_cursor *cursor)
{
    enum mr_tool_outcome outcome = MR_TOOL_FOUND;
    mr_tool_skip_space(cursor);
    mr_tool_read_word(cursor, "<|python_tag|>");
    mr_tool_skip_space(cursor);
    while (outcome == MR_TOOL_FOUND) {
        outcome = mr_tool_read_call(cursor);
        mr_tool_skip_space(cursor);
        if (outcome != MR_TOOL_FOUND || cursor->at == cursor->text.length) return outcome;
        outcome = mr_tool_read_word(cursor, ";");
        mr_tool_skip_space(cursor);
    }
    return outcome;
}

static enum mr_tool_outcome read_whole_array(struct mr_tool_cursor *cursor)
{
    mr_tool_skip_space(cursor);
    return mr_tool_read_array(cursor);
}

/* ---- the search ---- */

struct format {
    reader *whole; /* reads the whole answer; or NULL: calls stand anywhere, behind an opener */
    struct {
        const char *word;
        reader *read;
    } openers[OPENERS_MAX];
};

static const struct format formats[MR_TOOLS_FORMAT_COUNT] = {
    [MR_TOOLS_HERMES] = {NULL, {{"<tool_call>", read_hermes}}},
    [MR_TOOLS_GRANITE] = {NULL, {{"<|tool_call|>", read_granite}, {"<tool_call>", read_granite}}},
    [MR_TOOLS_LLAMA] = {read_llama, {{NULL, NULL}}},
    [MR_TOOLS_PYTHONIC] = {mr_tool_read_pythonic, {{NULL, NULL}}},
    [MR_TOOLS_MISTRAL] = {NULL, {{"[TOOL_CALLS]", read_mistral}}},
    [MR_TOOLS_HARMONY] = {NULL, {{"to=functions.", read_harmony}}},
    [MR_TOOLS_DEEPSEEK] =
        {NULL, {{CALL_BEGIN, read_deepseek}, {CALLS_BEGIN, read_marker}, {CALLS_END, read_marker}}},
    [MR_TOOLS_ARRAY] = {read_whole_array, {{NULL, NULL}}},
};

/* Reads a call at cursor->at, where the opener stands, or the whole answer. A call that proves to
 * be none leaves no trace. */
static enum mr_tool_outcome read_at(struct mr_tool_cursor *cursor, reader *read, size_t from)
{
    struct mr_tool_calls *found = cursor->found;
    size_t count = found->count;
    enum mr_tool_outcome outcome = read(cursor);
    if (outcome != MR_TOOL_FOUND) {
        found->count = count;
        return outcome;
    }
    found->places[found->place_count++] = (struct mr_text_range){from, cursor->at};
    if (found->count > found->count_max) found->count = found->count_max;
    return outcome;
}

static enum mr_status finish(enum mr_tool_outcome outcome, struct mr_error *err)
{
    return outcome == MR_TOOL_NOMEM ? mr_fail(err, MR_NOMEM, "no memory for tool calls") : MR_OK;
}

static enum mr_status find_whole(struct mr_tool_cursor *cursor, reader *read, struct mr_error *err)
{
    struct mr_tool_calls *found = cursor->found;
    if (!cursor->ended || found->from > 0) return MR_OK;
    found->from = cursor->text.length;
    enum mr_tool_outcome outcome = read_at(cursor, read, 0);
    mr_tool_skip_space(cursor);
    if (outcome == MR_TOOL_FOUND && cursor->at < cursor->text.length)
        found->count = found->place_count = 0; /* text follows: it was no call */
    return finish(outcome, err);
}

/* Looks for an opener at cursor->at; moves the cursor behind it. */
static enum mr_tool_outcome find_opener(struct mr_tool_cursor *cursor, const struct format *format,
                                        reader **read)
{
    enum mr_tool_outcome best = MR_TOOL_BAD;
    for (size_t i = 0; i < OPENERS_MAX && format->openers[i].word; i++) {
        enum mr_tool_outcome outcome = mr_tool_read_word(cursor, format->openers[i].word);
        *read = format->openers[i].read;
        if (outcome == MR_TOOL_FOUND) return outcome;
        if (outcome == MR_TOOL_MORE) best = outcome;
    }
    return best;
}

enum mr_status mr_tool_calls_find(struct mr_tool_calls *found, struct mr_text text, bool ended,
                                  struct mr_error *err)
{
    struct mr_tool_cursor cursor = {text, found->from, ended, found, found->arena};
    const struct format *rules = &formats[found->format];
    if (rules->whole) return find_whole(&cursor, rules->whole, err);
    if (!ended && text.length < found->retry_bytes) return MR_OK;
    while (found->from < text.length) {
        reader *read = NULL;
        size_t at = cursor.at = found->from;
        enum mr_tool_outcome outcome = MR_TOOL_BAD;
        if (found->count < found->count_max && found->place_count < MR_TOOL_CALLS_MAX)
            outcome = find_opener(&cursor, rules, &read);
        if (outcome == MR_TOOL_FOUND) outcome = read_at(&cursor, read, at);
        if (outcome == MR_TOOL_MORE) {
            found->retry_bytes = text.length + 1 + (text.length - at) / 16;
            return MR_OK;
        }
        if (outcome == MR_TOOL_NOMEM) return finish(outcome, err);
        found->from = outcome == MR_TOOL_FOUND ? cursor.at : at + 1;
    }
    return MR_OK;
}

struct mr_text mr_tool_calls_rest(const struct mr_tool_calls *found, struct mr_text text)
{
    char *bytes = mr_arena_take(found->arena, text.length + 1);
    size_t length = 0, at = 0, first = 0;
    if (!bytes) return (struct mr_text){0};
    for (size_t i = 0; i <= found->place_count; i++) {
        size_t end = i < found->place_count ? found->places[i].start : text.length;
        memcpy(bytes + length, text.bytes + at, end - at);
        length += end - at;
        if (i < found->place_count) at = found->places[i].end;
    }
    while (length > 0 && mr_text_is_space(bytes[length - 1]))
        length--;
    while (first < length && mr_text_is_space(bytes[first]))
        first++;
    return (struct mr_text){bytes + first, length - first};
}
