/* Calls as Qwen3-Coder writes them: <function=NAME><parameter=KEY>VALUE</parameter>…</function>,
 * between <tool_call> tags, which some answers leave out. A value is written as it is, with a line
 * end on either side that does not belong to it; the schema of the tool says what it is. As vLLM's
 * parser qwen3_coder, but for values that do not fit their type, which stay texts, and for calls
 * that are cut off, which are none. */
#include "codec/limits.h"
#include "codec/tools/tool_cursor.h"
#include "codec/wire/json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PARAMETERS_MAX      64u
#define KEY_BYTES_MAX       128u
#define ARGUMENTS_BYTES_MAX ((size_t)1 << 20)

struct parameter {
    struct mr_text key, value;
};

/* ---- values ---- */

static enum mr_tool_type type_of(const struct mr_tool_types *types, struct mr_text tool,
                                 struct mr_text key)
{
    for (size_t i = 0; types && i < types->count; i++)
        if (mr_text_equal(types->parameters[i].tool, tool) &&
            mr_text_equal(types->parameters[i].name, key))
            return types->parameters[i].type;
    return MR_TOOL_TEXT;
}

static bool is_word(struct mr_text text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.bytes, word, text.length) == 0;
}

/* Whether a text is JSON of this type. False, and *nomem set, without memory. */
static bool is_json(struct mr_text text, enum mr_tool_type type, bool *nomem)
{
    const struct mr_json_limits limits = {ARGUMENTS_BYTES_MAX + 2, MR_NODES_MAX, MR_NESTING_MAX};
    struct mr_json *document;
    struct mr_error why;
    char *array = malloc(text.length + 2); /* a document is an array or an object */
    *nomem = array == NULL;
    if (!array) return false;
    array[0] = '[';
    memcpy(array + 1, text.bytes, text.length);
    array[text.length + 1] = ']';
    enum mr_status status =
        mr_json_parse(&document, (struct mr_text){array, text.length + 2}, &limits, &why);
    *nomem = status == MR_NOMEM;
    bool fits = status == MR_OK && mr_json_count(mr_json_root(document)) == 1;
    enum mr_json_kind kind = fits ? mr_json_kind(mr_json_at(mr_json_root(document), 0)) : 0;
    if (type == MR_TOOL_INTEGER) fits = fits && kind == MR_JSON_INT;
    if (type == MR_TOOL_NUMBER) fits = fits && (kind == MR_JSON_INT || kind == MR_JSON_REAL);
    if (status == MR_OK) mr_json_destroy(document);
    free(array);
    return fits;
}

/* False without memory. */
static bool put_value(struct mr_json_writer *writer, struct mr_text value, enum mr_tool_type type)
{
    struct mr_text word = value;
    bool nomem = false;
    while (word.length > 0 && mr_text_is_space(word.bytes[0]))
        word = mr_text_part(word, 1, word.length);
    while (word.length > 0 && mr_text_is_space(word.bytes[word.length - 1]))
        word.length--;
    if (is_word(type == MR_TOOL_TEXT ? value : word, "null"))
        mr_json_put_null(writer);
    else if (type == MR_TOOL_BOOL && (is_word(word, "true") || is_word(word, "false")))
        mr_json_put_bool(writer, word.length == 4);
    else if (type != MR_TOOL_TEXT && type != MR_TOOL_BOOL && is_json(word, type, &nomem))
        mr_json_put_raw(writer, word);
    else
        mr_json_put_text(writer, value);
    return !nomem;
}

/* ---- tags ---- */

/* Reads a value up to the tag that ends it; </parameter> may be left out. */
static enum mr_tool_outcome read_value(struct mr_tool_cursor *cursor, struct mr_text *value)
{
    static const char *const ends[] = {"</parameter>", "<parameter=", "</function>"};
    const size_t from = cursor->at;
    for (; cursor->at < cursor->text.length; cursor->at++) {
        if (cursor->text.bytes[cursor->at] != '<') continue;
        const size_t end = cursor->at;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            enum mr_tool_outcome outcome = mr_tool_read_word(cursor, ends[i]);
            if (outcome == MR_TOOL_MORE) return outcome;
            if (outcome != MR_TOOL_FOUND) continue;
            if (i > 0) cursor->at = end;
            *value = mr_text_part(cursor->text, from, end);
            if (value->length > 0 && value->bytes[0] == '\n')
                *value = mr_text_part(*value, 1, value->length);
            if (value->length > 0 && value->bytes[value->length - 1] == '\n') value->length--;
            return MR_TOOL_FOUND;
        }
    }
    return mr_tool_end(cursor);
}

/* Reads KEY>VALUE</parameter>. */
static enum mr_tool_outcome read_parameter(struct mr_tool_cursor *cursor, struct parameter *out)
{
    const size_t from = cursor->at;
    while (cursor->at < cursor->text.length && !strchr("<>\n", cursor->text.bytes[cursor->at]) &&
           cursor->at - from <= KEY_BYTES_MAX)
        cursor->at++;
    out->key = mr_text_part(cursor->text, from, cursor->at);
    if (out->key.length > KEY_BYTES_MAX) return MR_TOOL_BAD;
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, ">");
    if (outcome == MR_TOOL_FOUND && out->key.length == 0) return MR_TOOL_BAD;
    return outcome == MR_TOOL_FOUND ? read_value(cursor, &out->value) : outcome;
}

/* Reads the parameters up to </function>. Of two with one key the last counts. */
static enum mr_tool_outcome read_parameters(struct mr_tool_cursor *cursor,
                                            struct parameter out[PARAMETERS_MAX], size_t *count)
{
    for (*count = 0;;) {
        struct parameter one;
        size_t place = 0;
        mr_tool_skip_space(cursor);
        enum mr_tool_outcome outcome = mr_tool_read_word(cursor, "</function>");
        if (outcome != MR_TOOL_BAD) return outcome;
        outcome = mr_tool_read_word(cursor, "<parameter=");
        if (outcome == MR_TOOL_FOUND) outcome = read_parameter(cursor, &one);
        if (outcome != MR_TOOL_FOUND) return outcome;
        while (place < *count && !mr_text_equal(out[place].key, one.key))
            place++;
        if (place == PARAMETERS_MAX) return MR_TOOL_BAD;
        out[place] = one;
        *count += place == *count;
    }
}

enum mr_tool_outcome mr_tool_read_function(struct mr_tool_cursor *cursor)
{
    struct parameter parameters[PARAMETERS_MAX];
    struct mr_json_writer writer;
    struct mr_text name;
    size_t count;
    bool room = true;
    enum mr_tool_outcome outcome = mr_tool_read_name(cursor, &name);
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_word(cursor, ">");
    if (outcome == MR_TOOL_FOUND) outcome = read_parameters(cursor, parameters, &count);
    if (outcome != MR_TOOL_FOUND) return outcome;
    mr_json_writer_init(&writer, ARGUMENTS_BYTES_MAX);
    mr_json_begin_object(&writer);
    for (size_t i = 0; i < count && room; i++) {
        mr_json_name_text(&writer, parameters[i].key);
        room = put_value(&writer, parameters[i].value,
                         type_of(cursor->found->types, name, parameters[i].key));
    }
    if (room) {
        mr_json_end(&writer);
        return mr_tool_add_written(cursor, name, &writer);
    }
    mr_json_writer_drop(&writer);
    return MR_TOOL_NOMEM;
}

enum mr_tool_outcome mr_tool_read_functions(struct mr_tool_cursor *cursor)
{
    enum mr_tool_outcome outcome;
    size_t count = 0, end = cursor->at;
    for (;; count++) {
        mr_tool_skip_space(cursor);
        outcome = mr_tool_read_word(cursor, "<function=");
        if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_function(cursor);
        if (outcome != MR_TOOL_FOUND) break;
        end = cursor->at;
    }
    if (outcome != MR_TOOL_BAD || count == 0) return outcome;
    cursor->at = end;
    mr_tool_skip_space(cursor);
    outcome = mr_tool_read_word(cursor, "</tool_call>");
    if (outcome != MR_TOOL_BAD) return outcome;
    cursor->at = end; /* some answers leave the closing tag out */
    return MR_TOOL_FOUND;
}
