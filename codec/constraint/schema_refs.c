/* References between the schemas of a document: $ref, $dynamicRef, $id, $anchor. */
#include "codec/constraint/schema_state.h"

#include <string.h>

/* Copies one step of a JSON pointer to out and undoes its escapes: ~0, ~1 and %XX. */
static bool decode_step(struct mr_text step, char *out, size_t *length)
{
    *length = 0;
    for (size_t i = 0; i < step.length; i++) {
        char byte = step.bytes[i];
        if (byte == '%') {
            if (i + 2 >= step.length) return false;
            int high = mr_text_hex_value(step.bytes[i + 1]);
            int low = mr_text_hex_value(step.bytes[i + 2]);
            if (high < 0 || low < 0) return false;
            byte = (char)(high * 16 + low);
            i += 2;
        } else if (byte == '~') {
            if (++i == step.length || (step.bytes[i] != '0' && step.bytes[i] != '1')) return false;
            byte = step.bytes[i] == '0' ? '~' : '/';
        }
        out[(*length)++] = byte;
    }
    return true;
}

static const struct mr_json_value *child_of(const struct mr_json_value *node, struct mr_text name)
{
    if (mr_json_kind(node) == MR_JSON_OBJECT) return mr_json_get_text(node, name);
    if (mr_json_kind(node) != MR_JSON_ARRAY || name.length == 0 || name.length > 6) return NULL;
    size_t index = 0;
    for (size_t i = 0; i < name.length; i++) {
        if (name.bytes[i] < '0' || name.bytes[i] > '9') return NULL;
        index = index * 10 + (size_t)(name.bytes[i] - '0');
    }
    return mr_json_at(node, index);
}

/* The schema at a JSON pointer below `at`; NULL when there is none. */
static const struct mr_json_value *follow(struct mr_schema *schema, const struct mr_json_value *at,
                                          struct mr_text pointer)
{
    size_t begin = 0;
    while (at && begin < pointer.length) {
        size_t end = begin + 1, length;
        while (end < pointer.length && pointer.bytes[end] != '/')
            end++;
        char *step = mr_expr_take(schema->builder, end - begin, 1);
        if (!step || !mr_expr_work(schema->builder, (uint32_t)(end - begin)) ||
            !decode_step(mr_text_part(pointer, begin + 1, end), step, &length))
            return NULL;
        at = child_of(at, (struct mr_text){step, length});
        begin = end;
    }
    return at;
}

/* Counts the objects at or below `at` whose member `keyword` is this text (bytes NULL: any value),
 * and sets *found to the last one. */
static uint32_t search(struct mr_schema *schema, const struct mr_json_value *at,
                       const char *keyword, struct mr_text wanted,
                       const struct mr_json_value **found)
{
    uint32_t count = 0;
    struct mr_text text;
    struct mr_json_member member = {0};
    const bool is_object = mr_json_kind(at) == MR_JSON_OBJECT;
    const struct mr_json_value *value = mr_json_get(at, keyword);
    if (!mr_expr_work(schema->builder, 1)) return 0;
    if (value && (!wanted.bytes || (mr_json_text(value, &text) && mr_text_equal(text, wanted)))) {
        *found = at;
        count++;
    }
    while (is_object && mr_json_next(at, &member))
        if (!mr_text_is(member.name, "enum") && !mr_text_is(member.name, "const"))
            count += search(schema, member.value, keyword, wanted, found);
    for (size_t i = 0; !is_object && i < mr_json_count(at); i++)
        count += search(schema, mr_json_at(at, i), keyword, wanted, found);
    return count;
}

/* The only object with one of two members of this text; NULL if there are several or none. */
static const struct mr_json_value *only(struct mr_schema *schema, const struct mr_json_value *at,
                                        const char *const keywords[2], struct mr_text wanted)
{
    const struct mr_json_value *found = NULL;
    uint32_t count = search(schema, at, keywords[0], wanted, &found);
    count += search(schema, at, keywords[1], wanted, &found);
    return count == 1 ? found : NULL;
}

/* The schema that a reference leads to. Before # stands the $id of a schema of this document, as it
 * is written there, and after it a JSON pointer or an anchor. NULL when there is none. */
static const struct mr_json_value *resolve(struct mr_schema *schema, struct mr_text reference)
{
    static const char *const ids[2] = {"$id", "id"}, *const anchors[2] = {"$anchor",
                                                                          "$dynamicAnchor"};
    const struct mr_json_value *at = schema->root;
    size_t split = 0;
    while (split < reference.length && reference.bytes[split] != '#')
        split++;
    if (split > 0) at = only(schema, at, ids, mr_text_part(reference, 0, split));
    /* a relative $id below the root would need the $id of the schemas around it */
    if (split > 0 && at != schema->root && !memchr(reference.bytes, ':', split)) return NULL;
    if (!at || split + 1 >= reference.length) return at;
    const struct mr_text fragment = mr_text_part(reference, split + 1, reference.length);
    return fragment.bytes[0] == '/' ? follow(schema, at, fragment)
                                    : only(schema, at, anchors, fragment);
}

const struct mr_json_value *mr_schema_target(struct mr_schema *schema,
                                             const struct mr_json_value *node)
{
    struct mr_text reference;
    const struct mr_json_value *value = mr_json_get(node, "$ref"), *nested = schema->root;
    const bool dynamic = !value && (value = mr_json_get(node, "$dynamicRef"));
    if (!value) return NULL;
    /* in a document with one resource, $dynamicRef resolves like $ref */
    if (dynamic) search(schema, schema->root, "$id", (struct mr_text){NULL, 0}, &nested);
    const struct mr_json_value *target = mr_json_text(value, &reference) && nested == schema->root
                                             ? resolve(schema, reference)
                                             : NULL;
    if (!target)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, dynamic ? "$dynamicRef" : "$ref",
                       "must lead to one schema of this document: #, #/a/pointer, #anchor, or the "
                       "same with a $id before");
    return target;
}

void mr_schema_check_ids(struct mr_schema *schema, const struct mr_json_value *node)
{
    if (mr_json_get(node, "$ref") && mr_json_get(node, "$dynamicRef"))
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "$dynamicRef",
                       "is not supported together with $ref");
    const struct mr_json_value *below = NULL;
    if (node != schema->root && mr_json_get(node, "$id") &&
        search(schema, node, "$ref", (struct mr_text){NULL, 0}, &below) +
                search(schema, node, "$dynamicRef", (struct mr_text){NULL, 0}, &below) >
            0)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "$id",
                       "is supported below the root only for schemas without references");
}
