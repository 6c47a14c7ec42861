/* jinja_methods - what follows a value after a dot or in brackets: methods, attributes, indexes.
 *
 * Methods are those of Python's str, dict and list that templates use; each is one row of a table.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: sticky in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_METHODS_H
#define MR_CODEC_TEMPLATE_JINJA_METHODS_H

#include "codec/template/jinja_operations.h"

/* self.name(arguments); the run fails when values of self's kind have no such method. */
struct mr_jinja_value mr_jinja_method(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      struct mr_text name,
                                      const struct mr_jinja_arguments *arguments);
/* value.name: a method of its kind, else the dictionary's key, else undefined. */
struct mr_jinja_value mr_jinja_attribute(struct mr_jinja_run *run, struct mr_jinja_value value,
                                         struct mr_text name);
/* value[index]: a key, a place in a list (negative: from the end) or a character. */
struct mr_jinja_value mr_jinja_index(struct mr_jinja_run *run, struct mr_jinja_value value,
                                     struct mr_jinja_value index);

#endif
