/* jinja_builtins - the filters, tests, functions and methods templates call. Each is one entry of a
 * table; an unknown name fails the run, it is never ignored.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: sticky in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_BUILTINS_H
#define MR_CODEC_TEMPLATE_JINJA_BUILTINS_H

#include "codec/template/jinja_value.h"

#define MR_JINJA_ARGUMENTS_MAX 8u

struct mr_jinja_arguments {
    struct mr_jinja_value values[MR_JINJA_ARGUMENTS_MAX];
    uint32_t count;
    struct mr_text names[MR_JINJA_ARGUMENTS_MAX]; /* keyword arguments */
    struct mr_jinja_value named[MR_JINJA_ARGUMENTS_MAX];
    uint32_t named_count;
};

struct mr_jinja_value mr_jinja_filter(struct mr_jinja_run *run, struct mr_text name,
                                      struct mr_jinja_value value,
                                      const struct mr_jinja_arguments *arguments);
bool mr_jinja_test(struct mr_jinja_run *run, struct mr_text name, struct mr_jinja_value value,
                   const struct mr_jinja_arguments *arguments);
/* True for range, namespace, dict, raise_exception, strftime_now. */
bool mr_jinja_is_function(struct mr_text name);
/* callee: a FUNCTION or a METHOD value. */
struct mr_jinja_value mr_jinja_call(struct mr_jinja_run *run, struct mr_jinja_value callee,
                                    const struct mr_jinja_arguments *arguments);
/* value.name: a method of its kind, else a dictionary's key, else undefined. */
struct mr_jinja_value mr_jinja_attribute(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         struct mr_text name);
/* value[index]: key, list index (negative from the end) or character. */
struct mr_jinja_value mr_jinja_index(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     struct mr_jinja_value index);

#endif
