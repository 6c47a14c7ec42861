/* jinja_eval - runs the tree of a template and prints into a buffer.
 *
 * Scopes are those of Jinja: a loop body and a macro have their own scope, an if has none. An inner
 * scope can change only the attributes of an outer namespace. The interpreter counts steps and
 * nesting and fails above MR_TEMPLATE_STEPS_MAX and MR_TEMPLATE_DEPTH_MAX, so every run ends.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_EVAL_H
#define MR_CODEC_TEMPLATE_JINJA_EVAL_H

#include "codec/template/jinja_value.h"

/* Runs root; `globals` has the variables of the outermost scope. */
void mr_jinja_eval(struct mr_jinja_run *run, const struct mr_jinja_node *root,
                   struct mr_jinja_dict *globals, struct mr_jinja_buffer *out);

#endif
