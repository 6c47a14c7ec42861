/* jinja_print - the text of a value: as Python prints it, and as JSON.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_PRINT_H
#define MR_CODEC_TEMPLATE_JINJA_PRINT_H

#include "codec/template/jinja_value.h"

/* Prints value as Python does; text without quotes. */
void mr_jinja_print(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value);
/* Prints value as json.dumps(ensure_ascii=False) does; indent < 0: on one line. */
void mr_jinja_print_json(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                         struct mr_jinja_value value, int64_t indent, uint32_t level);

#endif
