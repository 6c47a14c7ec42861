#include "codec/records/request_format.h"

#include "codec/wire/json_writer.h"

#include <stdlib.h>
#include <string.h>

/* ---- values as JSON text ---- */

/* Recursive; the document has limited the depth to MR_NESTING_MAX. Sets *exact to false if JSON
 * cannot express a value. */
static void put_value(struct mr_json_writer *writer, struct mr_value value, bool *exact)
{
    struct mr_member member = {0};
    char digits[24];
    switch (mr_value_kind(value)) {
    case MR_VALUE_BOOL:
        mr_json_put_bool(writer, mr_value_bool(value));
        break;
    case MR_VALUE_INT:
        mr_json_put_int(writer, mr_value_int(value));
        break;
    case MR_VALUE_FLOAT:
        mr_json_put_double(writer, mr_value_number(value));
        break;
    case MR_VALUE_TEXT:
        mr_json_put_text(writer, mr_value_text(value));
        break;
    case MR_VALUE_ARRAY:
        mr_json_begin_array(writer);
        for (size_t i = 0; i < mr_value_count(value); i++)
            put_value(writer, mr_value_at(value, i), exact);
        mr_json_end(writer);
        break;
    case MR_VALUE_MAP:
        mr_json_begin_object(writer);
        while (mr_value_next(value, &member)) {
            mr_json_name_text(writer, member.name);
            put_value(writer, member.value, exact);
        }
        mr_json_end(writer);
        break;
    case MR_VALUE_NULL:
        mr_json_put_null(writer);
        break;
    case MR_VALUE_BIG:
        mr_json_put_raw(writer, mr_value_big(value, digits));
        break;
    case MR_VALUE_BINARY:
        mr_json_put_null(writer);
        *exact = false;
        break;
    }
}

/* Copies a value as JSON text into the request's arena. */
static enum mr_status copy_json(struct mr_request_reader *reader, const char *field,
                                struct mr_value value, struct mr_text *out)
{
    struct mr_json_writer writer;
    char *bytes;
    size_t length;
    struct mr_error why;
    bool exact = true;
    mr_json_writer_init(&writer, MR_CONSTRAINT_BYTES_MAX);
    put_value(&writer, value, &exact);
    enum mr_status status = mr_json_writer_take(&writer, &bytes, &length, &why);
    if (status == MR_RECORD_TOO_LARGE)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s is above %zu bytes", field,
                       MR_CONSTRAINT_BYTES_MAX);
    if (status != MR_OK) return mr_fail(reader->err, status, "%s", why.detail);
    status = exact ? mr_request_copy_text(reader, (struct mr_text){bytes, length}, out)
                   : mr_fail(reader->err, MR_INVALID_REQUEST,
                             "%s holds binary data, which JSON cannot express", field);
    free(bytes);
    return status;
}

/* ---- constraints ---- */

/* Sets the request's constraint; `value` is its source. */
static enum mr_status set(struct mr_request_reader *reader, enum mr_constraint_kind kind,
                          const char *field, struct mr_value value)
{
    struct mr_constraint *constraint = &reader->request->constraint;
    enum mr_value_kind is = mr_value_kind(value);
    if (constraint->kind != MR_CONSTRAINT_NONE)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "use one of response_format, structured_outputs and guided_*");
    constraint->kind = kind;
    if (kind == MR_CONSTRAINT_CHOICE) {
        if (is != MR_VALUE_ARRAY)
            return mr_request_wrong_type(reader, field, "an array of texts", value);
        return copy_json(reader, field, value, &constraint->text);
    }
    if (kind == MR_CONSTRAINT_JSON_SCHEMA && is == MR_VALUE_MAP)
        return copy_json(reader, field, value, &constraint->text);
    if (is != MR_VALUE_TEXT)
        return mr_request_wrong_type(reader, field,
                                     kind == MR_CONSTRAINT_JSON_SCHEMA ? "a map" : "text", value);
    struct mr_text text = mr_value_text(value);
    if (text.length == 0) return mr_fail(reader->err, MR_INVALID_REQUEST, "%s is empty", field);
    return mr_request_copy_text(reader, text, &constraint->text);
}

static enum mr_status set_object(struct mr_request_reader *reader)
{
    struct mr_constraint *constraint = &reader->request->constraint;
    if (constraint->kind != MR_CONSTRAINT_NONE)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "use one of response_format, structured_outputs and guided_*");
    *constraint = (struct mr_constraint){.kind = MR_CONSTRAINT_JSON_OBJECT, .text = {"", 0}};
    return MR_OK;
}

static const struct {
    const char *name, *guided;
    enum mr_constraint_kind kind;
} sources[] = {
    {"json", "guided_json", MR_CONSTRAINT_JSON_SCHEMA},
    {"regex", "guided_regex", MR_CONSTRAINT_REGEX},
    {"choice", "guided_choice", MR_CONSTRAINT_CHOICE},
    {"grammar", "guided_grammar", MR_CONSTRAINT_EBNF},
};

#define SOURCES (sizeof sources / sizeof sources[0])

enum mr_status mr_request_read_guided(struct mr_request_reader *reader, const char *field,
                                      struct mr_value value)
{
    for (size_t i = 0; i < SOURCES; i++)
        if (strcmp(field, sources[i].guided) == 0)
            return set(reader, sources[i].kind, field, value);
    return mr_fail(reader->err, MR_INTERNAL, "%s has no kind", field);
}

static enum mr_status read_json_schema(struct mr_request_reader *reader, struct mr_value format)
{
    struct mr_value wrapper, schema;
    if (!mr_value_get(format, "json_schema", &wrapper) || mr_value_kind(wrapper) != MR_VALUE_MAP ||
        !mr_value_get(wrapper, "schema", &schema))
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "response_format of type json_schema needs json_schema.schema");
    return set(reader, MR_CONSTRAINT_JSON_SCHEMA, "json_schema.schema", schema);
}

enum mr_status mr_request_read_response_format(struct mr_request_reader *reader, const char *field,
                                               struct mr_value value)
{
    struct mr_value type, source;
    if (mr_value_kind(value) != MR_VALUE_MAP)
        return mr_request_wrong_type(reader, field, "a map", value);
    if (!mr_value_get(value, "type", &type) || mr_value_kind(type) != MR_VALUE_TEXT)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s needs a type of text", field);
    struct mr_text name = mr_value_text(type);
    if (mr_text_is(name, "text")) return MR_OK;
    if (mr_text_is(name, "json_object")) return set_object(reader);
    if (mr_text_is(name, "json_schema")) return read_json_schema(reader, value);
    for (size_t i = 1; i < SOURCES; i++) {
        if (!mr_text_is(name, sources[i].name)) continue;
        if (mr_value_get(value, sources[i].name, &source))
            return set(reader, sources[i].kind, sources[i].name, source);
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s of type %s needs a member %s", field,
                       sources[i].name, sources[i].name);
    }
    return mr_fail(reader->err, MR_INVALID_REQUEST, "%s has an unknown type", field);
}

/* Reads one member of structured_outputs. */
static enum mr_status read_structured(struct mr_request_reader *reader,
                                      const struct mr_member *member)
{
    static const char *const unsupported[] = {"structural_tag", "whitespace_pattern"};
    static const char *const ignored[] = {"disable_any_whitespace", "disable_fallback",
                                          "disable_additional_properties"};
    struct mr_nearest nearest = {.written = member->name};
    if (mr_value_kind(member->value) == MR_VALUE_NULL) return MR_OK;
    for (size_t i = 0; i < SOURCES; i++)
        mr_nearest_consider(&nearest, sources[i].name);
    for (size_t i = 0; i < SOURCES; i++)
        if (mr_text_is(member->name, sources[i].name))
            return set(reader, sources[i].kind, sources[i].name, member->value);
    if (mr_text_is(member->name, "json_object")) {
        if (mr_value_kind(member->value) != MR_VALUE_BOOL)
            return mr_request_wrong_type(reader, "json_object", "true or false", member->value);
        return mr_value_bool(member->value) ? set_object(reader) : MR_OK;
    }
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++)
        if (mr_text_is(member->name, unsupported[i]))
            return mr_fail(reader->err, MR_UNSUPPORTED, "structured_outputs: %s is not supported",
                           unsupported[i]);
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        if (mr_text_is(member->name, ignored[i])) return MR_OK;
    return mr_request_unknown(reader, member->name, nearest);
}

enum mr_status mr_request_read_structured_outputs(struct mr_request_reader *reader,
                                                  const char *field, struct mr_value value)
{
    struct mr_member member = {0};
    enum mr_status status = MR_OK;
    if (mr_value_kind(value) != MR_VALUE_MAP)
        return mr_request_wrong_type(reader, field, "a map", value);
    while (status == MR_OK && mr_value_next(value, &member))
        status = read_structured(reader, &member);
    return status;
}
