/* jinja_text_methods - the methods of Python's str that templates call.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_TEXT_METHODS_H
#define MR_CODEC_TEMPLATE_JINJA_TEXT_METHODS_H

#include "codec/jinja/jinja_operations.h"

struct mr_jinja_text_method {
    const char *name;
    mr_jinja_operation *call;
    const char *parameters; /* see mr_jinja_bind; "*": not bound */
};

/* NULL: str has no method of this name, or the interpreter does not support it. */
const struct mr_jinja_text_method *mr_jinja_text_method(struct mr_text name);

#endif
