/* References between the schemas of a document: $ref, $dynamicRef, $id, $anchor. */
#include "codec/constraint/schema_state.h"

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

/* The place that a reference leads to: a resource and a pointer below it, or an anchor. */
struct target {
    uint32_t resource, anchor;
    struct mr_text pointer;
};

/* Finds the target of a reference in a resource. False if there is none, or several. */
static bool locate(struct mr_schema *schema, uint32_t from, struct mr_text reference,
                   struct target *target)
{
    struct mr_schema_index *index = &schema->index;
    size_t split = 0;
    while (split < reference.length && reference.bytes[split] != '#')
        split++;
    *target = (struct target){from, MR_SCHEMA_NO_ANCHOR, {"", 0}};
    if (split > 0) {
        const struct mr_text uri = mr_schema_resolve_uri(
            schema->builder, index->resources[from].uri, mr_text_part(reference, 0, split));
        target->resource = mr_schema_index_resource(index, uri);
    }
    if (target->resource >= index->resource_count) return false;
    if (split + 1 >= reference.length) return true;
    target->pointer = mr_text_part(reference, split + 1, reference.length);
    if (target->pointer.bytes[0] == '/') return true;
    target->anchor = mr_schema_index_anchor(index, target->resource, target->pointer);
    return target->anchor < index->anchor_count;
}

/* The resource that the schema of a target is in. A pointer may lead into one inside of its own. */
static uint32_t resource_of(const struct mr_schema_index *index, const struct target *target,
                            const struct mr_json_value *node)
{
    const struct mr_schema_reference *entry = mr_schema_index_find(index, node);
    if (entry) return entry->resource;
    for (uint32_t i = 0; i < index->resource_count; i++)
        if (!index->resources[i].is_alias && index->resources[i].nodes[0] == node) return i;
    return target->resource;
}

/* The schema of a target in a tree; NULL if the pointer leads nowhere. */
static const struct mr_json_value *node_of(struct mr_schema *schema, const struct target *target,
                                           uint32_t tree)
{
    if (target->anchor != MR_SCHEMA_NO_ANCHOR)
        return schema->index.anchors[target->anchor].nodes[tree];
    return follow(schema, schema->index.resources[target->resource].nodes[tree], target->pointer);
}

/* The schema that a reference in `node` leads to; NULL when there is none. */
static const struct mr_json_value *resolve(struct mr_schema *schema,
                                           const struct mr_json_value *node,
                                           struct mr_text reference, bool dynamic)
{
    struct mr_schema_index *index = &schema->index;
    struct target target;
    if (index->tree_count == 0 && !mr_schema_index_build(index, schema->builder, schema->document))
        return NULL;
    const struct mr_schema_reference *from = mr_schema_index_find(index, node);
    if (!from || !locate(schema, from->resource, reference, &target)) return NULL;
    const struct mr_json_value *found = node_of(schema, &target, 0);
    if (!found || index->slot_count == 0) return found;
    struct mr_schema_scope scope = mr_schema_index_scope(index, from->tree, from->resource);
    const struct mr_schema_anchor *anchor =
        target.anchor == MR_SCHEMA_NO_ANCHOR ? NULL : &index->anchors[target.anchor];
    if (dynamic && anchor && anchor->is_dynamic && anchor->slot != MR_SCHEMA_NO_ANCHOR &&
        scope.anchors[anchor->slot] != MR_SCHEMA_NO_ANCHOR) {
        target.anchor = scope.anchors[anchor->slot];
        target.resource = index->anchors[target.anchor].resource;
        found = node_of(schema, &target, 0);
    }
    const uint32_t tree = mr_schema_index_enter(index, scope, resource_of(index, &target, found));
    return schema->builder->status == MR_OK ? node_of(schema, &target, tree) : NULL;
}

const struct mr_json_value *mr_schema_target(struct mr_schema *schema,
                                             const struct mr_json_value *node)
{
    struct mr_text reference;
    const struct mr_json_value *value = mr_json_get(node, "$ref");
    const bool dynamic = !value && (value = mr_json_get(node, "$dynamicRef"));
    if (!value) return NULL;
    const struct mr_json_value *target = NULL;
    if (mr_json_text(value, &reference)) target = resolve(schema, node, reference, dynamic);
    if (!target)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, dynamic ? "$dynamicRef" : "$ref",
                       "must lead to one schema of this document: #, #/a/pointer, #anchor, or the "
                       "same with a $id before");
    return target;
}
