/* jinja_operations - the arguments of a call in a template, and the operations that are both a
 * filter (value | upper) and a method (value.upper()).
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_OPERATIONS_H
#define MR_CODEC_TEMPLATE_JINJA_OPERATIONS_H

#include "codec/template/jinja_value.h"

#define MR_JINJA_ARGUMENTS_MAX 8u

struct mr_jinja_arguments {
    struct mr_jinja_value values[MR_JINJA_ARGUMENTS_MAX]; /* values of the positional arguments */
    uint32_t count;
    struct mr_text names[MR_JINJA_ARGUMENTS_MAX]; /* names of the keyword arguments */
    struct mr_jinja_value named[MR_JINJA_ARGUMENTS_MAX];
    uint32_t named_count;
};

/* The argument given by keyword, or undefined. */
struct mr_jinja_value mr_jinja_keyword(const struct mr_jinja_arguments *arguments,
                                       const char *name);
/* The positional argument, else the one given by keyword, else undefined. */
struct mr_jinja_value mr_jinja_argument(const struct mr_jinja_arguments *arguments, uint32_t index,
                                        const char *name);

/* These fail the run, with "<what> '<name>'" or because an argument is not text; they return
 * undefined. */
struct mr_jinja_value mr_jinja_fail_name(struct mr_jinja_run *run, const char *what,
                                         struct mr_text name);
struct mr_jinja_value mr_jinja_need_text(struct mr_jinja_run *run);

/* An operation on value, called as a filter or as a method. */
typedef struct mr_jinja_value mr_jinja_operation(struct mr_jinja_run *run,
                                                 struct mr_jinja_value value,
                                                 const struct mr_jinja_arguments *arguments);
/* These change ASCII letters: title capitalizes every word, capitalize the first letter of the text
 * only. */
mr_jinja_operation mr_jinja_upper, mr_jinja_lower, mr_jinja_title, mr_jinja_capitalize;
/* The list [[key, value], ...] of a dictionary; an empty list for undefined. */
mr_jinja_operation mr_jinja_items;

enum mr_jinja_sides { MR_JINJA_LEFT = 1, MR_JINJA_RIGHT = 2, MR_JINJA_BOTH = 3 };

/* Removes the characters `chars` from the ends of text; chars NULL or not text: white space. */
struct mr_jinja_value mr_jinja_strip(struct mr_jinja_run *run, struct mr_jinja_value text,
                                     const struct mr_jinja_value *chars, enum mr_jinja_sides sides);
struct mr_jinja_value mr_jinja_replace(struct mr_jinja_run *run, struct mr_jinja_value text,
                                       struct mr_jinja_value from, struct mr_jinja_value to);
/* Prints the items into one text, with separator (if it is text) between each two. */
struct mr_jinja_value mr_jinja_join(struct mr_jinja_run *run, struct mr_jinja_value items,
                                    struct mr_jinja_value separator);

#endif
