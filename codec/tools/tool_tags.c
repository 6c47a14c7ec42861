#include "codec/tools/tool_tags.h"

#include "codec/limits.h"
#include "codec/wire/json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- values ---- */

static bool is_word(struct mr_text text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.bytes, word, text.length) == 0;
}

static struct mr_text trim(struct mr_text text)
{
    size_t start = 0, end = text.length;
    while (start < end && mr_text_is_space(text.bytes[start]))
        start++;
    while (end > start && mr_text_is_space(text.bytes[end - 1]))
        end--;
    return mr_text_part(text, start, end);
}

/* FOUND when the text is JSON of this type. */
static enum mr_tool_outcome check_json(struct mr_text text, enum mr_tool_type type)
{
    const struct mr_json_limits limits = {MR_TOOL_ARGUMENTS_BYTES_MAX, MR_NODES_MAX,
                                          MR_NESTING_MAX};
    struct mr_json *document;
    struct mr_error why;
    if (text.length == 0 || text.length + 2 > MR_TOOL_ARGUMENTS_BYTES_MAX) return MR_TOOL_BAD;
    char *array = malloc(text.length + 2); /* a document is an array or an object */
    if (!array) return MR_TOOL_NOMEM;
    array[0] = '[';
    memcpy(array + 1, text.bytes, text.length);
    array[text.length + 1] = ']';
    enum mr_status status =
        mr_json_parse(&document, (struct mr_text){array, text.length + 2}, &limits, &why);
    free(array);
    if (status != MR_OK) return status == MR_NOMEM ? MR_TOOL_NOMEM : MR_TOOL_BAD;
    bool fits = mr_json_count(mr_json_root(document)) == 1;
    enum mr_json_kind kind = fits ? mr_json_kind(mr_json_at(mr_json_root(document), 0)) : 0;
    if (type != MR_TOOL_JSON)
        fits = kind == MR_JSON_INT || (kind == MR_JSON_REAL && type == MR_TOOL_NUMBER);
    mr_json_destroy(document);
    return fits ? MR_TOOL_FOUND : MR_TOOL_BAD;
}

/* FOUND, or NOMEM. */
static enum mr_tool_outcome put_value(struct mr_json_writer *writer, struct mr_text value,
                                      enum mr_tool_type type)
{
    struct mr_text word = trim(value);
    enum mr_tool_outcome json = MR_TOOL_BAD;
    if (type == MR_TOOL_OBJECT_OR_ARRAY) {
        bool fits = word.length > 0 && (word.bytes[0] == '{' || word.bytes[0] == '[');
        type = fits ? MR_TOOL_JSON : MR_TOOL_TEXT;
    }
    if (type != MR_TOOL_TEXT && (is_word(word, "null") || is_word(word, "none")))
        mr_json_put_null(writer);
    else if (type == MR_TOOL_BOOL && (is_word(word, "true") || is_word(word, "false")))
        mr_json_put_bool(writer, word.length == 4);
    else if (type > MR_TOOL_TEXT_OR_NULL && type != MR_TOOL_BOOL &&
             (json = check_json(word, type)) == MR_TOOL_FOUND)
        mr_json_put_raw(writer, word);
    else
        mr_json_put_text(writer, value);
    return json == MR_TOOL_NOMEM ? json : MR_TOOL_FOUND;
}

/* ---- steps ---- */

/* What is read next. Each step returns FOUND, with the cursor behind what it has read and the step
 * that follows in tags->step; or MORE, with the place to read on from in tags->at; or BAD, with the
 * cursor at the place that proves it. */
enum step {
    STEP_TEXT, /* text without a call */
    STEP_FUNCTION,
    STEP_NAME,
    STEP_PARAMETER,
    STEP_KEY,
    STEP_VALUE,
    STEP_ADD,  /* the call is complete */
    STEP_CLOSE /* what may follow it */
};

typedef enum mr_tool_outcome reader(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags);

static enum mr_tool_outcome go(struct mr_tool_tags *tags, enum step step)
{
    tags->step = (int)step;
    return MR_TOOL_FOUND;
}

static void skip_space(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    mr_tool_skip_space(cursor);
    tags->at = cursor->at;
}

/* Moves to the next <, or to the end of the text. */
static void skip_to_tag(struct mr_tool_cursor *cursor)
{
    size_t left = cursor->text.length - cursor->at;
    const char *from = cursor->text.bytes + cursor->at;
    const char *tag = left > 0 ? memchr(from, '<', left) : NULL;
    cursor->at += tag ? (size_t)(tag - from) : left;
}

static enum mr_tool_outcome read_text(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    const struct mr_tool_calls *found = cursor->found;
    size_t from = cursor->at;
    if (found->count >= found->count_max) cursor->at = cursor->text.length;
    skip_to_tag(cursor);
    if (cursor->at > from) return MR_TOOL_BAD;
    enum mr_tool_outcome group = mr_tool_read_word(cursor, "<tool_call>");
    if (group == MR_TOOL_FOUND) return go(tags, STEP_FUNCTION);
    enum mr_tool_outcome function = mr_tool_read_word(cursor, "<function=");
    if (function == MR_TOOL_FOUND) return go(tags, STEP_NAME);
    if (group == MR_TOOL_MORE || function == MR_TOOL_MORE) return MR_TOOL_MORE;
    cursor->at++;
    return MR_TOOL_BAD;
}

static enum mr_tool_outcome read_function(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    skip_space(cursor, tags);
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, "<function=");
    return outcome == MR_TOOL_FOUND ? go(tags, STEP_NAME) : outcome;
}

static enum mr_tool_outcome read_name(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    struct mr_text name;
    size_t from = cursor->at;
    enum mr_tool_outcome outcome = mr_tool_read_name(cursor, &name);
    tags->name = (struct mr_text_range){from, cursor->at};
    tags->parameter_count = 0;
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_word(cursor, ">");
    return outcome == MR_TOOL_FOUND ? go(tags, STEP_PARAMETER) : outcome;
}

static enum mr_tool_outcome read_parameter(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    skip_space(cursor, tags);
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, "</function>");
    if (outcome == MR_TOOL_FOUND) return go(tags, STEP_ADD);
    if (outcome == MR_TOOL_BAD) outcome = mr_tool_read_word(cursor, "<parameter=");
    return outcome == MR_TOOL_FOUND ? go(tags, STEP_KEY) : outcome;
}

static enum mr_tool_outcome read_key(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    struct mr_tool_argument *argument = &tags->parameters[tags->parameter_count];
    size_t from = cursor->at;
    if (tags->parameter_count == MR_TOOL_PARAMETERS_MAX) return MR_TOOL_BAD;
    while (cursor->at < cursor->text.length && cursor->at - from <= MR_TOOL_NAME_BYTES_MAX) {
        unsigned char c = (unsigned char)cursor->text.bytes[cursor->at];
        if (c < ' ' || c == '<' || c == '>') break;
        cursor->at++;
    }
    argument->key = (struct mr_text_range){from, cursor->at};
    if (cursor->at - from > MR_TOOL_NAME_BYTES_MAX) return MR_TOOL_BAD;
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, ">");
    argument->value = (struct mr_text_range){cursor->at, cursor->at};
    if (outcome == MR_TOOL_FOUND && argument->key.start == argument->key.end) return MR_TOOL_BAD;
    return outcome == MR_TOOL_FOUND ? go(tags, STEP_VALUE) : outcome;
}

/* Adds the parameter whose value ends here, in the place of an earlier one with its key. */
static void add_parameter(const struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    struct mr_tool_argument *last = &tags->parameters[tags->parameter_count], *same = last;
    struct mr_text_range *value = &last->value;
    struct mr_text key = mr_text_part(cursor->text, last->key.start, last->key.end);
    value->end = cursor->at;
    if (value->start < value->end && cursor->text.bytes[value->start] == '\n') value->start++;
    if (value->start < value->end && cursor->text.bytes[value->end - 1] == '\n') value->end--;
    for (size_t i = 0; i < tags->parameter_count && same == last; i++) {
        struct mr_text_range other = tags->parameters[i].key;
        if (mr_text_equal(mr_text_part(cursor->text, other.start, other.end), key))
            same = &tags->parameters[i];
    }
    same->value = *value;
    tags->parameter_count += same == last;
}

static enum mr_tool_outcome read_value(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    static const char *const ends[] = {"</parameter>", "<parameter=", "</function>"};
    for (;; cursor->at++) {
        skip_to_tag(cursor);
        tags->at = cursor->at;
        if (cursor->at == cursor->text.length) return mr_tool_end(cursor);
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            struct mr_tool_cursor end = *cursor;
            enum mr_tool_outcome outcome = mr_tool_read_word(&end, ends[i]);
            if (outcome == MR_TOOL_MORE) return outcome;
            if (outcome != MR_TOOL_FOUND) continue;
            add_parameter(cursor, tags);
            if (i == 0) cursor->at = end.at; /* the others begin what follows */
            return go(tags, STEP_PARAMETER);
        }
    }
}

static enum mr_tool_outcome add_call(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    struct mr_json_writer writer;
    struct mr_text name = mr_text_part(cursor->text, tags->name.start, tags->name.end);
    mr_json_writer_init(&writer, MR_TOOL_ARGUMENTS_BYTES_MAX);
    mr_json_begin_object(&writer);
    for (size_t i = 0; i < tags->parameter_count; i++) {
        struct mr_text_range key = tags->parameters[i].key, value = tags->parameters[i].value;
        struct mr_text text = mr_text_part(cursor->text, key.start, key.end);
        enum mr_tool_type type = mr_tool_types_find(cursor->found->types, name, text);
        mr_json_name_text(&writer, text);
        text = mr_text_part(cursor->text, value.start, value.end);
        if (put_value(&writer, text, type) == MR_TOOL_FOUND) continue;
        mr_json_writer_drop(&writer);
        return MR_TOOL_NOMEM;
    }
    mr_json_end(&writer);
    go(tags, STEP_CLOSE);
    enum mr_tool_outcome outcome = mr_tool_add_written(cursor, name, &writer);
    if (outcome == MR_TOOL_NOMEM) go(tags, STEP_ADD);
    return outcome;
}

static enum mr_tool_outcome read_close(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    skip_space(cursor, tags);
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, "</tool_call>");
    return outcome == MR_TOOL_FOUND ? go(tags, STEP_TEXT) : outcome;
}

enum mr_tool_outcome mr_tool_read_tags(struct mr_tool_cursor *cursor)
{
    static reader *const readers[] = {[STEP_TEXT] = read_text, [STEP_FUNCTION] = read_function,
                                      [STEP_NAME] = read_name, [STEP_PARAMETER] = read_parameter,
                                      [STEP_KEY] = read_key,   [STEP_VALUE] = read_value,
                                      [STEP_ADD] = add_call,   [STEP_CLOSE] = read_close};
    struct mr_tool_calls *found = cursor->found;
    struct mr_tool_tags *tags = &found->tags;
    for (;;) {
        size_t from = cursor->at = tags->at;
        int step = tags->step;
        enum mr_tool_outcome outcome = readers[step](cursor, tags);
        found->work += cursor->at - from;
        if (outcome == MR_TOOL_MORE || outcome == MR_TOOL_NOMEM) return outcome;
        bool is_last = step == STEP_ADD || step == STEP_CLOSE;
        if (outcome == MR_TOOL_BAD) go(tags, STEP_TEXT);
        if (outcome == MR_TOOL_BAD && step == STEP_CLOSE) cursor->at = found->from;
        tags->at = cursor->at;
        if (outcome == MR_TOOL_BAD && step != STEP_CLOSE) return outcome;
        if (outcome == MR_TOOL_FOUND && is_last) return outcome;
    }
}
