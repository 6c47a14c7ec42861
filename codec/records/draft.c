#include "codec/records/draft.h"

#include "codec/limits.h"
#include "codec/wire/document.h"
#include "codec/wire/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX ((size_t)64)

static bool is_named(const char *field, const char *name)
{
    size_t length = strlen(name);
    return strncmp(field, name, length) == 0 && field[length] == '=';
}

/* True if the name of fields[index] equals that of an earlier field, or of a member that the draft
 * sets itself: id, stream, prompt or messages. */
static bool is_taken(const struct mr_draft *draft, size_t index, size_t name_length)
{
    const char *field = draft->fields[index];
    if (draft->id.length && is_named(field, "id")) return true;
    if (draft->no_stream && is_named(field, "stream")) return true;
    if (draft->prompt.length && is_named(field, draft->as_chat ? "messages" : "prompt"))
        return true;
    for (size_t i = 0; i < index; i++)
        if (strncmp(field, draft->fields[i], name_length + 1) == 0) return true;
    return false;
}

static enum mr_status check_fields(const struct mr_draft *draft, struct mr_error *err)
{
    for (size_t i = 0; i < draft->field_count; i++) {
        size_t length = strcspn(draft->fields[i], "=");
        if (length == 0 || length > NAME_BYTES_MAX || draft->fields[i][length] != '=')
            return mr_fail(err, MR_INVALID_REQUEST, "%.64s is not NAME=VALUE", draft->fields[i]);
        if (is_taken(draft, i, length))
            return mr_fail(err, MR_INVALID_REQUEST, "%.*s is given twice", (int)length,
                           draft->fields[i]);
    }
    return MR_OK;
}

/* Parses the VALUE of a field as JSON, inside an array because a JSON document must be an array or
 * an object. NULL when the text is not JSON. */
static struct mr_json *parse_value(const char *text)
{
    static const struct mr_json_limits limits = {MR_RECORD_BYTES_MAX, MR_NODES_MAX, MR_NESTING_MAX};
    size_t length = strlen(text) + 2;
    struct mr_json *json = NULL;
    char *wrapped = length <= MR_RECORD_BYTES_MAX ? malloc(length + 1) : NULL;
    if (!wrapped) return NULL;
    snprintf(wrapped, length + 1, "[%s]", text);
    mr_json_parse(&json, (struct mr_text){wrapped, length}, &limits, NULL);
    free(wrapped);
    if (json && mr_json_count(mr_json_root(json)) == 1) return json;
    mr_json_destroy(json);
    return NULL;
}

static void put_field(struct mr_writer *writer, const char *field)
{
    char name[NAME_BYTES_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(field, "="), field);
    const char *value = strchr(field, '=') + 1;
    struct mr_json *json = parse_value(value);
    mr_writer_name(writer, name);
    if (json)
        mr_writer_value(writer, mr_document_json_value(mr_json_at(mr_json_root(json), 0)));
    else
        mr_writer_string(writer, value);
    mr_json_destroy(json);
}

static void put_prompt(struct mr_writer *writer, const struct mr_draft *draft)
{
    mr_writer_name(writer, draft->as_chat ? "messages" : "prompt");
    if (draft->as_chat) {
        mr_writer_array(writer, 1);
        mr_writer_map(writer, 2);
        mr_writer_name(writer, "role");
        mr_writer_string(writer, "user");
        mr_writer_name(writer, "content");
    }
    mr_writer_text(writer, draft->prompt);
}

enum mr_status mr_draft_encode(const struct mr_draft *draft, enum mr_encoding encoding,
                               unsigned char **bytes, size_t *length, struct mr_error *err)
{
    *bytes = NULL;
    *length = 0;
    enum mr_status status = check_fields(draft, err);
    if (status != MR_OK) return status;
    struct mr_writer writer;
    bool id = draft->id.length > 0, prompt = draft->prompt.length > 0;
    mr_writer_init(&writer, encoding, MR_RESULT_BYTES_MAX);
    mr_writer_map(&writer, draft->field_count + id + prompt + draft->no_stream);
    if (id) mr_writer_name(&writer, "id");
    if (id) mr_writer_text(&writer, draft->id);
    if (prompt) put_prompt(&writer, draft);
    if (draft->no_stream) mr_writer_name(&writer, "stream");
    if (draft->no_stream) mr_writer_bool(&writer, false);
    for (size_t i = 0; i < draft->field_count; i++)
        put_field(&writer, draft->fields[i]);
    return mr_writer_take(&writer, bytes, length, err);
}
