/* jinja_arithmetic - operators of templates on values: + - * / // % ** ~, comparisons, signs and
 * slices, as in Python. Integers have 64 bits; a larger result fails the run.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_ARITHMETIC_H
#define MR_CODEC_TEMPLATE_JINJA_ARITHMETIC_H

#include "codec/jinja/jinja_value.h"

struct mr_jinja_value mr_jinja_arithmetic(struct mr_jinja_run *run, struct mr_text op,
                                          struct mr_jinja_value a, struct mr_jinja_value b);
/* op: == != < > <= >= in "not in" */
struct mr_jinja_value mr_jinja_comparison(struct mr_jinja_run *run, struct mr_text op,
                                          struct mr_jinja_value a, struct mr_jinja_value b);
/* +value, or -value with `negative`. */
struct mr_jinja_value mr_jinja_sign(struct mr_jinja_run *run, struct mr_jinja_value value,
                                    bool negative);
/* base[bounds[0]:bounds[1]:bounds[2]] of a list or text; none stands for a bound that is not
 * given. */
struct mr_jinja_value mr_jinja_slice(struct mr_jinja_run *run, struct mr_jinja_value base,
                                     const struct mr_jinja_value bounds[3]);

#endif
