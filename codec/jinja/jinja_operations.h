/* jinja_operations - the arguments of a call in a template, and the operations on text that are
 * both a filter (value | upper) and a method (value.upper()).
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_JINJA_JINJA_OPERATIONS_H
#define MR_CODEC_JINJA_JINJA_OPERATIONS_H

#include "codec/jinja/jinja_buffer.h"

#define MR_JINJA_ARGUMENTS_MAX 16u

struct mr_jinja_arguments {
    struct mr_jinja_value values[MR_JINJA_ARGUMENTS_MAX]; /* values of the positional arguments */
    uint32_t count;
    struct mr_text names[MR_JINJA_ARGUMENTS_MAX]; /* names of the keyword arguments */
    struct mr_jinja_value named[MR_JINJA_ARGUMENTS_MAX];
    uint32_t named_count;
    uint32_t given; /* of bound arguments: how many the call had */
};

/* The argument given by keyword; NULL: there is no argument of that name. */
const struct mr_jinja_value *mr_jinja_keyword(const struct mr_jinja_arguments *arguments,
                                              struct mr_text name);
/* Binds arguments to parameters: out->values has one value for each of the names in `parameters`,
 * which are separated by spaces; undefined where no argument was given. False, and the run fails,
 * if there are too many arguments or keyword arguments with other names. what: the callee, for the
 * error sentence. */
bool mr_jinja_bind(struct mr_jinja_run *run, struct mr_text what, const char *parameters,
                   const struct mr_jinja_arguments *arguments, struct mr_jinja_arguments *out);

/* The arguments after the first `skip` ones. When an argument names a filter or test to call, the
 * arguments after that name belong to the named filter or test. */
struct mr_jinja_arguments mr_jinja_skip_arguments(const struct mr_jinja_arguments *arguments,
                                                  uint32_t skip);
/* The items of a value for map, select and reject. A false value, including none, has no items. */
const struct mr_jinja_list *mr_jinja_items_if_true(struct mr_jinja_run *run,
                                                   struct mr_jinja_value value);

/* These fail the run, with "<what> '<name>'" or because an argument is not text; they return
 * undefined. */
struct mr_jinja_value mr_jinja_fail_name(struct mr_jinja_run *run, const char *what,
                                         struct mr_text name);
struct mr_jinja_value mr_jinja_need_text(struct mr_jinja_run *run);

/* The value as a text, as it is printed. */
struct mr_jinja_value mr_jinja_text_of(struct mr_jinja_run *run, struct mr_jinja_value value);
/* The integer or boolean in value; `otherwise` when it is undefined or none. Another value fails
 * the run. */
int64_t mr_jinja_integer_or(struct mr_jinja_run *run, struct mr_jinja_value value,
                            int64_t otherwise);

/* An operation on value. In the tables of filters and methods, arguments are bound to the row's
 * parameters; a row with parameters "*" gets them unchanged. */
typedef struct mr_jinja_value mr_jinja_operation(struct mr_jinja_run *run,
                                                 struct mr_jinja_value value,
                                                 const struct mr_jinja_arguments *arguments);
/* These change the case of all letters of a text; capitalize and title as str's methods. They map
 * each character by itself. The one exception is U+00DF, whose upper case is SS. */
mr_jinja_operation mr_jinja_upper, mr_jinja_lower, mr_jinja_title, mr_jinja_capitalize;
/* The filter title, which starts a word after white space and ( [ { < -. */
mr_jinja_operation mr_jinja_title_words;
/* str.center(width). */
mr_jinja_operation mr_jinja_center;

enum mr_jinja_sides { MR_JINJA_LEFT = 1, MR_JINJA_RIGHT = 2, MR_JINJA_BOTH = 3 };

/* Removes the characters `chars` from the ends of text; chars none: white space. */
struct mr_jinja_value mr_jinja_strip(struct mr_jinja_run *run, struct mr_jinja_value text,
                                     struct mr_jinja_value chars, enum mr_jinja_sides sides);
/* Pads text with `fill` to `width` characters on the given sides, as ljust (RIGHT), rjust (LEFT)
 * and center do. */
struct mr_jinja_value mr_jinja_pad(struct mr_jinja_run *run, struct mr_jinja_value text,
                                   int64_t width, enum mr_jinja_sides sides,
                                   struct mr_jinja_value fill);
/* Replaces the first `count` places; below 0: all. */
struct mr_jinja_value mr_jinja_replace(struct mr_jinja_run *run, struct mr_jinja_value text,
                                       struct mr_jinja_value from, struct mr_jinja_value to,
                                       int64_t count);
/* Prints the items into one text, with separator (if it is text) between each two. */
struct mr_jinja_value mr_jinja_join(struct mr_jinja_run *run, struct mr_jinja_value items,
                                    struct mr_jinja_value separator);

#endif
