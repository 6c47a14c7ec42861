/* jinja_builtins - the tests and functions that templates call. Each is one row of a table.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_BUILTINS_H
#define MR_CODEC_TEMPLATE_JINJA_BUILTINS_H

#include "codec/jinja/jinja_operations.h"

bool mr_jinja_has_test(struct mr_text name);
/* Runs a test: {{ value is name(arguments) }}. */
bool mr_jinja_test(struct mr_jinja_run *run, struct mr_text name, struct mr_jinja_value value,
                   const struct mr_jinja_arguments *arguments);
/* True for the global functions: range, namespace, dict, cycler, joiner, raise_exception,
 * strftime_now. */
bool mr_jinja_is_function(struct mr_text name);
/* Calls a function, a method of a value or a joiner. */
struct mr_jinja_value mr_jinja_call(struct mr_jinja_run *run, struct mr_jinja_value callee,
                                    const struct mr_jinja_arguments *arguments);

#endif
