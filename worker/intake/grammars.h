/* grammars - a cache of compiled constraints by content, so that a schema which many requests share
 * is compiled once. Refusals are cached too, because finding that a schema is invalid can take as
 * long (up to 100 ms) as compiling a valid one.
 *
 * Owner:  intake thread. Memory: at most MR_GRAMMARS_MAX entries and MR_GRAMMARS_BYTES of grammars,
 *         least recently used first out. A request that holds a grammar keeps it alive.
 * Errors: those of mr_constraint_compile. */
#ifndef MR_WORKER_INTAKE_GRAMMARS_H
#define MR_WORKER_INTAKE_GRAMMARS_H

#include "codec/constraint/constraint.h"
#include "codec/tokenizer/tokenizer.h"

#define MR_GRAMMARS_MAX   256u
#define MR_GRAMMARS_BYTES ((size_t)64 << 20)

struct mr_grammars;

/* tokenizer: the model's; used during the call only. */
enum mr_status mr_grammars_create(struct mr_grammars **out, const struct mr_tokenizer *tokenizer,
                                  struct mr_error *err);
/* grammars may be NULL. */
void mr_grammars_destroy(struct mr_grammars *grammars);
/* Sets *out to the grammar of a constraint, compiled if it is not cached; the caller gets a
 * reference. */
enum mr_status mr_grammars_get(struct mr_grammars *grammars, const struct mr_constraint *constraint,
                               struct mr_grammar **out, struct mr_error *err);
/* Returns the number of entries; *bytes: the size of their grammars. */
uint32_t mr_grammars_count(const struct mr_grammars *grammars, size_t *bytes);

#endif
