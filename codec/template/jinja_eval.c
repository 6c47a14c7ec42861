#include "codec/template/jinja_eval.h"

#include "codec/limits.h"
#include "codec/template/jinja_arithmetic.h"
#include "codec/template/jinja_builtins.h"
#include "codec/template/jinja_filters.h"
#include "codec/template/jinja_methods.h"
#include "codec/template/jinja_names.h"

bool mr_jinja_enter(struct mr_jinja_interpreter *in)
{
    if (!mr_jinja_step(in->run)) return false;
    if (in->height == MR_JINJA_HEIGHT_MAX) {
        mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                      "chat template: more than %u levels of recursion", MR_JINJA_HEIGHT_MAX);
        return false;
    }
    in->height++;
    return true;
}

static struct mr_jinja_value eval_name(struct mr_jinja_interpreter *in, struct mr_text name)
{
    for (struct mr_jinja_scope *scope = in->scope; scope; scope = scope->parent) {
        struct mr_jinja_value *found = mr_jinja_dict_get(scope->names, mr_jinja_name(name));
        if (found) return *found;
    }
    if (!mr_jinja_is_function(name)) return mr_jinja_undefined();
    struct mr_jinja_value function = {.kind = MR_JINJA_FUNCTION};
    function.function.name = name;
    return function;
}

static struct mr_jinja_value eval_list(struct mr_jinja_interpreter *in,
                                       const struct mr_jinja_node *node)
{
    bool tuple = node->kind == MR_JINJA_NODE_TUPLE;
    struct mr_jinja_value list =
        mr_jinja_list_of_kind(in->run, tuple ? MR_JINJA_LIST_TUPLE : MR_JINJA_LIST_PLAIN);
    for (const struct mr_jinja_node *item = node->items; item && in->run->status == MR_OK;
         item = item->next) {
        mr_jinja_list_push(in->run, list.list, mr_jinja_eval_expression(in, item));
    }
    return list;
}

static struct mr_jinja_value eval_dict(struct mr_jinja_interpreter *in,
                                       const struct mr_jinja_node *node)
{
    struct mr_jinja_value dict = mr_jinja_dict_new(in->run);
    for (const struct mr_jinja_node *item = node->items; item && in->run->status == MR_OK;
         item = item->next) {
        struct mr_jinja_value key = mr_jinja_eval_expression(in, item->a);
        mr_jinja_dict_set(in->run, dict.dict, key, mr_jinja_eval_expression(in, item->b));
    }
    return dict;
}

/* ---- scopes ---- */

bool mr_jinja_open_scope(struct mr_jinja_interpreter *in, struct mr_jinja_scope *parent)
{
    struct mr_jinja_scope *scope = mr_jinja_take(in->run, 1, sizeof *scope);
    struct mr_jinja_value names = mr_jinja_dict_new(in->run);
    if (in->run->depth == MR_TEMPLATE_DEPTH_MAX)
        mr_jinja_fail(in->run, MR_INVALID_REQUEST, "chat template: nested too deeply");
    if (in->run->status != MR_OK) return false;
    in->run->depth++;
    *scope = (struct mr_jinja_scope){.parent = parent, .names = names.dict};
    in->scope = scope;
    return true;
}

void mr_jinja_close_scope(struct mr_jinja_interpreter *in, struct mr_jinja_scope *outer)
{
    in->run->depth--;
    in->scope = outer;
}

/* ---- calls ---- */

static void add_positional(struct mr_jinja_interpreter *in, struct mr_jinja_arguments *out,
                           struct mr_jinja_value value)
{
    if (out->count == MR_JINJA_ARGUMENTS_MAX) {
        mr_jinja_fail(in->run, MR_INVALID_REQUEST, "chat template: more than %u arguments",
                      MR_JINJA_ARGUMENTS_MAX);
    } else {
        out->values[out->count++] = value;
    }
}

static void add_named(struct mr_jinja_interpreter *in, struct mr_jinja_arguments *out,
                      struct mr_text name, struct mr_jinja_value value)
{
    bool repeated = mr_jinja_keyword(out, name) != NULL;
    if (out->named_count == MR_JINJA_ARGUMENTS_MAX || repeated) {
        mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                      "chat template: more than %u keyword arguments, or one of them twice",
                      MR_JINJA_ARGUMENTS_MAX);
    } else {
        out->names[out->named_count] = name;
        out->named[out->named_count++] = value;
    }
}

static void spread(struct mr_jinja_interpreter *in, struct mr_jinja_arguments *out,
                   struct mr_jinja_value value)
{
    const struct mr_jinja_list *list = mr_jinja_iterate(in->run, value);
    for (size_t i = 0; i < list->count && in->run->status == MR_OK; i++)
        add_positional(in, out, list->items[i]);
}

static void spread_named(struct mr_jinja_interpreter *in, struct mr_jinja_arguments *out,
                         struct mr_jinja_value value)
{
    if (value.kind != MR_JINJA_DICT) {
        mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                      "chat template: ** in a call needs a dictionary");
        return;
    }
    for (size_t i = 0; i < value.dict->count && in->run->status == MR_OK; i++)
        add_named(in, out, mr_jinja_as_text(value.dict->keys[i]), value.dict->values[i]);
}

static void eval_arguments(struct mr_jinja_interpreter *in, const struct mr_jinja_node *items,
                           struct mr_jinja_arguments *out)
{
    out->count = out->named_count = 0;
    for (const struct mr_jinja_node *item = items; item && in->run->status == MR_OK;
         item = item->next) {
        bool wrapped = item->kind == MR_JINJA_NODE_KEYWORD || item->kind == MR_JINJA_NODE_SPREAD ||
                       item->kind == MR_JINJA_NODE_SPREAD_NAMED;
        struct mr_jinja_value value = mr_jinja_eval_expression(in, wrapped ? item->a : item);
        if (item->kind == MR_JINJA_NODE_KEYWORD)
            add_named(in, out, item->text, value);
        else if (item->kind == MR_JINJA_NODE_SPREAD)
            spread(in, out, value);
        else if (item->kind == MR_JINJA_NODE_SPREAD_NAMED)
            spread_named(in, out, value);
        else
            add_positional(in, out, value);
    }
}

/* True when the nodes use the variable `name`. */
static bool mentions(const struct mr_jinja_node *node, const char *name)
{
    for (; node; node = node->next) {
        if (node->kind == MR_JINJA_NODE_NAME && mr_text_is(node->text, name)) return true;
        if (mentions(node->a, name) || mentions(node->b, name) || mentions(node->c, name) ||
            mentions(node->d, name) || mentions(node->items, name))
            return true;
    }
    return false;
}

static void set_name(struct mr_jinja_interpreter *in, const char *name, struct mr_jinja_value value)
{
    mr_jinja_dict_set(in->run, in->scope->names, mr_jinja_literal(name), value);
}

/* Sets the variable varargs, in a macro that uses it, to the arguments after those of the
 * parameters. */
static void bind_rest(struct mr_jinja_interpreter *in, const struct mr_jinja_node *macro,
                      const struct mr_jinja_arguments *arguments, uint32_t bound)
{
    if (mentions(macro->items, "varargs")) {
        struct mr_jinja_value rest = mr_jinja_list_of_kind(in->run, MR_JINJA_LIST_TUPLE);
        for (uint32_t i = bound; i < arguments->count && in->run->status == MR_OK; i++)
            mr_jinja_list_push(in->run, rest.list, arguments->values[i]);
        set_name(in, "varargs", rest);
    } else if (bound < arguments->count) {
        mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                      "chat template line %u: too many arguments of macro '%.*s'", macro->line,
                      (int)macro->text.length, macro->text.bytes);
    }
}

/* Sets the variable kwargs, in a macro that uses it, to the keyword arguments without a parameter.
 */
static void bind_rest_named(struct mr_jinja_interpreter *in, const struct mr_jinja_node *macro,
                            const struct mr_jinja_arguments *arguments, const bool *used)
{
    bool keeps = mentions(macro->items, "kwargs");
    struct mr_jinja_value rest = mr_jinja_dict_new(in->run);
    for (uint32_t i = 0; i < arguments->named_count && in->run->status == MR_OK; i++) {
        if (used[i]) continue;
        if (keeps)
            mr_jinja_dict_set(in->run, rest.dict, mr_jinja_name(arguments->names[i]),
                              arguments->named[i]);
        else
            mr_jinja_fail_name(in->run, "macro has no parameter", arguments->names[i]);
    }
    if (keeps) set_name(in, "kwargs", rest);
}

static void bind_parameters(struct mr_jinja_interpreter *in, const struct mr_jinja_node *macro,
                            const struct mr_jinja_arguments *arguments)
{
    bool used[MR_JINJA_ARGUMENTS_MAX] = {false};
    uint32_t index = 0;
    for (const struct mr_jinja_node *parameter = macro->b; parameter && in->run->status == MR_OK;
         parameter = parameter->next, index++) {
        struct mr_jinja_value value = mr_jinja_undefined();
        const struct mr_jinja_value *named = mr_jinja_keyword(arguments, parameter->text);
        if (index < arguments->count) {
            value = arguments->values[index];
        } else if (named) {
            value = *named;
            used[named - arguments->named] = true;
        } else if (parameter->a) {
            value = mr_jinja_eval_expression(in, parameter->a);
        }
        mr_jinja_dict_set(in->run, in->scope->names, mr_jinja_name(parameter->text), value);
    }
    bind_rest(in, macro, arguments, index);
    bind_rest_named(in, macro, arguments, used);
}

static struct mr_jinja_value call_macro(struct mr_jinja_interpreter *in,
                                        const struct mr_jinja_macro *macro,
                                        const struct mr_jinja_arguments *arguments,
                                        const struct mr_jinja_value *caller)
{
    struct mr_jinja_scope *outer = in->scope;
    bool wants_caller =
        macro->node->kind == MR_JINJA_NODE_MACRO && mentions(macro->node->items, "caller");
    if (caller && !wants_caller)
        return mr_jinja_fail_name(in->run, "a call block needs a macro that uses caller, not",
                                  macro->node->text);
    if (!mr_jinja_open_scope(in, macro->scope)) return mr_jinja_undefined();
    bind_parameters(in, macro->node, arguments);
    if (wants_caller) set_name(in, "caller", caller ? *caller : mr_jinja_undefined());
    struct mr_jinja_value text = in->capture(in, macro->node->items);
    mr_jinja_close_scope(in, outer);
    return text;
}

/* The name of a callee for error sentences. */
static struct mr_text name_of(const struct mr_jinja_node *callee)
{
    bool named = callee->kind == MR_JINJA_NODE_NAME || callee->kind == MR_JINJA_NODE_ATTRIBUTE;
    return named ? callee->text : (struct mr_text){"value", 5};
}

struct mr_jinja_value mr_jinja_eval_call(struct mr_jinja_interpreter *in,
                                         const struct mr_jinja_node *call,
                                         const struct mr_jinja_value *caller)
{
    struct mr_jinja_arguments arguments;
    struct mr_jinja_value callee = mr_jinja_eval_expression(in, call->a);
    eval_arguments(in, call->items, &arguments);
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    if (callee.kind == MR_JINJA_MACRO) return call_macro(in, callee.macro, &arguments, caller);
    if (callee.kind == MR_JINJA_LOOP && arguments.count == 1)
        return in->call_loop(in, callee.loop, arguments.values[0]);
    if (callee.kind != MR_JINJA_UNDEFINED) return mr_jinja_call(in->run, callee, &arguments);
    return mr_jinja_fail_name(
        in->run, "call of a name that is not defined or not allowed:", name_of(call->a));
}

/* ---- operators ---- */

static struct mr_jinja_value eval_filter_or_test(struct mr_jinja_interpreter *in,
                                                 const struct mr_jinja_node *node)
{
    struct mr_jinja_arguments arguments;
    struct mr_jinja_value value = mr_jinja_eval_expression(in, node->a);
    eval_arguments(in, node->items, &arguments);
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    if (node->kind == MR_JINJA_NODE_FILTER)
        return mr_jinja_filter(in->run, node->text, value, &arguments);
    return mr_jinja_bool(mr_jinja_test(in->run, node->text, value, &arguments));
}

static struct mr_jinja_value eval_logic(struct mr_jinja_interpreter *in,
                                        const struct mr_jinja_node *node)
{
    if (node->kind == MR_JINJA_NODE_NOT)
        return mr_jinja_bool(!mr_jinja_truth(mr_jinja_eval_expression(in, node->a)));
    if (node->kind == MR_JINJA_NODE_CONDITIONAL) {
        if (mr_jinja_truth(mr_jinja_eval_expression(in, node->b)))
            return mr_jinja_eval_expression(in, node->a);
        return node->c ? mr_jinja_eval_expression(in, node->c) : mr_jinja_undefined();
    }
    struct mr_jinja_value left = mr_jinja_eval_expression(in, node->a);
    bool decided = mr_jinja_truth(left) == (node->kind == MR_JINJA_NODE_OR);
    return decided ? left : mr_jinja_eval_expression(in, node->b);
}

static struct mr_jinja_value eval_slice(struct mr_jinja_interpreter *in,
                                        const struct mr_jinja_node *node)
{
    const struct mr_jinja_node *nodes[3] = {node->b, node->c, node->d};
    struct mr_jinja_value base = mr_jinja_eval_expression(in, node->a), bounds[3];
    for (int i = 0; i < 3; i++)
        bounds[i] = nodes[i] ? mr_jinja_eval_expression(in, nodes[i]) : mr_jinja_none();
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    return mr_jinja_slice(in->run, base, bounds);
}

static struct mr_jinja_value eval_operator(struct mr_jinja_interpreter *in,
                                           const struct mr_jinja_node *node)
{
    struct mr_jinja_value a = mr_jinja_eval_expression(in, node->a), b = mr_jinja_none();
    if (node->b) b = mr_jinja_eval_expression(in, node->b);
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    switch (node->kind) {
    case MR_JINJA_NODE_INDEX:
        return mr_jinja_index(in->run, a, b);
    case MR_JINJA_NODE_COMPARE:
        return mr_jinja_comparison(in->run, node->text, a, b);
    case MR_JINJA_NODE_NEGATE:
        return mr_jinja_sign(in->run, a, true);
    case MR_JINJA_NODE_POSITIVE:
        return mr_jinja_sign(in->run, a, false);
    default:
        return mr_jinja_arithmetic(in->run, node->text, a, b);
    }
}

static struct mr_jinja_value eval_constant(struct mr_jinja_interpreter *in,
                                           const struct mr_jinja_node *node)
{
    switch (node->kind) {
    case MR_JINJA_NODE_STRING:
        return mr_jinja_name(node->text);
    case MR_JINJA_NODE_INT:
        return mr_jinja_int(node->integer);
    case MR_JINJA_NODE_FLOAT:
        return mr_jinja_float(node->number);
    case MR_JINJA_NODE_NONE:
        return mr_jinja_none();
    case MR_JINJA_NODE_OUTPUT:
        return in->output;
    default:
        return mr_jinja_bool(node->kind == MR_JINJA_NODE_TRUE);
    }
}

static struct mr_jinja_value eval_node(struct mr_jinja_interpreter *in,
                                       const struct mr_jinja_node *node)
{
    switch (node->kind) {
    case MR_JINJA_NODE_NAME:
        return eval_name(in, node->text);
    case MR_JINJA_NODE_LIST:
    case MR_JINJA_NODE_TUPLE:
        return eval_list(in, node);
    case MR_JINJA_NODE_DICT:
        return eval_dict(in, node);
    case MR_JINJA_NODE_ATTRIBUTE:
        return mr_jinja_attribute(in->run, mr_jinja_eval_expression(in, node->a), node->text);
    case MR_JINJA_NODE_SLICE:
        return eval_slice(in, node);
    case MR_JINJA_NODE_CALL:
        return mr_jinja_eval_call(in, node, NULL);
    case MR_JINJA_NODE_FILTER:
    case MR_JINJA_NODE_TEST:
        return eval_filter_or_test(in, node);
    case MR_JINJA_NODE_NOT:
    case MR_JINJA_NODE_AND:
    case MR_JINJA_NODE_OR:
    case MR_JINJA_NODE_CONDITIONAL:
        return eval_logic(in, node);
    case MR_JINJA_NODE_INDEX:
    case MR_JINJA_NODE_NEGATE:
    case MR_JINJA_NODE_POSITIVE:
    case MR_JINJA_NODE_BINARY:
    case MR_JINJA_NODE_COMPARE:
        return eval_operator(in, node);
    default:
        return eval_constant(in, node);
    }
}

struct mr_jinja_value mr_jinja_eval_expression(struct mr_jinja_interpreter *in,
                                               const struct mr_jinja_node *node)
{
    if (!mr_jinja_enter(in)) return mr_jinja_undefined();
    struct mr_jinja_value value = eval_node(in, node);
    in->height--;
    return value;
}
