#include "codec/tools/tool_cursor.h"

#include "codec/wire/document.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum mr_tool_outcome mr_tool_end(const struct mr_tool_cursor *cursor)
{
    return cursor->ended ? MR_TOOL_BAD : MR_TOOL_MORE;
}

void mr_tool_skip_space(struct mr_tool_cursor *cursor)
{
    while (cursor->at < cursor->text.length && mr_text_is_space(cursor->text.bytes[cursor->at]))
        cursor->at++;
}

enum mr_tool_outcome mr_tool_read_word(struct mr_tool_cursor *cursor, const char *word)
{
    size_t length = strlen(word), left = cursor->text.length - cursor->at;
    size_t common = left < length ? left : length;
    if (memcmp(cursor->text.bytes + cursor->at, word, common) != 0) return MR_TOOL_BAD;
    if (left < length) return mr_tool_end(cursor);
    cursor->at += length;
    return MR_TOOL_FOUND;
}

enum mr_tool_outcome mr_tool_read_name(struct mr_tool_cursor *cursor, struct mr_text *name)
{
    size_t from = cursor->at;
    while (cursor->at < cursor->text.length && cursor->at - from <= MR_TOOL_NAME_BYTES_MAX) {
        char c = cursor->text.bytes[cursor->at];
        if (!isalnum((unsigned char)c) && c != '_' && c != '.' && c != '-') break;
        cursor->at++;
    }
    *name = mr_text_part(cursor->text, from, cursor->at);
    if (name->length > MR_TOOL_NAME_BYTES_MAX) return MR_TOOL_BAD;
    if (cursor->at == cursor->text.length) return mr_tool_end(cursor);
    return name->length > 0 ? MR_TOOL_FOUND : MR_TOOL_BAD;
}

enum mr_tool_outcome mr_tool_read_object(struct mr_tool_cursor *cursor, struct mr_text *object)
{
    size_t from = cursor->at, depth = 0;
    bool quoted = false;
    if (from == cursor->text.length) return mr_tool_end(cursor);
    if (cursor->text.bytes[from] != '{') return MR_TOOL_BAD;
    for (size_t at = from; at < cursor->text.length; at++) {
        char c = cursor->text.bytes[at];
        if (quoted && c == '\\')
            at++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && --depth == 0) {
            cursor->at = at + 1;
            *object = mr_text_part(cursor->text, from, at + 1);
            return MR_TOOL_FOUND;
        }
    }
    return mr_tool_end(cursor);
}

/* ---- calls ---- */

static enum mr_tool_outcome of(enum mr_status status)
{
    if (status == MR_OK) return MR_TOOL_FOUND;
    return status == MR_NOMEM ? MR_TOOL_NOMEM : MR_TOOL_BAD;
}

static enum mr_tool_outcome copy(struct mr_tool_cursor *cursor, struct mr_text text,
                                 struct mr_text *out)
{
    char *bytes = mr_arena_copy_text(cursor->arena, text.bytes, text.length);
    *out = (struct mr_text){bytes, text.length};
    return bytes ? MR_TOOL_FOUND : MR_TOOL_NOMEM;
}

/* Adds a call. Its texts must be in the arena or in the answer. */
static enum mr_tool_outcome push(struct mr_tool_cursor *cursor, struct mr_text name,
                                 struct mr_text arguments)
{
    struct mr_tool_calls *found = cursor->found;
    if (name.length == 0 || name.length > MR_TOOL_NAME_BYTES_MAX) return MR_TOOL_BAD;
    if (found->count == MR_TOOL_CALLS_MAX) return MR_TOOL_BAD;
    found->calls[found->count++] = (struct mr_tool_call){name, arguments};
    return MR_TOOL_FOUND;
}

static enum mr_tool_outcome check_object(struct mr_text json)
{
    struct mr_document *document;
    struct mr_error err;
    enum mr_status status = mr_document_open_wide(&document, json, &err);
    mr_document_close(document);
    return of(status);
}

enum mr_tool_outcome mr_tool_add(struct mr_tool_cursor *cursor, struct mr_text name,
                                 struct mr_text arguments)
{
    enum mr_tool_outcome outcome = check_object(arguments);
    return outcome == MR_TOOL_FOUND ? push(cursor, name, arguments) : outcome;
}

enum mr_tool_outcome mr_tool_add_written(struct mr_tool_cursor *cursor, struct mr_text name,
                                         struct mr_json_writer *writer)
{
    struct mr_error err;
    struct mr_text arguments;
    char *bytes;
    size_t length;
    enum mr_tool_outcome outcome = of(mr_json_writer_take(writer, &bytes, &length, &err));
    if (outcome == MR_TOOL_FOUND)
        outcome = copy(cursor, (struct mr_text){bytes, length}, &arguments);
    free(bytes);
    return outcome == MR_TOOL_FOUND ? push(cursor, name, arguments) : outcome;
}

/* The arguments of a call: an object as written, or the object inside a text. */
static enum mr_tool_outcome arguments_of(struct mr_tool_cursor *cursor,
                                         const struct mr_document *document, struct mr_text *out)
{
    static const char *const names[] = {"arguments", "parameters"};
    struct mr_value value;
    for (size_t i = 0; i < 2; i++) {
        if (!mr_value_get(mr_document_root(document), names[i], &value)) continue;
        if (mr_value_kind(value) == MR_VALUE_MAP)
            return mr_document_raw_member(document, names[i], out) ? MR_TOOL_FOUND : MR_TOOL_BAD;
        if (mr_value_kind(value) != MR_VALUE_TEXT) return MR_TOOL_BAD;
        enum mr_tool_outcome outcome = copy(cursor, mr_value_text(value), out);
        return outcome == MR_TOOL_FOUND ? check_object(*out) : outcome;
    }
    return MR_TOOL_BAD;
}

enum mr_tool_outcome mr_tool_add_object(struct mr_tool_cursor *cursor, struct mr_text object)
{
    struct mr_text name, arguments;
    struct mr_document *document;
    struct mr_value value;
    struct mr_error err;
    enum mr_tool_outcome outcome = of(mr_document_open_wide(&document, object, &err));
    if (outcome != MR_TOOL_FOUND) return outcome;
    bool named = mr_value_get(mr_document_root(document), "name", &value) &&
                 mr_value_kind(value) == MR_VALUE_TEXT;
    named = named && mr_value_text(value).length <= MR_TOOL_NAME_BYTES_MAX;
    outcome = named ? copy(cursor, mr_value_text(value), &name) : MR_TOOL_BAD;
    if (outcome == MR_TOOL_FOUND) outcome = arguments_of(cursor, document, &arguments);
    if (outcome == MR_TOOL_FOUND) outcome = push(cursor, name, arguments);
    mr_document_close(document);
    return outcome;
}

enum mr_tool_outcome mr_tool_read_call(struct mr_tool_cursor *cursor)
{
    struct mr_text object;
    enum mr_tool_outcome outcome = mr_tool_read_object(cursor, &object);
    return outcome == MR_TOOL_FOUND ? mr_tool_add_object(cursor, object) : outcome;
}

/* Reads "word" with its quotes and the colon after it. */
static enum mr_tool_outcome read_member(struct mr_tool_cursor *cursor, const char *quoted)
{
    mr_tool_skip_space(cursor);
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, quoted);
    mr_tool_skip_space(cursor);
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_word(cursor, ":");
    mr_tool_skip_space(cursor);
    return outcome;
}

enum mr_tool_outcome mr_tool_read_head(struct mr_tool_cursor *cursor, struct mr_text *name)
{
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, "{");
    if (outcome == MR_TOOL_FOUND) outcome = read_member(cursor, "\"name\"");
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_word(cursor, "\"");
    if (outcome != MR_TOOL_FOUND) return outcome;
    size_t from = cursor->at;
    while (cursor->at < cursor->text.length && cursor->text.bytes[cursor->at] != '"' &&
           cursor->text.bytes[cursor->at] != '\\' && cursor->at - from < MR_TOOL_NAME_BYTES_MAX)
        cursor->at++;
    *name = mr_text_part(cursor->text, from, cursor->at);
    outcome = mr_tool_read_word(cursor, "\"");
    mr_tool_skip_space(cursor);
    if (outcome == MR_TOOL_FOUND) outcome = mr_tool_read_word(cursor, ",");
    if (outcome != MR_TOOL_FOUND) return outcome;
    struct mr_tool_cursor other = *cursor;
    outcome = read_member(cursor, "\"arguments\"");
    if (outcome == MR_TOOL_BAD) {
        *cursor = other;
        outcome = read_member(cursor, "\"parameters\"");
    }
    if (outcome != MR_TOOL_FOUND) return outcome;
    if (cursor->at == cursor->text.length) return mr_tool_end(cursor);
    return cursor->text.bytes[cursor->at] == '{' ? MR_TOOL_FOUND : MR_TOOL_BAD;
}

enum mr_tool_outcome mr_tool_read_array(struct mr_tool_cursor *cursor)
{
    enum mr_tool_outcome outcome = mr_tool_read_word(cursor, "[");
    while (outcome == MR_TOOL_FOUND) {
        mr_tool_skip_space(cursor);
        outcome = mr_tool_read_call(cursor);
        if (outcome != MR_TOOL_FOUND) return outcome;
        mr_tool_skip_space(cursor);
        if (mr_tool_read_word(cursor, "]") == MR_TOOL_FOUND) return MR_TOOL_FOUND;
        outcome = mr_tool_read_word(cursor, ",");
    }
    return outcome;
}
