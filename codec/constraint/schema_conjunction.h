/* schema_conjunction - what one place in a document has to satisfy, shared by schema*.c only.
 *
 * A conjunction lists the schema objects that a place must satisfy. It includes everything that
 * $ref and allOf lead to. Keywords that leave a choice (anyOf, oneOf, if, dependentSchemas) are
 * resolved to one alternative at a time. So is a schema that a value must violate (not, else): each
 * alternative is a condition, such as "violates minLength" or "has no property x". *
 * Owner: the caller, on its stack. Errors: the builder's sticky status. The functions are in
 * codec/constraint/schema_merge.c. */
#ifndef MR_CODEC_CONSTRAINT_SCHEMA_CONJUNCTION_H
#define MR_CODEC_CONSTRAINT_SCHEMA_CONJUNCTION_H

#include "codec/wire/json.h"

#define MR_CONJUNCTION_MAX 48u /* schemas that one place must satisfy */
#define MR_CONDITIONS_MAX  24u /* conditions of one place */

struct mr_schema;

enum {
    MR_TYPE_NULL = 1,
    MR_TYPE_BOOL = 2,
    MR_TYPE_NUMBER = 4,
    MR_TYPE_STRING = 8,
    MR_TYPE_ARRAY = 16,
    MR_TYPE_OBJECT = 32,
    MR_TYPE_ALL = 63
};

/* A demand on a value that is not the keyword of a node. It has no padding, so memcmp compares. */
struct mr_condition {
    /* NULL: the value violates the schema `value`; a choice is still to be made. "": it was made.
     * MR_PRESENT: the value has the property `name`. Otherwise the value violates this keyword:
     * "required": it has no property `name`; "properties": its property `name` violates `value`;
     * "items": item number name.length violates `value`; "contains": all its items violate `value`;
     * others: `value` is the keyword's value. */
    const char *keyword;
    const struct mr_json_value *value;
    struct mr_text name;
};

extern const char MR_PRESENT[];

struct mr_conjunction {
    const struct mr_json_value *nodes[MR_CONJUNCTION_MAX];
    uint32_t parents[MR_CONJUNCTION_MAX]; /* index of the node that led to this one, or its own */
    /* the keywords' values whose alternative was chosen; for `if` the schema that it is in */
    const struct mr_json_value *taken[MR_CONJUNCTION_MAX];
    struct mr_condition conditions[MR_CONDITIONS_MAX];
    uint32_t count, taken_count, condition_count;
    bool never; /* a node is the schema false */
};

/* Adds a schema and the schemas that its $ref and allOf lead to. parent: index of the node that
 * refers to it, UINT32_MAX for none. */
void mr_conjunction_add(struct mr_schema *schema, struct mr_conjunction *conjunction,
                        const struct mr_json_value *node, uint32_t parent);
/* Adds the condition that the value violates a schema. */
void mr_conjunction_deny(struct mr_schema *schema, struct mr_conjunction *conjunction,
                         const struct mr_json_value *node);
/* Adds the schemas of `keyword`, unevaluatedProperties or unevaluatedItems, of those nodes that
 * have not evaluated a property or item: neither the node nor a node that it refers to has a schema
 * for it (speaks) or the same keyword. */
void mr_conjunction_add_unevaluated(struct mr_schema *schema,
                                    const struct mr_conjunction *conjunction, const char *keyword,
                                    const bool *speaks, struct mr_conjunction *value);
bool mr_condition_is(const struct mr_condition *condition, const char *keyword);
void mr_conjunction_demand(struct mr_schema *schema, struct mr_conjunction *conjunction,
                           struct mr_condition condition);

#endif
