#include "codec/template/jinja_names.h"

#include "codec/template/jinja_builtins.h"
#include "codec/template/jinja_filters.h"

static enum mr_status unknown(const struct mr_jinja_node *node, const char *what,
                              struct mr_text name, struct mr_error *err)
{
    return mr_fail(err, MR_BAD_FILE, "chat template line %u column %u: unknown %s '%.*s'",
                   node->line, node->column, what, name.length > 40 ? 40 : (int)name.length,
                   name.bytes);
}

/* True when a target of an assignment has the name. */
static bool assigns(const struct mr_jinja_node *target, struct mr_text name)
{
    if (!target) return false;
    if (target->kind == MR_JINJA_NODE_NAME) return mr_text_equal(target->text, name);
    if (target->kind != MR_JINJA_NODE_TUPLE) return false;
    for (const struct mr_jinja_node *item = target->items; item; item = item->next)
        if (assigns(item, name)) return true;
    return false;
}

/* True when this node itself assigns a value to the name, or tests whether it has one. */
static bool introduces(const struct mr_jinja_node *node, struct mr_text name)
{
    bool assignment = node->kind == MR_JINJA_NODE_SET || node->kind == MR_JINJA_NODE_SET_BLOCK;
    if (assignment && assigns(node->a, name)) return true;
    if (node->kind == MR_JINJA_NODE_FOR && assigns(node->c, name)) return true;
    if (node->kind == MR_JINJA_NODE_MACRO && mr_text_equal(node->text, name)) return true;
    if (node->kind == MR_JINJA_NODE_KEYWORD && mr_text_equal(node->text, name)) return true;
    return node->kind == MR_JINJA_NODE_TEST && mr_text_is(node->text, "defined") &&
           assigns(node->a, name);
}

static bool is_introduced(const struct mr_jinja_node *node, struct mr_text name)
{
    for (; node; node = node->next) {
        if (introduces(node, name) || is_introduced(node->a, name) ||
            is_introduced(node->b, name) || is_introduced(node->c, name) ||
            is_introduced(node->d, name) || is_introduced(node->items, name))
            return true;
    }
    return false;
}

static bool is_one_of(struct mr_text name, const char *const *names)
{
    for (; *names; names++)
        if (mr_text_is(name, *names)) return true;
    return false;
}

/* Checks a filter, and the filter or test whose name it has as an argument. */
static enum mr_status check_filter(const struct mr_jinja_node *node, struct mr_error *err)
{
    static const char *const tests_first[] = {"select", "reject", NULL};
    static const char *const tests_second[] = {"selectattr", "rejectattr", NULL};
    if (!mr_jinja_has_filter(node->text)) return unknown(node, "filter", node->text, err);
    const struct mr_jinja_node *argument = node->items;
    if (is_one_of(node->text, tests_second) && argument) argument = argument->next;
    if (!argument || argument->kind != MR_JINJA_NODE_STRING) return MR_OK;
    bool tests = is_one_of(node->text, tests_first) || is_one_of(node->text, tests_second);
    if (tests && !mr_jinja_has_test(argument->text))
        return unknown(node, "test", argument->text, err);
    if (mr_text_is(node->text, "map") && !mr_jinja_has_filter(argument->text))
        return unknown(node, "filter", argument->text, err);
    return MR_OK;
}

static enum mr_status check_one(const struct mr_jinja_node *node, const struct mr_jinja_node *root,
                                struct mr_error *err)
{
    if (node->kind == MR_JINJA_NODE_FILTER) return check_filter(node, err);
    if (node->kind == MR_JINJA_NODE_TEST && !mr_jinja_has_test(node->text))
        return unknown(node, "test", node->text, err);
    if (node->kind != MR_JINJA_NODE_CALL || node->a->kind != MR_JINJA_NODE_NAME) return MR_OK;
    static const char *const variables[] = {"caller", "loop", NULL};
    struct mr_text name = node->a->text;
    if (mr_jinja_is_function(name) || is_one_of(name, variables) || is_introduced(root, name))
        return MR_OK;
    return unknown(node->a, "function", name, err);
}

/* True for statements whose body Jinja compiles by itself, even inside an `if`. */
static bool has_own_frame(const struct mr_jinja_node *node)
{
    return node->kind == MR_JINJA_NODE_FOR || node->kind == MR_JINJA_NODE_MACRO ||
           node->kind == MR_JINJA_NODE_SET_BLOCK || node->kind == MR_JINJA_NODE_FILTER_BLOCK ||
           node->kind == MR_JINJA_NODE_CALL_BLOCK || node->kind == MR_JINJA_NODE_WITH ||
           node->kind == MR_JINJA_NODE_SCOPE;
}

/* guarded: inside an `if` or a conditional expression. */
static enum mr_status check(const struct mr_jinja_node *node, const struct mr_jinja_node *root,
                            uint32_t height, bool guarded, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (; node && status == MR_OK; node = node->next) {
        bool decides = node->kind == MR_JINJA_NODE_IF || node->kind == MR_JINJA_NODE_CONDITIONAL;
        bool inner = decides || (guarded && !has_own_frame(node));
        if (height > MR_JINJA_HEIGHT_MAX)
            return mr_fail(err, MR_BAD_FILE,
                           "chat template line %u column %u: more than %u nested expressions",
                           node->line, node->column, MR_JINJA_HEIGHT_MAX);
        const struct mr_jinja_node *parts[] = {node->a, node->b, node->c, node->d, node->items};
        for (size_t i = 0; i < sizeof parts / sizeof *parts && status == MR_OK; i++)
            status = check(parts[i], root, height + 1, inner, err);
        if (status == MR_OK && !guarded) status = check_one(node, root, err);
    }
    return status;
}

enum mr_status mr_jinja_check_names(const struct mr_jinja_node *root, struct mr_error *err)
{
    return check(root, root, 0, false, err);
}
