#include "codec/constraint/schema_index.h"

#include <stdlib.h>
#include <string.h>

/* What a value is to JSON schema, which decides about an $id below it. */
enum place {
    A_SCHEMA,
    SCHEMAS, /* an object or array whose members are schemas */
    OTHER
};

/* One pass over a tree. A pass that only counts has no memory to fill. */
struct pass {
    struct mr_schema_index *index;
    uint32_t tree, resources, anchors, references;
    bool counts;
};

static bool is_one_of(struct mr_text name, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (mr_text_is(name, words[i])) return true;
    return false;
}

#define IS_ONE_OF(name, words) is_one_of(name, words, sizeof(words) / sizeof *(words))

static enum place place_below(enum place place, const struct mr_json_member *member)
{
    static const char *const maps[] = {"$defs",        "definitions",      "properties",
                                       "dependencies", "dependentSchemas", "patternProperties"};
    static const char *const schemas[] = {"additionalItems",
                                          "additionalProperties",
                                          "allOf",
                                          "anyOf",
                                          "contains",
                                          "contentSchema",
                                          "else",
                                          "if",
                                          "items",
                                          "not",
                                          "oneOf",
                                          "prefixItems",
                                          "propertyNames",
                                          "then",
                                          "unevaluatedItems",
                                          "unevaluatedProperties"};
    if (place == SCHEMAS) return A_SCHEMA;
    if (place == OTHER) return OTHER;
    if (IS_ONE_OF(member->name, maps)) return SCHEMAS;
    if (!IS_ONE_OF(member->name, schemas)) return OTHER;
    return mr_json_kind(member->value) == MR_JSON_ARRAY ? SCHEMAS : A_SCHEMA;
}

static void add_anchor(struct pass *pass, const struct mr_json_value *node, struct mr_text name,
                       uint32_t resource, bool is_dynamic)
{
    const uint32_t at = pass->anchors++;
    if (pass->counts) return;
    struct mr_schema_anchor *anchor = &pass->index->anchors[at];
    if (pass->tree == 0)
        *anchor = (struct mr_schema_anchor){name, resource, is_dynamic, MR_SCHEMA_NO_ANCHOR, {0}};
    anchor->nodes[pass->tree] = node;
}

/* Adds the resource of an $id, or the alias of an id. Returns its index. */
static uint32_t add_resource(struct pass *pass, const struct mr_json_value *node, struct mr_text id,
                             uint32_t parent, bool is_alias)
{
    const uint32_t at = pass->resources++;
    if (pass->counts) return at;
    struct mr_schema_resource *resource = &pass->index->resources[at];
    if (pass->tree == 0) {
        struct mr_text base =
            at == 0 ? (struct mr_text){"", 0} : pass->index->resources[parent].uri;
        struct mr_text uri = mr_schema_resolve_uri(pass->index->builder, base, id);
        *resource = (struct mr_schema_resource){uri, parent, is_alias, {0}};
    }
    resource->nodes[pass->tree] = node;
    return at;
}

/* Adds the names of a schema. Returns the resource that it is in. */
static uint32_t add_names(struct pass *pass, const struct mr_json_value *node, uint32_t resource)
{
    struct mr_text id = {"", 0}, name;
    const bool has_id = mr_json_text(mr_json_get(node, "$id"), &id);
    const bool is_root = node == pass->index->trees[pass->tree].root;
    if (id.length > 0 && id.bytes[id.length - 1] == '#') id.length--;
    /* in older drafts, an $id that is a fragment is an anchor */
    const bool is_anchor = id.length > 0 && id.bytes[0] == '#';
    if (is_anchor) add_anchor(pass, node, mr_text_part(id, 1, id.length), resource, false);
    if (is_root || (has_id && !is_anchor))
        resource =
            add_resource(pass, node, is_anchor ? (struct mr_text){"", 0} : id, resource, false);
    if (!has_id && mr_json_text(mr_json_get(node, "id"), &id) && id.length > 0 &&
        id.bytes[0] != '#')
        add_resource(pass, node, id, resource, true);
    if (mr_json_text(mr_json_get(node, "$anchor"), &name))
        add_anchor(pass, node, name, resource, false);
    if (mr_json_text(mr_json_get(node, "$dynamicAnchor"), &name))
        add_anchor(pass, node, name, resource, true);
    return resource;
}

static void visit(struct pass *pass, const struct mr_json_value *node, uint32_t resource,
                  enum place place)
{
    static const char *const constants[] = {"enum", "const", "default", "examples"};
    struct mr_schema_index *index = pass->index;
    struct mr_json_member member = {0};
    if (!mr_expr_work(index->builder, pass->tree > 0 ? 50 : 1)) return;
    for (size_t i = 0; mr_json_kind(node) == MR_JSON_ARRAY && i < mr_json_count(node); i++)
        visit(pass, mr_json_at(node, i), resource, place == SCHEMAS ? A_SCHEMA : OTHER);
    if (mr_json_kind(node) != MR_JSON_OBJECT) return;
    if (place == A_SCHEMA) resource = add_names(pass, node, resource);
    if (place != SCHEMAS && (mr_json_get(node, "$ref") || mr_json_get(node, "$dynamicRef"))) {
        const uint32_t at = pass->references++;
        if (!pass->counts)
            index->references[at] = (struct mr_schema_reference){node, pass->tree, resource};
    }
    while (mr_json_next(node, &member))
        if (place == SCHEMAS || !IS_ONE_OF(member.name, constants))
            visit(pass, member.value, resource, place_below(place, &member));
}

static int compare(const void *one, const void *other)
{
    const struct mr_schema_reference *a = one, *b = other;
    const uintptr_t x = (uintptr_t)a->node, y = (uintptr_t)b->node;
    return (x > y) - (x < y);
}

/* Fills in the entries of a tree, whose root is set. */
static bool add_tree(struct mr_schema_index *index, uint32_t tree)
{
    struct pass pass = {.index = index, .tree = tree, .counts = true};
    const struct mr_schema_reference *old = index->references;
    visit(&pass, index->trees[tree].root, 0, A_SCHEMA);
    const uint32_t count = index->reference_count + pass.references;
    index->references = mr_expr_take(index->builder, count + 1, sizeof *index->references);
    if (tree == 0) {
        index->resources =
            mr_expr_take(index->builder, pass.resources + 1, sizeof *index->resources);
        index->anchors = mr_expr_take(index->builder, pass.anchors + 1, sizeof *index->anchors);
        index->resource_count = pass.resources;
        index->anchor_count = pass.anchors;
    }
    if (index->builder->status != MR_OK) return false;
    if (old) memcpy(index->references, old, index->reference_count * sizeof *old);
    pass = (struct pass){.index = index, .tree = tree, .references = index->reference_count};
    visit(&pass, index->trees[tree].root, 0, A_SCHEMA);
    index->reference_count = count;
    qsort(index->references, count, sizeof *index->references, compare);
    return index->builder->status == MR_OK;
}

/* Gives a slot to each name of a $dynamicAnchor that several resources have. */
static bool set_slots(struct mr_schema_index *index)
{
    for (uint32_t i = 0; i < index->anchor_count; i++) {
        struct mr_schema_anchor *anchor = &index->anchors[i];
        if (!mr_expr_work(index->builder, index->anchor_count)) return false;
        for (uint32_t j = 0; anchor->is_dynamic && j < i; j++) {
            struct mr_schema_anchor *other = &index->anchors[j];
            if (!other->is_dynamic || !mr_text_equal(other->name, anchor->name)) continue;
            if (other->slot == MR_SCHEMA_NO_ANCHOR) other->slot = index->slot_count++;
            anchor->slot = other->slot;
            break;
        }
    }
    if (index->slot_count <= MR_SCHEMA_SCOPE_MAX) return true;
    mr_expr_fail(index->builder, MR_UNSUPPORTED,
                 "schema: more than %u names of $dynamicAnchor are defined more than once",
                 MR_SCHEMA_SCOPE_MAX);
    return false;
}

/* Adds a resource that evaluation enters: its anchors hold where no outer one does. */
static void enter(const struct mr_schema_index *index, struct mr_schema_scope *scope,
                  uint32_t resource)
{
    for (uint32_t i = 0; index->slot_count > 0 && i < index->anchor_count; i++) {
        const struct mr_schema_anchor *anchor = &index->anchors[i];
        if (anchor->resource == resource && anchor->is_dynamic &&
            anchor->slot != MR_SCHEMA_NO_ANCHOR &&
            scope->anchors[anchor->slot] == MR_SCHEMA_NO_ANCHOR)
            scope->anchors[anchor->slot] = i;
    }
}

bool mr_schema_index_build(struct mr_schema_index *index, struct mr_expr_builder *builder,
                           struct mr_json *document)
{
    *index = (struct mr_schema_index){.builder = builder, .document = document};
    index->trees[0].root = mr_json_root(document);
    for (uint32_t i = 0; i < MR_SCHEMA_SCOPE_MAX; i++)
        index->trees[0].scope.anchors[i] = MR_SCHEMA_NO_ANCHOR;
    if (!add_tree(index, 0) || !set_slots(index)) return false;
    enter(index, &index->trees[0].scope, 0);
    index->tree_count = 1;
    return true;
}

const struct mr_schema_reference *mr_schema_index_find(const struct mr_schema_index *index,
                                                       const struct mr_json_value *node)
{
    const struct mr_schema_reference key = {.node = node};
    return bsearch(&key, index->references, index->reference_count, sizeof key, compare);
}

uint32_t mr_schema_index_resource(const struct mr_schema_index *index, struct mr_text uri)
{
    uint32_t found = MR_SCHEMA_NO_ANCHOR;
    for (uint32_t i = 0; i < index->resource_count; i++)
        if (mr_text_equal(index->resources[i].uri, uri))
            found = found == MR_SCHEMA_NO_ANCHOR ? i : MR_SCHEMA_AMBIGUOUS;
    return found;
}

uint32_t mr_schema_index_anchor(const struct mr_schema_index *index, uint32_t resource,
                                struct mr_text name)
{
    uint32_t found = MR_SCHEMA_NO_ANCHOR;
    for (uint32_t i = 0; i < index->anchor_count; i++)
        if (index->anchors[i].resource == resource && mr_text_equal(index->anchors[i].name, name))
            found = found == MR_SCHEMA_NO_ANCHOR ? i : MR_SCHEMA_AMBIGUOUS;
    return found;
}

struct mr_schema_scope mr_schema_index_scope(const struct mr_schema_index *index, uint32_t tree,
                                             uint32_t resource)
{
    struct mr_schema_scope scope = index->trees[tree].scope;
    uint32_t chain[64], count = 0;
    const uint32_t chain_max = sizeof chain / sizeof *chain;
    for (; resource != index->trees[tree].entry && count < chain_max &&
           resource != index->resources[resource].parent;
         resource = index->resources[resource].parent)
        chain[count++] = resource;
    while (count > 0)
        enter(index, &scope, chain[--count]);
    return scope;
}

uint32_t mr_schema_index_enter(struct mr_schema_index *index, struct mr_schema_scope scope,
                               uint32_t resource)
{
    if (index->slot_count == 0) return 0;
    enter(index, &scope, resource);
    for (uint32_t i = 0; i < index->tree_count; i++)
        if (index->trees[i].entry == resource &&
            memcmp(&index->trees[i].scope, &scope, sizeof scope) == 0)
            return i;
    const uint32_t tree = index->tree_count;
    if (tree == MR_SCHEMA_TREES_MAX) {
        mr_expr_fail(index->builder, MR_UNSUPPORTED,
                     "schema: its $dynamicRef have more than %u meanings", MR_SCHEMA_TREES_MAX);
        return 0;
    }
    const struct mr_json_value *root = mr_json_add_copy(index->document);
    if (!root) mr_expr_fail(index->builder, MR_NOMEM, "no memory for a copy of a schema");
    index->trees[tree] = (struct mr_schema_tree){root, scope, resource};
    if (!root || !add_tree(index, tree)) return 0;
    index->tree_count++;
    return tree;
}
