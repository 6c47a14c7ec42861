/* jinja_objects - the objects to which values of the kinds MACRO, LOOP and CYCLER point.
 *
 * Owner: one rendering. Memory: the run's arena. */
#ifndef MR_CODEC_JINJA_JINJA_OBJECTS_H
#define MR_CODEC_JINJA_JINJA_OBJECTS_H

#include "codec/jinja/jinja_value.h"

struct mr_jinja_scope {
    struct mr_jinja_scope *parent;
    struct mr_jinja_dict *names;
};

/* A macro, or the body of a call block. */
struct mr_jinja_macro {
    const struct mr_jinja_node *node; /* MACRO or CALL_BLOCK */
    struct mr_jinja_scope *scope;     /* where it was defined */
};

/* The state of a for loop that runs. */
struct mr_jinja_loop {
    const struct mr_jinja_node *node; /* FOR */
    struct mr_jinja_scope *scope;     /* around the loop */
    const struct mr_jinja_list *items;
    size_t index;
    uint32_t depth;                      /* 0: not called by itself */
    const struct mr_jinja_list *changed; /* arguments of the last call of changed(); NULL: none */
};

struct mr_jinja_cycler {
    struct mr_jinja_list *items; /* not empty */
    size_t at;
};

#endif
