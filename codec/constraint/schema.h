/* schema - compiles JSON schemas (draft 2020-12) to rules of a grammar. Every text of the grammar
 * is JSON that is valid under the schema; not every valid JSON is in the grammar. README.md has the
 * table of keywords and lists where the grammar is narrower: the order of properties, white space,
 * the length of numbers.
 *
 * A place in a document may have to satisfy several schemas at once ($ref with siblings, allOf, a
 * property named in both). They are compiled together as a conjunction, and each conjunction that
 * can be recursive becomes one rule.
 *
 * Rules are in codec/constraint/schema.c, the places of errors
 * in codec/constraint/schema_error.c, conjunctions and their combined bounds in
 * codec/constraint/schema_merge.c, references in codec/constraint/schema_refs.c, alternatives and
 * negation in codec/constraint/schema_choice.c, the condition of oneOf in
 * codec/constraint/schema_disjoint.c, lists in brackets in codec/constraint/schema_containers.c,
 * arrays in codec/constraint/schema_array.c, objects in codec/constraint/schema_object.c, texts and
 * constants in codec/constraint/schema_scalars.c, numbers in codec/constraint/schema_number.c,
 * formats in codec/constraint/schema_format.c.
 *
 * Threads: any. Memory: the builder's. Errors: MR_INVALID_REQUEST for an invalid schema,
 *          MR_UNSUPPORTED for a keyword that cannot be guaranteed, both with the JSON pointer, as
 *          the builder's sticky status. */
#ifndef MR_CODEC_CONSTRAINT_SCHEMA_H
#define MR_CODEC_CONSTRAINT_SCHEMA_H

#include "codec/grammar/expr.h"
#include "codec/wire/json.h"

#define MR_SCHEMA_DEPTH_MAX  64u    /* nesting of a schema's JSON */
#define MR_SCHEMA_VALUES_MAX 65536u /* values in a schema */

/* Defines a rule, which must exist, from the text of a schema. Sets *document to the parsed schema,
 * or to NULL on a failure. The origins of rules point into it; the caller destroys it after
 * compiling. */
void mr_schema_define(struct mr_expr_builder *builder, uint32_t rule, struct mr_text schema,
                      struct mr_json **document);
/* Prepends the place of a rule in the schema to the builder's error sentence. */
void mr_schema_add_place(struct mr_expr_builder *builder, const struct mr_json *document,
                         uint32_t rule);
/* Defines rule 0 as any JSON object. */
void mr_schema_define_object(struct mr_expr_builder *builder);

#endif
