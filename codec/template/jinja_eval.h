/* jinja_eval - walks a template's tree and prints into a buffer.
 *
 * Scopes as in Jinja: a loop body and a macro have their own, an if has not; only a namespace can
 * be assigned from an inner scope. Steps and nesting are counted against MR_TEMPLATE_STEPS_MAX and
 * MR_TEMPLATE_DEPTH_MAX, so a template cannot run for ever.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: sticky in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_EVAL_H
#define MR_CODEC_TEMPLATE_JINJA_EVAL_H

#include "codec/template/jinja_value.h"

/* Runs root with the dictionary `globals` as its outermost names. */
void mr_jinja_eval(struct mr_jinja_run *run, const struct mr_jinja_node *root,
                   struct mr_jinja_dict *globals, struct mr_jinja_buffer *out);

#endif
