#include "codec/template/jinja_eval.h"

#include "codec/limits.h"
#include "codec/template/jinja_builtins.h"
#include "codec/template/jinja_methods.h"
#include "codec/template/jinja_print.h"

#include <math.h>
#include <string.h>

struct scope {
    struct scope *parent;
    struct mr_jinja_dict *names;
};

enum jump { JUMP_NONE, JUMP_BREAK, JUMP_CONTINUE };

/* Each level takes up to 2 KiB of stack. */
#define HEIGHT_MAX 1000u

struct interpreter {
    struct mr_jinja_run *run;
    struct scope *scope;
    struct scope *globals;
    struct mr_jinja_buffer *out;
    enum jump jump;
    uint32_t height; /* calls of eval and run_list that are running */
};

static struct mr_jinja_value eval(struct interpreter *in, const struct mr_jinja_node *node);
static void run_list(struct interpreter *in, const struct mr_jinja_node *node);

static struct mr_jinja_value key_of(struct mr_text name)
{
    struct mr_jinja_value key = {.kind = MR_JINJA_TEXT};
    key.text.bytes = name.bytes;
    key.text.length = name.length;
    return key;
}

static bool open_scope(struct interpreter *in, struct scope *scope, struct scope *parent)
{
    struct mr_jinja_value names = mr_jinja_dict_new(in->run);
    if (++in->run->depth > MR_TEMPLATE_DEPTH_MAX) {
        mr_jinja_fail(in->run, MR_INVALID_REQUEST, "chat template: nested too deeply");
    }
    if (in->run->status != MR_OK) {
        in->run->depth--;
        return false;
    }
    *scope = (struct scope){.parent = parent, .names = names.dict};
    in->scope = scope;
    return true;
}

static void close_scope(struct interpreter *in, struct scope *outer)
{
    in->run->depth--;
    in->scope = outer;
}

/* ---- expressions ---- */

static struct mr_jinja_value eval_name(struct interpreter *in, struct mr_text name)
{
    for (struct scope *scope = in->scope; scope; scope = scope->parent) {
        struct mr_jinja_value *found = mr_jinja_dict_get(scope->names, key_of(name));
        if (found) return *found;
    }
    if (!mr_jinja_is_function(name)) return mr_jinja_undefined();
    struct mr_jinja_value function = {.kind = MR_JINJA_FUNCTION};
    function.function.name = name;
    return function;
}

static struct mr_jinja_value eval_list(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_value list = mr_jinja_list_new(in->run);
    for (const struct mr_jinja_node *item = node->items; item && in->run->status == MR_OK;
         item = item->next) {
        mr_jinja_list_push(in->run, list.list, eval(in, item));
    }
    return list;
}

static struct mr_jinja_value eval_dict(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_value dict = mr_jinja_dict_new(in->run);
    for (const struct mr_jinja_node *item = node->items; item && in->run->status == MR_OK;
         item = item->next) {
        struct mr_jinja_value key = eval(in, item->a);
        mr_jinja_dict_set(in->run, dict.dict, key, eval(in, item->b));
    }
    return dict;
}

static void eval_arguments(struct interpreter *in, const struct mr_jinja_node *items,
                           struct mr_jinja_arguments *out)
{
    out->count = out->named_count = 0;
    for (const struct mr_jinja_node *item = items; item && in->run->status == MR_OK;
         item = item->next) {
        bool named = item->kind == MR_JINJA_NODE_KEYWORD;
        if ((named ? out->named_count : out->count) == MR_JINJA_ARGUMENTS_MAX) {
            mr_jinja_fail(in->run, MR_INVALID_REQUEST, "chat template: more than %u arguments",
                          MR_JINJA_ARGUMENTS_MAX);
        } else if (named) {
            out->names[out->named_count] = item->text;
            out->named[out->named_count++] = eval(in, item->a);
        } else {
            out->values[out->count++] = eval(in, item);
        }
    }
}

/* The value of one macro parameter: from a positional argument, a keyword argument or the default;
 * else undefined. */
static struct mr_jinja_value bind_parameter(struct interpreter *in,
                                            const struct mr_jinja_node *parameter, uint32_t index,
                                            const struct mr_jinja_arguments *arguments)
{
    if (index < arguments->count) return arguments->values[index];
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        if (mr_text_equal(arguments->names[i], parameter->text)) {
            return arguments->named[i];
        }
    }
    return parameter->a ? eval(in, parameter->a) : mr_jinja_undefined();
}

static struct mr_jinja_value call_macro(struct interpreter *in, const struct mr_jinja_node *macro,
                                        const struct mr_jinja_arguments *arguments)
{
    struct scope scope, *caller = in->scope;
    struct mr_jinja_buffer printed = {0}, *out = in->out;
    if (!open_scope(in, &scope, in->globals)) return mr_jinja_undefined();
    uint32_t index = 0;
    for (const struct mr_jinja_node *parameter = macro->b; parameter; parameter = parameter->next) {
        struct mr_jinja_value value = bind_parameter(in, parameter, index++, arguments);
        mr_jinja_dict_set(in->run, scope.names, key_of(parameter->text), value);
    }
    in->out = &printed;
    run_list(in, macro->items);
    in->out = out;
    close_scope(in, caller);
    return mr_jinja_buffer_text(&printed);
}

static struct mr_jinja_value eval_call(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_arguments arguments;
    struct mr_jinja_value callee = eval(in, node->a);
    eval_arguments(in, node->items, &arguments);
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    if (callee.kind == MR_JINJA_MACRO) return call_macro(in, callee.macro, &arguments);
    return mr_jinja_call(in->run, callee, &arguments);
}

static int64_t slice_bound(struct mr_jinja_value bound, int64_t count, int64_t otherwise,
                           int64_t lowest)
{
    if (bound.kind != MR_JINJA_INT) return otherwise;
    int64_t at = bound.integer;
    if (at < 0) at = at < -count ? lowest : at + count;
    return at > count ? count : at;
}

/* Evaluates a[b:c:d] on lists and text, as Python does. */
static struct mr_jinja_value eval_slice(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_value base = eval(in, node->a), parts[3];
    const struct mr_jinja_node *nodes[3] = {node->b, node->c, node->d};
    for (int i = 0; i < 3; i++)
        parts[i] = nodes[i] ? eval(in, nodes[i]) : mr_jinja_undefined();
    int64_t by = parts[2].kind == MR_JINJA_INT ? parts[2].integer : 1;
    if (!by || in->run->status != MR_OK) {
        return mr_jinja_fail(in->run, MR_INVALID_REQUEST, "chat template: slice step 0");
    }
    struct mr_jinja_list *from = mr_jinja_iterate(in->run, base);
    int64_t count = (int64_t)from->count;
    int64_t begin = slice_bound(parts[0], count, by > 0 ? 0 : count - 1, by > 0 ? 0 : -1);
    int64_t end = slice_bound(parts[1], count, by > 0 ? count : -1, by > 0 ? 0 : -1);
    if (by < 0 && begin >= count) begin = count - 1;
    if (by > count) by = count + 1; /* one step leaves the list either way, and cannot overflow */
    if (by < -count) by = -count - 1;
    struct mr_jinja_value list = mr_jinja_list_new(in->run);
    struct mr_jinja_buffer buffer = {0};
    for (int64_t i = begin; (by > 0 ? i < end : i > end) && mr_jinja_step(in->run); i += by) {
        if (base.kind == MR_JINJA_TEXT) {
            mr_jinja_append(in->run, &buffer, from->items[i]);
        } else {
            mr_jinja_list_push(in->run, list.list, from->items[i]);
        }
    }
    return base.kind == MR_JINJA_TEXT ? mr_jinja_buffer_text(&buffer) : list;
}

static bool is_integer(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_INT || value.kind == MR_JINJA_BOOL;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

static struct mr_jinja_value fail_arithmetic(struct interpreter *in)
{
    return mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                         "chat template: integer overflow or division by zero");
}

/* a ** b: an integer, or a float when b is negative. */
static struct mr_jinja_value integer_power(struct interpreter *in, int64_t a, int64_t b)
{
    double power = pow((double)a, (double)b);
    if (b < 0) return isfinite(power) ? mr_jinja_float(power) : fail_arithmetic(in);
    if (!(fabs(power) < 0x1p63)) return fail_arithmetic(in);
    int64_t result = 1;
    bool unit = a >= -1 && a <= 1; /* any other base reaches the limit above within 63 steps */
    for (int64_t i = 0; i < (unit ? b % 2 + 2 * (b > 1) : b); i++)
        if (__builtin_mul_overflow(result, a, &result)) return fail_arithmetic(in);
    return mr_jinja_int(result);
}

static struct mr_jinja_value integer_arithmetic(struct interpreter *in, struct mr_text op,
                                                int64_t a, int64_t b)
{
    int64_t result = 0;
    bool bad = false;
    switch (op.bytes[0]) {
    case '+':
        bad = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        bad = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        if (op.length == 2) return integer_power(in, a, b);
        bad = __builtin_mul_overflow(a, b, &result);
        break;
    default:
        bad = b == 0 || (a == INT64_MIN && b == -1);
        if (bad) break;
        if (op.bytes[0] == '/' && op.length == 1) return mr_jinja_float((double)a / (double)b);
        result = op.bytes[0] == '%' ? a - floor_divide(a, b) * b : floor_divide(a, b);
    }
    return bad ? fail_arithmetic(in) : mr_jinja_int(result);
}

static struct mr_jinja_value float_arithmetic(struct interpreter *in, struct mr_text op, double a,
                                              double b)
{
    if ((op.bytes[0] == '/' || op.bytes[0] == '%') && b == 0) {
        return mr_jinja_fail(in->run, MR_INVALID_REQUEST, "chat template: division by zero");
    }
    switch (op.bytes[0]) {
    case '+':
        return mr_jinja_float(a + b);
    case '-':
        return mr_jinja_float(a - b);
    case '*':
        return mr_jinja_float(op.length == 2 ? pow(a, b) : a * b);
    case '%':
        return mr_jinja_float(a - b * floor(a / b));
    default:
        return mr_jinja_float(op.length == 2 ? floor(a / b) : a / b);
    }
}

static struct mr_jinja_value concatenate(struct interpreter *in, struct mr_jinja_value a,
                                         struct mr_jinja_value b)
{
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_print(in->run, &buffer, a);
    mr_jinja_print(in->run, &buffer, b);
    return mr_jinja_buffer_text(&buffer);
}

static struct mr_jinja_value add_lists(struct interpreter *in, struct mr_jinja_value a,
                                       struct mr_jinja_value b)
{
    struct mr_jinja_value list = mr_jinja_list_new(in->run);
    if (list.kind != MR_JINJA_LIST) return list;
    mr_jinja_list_extend(in->run, list.list, a.list);
    mr_jinja_list_extend(in->run, list.list, b.list);
    return list;
}

static struct mr_jinja_value repeat(struct interpreter *in, struct mr_jinja_value text,
                                    int64_t times)
{
    struct mr_jinja_buffer buffer = {0};
    for (int64_t i = 0; i < times && mr_jinja_step(in->run); i++)
        mr_jinja_append(in->run, &buffer, text);
    return mr_jinja_buffer_text(&buffer);
}

static struct mr_jinja_value eval_binary(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_value a = eval(in, node->a), b = eval(in, node->b);
    char op = node->text.bytes[0];
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    if (op == '~') return concatenate(in, a, b);
    if (op == '+' && a.kind == MR_JINJA_TEXT && b.kind == MR_JINJA_TEXT) {
        return concatenate(in, a, b);
    }
    if (op == '+' && a.kind == MR_JINJA_LIST && b.kind == MR_JINJA_LIST) return add_lists(in, a, b);
    if (op == '*' && a.kind == MR_JINJA_TEXT && is_integer(b)) return repeat(in, a, b.integer);
    if (is_integer(a) && is_integer(b)) {
        return integer_arithmetic(in, node->text, a.integer, b.integer);
    }
    bool numbers =
        (is_integer(a) || a.kind == MR_JINJA_FLOAT) && (is_integer(b) || b.kind == MR_JINJA_FLOAT);
    if (!numbers) {
        return mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                             "chat template line %u: operands of '%.*s' have wrong types",
                             node->line, (int)node->text.length, node->text.bytes);
    }
    return float_arithmetic(in, node->text, is_integer(a) ? (double)a.integer : a.number,
                            is_integer(b) ? (double)b.integer : b.number);
}

static struct mr_jinja_value eval_compare(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_value a = eval(in, node->a), b = eval(in, node->b);
    struct mr_text op = node->text;
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    if (mr_text_is(op, "==")) return mr_jinja_bool(mr_jinja_equal(in->run, a, b));
    if (mr_text_is(op, "!=")) return mr_jinja_bool(!mr_jinja_equal(in->run, a, b));
    if (mr_text_is(op, "in")) return mr_jinja_bool(mr_jinja_contains(in->run, b, a));
    if (mr_text_is(op, "not in")) return mr_jinja_bool(!mr_jinja_contains(in->run, b, a));
    int order = mr_jinja_compare(in->run, a, b);
    bool or_equal = op.length == 2 && order == 0;
    return mr_jinja_bool(or_equal || (op.bytes[0] == '<' ? order < 0 : order > 0));
}

static struct mr_jinja_value eval_filter_or_test(struct interpreter *in,
                                                 const struct mr_jinja_node *node)
{
    struct mr_jinja_arguments arguments;
    struct mr_jinja_value value = eval(in, node->a);
    eval_arguments(in, node->items, &arguments);
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    if (node->kind == MR_JINJA_NODE_FILTER) {
        return mr_jinja_filter(in->run, node->text, value, &arguments);
    }
    return mr_jinja_bool(mr_jinja_test(in->run, node->text, value, &arguments));
}

static struct mr_jinja_value eval_negate(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_value value = eval(in, node->a);
    if (in->run->status != MR_OK) return mr_jinja_undefined();
    if (value.kind == MR_JINJA_FLOAT) return mr_jinja_float(-value.number);
    if (!is_integer(value))
        return mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                             "chat template line %u: '-' of something else than a number",
                             node->line);
    return integer_arithmetic(in, (struct mr_text){"-", 1}, 0, value.integer);
}

static struct mr_jinja_value eval_logic(struct interpreter *in, const struct mr_jinja_node *node)
{
    if (node->kind == MR_JINJA_NODE_NOT) return mr_jinja_bool(!mr_jinja_truth(eval(in, node->a)));
    if (node->kind == MR_JINJA_NODE_CONDITIONAL) {
        if (mr_jinja_truth(eval(in, node->b))) return eval(in, node->a);
        return node->c ? eval(in, node->c) : mr_jinja_undefined();
    }
    struct mr_jinja_value left = eval(in, node->a);
    bool decided = mr_jinja_truth(left) == (node->kind == MR_JINJA_NODE_OR);
    return decided ? left : eval(in, node->b);
}

static struct mr_jinja_value eval_constant(const struct mr_jinja_node *node)
{
    switch (node->kind) {
    case MR_JINJA_NODE_STRING:
        return key_of(node->text);
    case MR_JINJA_NODE_INT:
        return mr_jinja_int(node->integer);
    case MR_JINJA_NODE_FLOAT:
        return mr_jinja_float(node->number);
    case MR_JINJA_NODE_NONE:
        return mr_jinja_none();
    default:
        return mr_jinja_bool(node->kind == MR_JINJA_NODE_TRUE);
    }
}

static struct mr_jinja_value eval_node(struct interpreter *in, const struct mr_jinja_node *node)
{
    switch (node->kind) {
    case MR_JINJA_NODE_NAME:
        return eval_name(in, node->text);
    case MR_JINJA_NODE_LIST:
        return eval_list(in, node);
    case MR_JINJA_NODE_DICT:
        return eval_dict(in, node);
    case MR_JINJA_NODE_ATTRIBUTE:
        return mr_jinja_attribute(in->run, eval(in, node->a), node->text);
    case MR_JINJA_NODE_INDEX: {
        struct mr_jinja_value base = eval(in, node->a);
        return mr_jinja_index(in->run, base, eval(in, node->b));
    }
    case MR_JINJA_NODE_SLICE:
        return eval_slice(in, node);
    case MR_JINJA_NODE_CALL:
        return eval_call(in, node);
    case MR_JINJA_NODE_FILTER:
    case MR_JINJA_NODE_TEST:
        return eval_filter_or_test(in, node);
    case MR_JINJA_NODE_NOT:
    case MR_JINJA_NODE_AND:
    case MR_JINJA_NODE_OR:
    case MR_JINJA_NODE_CONDITIONAL:
        return eval_logic(in, node);
    case MR_JINJA_NODE_NEGATE:
        return eval_negate(in, node);
    case MR_JINJA_NODE_BINARY:
        return eval_binary(in, node);
    case MR_JINJA_NODE_COMPARE:
        return eval_compare(in, node);
    default:
        return eval_constant(node);
    }
}

/* Counts a step and a level of recursion: the tree of "1 + 1 + 1 ..." is as high as it is long. */
static bool enter(struct interpreter *in)
{
    if (!mr_jinja_step(in->run)) return false;
    if (in->height == HEIGHT_MAX) {
        mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                      "chat template: more than %u levels of recursion", HEIGHT_MAX);
        return false;
    }
    in->height++;
    return true;
}

static struct mr_jinja_value eval(struct interpreter *in, const struct mr_jinja_node *node)
{
    if (!enter(in)) return mr_jinja_undefined();
    struct mr_jinja_value value = eval_node(in, node);
    in->height--;
    return value;
}

/* ---- statements ---- */

static void assign(struct interpreter *in, const struct mr_jinja_node *target,
                   struct mr_jinja_value value)
{
    if (in->run->status != MR_OK) return;
    if (target->kind == MR_JINJA_NODE_NAME) {
        mr_jinja_dict_set(in->run, in->scope->names, key_of(target->text), value);
    } else if (target->kind == MR_JINJA_NODE_ATTRIBUTE) {
        struct mr_jinja_value space = eval(in, target->a);
        if (space.kind == MR_JINJA_DICT) {
            mr_jinja_dict_set(in->run, space.dict, key_of(target->text), value);
        } else {
            mr_jinja_fail(in->run, MR_INVALID_REQUEST,
                          "chat template: set of an attribute of something else than a namespace");
        }
    } else if (target->kind == MR_JINJA_NODE_LIST) {
        struct mr_jinja_list *parts = mr_jinja_iterate(in->run, value);
        size_t i = 0;
        for (const struct mr_jinja_node *item = target->items; item; item = item->next, i++) {
            assign(in, item, i < parts->count ? parts->items[i] : mr_jinja_undefined());
        }
    }
}

static void set_loop(struct interpreter *in, struct mr_jinja_dict *loop,
                     const struct mr_jinja_list *list, size_t i)
{
    const struct {
        const char *name;
        struct mr_jinja_value value;
    } fields[] = {
        {"index", mr_jinja_int((int64_t)i + 1)},
        {"index0", mr_jinja_int((int64_t)i)},
        {"revindex", mr_jinja_int((int64_t)(list->count - i))},
        {"revindex0", mr_jinja_int((int64_t)(list->count - i) - 1)},
        {"first", mr_jinja_bool(i == 0)},
        {"last", mr_jinja_bool(i + 1 == list->count)},
        {"length", mr_jinja_int((int64_t)list->count)},
        {"previtem", i ? list->items[i - 1] : mr_jinja_undefined()},
        {"nextitem", i + 1 < list->count ? list->items[i + 1] : mr_jinja_undefined()},
    };
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        mr_jinja_dict_set(in->run, loop, mr_jinja_literal(fields[f].name), fields[f].value);
    }
}

/* The items of a loop for which the loop's `if` condition is true. */
static struct mr_jinja_list *filter_items(struct interpreter *in, const struct mr_jinja_node *node,
                                          struct mr_jinja_list *all)
{
    if (!node->b) return all;
    struct scope scope, *outer = in->scope;
    struct mr_jinja_value list = mr_jinja_list_new(in->run);
    if (!open_scope(in, &scope, outer)) return all;
    for (size_t i = 0; i < all->count && in->run->status == MR_OK; i++) {
        assign(in, node->c, all->items[i]);
        if (mr_jinja_truth(eval(in, node->b)))
            mr_jinja_list_push(in->run, list.list, all->items[i]);
    }
    close_scope(in, outer);
    return list.list;
}

static void run_for(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_list *list = mr_jinja_iterate(in->run, eval(in, node->a));
    if (in->run->status == MR_OK) list = filter_items(in, node, list);
    struct scope scope, *outer = in->scope;
    size_t count = list->count;
    for (size_t i = 0; i < count && mr_jinja_step(in->run); i++) {
        if (!open_scope(in, &scope, outer)) return;
        struct mr_jinja_value loop = mr_jinja_dict_new(in->run);
        if (loop.kind == MR_JINJA_DICT) {
            set_loop(in, loop.dict, list, i);
            mr_jinja_dict_set(in->run, scope.names, mr_jinja_literal("loop"), loop);
            assign(in, node->c, list->items[i]);
            run_list(in, node->items);
        }
        close_scope(in, outer);
        enum jump jump = in->jump;
        in->jump = JUMP_NONE;
        if (jump == JUMP_BREAK) break;
    }
    if (!count) run_list(in, node->d);
}

static void run_set_block(struct interpreter *in, const struct mr_jinja_node *node)
{
    struct mr_jinja_buffer printed = {0}, *out = in->out;
    in->out = &printed;
    run_list(in, node->items);
    in->out = out;
    assign(in, node->a, mr_jinja_buffer_text(&printed));
}

static void run_one(struct interpreter *in, const struct mr_jinja_node *node)
{
    switch (node->kind) {
    case MR_JINJA_NODE_DATA:
        mr_jinja_append_bytes(in->run, in->out, node->text.bytes, node->text.length, false);
        break;
    case MR_JINJA_NODE_PRINT:
        mr_jinja_print(in->run, in->out, eval(in, node->a));
        break;
    case MR_JINJA_NODE_IF:
        run_list(in, mr_jinja_truth(eval(in, node->a)) ? node->items : node->b);
        break;
    case MR_JINJA_NODE_FOR:
        run_for(in, node);
        break;
    case MR_JINJA_NODE_SET:
        assign(in, node->a, eval(in, node->b));
        break;
    case MR_JINJA_NODE_SET_BLOCK:
        run_set_block(in, node);
        break;
    case MR_JINJA_NODE_MACRO:
        mr_jinja_dict_set(in->run, in->scope->names, key_of(node->text),
                          (struct mr_jinja_value){.kind = MR_JINJA_MACRO, .macro = node});
        break;
    case MR_JINJA_NODE_GENERATION:
        run_list(in, node->items);
        break;
    default:
        in->jump = node->kind == MR_JINJA_NODE_BREAK ? JUMP_BREAK : JUMP_CONTINUE;
    }
}

static void run_list(struct interpreter *in, const struct mr_jinja_node *node)
{
    for (; node && in->jump == JUMP_NONE && enter(in); node = node->next) {
        run_one(in, node);
        in->height--;
        if (in->out->length > MR_TEMPLATE_BYTES_MAX) {
            mr_jinja_fail(in->run, MR_INVALID_REQUEST, "chat template: output over %zu bytes",
                          MR_TEMPLATE_BYTES_MAX);
        }
    }
}

void mr_jinja_eval(struct mr_jinja_run *run, const struct mr_jinja_node *root,
                   struct mr_jinja_dict *globals, struct mr_jinja_buffer *out)
{
    struct scope scope = {.names = globals};
    struct interpreter in = {.run = run, .scope = &scope, .globals = &scope, .out = out};
    run_list(&in, root);
}
