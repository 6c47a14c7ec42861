/* schema_state - the state of one compilation of a JSON schema, shared by schema*.c only. */
#ifndef MR_CODEC_CONSTRAINT_SCHEMA_STATE_H
#define MR_CODEC_CONSTRAINT_SCHEMA_STATE_H

#include "codec/constraint/decimal.h"
#include "codec/constraint/regex_front.h"
#include "codec/constraint/schema_conjunction.h"
#include "codec/constraint/schema_index.h"
#include "codec/grammar/expr.h"
#include "codec/wire/json.h"

#define MR_SCHEMA_LAX_MAX 16u   /* tools of a request whose schemas may fail */
#define MR_PROPERTIES_MAX 4096u /* properties of one object */
#define MR_NUMBER_DIGITS  64u   /* most digits of a number on each side of the point */

/* The combined bounds of a conjunction's nodes on types, numbers, texts and sizes. */
struct mr_schema_facts {
    unsigned types;
    bool integer, no_true, no_false;
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
    struct mr_json *document;
    struct mr_schema_index index; /* built when the first reference is followed */
    /* the schemas of tools that cannot be guaranteed: their place takes any object */
    const struct mr_json_value *lax[MR_SCHEMA_LAX_MAX];
    uint32_t lax_count;
    const struct mr_json_value *bad; /* the failure is in this schema of a tool; NULL: elsewhere */
    /* These make the expression of the values that satisfy a conjunction (schema.c). value makes a
     * call of a rule where the schema may be recursive. */
    const struct mr_expr *(*value)(struct mr_schema *schema,
                                   const struct mr_conjunction *conjunction);
    const struct mr_expr *(*body)(struct mr_schema *schema,
                                  const struct mr_conjunction *conjunction);
    /* rules for values without conditions; UINT32_MAX until needed */
    uint32_t any, object, array, string, character, number, integer, digits, indent;
    /* only the texts of a schema are wanted, as an expression without calls of rules */
    bool texts_only;
    /* the rules of conjunctions by hash, and the queue of those without a definition */
    struct mr_schema_place *table[1024];
    const struct mr_schema_place **queue;
    uint32_t queue_count, queue_capacity, queue_next;
};

/* Fails with the JSON pointer of `node`, or of its member `keyword` unless that is NULL. */
void mr_schema_fail(struct mr_schema *schema, enum mr_status status,
                    const struct mr_json_value *node, const char *keyword, const char *what);

/* Records that a keyword has no effect, unless there is such a warning already. */
void mr_schema_warn(struct mr_schema *schema, const struct mr_json_value *node, const char *keyword,
                    const char *what);
/* The language of a pattern, which is `node` or its member `keyword`, in JSON spelling. */
const struct mr_expr *mr_schema_pattern(struct mr_schema *schema, const struct mr_json_value *node,
                                        const char *keyword, struct mr_text pattern,
                                        enum mr_regex_extent extent);

/* The schema that $ref or $dynamicRef leads to (schema_refs.c); NULL for none. */
const struct mr_json_value *mr_schema_target(struct mr_schema *schema,
                                             const struct mr_json_value *node);

/* ---- schema_merge.c ---- */

void mr_schema_merge(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                     struct mr_schema_facts *facts);
/* The types of the keyword `type`; sets *integer for "integer" without "number". */
unsigned mr_schema_types(const struct mr_json_value *type, bool *integer);
/* The type that a keyword applies to; 0: any. */
unsigned mr_schema_keyword_type(const char *keyword);
/* The MR_TYPE_ of a value. */
unsigned mr_schema_type_of(const struct mr_json_value *value);
/* _disjoint: no value can satisfy both schemas. _tag: it cannot if both require this property. */
bool mr_schema_disjoint(struct mr_schema *schema, const struct mr_json_value *one,
                        const struct mr_json_value *other, unsigned depth);
bool mr_schema_tag(struct mr_schema *schema, const struct mr_json_value *one,
                   const struct mr_json_value *other, struct mr_text *name);
/* The constants of a schema: its const, or the elements of its enum. */
size_t mr_schema_constants(const struct mr_json_value *node);
const struct mr_json_value *mr_schema_constant(const struct mr_json_value *node, size_t index);
/* Reads a number into the builder's memory. NULL and a failure if it has too many digits. */
const struct mr_decimal *mr_schema_decimal(struct mr_schema *schema,
                                           const struct mr_json_value *number);
bool mr_schema_equal_values(const struct mr_json_value *one, const struct mr_json_value *other);

/* ---- schema_choice.c ---- */

/* Resolves the next choice of a conjunction: *out has an alternative for each of its outcomes.
 * False if no choice is left. */
bool mr_schema_choose(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                      const struct mr_expr **out);

/* ---- schema_scalars.c ---- */

const struct mr_expr *mr_schema_space(struct mr_schema *schema);
const struct mr_expr *mr_schema_number(struct mr_schema *schema,
                                       const struct mr_schema_facts *facts);
const struct mr_expr *mr_schema_string(struct mr_schema *schema,
                                       const struct mr_conjunction *conjunction,
                                       const struct mr_schema_facts *facts);
/* Any text in JSON spelling, without quotes and without calls of rules. */
const struct mr_expr *mr_schema_any_text(struct mr_schema *schema);
const struct mr_expr *mr_schema_in_quotes(struct mr_schema *schema, const struct mr_expr *inside);
/* A text of the schema as a JSON string with its quotes. */
const struct mr_expr *mr_schema_quoted(struct mr_schema *schema, struct mr_text text);
/* The expressions of enum and const that satisfy the other keywords, NEVER for others; NULL if
 * there is neither. */
const struct mr_expr **mr_schema_enum(struct mr_schema *schema,
                                      const struct mr_conjunction *conjunction,
                                      const struct mr_schema_facts *facts, uint32_t *count);
/* The language of a format, without quotes, in JSON spelling; NULL for an unknown format. */
const struct mr_expr *mr_schema_format(struct mr_schema *schema, struct mr_text name);

/* ---- schema_array.c, schema_object.c ---- */

const struct mr_expr *mr_schema_array(struct mr_schema *schema,
                                      const struct mr_conjunction *conjunction,
                                      const struct mr_schema_facts *facts);
const struct mr_expr *mr_schema_object(struct mr_schema *schema,
                                       const struct mr_conjunction *conjunction,
                                       const struct mr_schema_facts *facts);

/* ---- schema_containers.c ---- */

const struct mr_expr *mr_schema_word(struct mr_schema *schema, const char *text);
const struct mr_expr *mr_schema_comma(struct mr_schema *schema);
const struct mr_expr *mr_schema_colon(struct mr_schema *schema);
/* A list in brackets; white space may stand inside on both sides. */
const struct mr_expr *mr_schema_bracketed(struct mr_schema *schema, const char *open,
                                          const struct mr_expr *inside, const char *close);
/* min to max items with commas between. */
const struct mr_expr *mr_schema_separated(struct mr_schema *schema, const struct mr_expr *item,
                                          uint32_t min, uint32_t max);
/* The rules of values without conditions. */
const struct mr_expr *mr_schema_any(struct mr_schema *schema);
const struct mr_expr *mr_schema_any_string(struct mr_schema *schema);
const struct mr_expr *mr_schema_any_object(struct mr_schema *schema);

#endif
