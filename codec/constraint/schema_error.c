/* Errors of a schema, with the place as a JSON pointer. */
#include "codec/constraint/schema.h"
#include "codec/constraint/schema_state.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES  120u
#define NAME_BYTES  40u
#define PLACE_BYTES 256u

/* Writes a slash and a name at `length`. size: bytes of the buffer. */
static void put_step(char *path, size_t size, size_t length, struct mr_text name)
{
    size_t at = length;
    if (at + 1 < size) path[at++] = '/';
    for (size_t i = 0; i < name.length && at + 1 < size; i++) {
        unsigned char byte = (unsigned char)name.bytes[i];
        path[at++] = byte > 0x20 && byte < 0x7f ? name.bytes[i] : '?';
    }
    path[at] = '\0';
}

/* The call that a place in the schema of calls belongs to (codec/records/request_tools.c). */
struct call {
    const struct mr_json_value *schema; /* NULL: none */
    size_t skip;                        /* length of the pointer of the tool's own schema */
};

static const struct mr_json_value *parameters_of(const struct mr_json_value *call,
                                                 const char **member)
{
    const struct mr_json_value *properties = mr_json_get(call, "properties");
    *member = mr_json_get(properties, "arguments") ? "arguments" : "parameters";
    return mr_json_get(properties, *member);
}

/* Writes the JSON pointer of `wanted`, which is at or below `from`. */
static bool find_path(const struct mr_json_value *from, const struct mr_json_value *wanted,
                      char path[PATH_BYTES], size_t length, struct call *call)
{
    bool found = from == wanted;
    path[length] = '\0';
    struct mr_json_member member = {0};
    while (!found && mr_json_kind(from) == MR_JSON_OBJECT && mr_json_next(from, &member)) {
        put_step(path, PATH_BYTES, length, member.name);
        found = find_path(member.value, wanted, path, strlen(path), call);
    }
    for (size_t i = 0; !found && mr_json_kind(from) == MR_JSON_ARRAY && i < mr_json_count(from);
         i++) {
        char index[24];
        int digits = snprintf(index, sizeof index, "%zu", i);
        put_step(path, PATH_BYTES, length, (struct mr_text){index, (size_t)digits});
        found = find_path(mr_json_at(from, i), wanted, path, strlen(path), call);
    }
    if (found && mr_json_get(from, "$tool")) {
        const char *member_name;
        if (parameters_of(from, &member_name)) call->schema = from;
        call->skip = length + strlen("/properties/") + strlen(member_name);
    }
    return found;
}

/* Writes "schema #" and the JSON pointer of a node or its member. In the schema of calls it is
 * "tool NAME: schema #" and the pointer in the tool's own schema. Returns the schema of the call.
 */
static const struct mr_json_value *put_place(const struct mr_json *document,
                                             const struct mr_json_value *node, const char *keyword,
                                             char out[PLACE_BYTES])
{
    struct call call = {NULL, 0};
    char path[PATH_BYTES] = "", name[NAME_BYTES] = "/";
    struct mr_text tool = {"", 0};
    const struct mr_json_value *root = document ? mr_json_root(document) : NULL;
    bool found = !root || !node || find_path(root, node, path, 0, &call);
    for (size_t i = 0; !found && (root = mr_json_copy(document, i)); i++)
        found = find_path(root, node, path, 0, &call);
    const size_t skip = call.schema && call.skip <= strlen(path) ? call.skip : 0;
    mr_json_text(mr_json_get(call.schema, "$tool"), &tool);
    if (call.schema) put_step(name, NAME_BYTES, 0, tool);
    snprintf(out, PLACE_BYTES, "%s%s%sschema #%s%s%s", call.schema ? "tool " : "", name + 1,
             call.schema ? ": " : "", path + skip, keyword ? "/" : "", keyword ? keyword : "");
    return call.schema;
}

/* Remembers the parameters of a tool that a request may do without: their schema has failed. */
static void blame(struct mr_schema *schema, const struct mr_json_value *call)
{
    const char *member;
    if (call && !mr_json_get(call, "$strict")) schema->bad = parameters_of(call, &member);
}

void mr_schema_fail(struct mr_schema *schema, enum mr_status status,
                    const struct mr_json_value *node, const char *keyword, const char *what)
{
    char place[PLACE_BYTES];
    if (schema->builder->status != MR_OK) return;
    blame(schema, put_place(schema->document, node, keyword, place));
    mr_expr_fail(schema->builder, status, "%.110s: %s", place, what);
}

void mr_schema_warn(struct mr_schema *schema, const struct mr_json_value *node, const char *keyword,
                    const char *what)
{
    char place[PLACE_BYTES];
    char *warning = schema->builder->warning;
    put_place(schema->document, node, keyword, place);
    if (!*warning) snprintf(warning, MR_ERROR_DETAIL_BYTES, "%.120s: %.70s", place, what);
}

/* Prepends a place to the builder's error sentence. */
static void prepend(struct mr_expr_builder *builder, const char *place)
{
    char sentence[MR_ERROR_DETAIL_BYTES];
    if (!builder->err) return;
    snprintf(sentence, sizeof sentence, "%s", builder->err->detail);
    mr_fail(builder->err, builder->status, "%.110s: %.85s", place, sentence);
}

const struct mr_expr *mr_schema_pattern(struct mr_schema *schema, const struct mr_json_value *node,
                                        const char *keyword, struct mr_text pattern,
                                        enum mr_regex_extent extent)
{
    const struct mr_regex_options options = {extent, MR_SPELL_JSON, NULL};
    char place[PLACE_BYTES];
    if (schema->builder->status != MR_OK) return mr_expr_never();
    const struct mr_expr *language = mr_regex_expr(schema->builder, pattern, &options);
    if (schema->builder->status == MR_OK) return language;
    blame(schema, put_place(schema->document, node, keyword, place));
    prepend(schema->builder, place);
    return mr_expr_never();
}

void mr_schema_add_place(struct mr_expr_builder *builder, const struct mr_json *document,
                         uint32_t rule)
{
    char place[PLACE_BYTES];
    put_place(document, builder->rules[rule].origin, NULL, place);
    prepend(builder, place);
}
