#include "codec/tools/tool_tags.h"

#include "codec/limits.h"
#include "codec/wire/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

/* FOUND if the text is JSON of this type. */
static enum mr_tool_outcome check_json(struct mr_text text, enum mr_tool_type type)
{
    const struct mr_json_limits limits = {MR_TOOL_ARGUMENTS_BYTES_MAX, MR_NODES_MAX,
                                          MR_NESTING_MAX};
    struct mr_json *document;
    struct mr_error why;
    if (text.length == 0 || text.length + 2 > MR_TOOL_ARGUMENTS_BYTES_MAX) return MR_TOOL_BAD;
    char *array = malloc(text.length + 2); /* mr_json_parse accepts only arrays and objects */
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
    struct mr_text word = mr_text_trim(value);
    enum mr_tool_outcome json = MR_TOOL_BAD;
    if (type == MR_TOOL_OBJECT_OR_ARRAY) {
        bool fits = word.length > 0 && (word.bytes[0] == '{' || word.bytes[0] == '[');
        type = fits ? MR_TOOL_JSON : MR_TOOL_TEXT;
    }
    if (type != MR_TOOL_TEXT &&
        (mr_text_is_any_case(word, "null") || mr_text_is_any_case(word, "none")))
        mr_json_put_null(writer);
    else if (type == MR_TOOL_BOOL &&
             (mr_text_is_any_case(word, "true") || mr_text_is_any_case(word, "false")))
        mr_json_put_bool(writer, word.length == 4);
    else if (type > MR_TOOL_TEXT_OR_NULL && type != MR_TOOL_BOOL &&
             (json = check_json(word, type)) == MR_TOOL_FOUND)
        mr_json_put_raw(writer, word);
    else
        mr_json_put_text(writer, value);
    return json == MR_TOOL_NOMEM ? json : MR_TOOL_FOUND;
}

/* ---- steps ---- */

/* The item that is read next. Each step returns FOUND, with the cursor after the item and the next
 * step in tags->step; or MORE, with the place to continue in tags->at; or BAD, with the cursor at
 * the byte that shows it. A step that has looked ahead sets tags->back to the place where reading
 * continues. */
enum step {
    STEP_TEXT, /* text without a call */
    STEP_FUNCTION,
    STEP_NAME,
    STEP_PARAMETER, /* after <function=NAME> or </parameter> */
    STEP_KEY,
    STEP_VALUE,        /* also the text before the first parameter */
    STEP_FUNCTION_END, /* after </function> in a value */
    STEP_GROUP_END,    /* after </tool_call> in a value of a call that began with <tool_call> */
    STEP_GROUP,        /* after <tool_call> in a value of a call that began without it */
    STEP_ADD,          /* the call is complete */
    STEP_CLOSE         /* the closing tag that may follow the call */
};

enum tag {
    TAG_PARAMETER,
    TAG_PARAMETER_END,
    TAG_FUNCTION,
    TAG_FUNCTION_END,
    TAG_GROUP,
    TAG_GROUP_END,
    TAG_COUNT
};

static const char *const words[TAG_COUNT] = {
    "<parameter=", "</parameter>", "<function=", "</function>", "<tool_call>", "</tool_call>"};

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

/* Reads any tag. */
static enum mr_tool_outcome read_tag(struct mr_tool_cursor *cursor, enum tag *tag)
{
    enum mr_tool_outcome best = MR_TOOL_BAD;
    for (*tag = 0; *tag < TAG_COUNT; (*tag)++) {
        enum mr_tool_outcome outcome = mr_tool_read_word(cursor, words[*tag]);
        if (outcome == MR_TOOL_FOUND) return outcome;
        if (outcome == MR_TOOL_MORE) best = outcome;
    }
    return best;
}

static enum mr_tool_outcome read_text(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    const struct mr_tool_calls *found = cursor->found;
    size_t from = cursor->at;
    if (found->count >= found->count_max) cursor->at = cursor->text.length;
    skip_to_tag(cursor);
    if (cursor->at > from) return MR_TOOL_BAD;
    enum mr_tool_outcome group = mr_tool_read_word(cursor, words[TAG_GROUP]);
    tags->grouped = group == MR_TOOL_FOUND;
    if (group == MR_TOOL_FOUND) return go(tags, STEP_FUNCTION);
    enum mr_tool_outcome function = mr_tool_read_word(cursor, words[TAG_FUNCTION]);
    if (function == MR_TOOL_FOUND) return go(tags, STEP_NAME);
    if (group == MR_TOOL_MORE || function == MR_TOOL_MORE) return MR_TOOL_MORE;
    cursor->at++;
    return MR_TOOL_BAD;
}

static enum mr_tool_outcome read_function(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    skip_space(cursor, tags);
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, words[TAG_FUNCTION]);
    return outcome == MR_TOOL_FOUND ? go(tags, STEP_NAME) : outcome;
}

/* Reads a name and the > after it. The name may contain neither a byte below `least` nor one of
 * `delimiters`. */
static enum mr_tool_outcome read_name_of(struct mr_tool_cursor *cursor, unsigned char least,
                                         const char *delimiters, struct mr_text_range *name)
{
    size_t from = cursor->at;
    while (cursor->at < cursor->text.length && cursor->at - from <= MR_TOOL_NAME_BYTES_MAX) {
        unsigned char c = (unsigned char)cursor->text.bytes[cursor->at];
        if (c < least || strchr(delimiters, c)) break;
        cursor->at++;
    }
    *name = (struct mr_text_range){from, cursor->at};
    if (cursor->at - from > MR_TOOL_NAME_BYTES_MAX) return MR_TOOL_BAD;
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, ">");
    return outcome == MR_TOOL_FOUND && name->start == name->end ? MR_TOOL_BAD : outcome;
}

static enum mr_tool_outcome read_name(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    enum mr_tool_outcome outcome = read_name_of(cursor, '!', "<>{}\"'", &tags->name);
    tags->parameter_count = 0;
    tags->open = false;
    return outcome == MR_TOOL_FOUND ? go(tags, STEP_PARAMETER) : outcome;
}

/* Stores the open parameter, whose value ends at tags->tag. It replaces a parameter with the same
 * key. */
static void keep_parameter(const struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    struct mr_tool_argument *last = &tags->parameters[tags->parameter_count], *same = last;
    struct mr_text_range *value = &last->value;
    struct mr_text key = mr_text_part(cursor->text, last->key.start, last->key.end);
    value->end = tags->tag;
    if (value->start < value->end && cursor->text.bytes[value->start] == '\n') value->start++;
    if (value->start < value->end && cursor->text.bytes[value->end - 1] == '\n') value->end--;
    for (size_t i = 0; i < tags->parameter_count && same == last; i++) {
        struct mr_text_range other = tags->parameters[i].key;
        if (mr_text_equal(mr_text_part(cursor->text, other.start, other.end), key))
            same = &tags->parameters[i];
    }
    same->value = *value;
    tags->parameter_count += same == last;
    tags->open = false;
}

static enum mr_tool_outcome end_call(const struct mr_tool_cursor *cursor, struct mr_tool_tags *tags,
                                     bool closed)
{
    if (tags->open) keep_parameter(cursor, tags);
    tags->closed = closed;
    return go(tags, STEP_ADD);
}

/* After a value, anything other than a tag of the call means that the value continues. */
static enum mr_tool_outcome read_parameter(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    enum tag tag;
    skip_space(cursor, tags);
    enum mr_tool_outcome outcome = read_tag(cursor, &tag);
    if (outcome == MR_TOOL_MORE) return outcome;
    if (tag == TAG_PARAMETER) return go(tags, STEP_KEY);
    if (tag == TAG_FUNCTION_END || (tag == TAG_GROUP_END && tags->grouped))
        return end_call(cursor, tags, tag == TAG_GROUP_END);
    cursor->at = tags->at;
    bool is_text = tags->grouped && tag == TAG_COUNT;
    return tags->open || is_text ? go(tags, STEP_VALUE) : MR_TOOL_BAD;
}

/* An invalid key is part of the previous value. */
static enum mr_tool_outcome read_key(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    struct mr_text_range key;
    enum mr_tool_outcome outcome = read_name_of(cursor, ' ', "<>", &key);
    if (outcome == MR_TOOL_BAD && tags->open) return go(tags, STEP_VALUE);
    if (outcome != MR_TOOL_FOUND) return outcome;
    if (tags->open) keep_parameter(cursor, tags);
    if (tags->parameter_count == MR_TOOL_PARAMETERS_MAX) return MR_TOOL_BAD;
    tags->parameters[tags->parameter_count] =
        (struct mr_tool_argument){key, {cursor->at, cursor->at}};
    tags->open = true;
    return go(tags, STEP_VALUE);
}

/* The step after the tag at tags->tag. VALUE: the tag is part of the value; TEXT: this is not a
 * call. */
static enum step step_behind(const struct mr_tool_cursor *cursor, const struct mr_tool_tags *tags,
                             enum tag tag)
{
    bool begins_line = cursor->text.bytes[tags->tag - 1] == '\n';
    bool begins_value =
        tags->open && tags->parameters[tags->parameter_count].value.start == tags->tag;
    if (tag == TAG_PARAMETER) return begins_line || begins_value ? STEP_KEY : STEP_VALUE;
    if (!tags->open) return STEP_TEXT;
    if (tag == TAG_PARAMETER_END) return STEP_PARAMETER;
    if (tag == TAG_FUNCTION_END) return STEP_FUNCTION_END;
    if (tag == TAG_GROUP_END && begins_line && tags->grouped) return STEP_GROUP_END;
    if (tag == TAG_GROUP && begins_line && !tags->grouped) return STEP_GROUP;
    return STEP_VALUE;
}

static enum mr_tool_outcome read_value(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    for (;;) {
        enum tag tag;
        skip_to_tag(cursor);
        tags->at = tags->tag = cursor->at;
        if (cursor->at == cursor->text.length) return mr_tool_end(cursor);
        enum mr_tool_outcome outcome = read_tag(cursor, &tag);
        if (outcome == MR_TOOL_MORE) return outcome;
        enum step step = outcome == MR_TOOL_FOUND ? step_behind(cursor, tags, tag) : STEP_VALUE;
        if (step == STEP_TEXT) tags->back = tags->tag;
        if (step == STEP_TEXT) return MR_TOOL_BAD;
        if (step != STEP_VALUE) return go(tags, step);
        cursor->at = tags->tag + 1;
    }
}

/* Called after the tag `end` in a value. The tag ends the call if one of the tags in `next` or
 * nothing follows. */
static enum mr_tool_outcome read_end(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags,
                                     enum tag end, const bool next[TAG_COUNT])
{
    enum tag tag;
    skip_space(cursor, tags);
    bool ends = cursor->ended && cursor->at == cursor->text.length;
    enum mr_tool_outcome outcome = read_tag(cursor, &tag);
    if (outcome == MR_TOOL_MORE) return outcome;
    if (!ends && (outcome != MR_TOOL_FOUND || !next[tag])) {
        cursor->at = tags->at;
        return go(tags, STEP_VALUE);
    }
    if (tag != TAG_GROUP_END) tags->back = tags->tag + strlen(words[end]);
    return end_call(cursor, tags, true);
}

static enum mr_tool_outcome read_function_end(struct mr_tool_cursor *cursor,
                                              struct mr_tool_tags *tags)
{
    static const bool next[TAG_COUNT] = {
        [TAG_FUNCTION] = true, [TAG_GROUP] = true, [TAG_GROUP_END] = true};
    return read_end(cursor, tags, TAG_FUNCTION_END, next);
}

static enum mr_tool_outcome read_group_end(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    static const bool next[TAG_COUNT] = {[TAG_GROUP] = true};
    return read_end(cursor, tags, TAG_GROUP_END, next);
}

/* A function here begins a call, so the call with this value is not one. */
static enum mr_tool_outcome read_group(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    skip_space(cursor, tags);
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, words[TAG_FUNCTION]);
    if (outcome == MR_TOOL_MORE) return outcome;
    if (outcome == MR_TOOL_BAD) return go(tags, STEP_VALUE);
    tags->back = tags->tag;
    return MR_TOOL_BAD;
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
    enum mr_tool_outcome outcome = mr_tool_add_written(cursor, name, &writer);
    return outcome == MR_TOOL_FOUND ? go(tags, tags->closed ? STEP_TEXT : STEP_CLOSE) : outcome;
}

static enum mr_tool_outcome read_close(struct mr_tool_cursor *cursor, struct mr_tool_tags *tags)
{
    skip_space(cursor, tags);
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, words[TAG_GROUP_END]);
    if (outcome == MR_TOOL_BAD) tags->back = cursor->found->from;
    return outcome == MR_TOOL_FOUND ? go(tags, STEP_TEXT) : outcome;
}

enum mr_tool_outcome mr_tool_read_tags(struct mr_tool_cursor *cursor)
{
    static reader *const readers[] = {[STEP_TEXT] = read_text,
                                      [STEP_FUNCTION] = read_function,
                                      [STEP_NAME] = read_name,
                                      [STEP_PARAMETER] = read_parameter,
                                      [STEP_KEY] = read_key,
                                      [STEP_VALUE] = read_value,
                                      [STEP_FUNCTION_END] = read_function_end,
                                      [STEP_GROUP_END] = read_group_end,
                                      [STEP_GROUP] = read_group,
                                      [STEP_ADD] = add_call,
                                      [STEP_CLOSE] = read_close};
    struct mr_tool_calls *found = cursor->found;
    struct mr_tool_tags *tags = &found->tags;
    for (;;) {
        size_t from = cursor->at = tags->at;
        int step = tags->step;
        tags->back = 0;
        enum mr_tool_outcome outcome = readers[step](cursor, tags);
        found->work += cursor->at - from;
        if (outcome == MR_TOOL_MORE || outcome == MR_TOOL_NOMEM) return outcome;
        bool is_last = step == STEP_ADD || step == STEP_CLOSE;
        if (outcome == MR_TOOL_BAD) go(tags, STEP_TEXT);
        if (tags->back > 0) cursor->at = tags->back;
        tags->at = cursor->at;
        if (outcome == MR_TOOL_BAD && step != STEP_CLOSE) return outcome;
        if (outcome == MR_TOOL_FOUND && is_last) return outcome;
    }
}
