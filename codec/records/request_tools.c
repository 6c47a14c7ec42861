#include "codec/records/request_tools.h"

#include "codec/wire/json_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORCED_CALLS_MAX    16 /* most calls in an answer that must call tools */
#define REFERENCE_DEPTH_MAX 8  /* references that are followed to find the type of a schema */
#define REFERENCE_STEPS_MAX (1u << 20) /* members compared for these lookups in one request */

/* ---- fields ---- */

enum mr_status mr_request_read_tool_choice(struct mr_request_reader *reader, const char *field,
                                           struct mr_value value)
{
    static const char *const names[] = {"auto", "none", "required"};
    struct mr_tool_use *use = &reader->request->tool_use;
    struct mr_value function, name;
    reader->tool_choice_given = true;
    for (size_t i = 0; mr_value_kind(value) == MR_VALUE_TEXT && i < 3; i++) {
        if (!mr_text_is(mr_value_text(value), names[i])) continue;
        use->choice = (enum mr_tool_choice)i;
        return MR_OK;
    }
    if (mr_value_kind(value) != MR_VALUE_MAP || !mr_value_get(value, "function", &function) ||
        mr_value_kind(function) != MR_VALUE_MAP || !mr_value_get(function, "name", &name) ||
        mr_value_kind(name) != MR_VALUE_TEXT)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "%s must be none, auto, required or a map with function.name", field);
    use->choice = MR_TOOL_CHOICE_NAMED;
    return mr_request_copy_text(reader, mr_value_text(name), &use->name);
}

enum mr_status mr_request_read_parallel_calls(struct mr_request_reader *reader, const char *field,
                                              struct mr_value value)
{
    if (mr_value_kind(value) != MR_VALUE_BOOL)
        return mr_request_wrong_type(reader, field, "true or false", value);
    reader->request->tool_use.single = !mr_value_bool(value);
    return MR_OK;
}

/* ---- the schema of the calls ---- */

/* True for keywords whose value is a map of names to schemas. */
static bool has_named_schemas(struct mr_text keyword)
{
    static const char *const keywords[] = {"properties", "patternProperties", "$defs",
                                           "definitions", "dependentSchemas"};
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (mr_text_is(keyword, keywords[i])) return true;
    return false;
}

/* Writes a JSON schema of a tool. named: `value` is a map of names to schemas. References in it are
 * relative to the tool's schema, so they get a prefix with the place of that schema. prefix NULL:
 * the value is data (enum, const) and has no references. Recursive; the document has limited the
 * depth. */
static void put_schema(struct mr_json_writer *writer, const struct mr_data *data, bool named,
                       const char *prefix)
{
    switch (data->kind) {
    case MR_DATA_NULL:
        mr_json_put_null(writer);
        break;
    case MR_DATA_BOOL:
        mr_json_put_bool(writer, data->integer != 0);
        break;
    case MR_DATA_INT:
        mr_json_put_int(writer, data->integer);
        break;
    case MR_DATA_FLOAT:
        mr_json_put_double(writer, data->number);
        break;
    case MR_DATA_BIG:
        mr_json_put_raw(writer, data->text);
        break;
    case MR_DATA_TEXT:
        mr_json_put_text(writer, data->text);
        break;
    case MR_DATA_LIST:
        mr_json_begin_array(writer);
        for (size_t i = 0; i < data->list.count; i++)
            put_schema(writer, &data->list.items[i], false, prefix);
        mr_json_end(writer);
        break;
    case MR_DATA_MAP:
        mr_json_begin_object(writer);
        for (size_t i = 0; i < data->map.count; i++) {
            const struct mr_data_member *member = &data->map.members[i];
            struct mr_text keyword = named ? (struct mr_text){"", 0} : member->name;
            char reference[512];
            bool is_data = mr_text_is(keyword, "enum") || mr_text_is(keyword, "const");
            bool moves = prefix && mr_text_is(keyword, "$ref") &&
                         member->value.kind == MR_DATA_TEXT && member->value.text.length > 0 &&
                         member->value.text.length < 256 && member->value.text.bytes[0] == '#';
            mr_json_name_text(writer, member->name);
            if (moves) {
                snprintf(reference, sizeof reference, "%s%.*s", prefix,
                         (int)member->value.text.length - 1, member->value.text.bytes + 1);
                mr_json_put_string(writer, reference);
            } else {
                put_schema(writer, &member->value, has_named_schemas(keyword),
                           is_data ? NULL : prefix);
            }
        }
        mr_json_end(writer);
        break;
    }
}

/* How the schema of calls is written. */
struct call_schema {
    struct mr_request *request;
    struct mr_json_writer *writer;
    const char *place;  /* keyword of the array of calls in the schema */
    const char *member; /* member of a call that has its arguments */
    struct mr_error *err;
};

static void put_type(struct mr_json_writer *writer, const char *type)
{
    mr_json_name(writer, "type");
    mr_json_put_string(writer, type);
}

/* parameters NULL: any object. prefix: see put_schema. */
static void put_parameters(const struct call_schema *calls, const struct mr_data *parameters,
                           const char *prefix)
{
    struct mr_json_writer *writer = calls->writer;
    bool none = parameters && parameters->kind == MR_DATA_NULL;
    mr_json_name(writer, calls->member);
    if (parameters && !none && parameters->map.count > 0) {
        put_schema(writer, parameters, false, prefix);
        return;
    }
    mr_json_begin_object(writer);
    put_type(writer, "object");
    if (none) mr_json_name(writer, "additionalProperties");
    if (none) mr_json_put_bool(writer, false);
    mr_json_end(writer);
}

/* Writes the schema of one call: exactly the members name and parameters. $tool and
 * $strict are for codec/constraint/schema_error.c. */
static void put_call(const struct call_schema *calls, struct mr_text name, bool strict,
                     const struct mr_data *parameters, const char *prefix)
{
    struct mr_json_writer *writer = calls->writer;
    mr_json_begin_object(writer);
    mr_json_name(writer, "$tool");
    mr_json_put_text(writer, name);
    if (strict) mr_json_name(writer, "$strict");
    if (strict) mr_json_put_bool(writer, true);
    put_type(writer, "object");
    mr_json_name(writer, "additionalProperties");
    mr_json_put_bool(writer, false);
    mr_json_name(writer, "required");
    mr_json_begin_array(writer);
    mr_json_put_string(writer, "name");
    mr_json_put_string(writer, calls->member);
    mr_json_end(writer);
    mr_json_name(writer, "properties");
    mr_json_begin_object(writer);
    mr_json_name(writer, "name");
    mr_json_begin_object(writer);
    mr_json_name(writer, "const");
    mr_json_put_text(writer, name);
    mr_json_end(writer);
    put_parameters(calls, parameters, prefix);
    mr_json_end(writer);
    mr_json_end(writer);
}

static bool is_strict(const struct mr_data *tool)
{
    const struct mr_data *function = mr_data_get(tool, "function");
    const struct mr_data *strict = function ? mr_data_get(function, "strict") : NULL;
    return strict && strict->kind == MR_DATA_BOOL && strict->integer != 0;
}

/* Reads the name and the parameters of a tool. Parameters of kind NULL: the tool has none. NULL:
 * any object. */
static enum mr_status read_tool(const struct call_schema *calls, size_t index, struct mr_text *name,
                                const struct mr_data **parameters)
{
    static const struct mr_data no_parameters = {.kind = MR_DATA_NULL};
    const struct mr_data *tool = &calls->request->chat.tools.list.items[index];
    const struct mr_data *function = mr_data_get(tool, "function");
    const struct mr_data *named = function ? mr_data_get(function, "name") : NULL;
    *parameters = function ? mr_data_get(function, "parameters") : NULL;
    if (!named || named->kind != MR_DATA_TEXT || named->text.length == 0 ||
        named->text.length > MR_TOOL_NAME_BYTES_MAX)
        return mr_fail(calls->err, MR_INVALID_REQUEST,
                       "tools[%zu].function.name must be a text of 1 to %u bytes", index,
                       MR_TOOL_NAME_BYTES_MAX);
    if (*parameters && (*parameters)->kind != MR_DATA_MAP && (*parameters)->kind != MR_DATA_NULL)
        return mr_fail(calls->err, MR_INVALID_REQUEST,
                       "tools[%zu].function.parameters must be a JSON schema", index);
    if (!*parameters) *parameters = &no_parameters;
    if (calls->request->tool_use.choice == MR_TOOL_CHOICE_AUTO && !is_strict(tool))
        *parameters = NULL;
    *name = named->text;
    return MR_OK;
}

/* Writes the alternatives of a call: the tools, or the one that tool_choice names. */
static enum mr_status put_calls(const struct call_schema *calls)
{
    const struct mr_request *request = calls->request;
    enum mr_status status = MR_OK;
    size_t count = 0;
    mr_json_name(calls->writer, "anyOf");
    mr_json_begin_array(calls->writer);
    for (size_t i = 0; i < request->chat.tools.list.count && status == MR_OK; i++) {
        struct mr_text name;
        const struct mr_data *parameters;
        char prefix[96];
        status = read_tool(calls, i, &name, &parameters);
        if (status != MR_OK) break;
        if (request->tool_use.choice == MR_TOOL_CHOICE_NAMED &&
            !mr_text_equal(name, request->tool_use.name))
            continue;
        snprintf(prefix, sizeof prefix, "#%s/anyOf/%zu/properties/%s", calls->place, count++,
                 calls->member);
        put_call(calls, name, is_strict(&request->chat.tools.list.items[i]), parameters, prefix);
    }
    mr_json_end(calls->writer);
    if (status == MR_OK && count == 0)
        return mr_fail(calls->err, MR_INVALID_REQUEST, "tool_choice names no tool of tools");
    return status;
}

/* Completes the schema and makes it the text of the request's constraint. */
static enum mr_status take_schema(const struct call_schema *calls, enum mr_status status,
                                  enum mr_constraint_kind kind)
{
    struct mr_request *request = calls->request;
    struct mr_error why = {0};
    char *bytes, *copy;
    size_t length;
    if (status != MR_OK) {
        mr_json_writer_drop(calls->writer);
        return status;
    }
    status = mr_json_writer_take(calls->writer, &bytes, &length, &why);
    if (status == MR_RECORD_TOO_LARGE)
        return mr_fail(calls->err, MR_INVALID_REQUEST, "the schemas of tools are above %zu bytes",
                       MR_CONSTRAINT_BYTES_MAX);
    if (status != MR_OK) return mr_fail(calls->err, status, "%s", why.detail);
    copy = mr_arena_copy_text(request->arena, bytes, length);
    free(bytes);
    if (!copy) return mr_fail(calls->err, MR_RECORD_TOO_LARGE, "no room for the schemas of tools");
    request->constraint.kind = kind;
    request->constraint.text = (struct mr_text){copy, length};
    return MR_OK;
}

/* Constrains the answer to an array of calls. */
static enum mr_status constrain(struct mr_request_reader *reader)
{
    struct mr_request *request = reader->request;
    struct mr_json_writer writer;
    const struct call_schema calls = {request, &writer, "/items", "parameters", reader->err};
    bool single = request->tool_use.single || request->tool_use.choice == MR_TOOL_CHOICE_NAMED;
    if (request->constraint.kind != MR_CONSTRAINT_NONE)
        return mr_fail(reader->err, MR_INVALID_REQUEST,
                       "tool_choice required or a tool excludes response_format");
    mr_json_writer_init(&writer, MR_CONSTRAINT_BYTES_MAX);
    mr_json_begin_object(&writer);
    put_type(&writer, "array");
    mr_json_name(&writer, "minItems");
    mr_json_put_int(&writer, 1);
    mr_json_name(&writer, "maxItems");
    mr_json_put_int(&writer, single ? 1 : FORCED_CALLS_MAX);
    mr_json_name(&writer, "items");
    mr_json_begin_object(&writer);
    enum mr_status status = put_calls(&calls);
    if (status == MR_OK) {
        mr_json_end(&writer);
        mr_json_end(&writer);
    }
    return take_schema(&calls, status, MR_CONSTRAINT_JSON_SCHEMA);
}

enum mr_status mr_request_constrain_calls(struct mr_request *request, enum mr_tool_format format,
                                          struct mr_error *err)
{
    struct mr_json_writer writer;
    bool whole = format == MR_TOOLS_LLAMA;
    const struct call_schema calls = {request, &writer, "", whole ? "parameters" : "arguments",
                                      err};
    if (format != MR_TOOLS_HERMES && !whole)
        return mr_fail(err, MR_UNSUPPORTED,
                       "function.strict in tools cannot be guaranteed with tool_choice auto: this "
                       "model writes calls in the format %s; use tool_choice required, a named "
                       "tool, or no strict",
                       format == MR_TOOLS_NONE ? "that is not known" : mr_tool_format_name(format));
    if (request->constraint.kind != MR_CONSTRAINT_NONE)
        return mr_fail(err, MR_INVALID_REQUEST,
                       "function.strict in tools excludes response_format");
    if (request->ignore_eos)
        return mr_fail(err, MR_INVALID_REQUEST, "function.strict in tools excludes ignore_eos");
    enum mr_constraint_kind many = whole ? MR_CONSTRAINT_WHOLE_CALLS : MR_CONSTRAINT_TAGGED_CALLS;
    enum mr_constraint_kind one = whole ? MR_CONSTRAINT_WHOLE_CALL : MR_CONSTRAINT_TAGGED_CALL;
    mr_json_writer_init(&writer, MR_CONSTRAINT_BYTES_MAX);
    mr_json_begin_object(&writer);
    enum mr_status status = put_calls(&calls);
    if (status == MR_OK) mr_json_end(&writer);
    return take_schema(&calls, status, request->tool_use.single ? one : many);
}

enum mr_status mr_request_apply_tools(struct mr_request_reader *reader)
{
    struct mr_request *request = reader->request;
    struct mr_tool_use *use = &request->tool_use;
    bool tools = request->chat.tools.kind == MR_DATA_LIST && request->chat.tools.list.count > 0;
    bool forced = use->choice == MR_TOOL_CHOICE_REQUIRED || use->choice == MR_TOOL_CHOICE_NAMED;
    if (!tools && forced)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "tool_choice needs tools");
    if (!tools) use->choice = MR_TOOL_CHOICE_NONE;
    for (size_t i = 0; use->choice == MR_TOOL_CHOICE_AUTO && i < request->chat.tools.list.count;
         i++)
        use->strict |= is_strict(&request->chat.tools.list.items[i]);
    return forced ? constrain(reader) : MR_OK;
}

/* ---- the types of parameters ---- */

enum {
    IS_TEXT = 1,
    IS_INTEGER = 2,
    IS_NUMBER = 4,
    IS_BOOL = 8,
    IS_OTHER = 16,
    IS_NULL = 32,
    IS_UNRESOLVED = 64 /* an unresolved reference, or a chain that is too long */
};

/* The schemas that a tool's schema may refer to. They may refer to each other, so the member
 * comparisons are counted and limited, for all tools of a request together. */
struct definitions {
    const struct mr_data *maps[2]; /* $defs and definitions of the parameters; NULL: not there */
    size_t *steps_left;
};

static unsigned kind_of(struct mr_text type)
{
    static const struct {
        const char *word;
        unsigned kind;
    } kinds[] = {
        {"string", IS_TEXT}, {"integer", IS_INTEGER}, {"number", IS_NUMBER}, {"boolean", IS_BOOL},
        {"null", IS_NULL},   {"str", IS_TEXT}, /* names of Python types */
        {"text", IS_TEXT},   {"enum", IS_TEXT},       {"varchar", IS_TEXT},  {"char", IS_TEXT},
        {"int", IS_INTEGER}, {"float", IS_NUMBER},    {"bool", IS_BOOL},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (mr_text_is_any_case(type, kinds[i].word)) return kinds[i].kind;
    return IS_OTHER;
}

static bool spend(const struct definitions *definitions, size_t steps)
{
    bool enough = steps <= *definitions->steps_left;
    *definitions->steps_left -= enough ? steps : *definitions->steps_left;
    return enough;
}

/* The schema at #/$defs/NAME or #/definitions/NAME of the parameters; or NULL. */
static const struct mr_data *find_definition(const struct definitions *definitions,
                                             const struct mr_data *reference)
{
    static const char *const places[] = {"#/$defs/", "#/definitions/"};
    for (size_t i = 0; reference->kind == MR_DATA_TEXT && i < 2; i++) {
        const struct mr_data *map = definitions->maps[i];
        struct mr_text text = reference->text;
        size_t length = strlen(places[i]);
        if (!map || map->kind != MR_DATA_MAP || text.length < length ||
            memcmp(text.bytes, places[i], length) != 0)
            continue;
        if (!spend(definitions, map->map.count)) return NULL;
        for (size_t k = 0; k < map->map.count; k++)
            if (mr_text_equal(map->map.members[k].name, mr_text_part(text, length, text.length)))
                return &map->map.members[k].value;
    }
    return NULL;
}

/* The types that a schema allows; 0: unspecified. depth: number of references followed so far.
 * Recursive; the document has limited the depth of a schema. */
static unsigned kinds_of(const struct definitions *definitions, const struct mr_data *schema,
                         unsigned depth)
{
    static const char *const groups[] = {"anyOf", "oneOf", "allOf"};
    const struct mr_data *reference = mr_data_get(schema, "$ref");
    const struct mr_data *type = mr_data_get(schema, "type");
    size_t count = type && type->kind == MR_DATA_LIST ? type->list.count : 0;
    size_t members = schema->kind == MR_DATA_MAP ? schema->map.count : 0;
    unsigned kinds = 0;
    if (depth > 0 && !spend(definitions, 1 + members + count)) return IS_UNRESOLVED;
    if (reference) {
        const struct mr_data *found =
            depth < REFERENCE_DEPTH_MAX ? find_definition(definitions, reference) : NULL;
        kinds |= found ? kinds_of(definitions, found, depth + 1) : IS_UNRESOLVED;
    }
    if (type && type->kind == MR_DATA_TEXT) kinds |= kind_of(type->text);
    for (size_t i = 0; i < count; i++)
        if (type->list.items[i].kind == MR_DATA_TEXT) kinds |= kind_of(type->list.items[i].text);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const struct mr_data *group = mr_data_get(schema, groups[i]);
        for (size_t k = 0; group && group->kind == MR_DATA_LIST && k < group->list.count; k++)
            kinds |= kinds_of(definitions, &group->list.items[k], depth);
    }
    return kinds;
}

static enum mr_tool_type type_of(const struct definitions *definitions,
                                 const struct mr_data *schema)
{
    unsigned kinds = kinds_of(definitions, schema, 0), others = kinds & ~(unsigned)IS_NULL;
    if (others == 0 || (others & IS_TEXT))
        return kinds & IS_NULL ? MR_TOOL_TEXT_OR_NULL : MR_TOOL_TEXT;
    if (others & IS_UNRESOLVED) return MR_TOOL_OBJECT_OR_ARRAY;
    if (others == IS_INTEGER) return MR_TOOL_INTEGER;
    if (others == IS_BOOL) return MR_TOOL_BOOL;
    return (others & ~(unsigned)(IS_INTEGER | IS_NUMBER)) == 0 ? MR_TOOL_NUMBER : MR_TOOL_JSON;
}

/* The parameters that have a type, in the order of the request. */
struct typed {
    struct mr_tool_parameter *parameters; /* [MR_TOOL_TYPES_MAX] */
    size_t count;
    size_t steps_left; /* see struct definitions */
    bool cut;          /* some were left out */
};

static void add_typed(struct typed *typed, const struct mr_data *tool)
{
    const struct mr_data *function = mr_data_get(tool, "function");
    const struct mr_data *name = function ? mr_data_get(function, "name") : NULL;
    const struct mr_data *schema = function ? mr_data_get(function, "parameters") : NULL;
    const struct mr_data *properties = schema ? mr_data_get(schema, "properties") : NULL;
    if (!name || name->kind != MR_DATA_TEXT || !properties || properties->kind != MR_DATA_MAP)
        return;
    const struct definitions definitions = {
        {mr_data_get(schema, "$defs"), mr_data_get(schema, "definitions")}, &typed->steps_left};
    for (size_t i = 0; i < properties->map.count; i++) {
        const struct mr_data_member *member = &properties->map.members[i];
        enum mr_tool_type type = type_of(&definitions, &member->value);
        bool fits = typed->count < MR_TOOL_TYPES_MAX &&
                    name->text.length <= MR_TOOL_NAME_BYTES_MAX &&
                    member->name.length <= MR_TOOL_NAME_BYTES_MAX;
        if (type == MR_TOOL_TEXT) continue;
        if (fits)
            typed->parameters[typed->count++] =
                (struct mr_tool_parameter){name->text, member->name, type};
        typed->cut |= !fits;
    }
}

enum mr_status mr_request_tool_types(struct mr_request *request, struct mr_tool_types **out,
                                     struct mr_error *err)
{
    static const char cut[] = "tools: the types of some parameters are not kept, because there are "
                              "too many or a name is too long; their values in calls are texts";
    const struct mr_data *tools = &request->chat.tools;
    enum mr_status status = MR_OK;
    *out = NULL;
    if (request->tool_use.format != MR_TOOLS_QWEN_CODER || tools->kind != MR_DATA_LIST)
        return MR_OK;
    struct typed typed = {.parameters = calloc(MR_TOOL_TYPES_MAX, sizeof *typed.parameters),
                          .steps_left = REFERENCE_STEPS_MAX};
    if (!typed.parameters) return mr_fail(err, MR_NOMEM, "no memory for the types of tools");
    for (size_t i = 0; i < tools->list.count; i++)
        add_typed(&typed, &tools->list.items[i]);
    if (typed.count > 0) status = mr_tool_types_create(out, typed.parameters, typed.count, err);
    if (typed.cut) mr_request_add_warning(request, (struct mr_text){cut, sizeof cut - 1});
    free(typed.parameters);
    return status;
}
