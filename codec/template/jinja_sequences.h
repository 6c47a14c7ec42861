/* jinja_sequences - the filters of lists, in the form of rows of jinja_filters.c.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_SEQUENCES_H
#define MR_CODEC_TEMPLATE_JINJA_SEQUENCES_H

#include "codec/jinja/jinja_operations.h"

mr_jinja_operation mr_jinja_filter_first, mr_jinja_filter_last, mr_jinja_filter_list,
    mr_jinja_filter_reverse, mr_jinja_filter_items, mr_jinja_filter_dictsort, mr_jinja_filter_sort,
    mr_jinja_filter_unique, mr_jinja_filter_min, mr_jinja_filter_max, mr_jinja_filter_sum,
    mr_jinja_filter_groupby, mr_jinja_filter_batch, mr_jinja_filter_slice, mr_jinja_filter_select,
    mr_jinja_filter_reject, mr_jinja_filter_selectattr, mr_jinja_filter_rejectattr,
    mr_jinja_filter_join;

/* The value at the path of attributes "a.b.0", or at an index; the item itself when no path is
 * given. otherwise: the replacement for an undefined value, or undefined. */
struct mr_jinja_value mr_jinja_at_path(struct mr_jinja_run *run, struct mr_jinja_value item,
                                       struct mr_jinja_value path, struct mr_jinja_value otherwise);

#endif
