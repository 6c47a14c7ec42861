/* jinja_print - the text of a value: as Python's str and repr print it, and as JSON.
 *
 * Owner: one rendering. Memory: the run's arena. Errors: the first one stays in the run. */
#ifndef MR_CODEC_JINJA_JINJA_PRINT_H
#define MR_CODEC_JINJA_JINJA_PRINT_H

#include "codec/jinja/jinja_buffer.h"

/* How json.dumps prints. */
struct mr_jinja_json_style {
    struct mr_jinja_value indent;       /* text of one level; undefined: all on one line */
    struct mr_jinja_value comma, colon; /* text between items, and between key and value */
    bool ascii, sort_keys;
};

/* Prints value as str() does: text without quotes. */
void mr_jinja_print(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                    struct mr_jinja_value value);
/* Prints value as repr() does: text in quotes. */
void mr_jinja_print_repr(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                         struct mr_jinja_value value);
void mr_jinja_print_json(struct mr_jinja_run *run, struct mr_jinja_buffer *buffer,
                         struct mr_jinja_value value, const struct mr_jinja_json_style *style);
/* The text with & < > ' " escaped for HTML, marked as markup; markup as it is. */
struct mr_jinja_value mr_jinja_escape(struct mr_jinja_run *run, struct mr_jinja_value text);

#endif
