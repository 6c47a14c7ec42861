#include "codec/template/jinja_statements.h"

#include "codec/jinja/jinja_print.h"
#include "codec/limits.h"
#include "codec/template/jinja_eval.h"

static void run_list(struct mr_jinja_interpreter *in, const struct mr_jinja_node *node);

static void assign_attribute(struct mr_jinja_interpreter *in, const struct mr_jinja_node *target,
                             struct mr_jinja_value value)
{
    struct mr_jinja_value space = mr_jinja_eval_expression(in, target->a);
    if (space.kind != MR_JINJA_NAMESPACE) {
        mr_jinja_fail(
            in->run, MR_INVALID_REQUEST,
            "chat template line %u: set of an attribute of a value that is not a namespace",
            target->line);
    } else if (target->text.bytes[0] == '_') {
        mr_jinja_fail(
            in->run, MR_INVALID_REQUEST,
            "chat template line %u: a namespace has no attributes that begin with an underscore",
            target->line);
    } else {
        mr_jinja_dict_set(in->run, space.dict, mr_jinja_name(target->text), value);
    }
}

static void assign(struct mr_jinja_interpreter *in, const struct mr_jinja_node *target,
                   struct mr_jinja_value value)
{
    if (in->run->status != MR_OK) return;
    if (target->kind == MR_JINJA_NODE_NAME) {
        mr_jinja_dict_set(in->run, in->scope->names, mr_jinja_name(target->text), value);
        return;
    }
    if (target->kind == MR_JINJA_NODE_ATTRIBUTE) {
        assign_attribute(in, target, value);
        return;
    }
    const struct mr_jinja_list *parts = mr_jinja_iterate(in->run, value);
    size_t count = 0;
    for (const struct mr_jinja_node *item = target->items; item; item = item->next)
        count++;
    if (value.kind == MR_JINJA_UNDEFINED || parts->count != count) {
        mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                      "chat template line %u: %zu names for %zu values", target->line, count,
                      parts->count);
        return;
    }
    size_t i = 0;
    for (const struct mr_jinja_node *item = target->items; item; item = item->next)
        assign(in, item, parts->items[i++]);
}

static struct mr_jinja_value capture(struct mr_jinja_interpreter *in,
                                     const struct mr_jinja_node *statements)
{
    struct mr_jinja_buffer printed = {0}, *out = in->out;
    in->out = &printed;
    run_list(in, statements);
    in->out = out;
    return mr_jinja_buffer_text(&printed);
}

/* Captures the output of statements in their own scope. */
static struct mr_jinja_value capture_scope(struct mr_jinja_interpreter *in,
                                           const struct mr_jinja_node *statements)
{
    struct mr_jinja_scope *outer = in->scope;
    if (!mr_jinja_open_scope(in, outer)) return mr_jinja_undefined();
    struct mr_jinja_value text = capture(in, statements);
    mr_jinja_close_scope(in, outer);
    return text;
}

/* ---- loops ---- */

/* The items of a loop for which the loop's `if` condition is true. */
static struct mr_jinja_list *filter_items(struct mr_jinja_interpreter *in,
                                          const struct mr_jinja_node *node,
                                          struct mr_jinja_list *all)
{
    if (!node->b) return all;
    struct mr_jinja_scope *outer = in->scope;
    struct mr_jinja_value list = mr_jinja_list_new(in->run);
    for (size_t i = 0; i < all->count; i++) {
        if (!mr_jinja_open_scope(in, outer)) return all;
        assign(in, node->c, all->items[i]);
        bool kept = mr_jinja_truth(mr_jinja_eval_expression(in, node->b));
        mr_jinja_close_scope(in, outer);
        if (kept) mr_jinja_list_push(in->run, list.list, all->items[i]);
    }
    return list.kind == MR_JINJA_LIST ? list.list : all;
}

static void run_loop(struct mr_jinja_interpreter *in, const struct mr_jinja_node *node,
                     struct mr_jinja_value over, uint32_t depth)
{
    struct mr_jinja_list *list = mr_jinja_iterate(in->run, over);
    if (in->run->status == MR_OK) list = filter_items(in, node, list);
    struct mr_jinja_value loop = {.kind = MR_JINJA_LOOP};
    loop.loop = mr_jinja_take(in->run, 1, sizeof *loop.loop);
    if (!loop.loop) return;
    *loop.loop =
        (struct mr_jinja_loop){.node = node, .scope = in->scope, .items = list, .depth = depth};
    struct mr_jinja_scope *outer = in->scope;
    size_t count = list->count;
    for (size_t i = 0; i < count && mr_jinja_step(in->run); i++) {
        if (!mr_jinja_open_scope(in, outer)) return;
        loop.loop->index = i;
        mr_jinja_dict_set(in->run, in->scope->names, mr_jinja_literal("loop"), loop);
        assign(in, node->c, list->items[i]);
        run_list(in, node->items);
        mr_jinja_close_scope(in, outer);
        enum mr_jinja_jump jump = in->jump;
        in->jump = MR_JINJA_JUMP_NONE;
        if (jump == MR_JINJA_JUMP_BREAK) break;
    }
    if (count || in->run->status != MR_OK || !mr_jinja_open_scope(in, outer)) return;
    run_list(in, node->d);
    mr_jinja_close_scope(in, outer);
}

static struct mr_jinja_value call_loop(struct mr_jinja_interpreter *in,
                                       const struct mr_jinja_loop *loop,
                                       struct mr_jinja_value items)
{
    struct mr_jinja_buffer printed = {0}, *out = in->out;
    struct mr_jinja_scope *scope = in->scope;
    if (!loop->node->text.length)
        return mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                             "chat template line %u: call of a loop that is not recursive",
                             loop->node->line);
    in->out = &printed;
    in->scope = loop->scope;
    run_loop(in, loop->node, items, loop->depth + 1);
    in->scope = scope;
    in->out = out;
    return mr_jinja_buffer_text(&printed);
}

/* ---- blocks ---- */

/* The output of a block, after its filters. filters: NULL, or an expression with a node OUTPUT. */
static struct mr_jinja_value filtered_output(struct mr_jinja_interpreter *in,
                                             const struct mr_jinja_node *body,
                                             const struct mr_jinja_node *filters)
{
    struct mr_jinja_value outer = in->output;
    in->output = capture_scope(in, body);
    struct mr_jinja_value text = mr_jinja_eval_expression(in, filters);
    in->output = outer;
    return text;
}

static void run_call_block(struct mr_jinja_interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_value caller = {.kind = MR_JINJA_MACRO};
    struct mr_jinja_macro *macro = mr_jinja_take(in->run, 1, sizeof *macro);
    if (!macro) return;
    *macro = (struct mr_jinja_macro){node, in->scope};
    caller.macro = macro;
    mr_jinja_print(in->run, in->out, mr_jinja_eval_call(in, node->a, &caller));
}

/* The values are those of the outer scope. */
static void run_with(struct mr_jinja_interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_scope *outer = in->scope, *inner;
    if (!mr_jinja_open_scope(in, outer)) return;
    inner = in->scope;
    for (const struct mr_jinja_node *set = node->b; set; set = set->next) {
        in->scope = outer;
        struct mr_jinja_value value = mr_jinja_eval_expression(in, set->b);
        in->scope = inner;
        assign(in, set->a, value);
    }
    run_list(in, node->items);
    mr_jinja_close_scope(in, outer);
}

static void define_macro(struct mr_jinja_interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_value value = {.kind = MR_JINJA_MACRO};
    struct mr_jinja_macro *macro = mr_jinja_take(in->run, 1, sizeof *macro);
    if (!macro) return;
    *macro = (struct mr_jinja_macro){node, in->scope};
    value.macro = macro;
    mr_jinja_dict_set(in->run, in->scope->names, mr_jinja_name(node->text), value);
}

/* ---- statements ---- */

static void run_block(struct mr_jinja_interpreter *in, const struct mr_jinja_node *node)
{
    switch (node->kind) {
    case MR_JINJA_NODE_SET_BLOCK:
        assign(in, node->a, filtered_output(in, node->items, node->b));
        break;
    case MR_JINJA_NODE_FILTER_BLOCK:
        mr_jinja_print(in->run, in->out, filtered_output(in, node->items, node->a));
        break;
    case MR_JINJA_NODE_CALL_BLOCK:
        run_call_block(in, node);
        break;
    case MR_JINJA_NODE_WITH:
        run_with(in, node);
        break;
    case MR_JINJA_NODE_SCOPE:
        mr_jinja_append(in->run, in->out, capture_scope(in, node->items));
        break;
    case MR_JINJA_NODE_MACRO:
        define_macro(in, node);
        break;
    default:
        in->jump = node->kind == MR_JINJA_NODE_BREAK ? MR_JINJA_JUMP_BREAK : MR_JINJA_JUMP_CONTINUE;
    }
}

static void run_one(struct mr_jinja_interpreter *in, const struct mr_jinja_node *node)
{
    switch (node->kind) {
    case MR_JINJA_NODE_DATA:
        mr_jinja_append_bytes(in->run, in->out, node->text.bytes, node->text.length, false);
        break;
    case MR_JINJA_NODE_PRINT:
        mr_jinja_print(in->run, in->out, mr_jinja_eval_expression(in, node->a));
        break;
    case MR_JINJA_NODE_IF:
        run_list(in, mr_jinja_truth(mr_jinja_eval_expression(in, node->a)) ? node->items : node->b);
        break;
    case MR_JINJA_NODE_FOR:
        run_loop(in, node, mr_jinja_eval_expression(in, node->a), 0);
        break;
    case MR_JINJA_NODE_SET:
        assign(in, node->a, mr_jinja_eval_expression(in, node->b));
        break;
    default:
        run_block(in, node);
    }
}

static void run_list(struct mr_jinja_interpreter *in, const struct mr_jinja_node *node)
{
    for (; node && in->jump == MR_JINJA_JUMP_NONE && mr_jinja_enter(in); node = node->next) {
        run_one(in, node);
        in->height--;
        if (in->out->length > MR_TEMPLATE_BYTES_MAX) {
            mr_jinja_fail(in->run, MR_INVALID_REQUEST, "chat template: output over %zu bytes",
                          MR_TEMPLATE_BYTES_MAX);
        }
    }
}

void mr_jinja_run_template(struct mr_jinja_run *run, const struct mr_jinja_node *root,
                           struct mr_jinja_dict *globals, struct mr_jinja_buffer *out)
{
    struct mr_jinja_scope outermost = {.names = globals};
    struct mr_jinja_interpreter in = {
        .run = run, .scope = &outermost, .out = out, .capture = capture, .call_loop = call_loop};
    run_list(&in, root);
}
