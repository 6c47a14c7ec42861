/* jinja_names - checks a parsed template before its first rendering: every filter and test must
 * exist, also those named in a text: map('name'), select('name'). A function that is called by name
 * must exist, be assigned somewhere in the template, or be tested with `is defined`. A tree that is
 * too high to run is refused.
 *
 * As in Jinja, a name directly inside an `if` or a conditional expression may be unknown: templates
 * use this to guard functions that only other programs have. A rendering that reaches it fails.
 *
 * Threads: any (pure functions). Memory: none.
 * Errors: MR_BAD_FILE with line and column of the name. */
#ifndef MR_CODEC_TEMPLATE_JINJA_NAMES_H
#define MR_CODEC_TEMPLATE_JINJA_NAMES_H

#include "codec/jinja/jinja_ast.h"

/* Most nested expressions and statements of a template; evaluation stops there too. Each level
 * takes up to 4 KiB of stack. */
#define MR_JINJA_HEIGHT_MAX 1000u

enum mr_status mr_jinja_check_names(const struct mr_jinja_node *root, struct mr_error *err);

#endif
