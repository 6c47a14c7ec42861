/* jinja_eval - evaluates expressions of templates: operators, calls and macros.
 *
 * A macro runs in the scope it was defined in. The interpreter counts steps and nesting and fails
 * above MR_TEMPLATE_STEPS_MAX, MR_TEMPLATE_DEPTH_MAX and MR_JINJA_HEIGHT_MAX, so every run ends.
 *
 * Owner: one rendering. Memory: the run's arena, also for scopes, because a macro keeps the scope
 * in which it was defined. Errors: the first one stays in the run. */
#ifndef MR_CODEC_TEMPLATE_JINJA_EVAL_H
#define MR_CODEC_TEMPLATE_JINJA_EVAL_H

#include "codec/jinja/jinja_objects.h"

enum mr_jinja_jump { MR_JINJA_JUMP_NONE, MR_JINJA_JUMP_BREAK, MR_JINJA_JUMP_CONTINUE };

struct mr_jinja_interpreter {
    struct mr_jinja_run *run;
    struct mr_jinja_scope *scope;
    struct mr_jinja_buffer *out;
    struct mr_jinja_value output; /* output of the innermost block with filters */
    enum mr_jinja_jump jump;
    uint32_t height; /* evaluations and lists of statements that are running */
    /* Runs a list of statements in the current scope and returns their output. */
    struct mr_jinja_value (*capture)(struct mr_jinja_interpreter *in,
                                     const struct mr_jinja_node *statements);
    /* Runs a loop over other items one level deeper and returns its output. */
    struct mr_jinja_value (*call_loop)(struct mr_jinja_interpreter *in,
                                       const struct mr_jinja_loop *loop,
                                       struct mr_jinja_value items);
};

/* Counts a step and a level of recursion: the tree of "1 + 1 + 1 ..." is as high as it is long.
 * False when the run has failed; otherwise the caller decrements in->height in the end. */
bool mr_jinja_enter(struct mr_jinja_interpreter *in);
struct mr_jinja_value mr_jinja_eval_expression(struct mr_jinja_interpreter *in,
                                               const struct mr_jinja_node *node);
/* Evaluates a node CALL. caller: the body of a call block, or NULL. */
struct mr_jinja_value mr_jinja_eval_call(struct mr_jinja_interpreter *in,
                                         const struct mr_jinja_node *call,
                                         const struct mr_jinja_value *caller);

/* Makes a scope inside `parent` the current one; false when the run fails. The caller sets
 * in->scope back with mr_jinja_close_scope. */
bool mr_jinja_open_scope(struct mr_jinja_interpreter *in, struct mr_jinja_scope *parent);
void mr_jinja_close_scope(struct mr_jinja_interpreter *in, struct mr_jinja_scope *outer);

#endif
