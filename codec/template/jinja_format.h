/* jinja_format - text from a format: Python's "%s and %d" % values, and "{} and {:.2f}".format().
 *
 * It supports the conversions s r d i u x X o e E f F g G c % and ! with s, r; alignment, fill,
 * sign, width, precision, "," and "_" in numbers. Another format fails the run.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_FORMAT_H
#define MR_CODEC_TEMPLATE_JINJA_FORMAT_H

#include "codec/jinja/jinja_operations.h"

/* format % values: values is a tuple, a dictionary for %(name)s, or one value. */
struct mr_jinja_value mr_jinja_format_percent(struct mr_jinja_run *run,
                                              struct mr_jinja_value format,
                                              struct mr_jinja_value values);
/* format.format(arguments) */
struct mr_jinja_value mr_jinja_format_braces(struct mr_jinja_run *run, struct mr_jinja_value format,
                                             const struct mr_jinja_arguments *arguments);

#endif
