/* grammars - compiles the response_format of requests and keeps the grammars by content, so that a
 * schema that many requests share is compiled once. What was refused is kept as well, so a bad
 * schema costs its 100 ms once.
 *
 * Owner:  the intake thread. Memory: at most MR_GRAMMARS_MAX entries and MR_GRAMMARS_BYTES of
 *         grammars; the one used longest ago is dropped. A grammar that a request holds lives on.
 * Errors: those of mr_constraint_compile. */
#ifndef MR_WORKER_INTAKE_GRAMMARS_H
#define MR_WORKER_INTAKE_GRAMMARS_H

#include "codec/constraint/constraint.h"
#include "codec/tokenizer/tokenizer.h"

#define MR_GRAMMARS_MAX   256u
#define MR_GRAMMARS_BYTES ((size_t)64 << 20)

struct mr_grammars;

/* tokenizer: of the model, used during the call only. */
enum mr_status mr_grammars_create(struct mr_grammars **out, const struct mr_tokenizer *tokenizer,
                                  struct mr_error *err);
/* grammars may be NULL. */
void mr_grammars_destroy(struct mr_grammars *grammars);
/* Sets *out to the grammar of a constraint, with a reference for the caller. */
enum mr_status mr_grammars_get(struct mr_grammars *grammars, const struct mr_constraint *constraint,
                               struct mr_grammar **out, struct mr_error *err);
/* Grammars and refusals kept, and the bytes of the grammars. */
uint32_t mr_grammars_count(const struct mr_grammars *grammars, size_t *bytes);

#endif
