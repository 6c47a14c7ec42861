/* jinja_filters - the filters of templates. Each is one row of a table with its parameters.
 * jinja_filters.c has the table and the filters of single values, jinja_sequences.c those of lists.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_FILTERS_H
#define MR_CODEC_TEMPLATE_JINJA_FILTERS_H

#include "codec/jinja/jinja_operations.h"

bool mr_jinja_has_filter(struct mr_text name);
/* Applies a filter: {{ value | name(arguments) }}. */
struct mr_jinja_value mr_jinja_filter(struct mr_jinja_run *run, struct mr_text name,
                                      struct mr_jinja_value value,
                                      const struct mr_jinja_arguments *arguments);

#endif
