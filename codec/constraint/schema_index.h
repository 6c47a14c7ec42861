/* schema_index - the resources, anchors and references of a schema document, shared by schema*.c
 * only.
 *
 * A resource is the root or a subschema with an $id; its URI is the $id resolved against the URI of
 * the resource around it. Only known keywords hold subschemas: an $id elsewhere names nothing.
 *
 * $dynamicRef leads to the anchor in the outermost resource that evaluation has entered. If several
 * resources have a $dynamicAnchor of one name, the same subschema can therefore mean different
 * things. For each such meaning there is a copy of the document, which is a tree here: tree 0 is
 * the document itself. `scope` of a tree is what evaluation had entered when it entered the tree,
 * by a reference to resource `entry`. All trees number resources and anchors alike.
 *
 * Owner: struct mr_schema. Memory: the builder's; copies are the document's, at most
 * MR_SCHEMA_TREES_MAX, and each copied value counts as 50 units of work. Errors: the builder's
 * sticky status. */
#ifndef MR_CODEC_CONSTRAINT_SCHEMA_INDEX_H
#define MR_CODEC_CONSTRAINT_SCHEMA_INDEX_H

#include "codec/grammar/expr.h"
#include "codec/wire/json.h"

#define MR_SCHEMA_TREES_MAX 32u
#define MR_SCHEMA_SCOPE_MAX 16u /* names of $dynamicAnchor that several resources have */
#define MR_SCHEMA_NO_ANCHOR UINT32_MAX
#define MR_SCHEMA_AMBIGUOUS (UINT32_MAX - 1)

struct mr_schema_resource {
    struct mr_text uri;
    uint32_t parent; /* the resource around it; its own index for the root */
    bool is_alias;   /* an `id` of older drafts: it names a schema and changes no base URI */
    const struct mr_json_value *nodes[MR_SCHEMA_TREES_MAX];
};

struct mr_schema_anchor {
    struct mr_text name;
    uint32_t resource;
    bool is_dynamic;
    uint32_t slot; /* index in a scope; MR_SCHEMA_NO_ANCHOR: only one resource has the name */
    const struct mr_json_value *nodes[MR_SCHEMA_TREES_MAX];
};

struct mr_schema_reference {
    const struct mr_json_value *node; /* has $ref or $dynamicRef */
    uint32_t tree, resource;
};

/* For each slot the anchor of the outermost resource; MR_SCHEMA_NO_ANCHOR for none. */
struct mr_schema_scope {
    uint32_t anchors[MR_SCHEMA_SCOPE_MAX];
};

struct mr_schema_tree {
    const struct mr_json_value *root;
    struct mr_schema_scope scope;
    uint32_t entry;
};

struct mr_schema_index {
    struct mr_expr_builder *builder;
    struct mr_json *document;
    struct mr_schema_resource *resources;
    struct mr_schema_anchor *anchors;
    struct mr_schema_reference *references; /* of all trees, sorted by node */
    uint32_t resource_count, anchor_count, reference_count, slot_count;
    struct mr_schema_tree trees[MR_SCHEMA_TREES_MAX];
    uint32_t tree_count; /* 0: the document is not indexed yet */
};

/* Indexes the document. False after a failure. */
bool mr_schema_index_build(struct mr_schema_index *index, struct mr_expr_builder *builder,
                           struct mr_json *document);
/* The entry of a node with $ref or $dynamicRef; NULL: the node is not indexed. */
const struct mr_schema_reference *mr_schema_index_find(const struct mr_schema_index *index,
                                                       const struct mr_json_value *node);
/* The resource of this URI, MR_SCHEMA_NO_ANCHOR, or MR_SCHEMA_AMBIGUOUS. */
uint32_t mr_schema_index_resource(const struct mr_schema_index *index, struct mr_text uri);
/* The anchor of this name in a resource, MR_SCHEMA_NO_ANCHOR, or MR_SCHEMA_AMBIGUOUS. */
uint32_t mr_schema_index_anchor(const struct mr_schema_index *index, uint32_t resource,
                                struct mr_text name);
/* The scope after evaluation in `tree` has reached `resource` without a reference. */
struct mr_schema_scope mr_schema_index_scope(const struct mr_schema_index *index, uint32_t tree,
                                             uint32_t resource);
/* The tree that a reference enters at `resource`, which is made if there is none. */
uint32_t mr_schema_index_enter(struct mr_schema_index *index, struct mr_schema_scope scope,
                               uint32_t resource);

/* The URI that a reference without fragment stands for, in the builder's memory
 * (codec/constraint/schema_uri.c). */
struct mr_text mr_schema_resolve_uri(struct mr_expr_builder *builder, struct mr_text base,
                                     struct mr_text reference);

#endif
