/* Errors of a schema, with the place as a JSON pointer. */
#include "codec/constraint/schema.h"
#include "codec/constraint/schema_state.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 120u

static void put_step(char path[PATH_BYTES], size_t length, struct mr_text name)
{
    size_t at = length;
    if (at + 1 < PATH_BYTES) path[at++] = '/';
    for (size_t i = 0; i < name.length && at + 1 < PATH_BYTES; i++) {
        unsigned char byte = (unsigned char)name.bytes[i];
        path[at++] = byte > 0x20 && byte < 0x7f ? name.bytes[i] : '?';
    }
    path[at] = '\0';
}

/* Writes the JSON pointer of `wanted`, which is at or below `from`. */
static bool find_path(const struct mr_json_value *from, const struct mr_json_value *wanted,
                      char path[PATH_BYTES], size_t length)
{
    path[length] = '\0';
    if (from == wanted) return true;
    struct mr_json_member member = {0};
    while (mr_json_kind(from) == MR_JSON_OBJECT && mr_json_next(from, &member)) {
        put_step(path, length, member.name);
        if (find_path(member.value, wanted, path, strlen(path))) return true;
        path[length] = '\0';
    }
    for (size_t i = 0; mr_json_kind(from) == MR_JSON_ARRAY && i < mr_json_count(from); i++) {
        char index[24];
        int digits = snprintf(index, sizeof index, "%zu", i);
        put_step(path, length, (struct mr_text){index, (size_t)digits});
        if (find_path(mr_json_at(from, i), wanted, path, strlen(path))) return true;
        path[length] = '\0';
    }
    return false;
}

void mr_schema_fail(struct mr_schema *schema, enum mr_status status,
                    const struct mr_json_value *node, const char *keyword, const char *what)
{
    char path[PATH_BYTES] = "";
    if (schema->builder->status != MR_OK) return;
    if (schema->root) find_path(schema->root, node, path, 0);
    mr_expr_fail(schema->builder, status, "schema #%s%s%s: %s", path, keyword ? "/" : "",
                 keyword ? keyword : "", what);
}

void mr_schema_add_place(struct mr_expr_builder *builder, const struct mr_json *document,
                         uint32_t rule)
{
    char path[PATH_BYTES] = "", sentence[MR_ERROR_DETAIL_BYTES];
    const struct mr_json_value *origin = builder->rules[rule].origin;
    if (!builder->err) return;
    if (origin) find_path(mr_json_root(document), origin, path, 0);
    snprintf(sentence, sizeof sentence, "%s", builder->err->detail);
    mr_fail(builder->err, builder->status, "schema #%s: %.120s", path, sentence);
}
