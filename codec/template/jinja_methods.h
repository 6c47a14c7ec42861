/* jinja_methods - the names after a value's dot or in its brackets: methods, attributes, indexes.
 *
 * Methods are those of Python's str, dict and list that templates use, and those of loop and
 * cycler; each is one row of a table. The sandbox of the reference does not allow methods that
 * change a list or a dictionary (append, pop, update ...): they are undefined, and a call fails.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_METHODS_H
#define MR_CODEC_TEMPLATE_JINJA_METHODS_H

#include "codec/jinja/jinja_operations.h"

/* Calls self.name(arguments); the run fails when values of self's kind have no such method. */
struct mr_jinja_value mr_jinja_method(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      struct mr_text name,
                                      const struct mr_jinja_arguments *arguments);
/* Evaluates value.name: a method of value's kind, else the value of the dictionary's key `name`,
 * else undefined. */
struct mr_jinja_value mr_jinja_attribute(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         struct mr_text name);
/* Evaluates value[index]: index is a key of a dictionary, or a place in a list or a text (negative:
 * from the end), or else the name of an attribute. */
struct mr_jinja_value mr_jinja_index(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     struct mr_jinja_value index);
/* The list of pairs (key, value) of a dictionary. */
struct mr_jinja_value mr_jinja_pairs(struct mr_jinja_run *run, const struct mr_jinja_dict *dict,
                                     enum mr_jinja_list_kind kind);

#endif
