#include "codec/tools/tool_calls.h"

#include "codec/check.h"
#include "codec/tools/tool_cursor.h"
#include "codec/tools/tool_tags.h"

#include <string.h>

/* DeepSeek's markers, written with a full-width bar and a low one-eighth block. */
#define BAR         "\xef\xbd\x9c"
#define GAP         "\xe2\x96\x81"
#define CALLS_BEGIN "<" BAR "tool" GAP "calls" GAP "begin" BAR ">"
#define CALLS_END   "<" BAR "tool" GAP "calls" GAP "end" BAR ">"
#define CALL_BEGIN  "<" BAR "tool" GAP "call" GAP "begin" BAR ">"
#define CALL_END    "<" BAR "tool" GAP "call" GAP "end" BAR ">"
#define SEPARATOR   "<" BAR "tool" GAP "sep" BAR ">"

#define OPENERS_MAX 5
#define TRIES_MAX   256u /* most bytes outside of brackets in one call */

typedef enum mr_tool_outcome reader(struct mr_tool_cursor *cursor);

/* ---- the formats; each reader starts after the opening marker ---- */

static enum mr_tool_outcome read_hermes(struct mr_tool_cursor *cursor)
{
    struct mr_text object;
    mr_tool_skip_space(cursor);
    enum mr_tool_outcome outcome = mr_tool_read_object(cursor, &object);
    if (outcome != MR_TOOL_FOUND) return outcome;
    mr_tool_skip_space(cursor);
    /* some models end the answer without the closing tag */
    if (!cursor->ended || cursor->at < cursor->text.length)
        outcome = mr_tool_read_word(cursor, "</tool_call>");
    return outcome == MR_TOOL_FOUND ? mr_tool_add_object(cursor, object) : outcome;
}

/* True if the next byte is this one. */
static bool is_next(const struct mr_tool_cursor *cursor, char c)
{
    return cursor->at < cursor->text.length && cursor->text.bytes[cursor->at] == c;
}

static enum mr_tool_outcome read_granite(struct mr_tool_cursor *cursor)
{
    mr_tool_skip_space(cursor);
    return is_next(cursor, '{') ? mr_tool_read_call(cursor) : mr_tool_read_array(cursor);
}

static enum mr_tool_outcome read_granite_tag(struct mr_tool_cursor *cursor)
{
    mr_tool_skip_space(cursor);
    return is_next(cursor, '{') ? read_hermes(cursor) : mr_tool_read_array(cursor);
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
    mr_tool_skip_space(cursor);
    if (outcome == MR_TOOL_FOUND && fenced) outcome = mr_tool_read_word(cursor, "```");
    mr_tool_skip_space(cursor);
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_word(cursor, CALL_END);
    return outcome == MR_TOOL_FOUND ? mr_tool_add(cursor, name, arguments) : outcome;
}

/* ---- formats in which the whole answer is calls ---- */

/* Reads a word, if it comes next, between white space. */
static bool take(struct mr_tool_cursor *cursor, const char *word)
{
    mr_tool_skip_space(cursor);
    bool taken = mr_tool_read_word(cursor, word) == MR_TOOL_FOUND;
    mr_tool_skip_space(cursor);
    return taken;
}

/* Reads calls with a semicolon, a comma or white space between them, perhaps in a list and in a
 * fence of Markdown. */
static enum mr_tool_outcome read_llama(struct mr_tool_cursor *cursor)
{
    enum mr_tool_outcome outcome = MR_TOOL_FOUND;
    take(cursor, "<|python_tag|>");
    bool fenced = take(cursor, "```json") || take(cursor, "```");
    bool list = take(cursor, "[");
    do {
        outcome = mr_tool_read_call(cursor);
        if (outcome != MR_TOOL_FOUND) return outcome;
        if (!take(cursor, ";")) take(cursor, ",");
    } while (is_next(cursor, '{'));
    if (list && !take(cursor, "]")) return MR_TOOL_BAD;
    if (fenced && !take(cursor, "```")) return MR_TOOL_BAD;
    return MR_TOOL_FOUND;
}

/* ---- the search ---- */

struct format {
    reader *whole; /* reads the whole answer as calls; NULL: calls may stand anywhere, after an
                      opening marker */
    char first;    /* with `whole`: the byte with which the calls begin, after other openers */
    struct {
        const char *word;
        reader *read; /* opening markers; NULL if `whole` */
    } openers[OPENERS_MAX];
};

static const struct format formats[MR_TOOLS_FORMAT_COUNT] = {
    [MR_TOOLS_HERMES] = {NULL, 0, {{"<tool_call>", read_hermes}}},
    [MR_TOOLS_GRANITE] = {NULL,
                          0,
                          {{"<|tool_call|>", read_granite}, {"<tool_call>", read_granite_tag}}},
    [MR_TOOLS_LLAMA] =
        {read_llama,
         '{',
         {{"{", NULL}, {"<|python_tag|>", NULL}, {"[", NULL}, {"```json", NULL}, {"```\n", NULL}}},
    [MR_TOOLS_PYTHONIC] = {mr_tool_read_pythonic, '[', {{"[", NULL}, {"<|python_start|>", NULL}}},
    [MR_TOOLS_MISTRAL] = {NULL, 0, {{"[TOOL_CALLS]", read_mistral}}},
    [MR_TOOLS_DEEPSEEK] = {NULL,
                           0,
                           {{CALL_BEGIN, read_deepseek},
                            {CALLS_BEGIN, read_marker},
                            {CALLS_END, read_marker}}},
};

static enum mr_status no_memory(struct mr_error *err)
{
    return mr_fail(err, MR_NOMEM, "no memory for tool calls");
}

/* Tests for an opening marker at cursor->at and moves the cursor past it. Once count_max calls are
 * found, only openers that are removed from the text count. */
static enum mr_tool_outcome find_opener(struct mr_tool_cursor *cursor, const struct format *format,
                                        reader **read)
{
    enum mr_tool_outcome best = MR_TOOL_BAD;
    bool is_full = cursor->found->count >= cursor->found->count_max;
    for (size_t i = 0; i < OPENERS_MAX && format->openers[i].word; i++) {
        if (is_full && format->openers[i].read != read_marker) continue;
        enum mr_tool_outcome outcome = mr_tool_read_word(cursor, format->openers[i].word);
        *read = format->openers[i].read;
        if (outcome == MR_TOOL_FOUND) return outcome;
        if (outcome == MR_TOOL_MORE) best = outcome;
    }
    return best;
}

/* Reads the call after the opening marker, or the whole answer. If that is not a call, the state is
 * restored. */
static enum mr_tool_outcome read_call(struct mr_tool_cursor *cursor, reader *read)
{
    struct mr_tool_calls *found = cursor->found;
    size_t count = found->count;
    enum mr_tool_outcome outcome = read(cursor);
    if (outcome != MR_TOOL_FOUND) found->count = count;
    if (found->count > found->count_max) found->count = found->count_max;
    return outcome;
}

/* Marks the text from found->from to `end` as part of a call. Adjacent parts become one. */
static void add_place(struct mr_tool_calls *found, size_t end)
{
    struct mr_text_range *last =
        found->place_count > 0 ? &found->places[found->place_count - 1] : NULL;
    if (last && last->end == found->from)
        last->end = end;
    else
        found->places[found->place_count++] = (struct mr_text_range){found->from, end};
}

static void decide(struct mr_tool_calls *found, size_t from)
{
    found->from = from;
    found->scan = (struct mr_tool_scan){0};
    found->tries = 0;
    found->open = (struct mr_tool_call){0};
    found->open_scan = (struct mr_tool_scan){0};
}

/* Follows one more byte. True if the bytes read so far may be a complete call, or are certainly not
 * a call. Inside brackets neither can be decided. */
static bool scan_byte(struct mr_tool_scan *scan, char c)
{
    scan->at++;
    if (scan->escaped) {
        scan->escaped = false;
    } else if (scan->quoted) {
        scan->escaped = c == '\\';
        scan->quoted = c != '"';
    } else if (c == '"') {
        scan->quoted = scan->depth > 0;
    } else if (c == '{' || c == '[') {
        scan->depth++;
    } else if ((c == '}' || c == ']') && scan->depth > 0) {
        scan->depth--;
    }
    return scan->depth == 0 && !mr_text_is_space(c);
}

/* Reads the name and the arguments so far of the unfinished call whose object begins at `begin`. */
static void read_open(struct mr_tool_cursor *cursor, size_t begin)
{
    struct mr_tool_calls *found = cursor->found;
    struct mr_tool_scan *scan = &found->open_scan;
    struct mr_tool_cursor head = *cursor;
    struct mr_text name;
    head.at = begin;
    mr_tool_skip_space(&head);
    if (!found->steady || found->count >= found->count_max) return;
    if (scan->at == 0) {
        if (mr_tool_read_head(&head, &name) != MR_TOOL_FOUND) return;
        size_t start = (size_t)(name.bytes - cursor->text.bytes);
        found->open_name = (struct mr_text_range){start, start + name.length};
        found->open_arguments = scan->at = head.at;
    }
    while (scan->at < cursor->text.length && (scan->depth > 0 || scan->at == found->open_arguments))
        scan_byte(scan, cursor->text.bytes[scan->at]);
    found->open.name = mr_text_part(cursor->text, found->open_name.start, found->open_name.end);
    found->open.arguments = mr_text_part(cursor->text, found->open_arguments, scan->at);
}

/* Continues the call whose opening marker ends at cursor->at. It is decided at the first byte at
 * which that is possible, so the sizes of the pieces do not matter. */
static enum mr_tool_outcome read_on(struct mr_tool_cursor *cursor, reader *read)
{
    struct mr_tool_calls *found = cursor->found;
    struct mr_tool_cursor part = *cursor;
    size_t begin = cursor->at;
    bool due = found->scan.at == 0;
    part.ended = false;
    if (due) found->scan.at = begin;
    for (;;) {
        if (found->work > MR_TOOL_WORK_MAX || found->tries > TRIES_MAX) return MR_TOOL_BAD;
        if (due) {
            found->tries++;
            found->work += found->scan.at - begin;
            part.text = mr_text_part(cursor->text, 0, found->scan.at);
            part.at = begin;
            enum mr_tool_outcome outcome = read_call(&part, read);
            cursor->at = part.at;
            if (outcome != MR_TOOL_MORE) return outcome;
        }
        if (found->scan.at == cursor->text.length) break;
        found->work++;
        due = scan_byte(&found->scan, cursor->text.bytes[found->scan.at]);
    }
    if (!cursor->ended) return MR_TOOL_MORE;
    cursor->at = begin;
    return read_call(cursor, read);
}

static enum mr_status find_behind_openers(struct mr_tool_cursor *cursor,
                                          const struct format *format, struct mr_error *err)
{
    struct mr_tool_calls *found = cursor->found;
    while (found->from < cursor->text.length) {
        reader *read = NULL;
        size_t at = cursor->at = found->from;
        enum mr_tool_outcome outcome = MR_TOOL_BAD;
        if (found->place_count < MR_TOOL_PLACES_MAX) outcome = find_opener(cursor, format, &read);
        size_t begin = cursor->at;
        if (outcome == MR_TOOL_FOUND) outcome = read_on(cursor, read);
        if (outcome == MR_TOOL_MORE && read) read_open(cursor, begin);
        if (outcome == MR_TOOL_MORE) return MR_OK;
        if (outcome == MR_TOOL_NOMEM) decide(found, at);
        if (outcome == MR_TOOL_NOMEM) return no_memory(err);
        if (outcome == MR_TOOL_FOUND) add_place(found, cursor->at);
        decide(found, outcome == MR_TOOL_FOUND ? cursor->at : at + 1);
    }
    return MR_OK;
}

/* Tests whether the answer begins with openers up to the one that a call begins with. */
static enum mr_tool_outcome find_first(struct mr_tool_cursor *cursor, const struct format *format)
{
    enum mr_tool_outcome outcome;
    reader *read;
    do {
        mr_tool_skip_space(cursor);
        if (cursor->at == cursor->text.length) return MR_TOOL_MORE;
        outcome = find_opener(cursor, format, &read);
    } while (outcome == MR_TOOL_FOUND && cursor->text.bytes[cursor->at - 1] != format->first);
    return outcome;
}

/* For formats in which the whole answer is calls. The decision is made at the end of the answer, or
 * as soon as it begins differently. */
static enum mr_status find_whole(struct mr_tool_cursor *cursor, const struct format *format,
                                 struct mr_error *err)
{
    struct mr_tool_calls *found = cursor->found;
    MR_ASSERT(found->count_max > 0); /* without tools such a format is not searched for */
    if (!found->plain && !cursor->ended) {
        found->plain = find_first(cursor, format) == MR_TOOL_BAD;
        if (!found->plain) return MR_OK;
    }
    if (!found->plain) {
        cursor->at = 0;
        enum mr_tool_outcome outcome = read_call(cursor, format->whole);
        if (outcome == MR_TOOL_NOMEM) return no_memory(err);
        mr_tool_skip_space(cursor);
        bool calls = outcome == MR_TOOL_FOUND && cursor->at == cursor->text.length;
        if (calls) add_place(found, cursor->text.length);
        if (!calls) found->count = 0;
        found->plain = true;
    }
    decide(found, cursor->text.length);
    return MR_OK;
}

/* Reads the next piece of an array of calls: a bracket, a comma or a call. */
static enum mr_tool_outcome read_item(struct mr_tool_cursor *cursor)
{
    struct mr_tool_calls *found = cursor->found;
    struct mr_tool_scan *scan = &found->scan;
    mr_tool_skip_space(cursor);
    size_t begin = cursor->at;
    if (begin == cursor->text.length) return MR_TOOL_MORE;
    char c = cursor->text.bytes[begin];
    if (c != '{') {
        bool fits = found->in_array ? c == ',' || c == ']' : c == '[';
        found->in_array = true;
        cursor->at++;
        return fits ? MR_TOOL_FOUND : MR_TOOL_BAD;
    }
    if (!found->in_array || found->place_count == MR_TOOL_PLACES_MAX) return MR_TOOL_BAD;
    if (scan->at == 0) scan->at = begin;
    while (scan->at < cursor->text.length) {
        if (!scan_byte(scan, cursor->text.bytes[scan->at])) continue;
        cursor->at = scan->at;
        enum mr_tool_outcome outcome =
            mr_tool_add_object(cursor, mr_text_part(cursor->text, begin, scan->at));
        if (found->count > found->count_max) found->count = found->count_max;
        return outcome;
    }
    if (!cursor->ended) read_open(cursor, begin);
    return mr_tool_end(cursor);
}

static enum mr_status find_in_array(struct mr_tool_cursor *cursor, struct mr_error *err)
{
    struct mr_tool_calls *found = cursor->found;
    enum mr_tool_outcome outcome = MR_TOOL_FOUND;
    while (!found->plain && outcome == MR_TOOL_FOUND) {
        cursor->at = found->from;
        outcome = read_item(cursor);
        if (outcome == MR_TOOL_NOMEM) decide(found, found->from);
        if (outcome == MR_TOOL_NOMEM) return no_memory(err);
        found->plain = outcome == MR_TOOL_BAD;
        if (outcome != MR_TOOL_FOUND) break;
        add_place(found, cursor->at);
        decide(found, cursor->at);
    }
    if (found->plain || cursor->ended) decide(found, cursor->text.length);
    return MR_OK;
}

static enum mr_status find_tags(struct mr_tool_cursor *cursor, struct mr_error *err)
{
    struct mr_tool_calls *found = cursor->found;
    while (found->from < cursor->text.length) {
        enum mr_tool_outcome outcome = mr_tool_read_tags(cursor);
        if (outcome == MR_TOOL_NOMEM) return no_memory(err);
        if (outcome == MR_TOOL_MORE) break;
        if (outcome == MR_TOOL_FOUND) add_place(found, cursor->at);
        decide(found, cursor->at);
    }
    return MR_OK;
}

enum mr_status mr_tool_calls_find(struct mr_tool_calls *found, struct mr_text text, bool ended,
                                  struct mr_error *err)
{
    struct mr_tool_cursor cursor = {text, 0, ended, found, found->arena};
    const struct format *format = &formats[found->format];
    if (found->format == MR_TOOLS_ARRAY) return find_in_array(&cursor, err);
    if (found->format == MR_TOOLS_QWEN_CODER) return find_tags(&cursor, err);
    return format->whole ? find_whole(&cursor, format, err)
                         : find_behind_openers(&cursor, format, err);
}
