/* schema_state - the state of one compilation of a JSON schema, shared by schema*.c only.
 *
 * A conjunction lists the schema objects that a place must satisfy. It includes everything that
 * $ref and allOf lead to. It includes one alternative of each anyOf and oneOf at a time. */
#ifndef MR_CODEC_CONSTRAINT_SCHEMA_STATE_H
#define MR_CODEC_CONSTRAINT_SCHEMA_STATE_H

#include "codec/constraint/decimal.h"
#include "codec/grammar/expr.h"
#include "codec/wire/json.h"

#define MR_CONJUNCTION_MAX 48u   /* schemas that one place must satisfy */
#define MR_PROPERTIES_MAX  4096u /* properties of one object */
#define MR_NUMBER_DIGITS   64u   /* most digits of a number on each side of the point */

enum {
    MR_TYPE_NULL = 1,
    MR_TYPE_BOOL = 2,
    MR_TYPE_NUMBER = 4,
    MR_TYPE_STRING = 8,
    MR_TYPE_ARRAY = 16,
    MR_TYPE_OBJECT = 32,
    MR_TYPE_ALL = 63
};

struct mr_conjunction {
    const struct mr_json_value *nodes[MR_CONJUNCTION_MAX];
    uint32_t parents[MR_CONJUNCTION_MAX]; /* index of the node that led to this one, or its own */
    uint32_t count;
    /* the anyOf and oneOf arrays whose alternative was added to the nodes */
    const struct mr_json_value *taken[MR_CONJUNCTION_MAX];
    uint32_t taken_count;
    bool never; /* a node is the schema false */
};

/* The combined bounds of a conjunction's nodes on types, numbers, texts and sizes. */
struct mr_schema_facts {
    unsigned types;
    bool integer;
    const struct mr_decimal *min, *max; /* NULL: none */
    bool above_min, below_max;
    /* a number is a multiple of multiple / 10^multiple_places; 0: of anything */
    uint64_t multiple;
    uint32_t multiple_places;
    uint32_t length_min, length_max, items_min, items_max, properties_min, properties_max;
};

struct mr_schema_place {
    struct mr_schema_place *next;
    const struct mr_conjunction *conjunction;
    uint32_t rule;
};

struct mr_schema {
    struct mr_expr_builder *builder;
    const struct mr_json_value *root;
    /* Makes the expression of the values that satisfy a conjunction: a call of a rule where the
     * schema may be recursive (schema.c). */
    const struct mr_expr *(*value)(struct mr_schema *schema,
                                   const struct mr_conjunction *conjunction);
    /* rules for values without conditions; UINT32_MAX until needed */
    uint32_t any, object, array, string, character, number, integer, digits, indent;
    /* the rules of conjunctions by hash, and the queue of those without a definition */
    struct mr_schema_place *table[1024];
    const struct mr_schema_place **queue;
    uint32_t queue_count, queue_capacity, queue_next;
};

/* Fails with the JSON pointer of `node`, or of its member `keyword` unless that is NULL. */
void mr_schema_fail(struct mr_schema *schema, enum mr_status status,
                    const struct mr_json_value *node, const char *keyword, const char *what);

/* ---- schema_merge.c ---- */

/* Adds a schema and the schemas that its $ref and allOf lead to. parent: index of the node that
 * refers to it, UINT32_MAX for none. */
void mr_conjunction_add(struct mr_schema *schema, struct mr_conjunction *conjunction,
                        const struct mr_json_value *node, uint32_t parent);
/* Finds the next anyOf or oneOf from which no alternative was added; false if there is none. */
bool mr_conjunction_open(const struct mr_conjunction *conjunction,
                         const struct mr_json_value **group, uint32_t *owner, bool *exactly_one);
void mr_schema_merge(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                     struct mr_schema_facts *facts);
/* The types of the keyword `type`; sets *integer for "integer" without "number". */
unsigned mr_schema_types(const struct mr_json_value *type, bool *integer);
/* The MR_TYPE_ of a value. */
unsigned mr_schema_type_of(const struct mr_json_value *value);
/* The schema that the $ref of a schema leads to; NULL for none. */
const struct mr_json_value *mr_schema_target(struct mr_schema *schema,
                                             const struct mr_json_value *node);
/* True when no value can satisfy both schemas. */
bool mr_schema_disjoint(struct mr_schema *schema, const struct mr_json_value *one,
                        const struct mr_json_value *other, unsigned depth);
/* Reads a number into the builder's memory. NULL and a failure if it has too many digits. */
const struct mr_decimal *mr_schema_decimal(struct mr_schema *schema,
                                           const struct mr_json_value *number);
bool mr_schema_equal_values(const struct mr_json_value *one, const struct mr_json_value *other);

/* ---- schema_scalars.c ---- */

const struct mr_expr *mr_schema_space(struct mr_schema *schema);
const struct mr_expr *mr_schema_number(struct mr_schema *schema,
                                       const struct mr_schema_facts *facts);
const struct mr_expr *mr_schema_string(struct mr_schema *schema,
                                       const struct mr_conjunction *conjunction,
                                       const struct mr_schema_facts *facts);
/* A text of the schema as a JSON string with its quotes. */
const struct mr_expr *mr_schema_quoted(struct mr_schema *schema, struct mr_text text);
/* The alternatives of enum and const that satisfy the other keywords; NULL if there is neither. */
const struct mr_expr *mr_schema_enum(struct mr_schema *schema,
                                     const struct mr_conjunction *conjunction,
                                     const struct mr_schema_facts *facts);
/* The language of a format, without quotes, in JSON spelling; NULL for an unknown format. */
const struct mr_expr *mr_schema_format(struct mr_schema *schema, struct mr_text name);

/* ---- schema_containers.c ---- */

const struct mr_expr *mr_schema_array(struct mr_schema *schema,
                                      const struct mr_conjunction *conjunction,
                                      const struct mr_schema_facts *facts);
const struct mr_expr *mr_schema_object(struct mr_schema *schema,
                                       const struct mr_conjunction *conjunction,
                                       const struct mr_schema_facts *facts);
/* The rules of values without conditions. */
const struct mr_expr *mr_schema_any(struct mr_schema *schema);
const struct mr_expr *mr_schema_any_string(struct mr_schema *schema);
const struct mr_expr *mr_schema_any_object(struct mr_schema *schema);

#endif
