/* jinja_statements - runs the statements of a template and prints into a buffer.
 *
 * Scopes are those of Jinja: the body of a loop, macro, block of `set`, `with`, `call`, `filter`
 * and `generation` has its own scope. An `if` runs in the scope around it. An inner scope can
 * change only the attributes of an outer namespace.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_STATEMENTS_H
#define MR_CODEC_TEMPLATE_JINJA_STATEMENTS_H

#include "codec/jinja/jinja_buffer.h"

/* Runs root; `globals` has the variables of the outermost scope. */
void mr_jinja_run_template(struct mr_jinja_run *run, const struct mr_jinja_node *root,
                           struct mr_jinja_dict *globals, struct mr_jinja_buffer *out);

#endif
