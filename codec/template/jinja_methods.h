/* jinja_methods - what text and dictionaries can do when called with a dot: Python's str and dict
 * methods that templates use. Owner, memory and errors as jinja_builtins. */
#ifndef MR_CODEC_TEMPLATE_JINJA_METHODS_H
#define MR_CODEC_TEMPLATE_JINJA_METHODS_H

#include "codec/template/jinja_builtins.h"

/* True when values of this kind have that method. */
bool mr_jinja_has_method(enum mr_jinja_kind kind, struct mr_text name);
struct mr_jinja_value mr_jinja_method(struct mr_jinja_run *run, struct mr_jinja_value self,
                                      struct mr_text name,
                                      const struct mr_jinja_arguments *arguments);

/* Shared with filters. chars NULL: white space. sides: 1 left, 2 right, 3 both. */
struct mr_jinja_value mr_jinja_strip(struct mr_jinja_run *run, struct mr_jinja_value text,
                                     const struct mr_jinja_value *chars, int sides);
struct mr_jinja_value mr_jinja_replace(struct mr_jinja_run *run, struct mr_jinja_value text,
                                       struct mr_jinja_value from, struct mr_jinja_value to);
/* "upper", "lower", "capitalize" or "title", on ASCII letters. */
struct mr_jinja_value mr_jinja_recase(struct mr_jinja_run *run, struct mr_jinja_value text,
                                      const char *how);
/* [[key, value], ...] of a dictionary. */
struct mr_jinja_value mr_jinja_pairs(struct mr_jinja_run *run, struct mr_jinja_value dict);

#endif
