/* jinja_builtins - the filters, tests and functions that templates call. Each is one row of a
 * table; an unknown name fails the run.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_BUILTINS_H
#define MR_CODEC_TEMPLATE_JINJA_BUILTINS_H

#include "codec/template/jinja_operations.h"

/* Applies a filter: {{ value | name(arguments) }}. */
struct mr_jinja_value mr_jinja_filter(struct mr_jinja_run *run, struct mr_text name,
                                      struct mr_jinja_value value,
                                      const struct mr_jinja_arguments *arguments);
/* Runs a test: {{ value is name(arguments) }}. */
bool mr_jinja_test(struct mr_jinja_run *run, struct mr_text name, struct mr_jinja_value value,
                   const struct mr_jinja_arguments *arguments);
/* True for the global functions: range, namespace, dict, raise_exception, strftime_now. */
bool mr_jinja_is_function(struct mr_text name);
/* Calls a function or a method of a value; callee: a value of kind FUNCTION or METHOD. */
struct mr_jinja_value mr_jinja_call(struct mr_jinja_run *run, struct mr_jinja_value callee,
                                    const struct mr_jinja_arguments *arguments);

#endif
