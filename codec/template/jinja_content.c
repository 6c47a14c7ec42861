#include "codec/template/jinja_content.h"

#define NAMES_MAX 64u

struct names {
    struct mr_text of[NAMES_MAX];
    uint32_t count;
};

struct search {
    struct names variables; /* that may hold a content */
    struct names macros;    /* that are called with one */
    bool reads_parts;
};

static bool has(const struct names *names, struct mr_text name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (mr_text_equal(names->of[i], name)) return true;
    return false;
}

static void add(struct names *names, struct mr_text name)
{
    if (names->count < NAMES_MAX && !has(names, name)) names->of[names->count++] = name;
}

static bool is_word(const struct mr_jinja_node *node, const char *word)
{
    return node && node->kind == MR_JINJA_NODE_STRING && mr_text_is(node->text, word);
}

/* True when the value of an expression may be a message's content, or a part of a content. */
static bool is_content(const struct search *search, const struct mr_jinja_node *node)
{
    if (!node) return false;
    switch (node->kind) {
    case MR_JINJA_NODE_NAME:
        return has(&search->variables, node->text);
    case MR_JINJA_NODE_ATTRIBUTE:
        return mr_text_is(node->text, "content");
    case MR_JINJA_NODE_INDEX:
        return is_word(node->b, "content");
    case MR_JINJA_NODE_CALL:
        return node->a->kind == MR_JINJA_NODE_ATTRIBUTE && mr_text_is(node->a->text, "get") &&
               is_word(node->items, "content");
    case MR_JINJA_NODE_SLICE:
    case MR_JINJA_NODE_FILTER:
        return is_content(search, node->a);
    case MR_JINJA_NODE_AND:
    case MR_JINJA_NODE_OR:
        return is_content(search, node->a) || is_content(search, node->b);
    case MR_JINJA_NODE_CONDITIONAL:
        return is_content(search, node->a) || is_content(search, node->c);
    default:
        return false;
    }
}

static bool picks_items(struct mr_text filter)
{
    return mr_text_is(filter, "map") || mr_text_is(filter, "selectattr") ||
           mr_text_is(filter, "rejectattr");
}

static bool has_content_argument(const struct search *search, const struct mr_jinja_node *call)
{
    for (const struct mr_jinja_node *item = call->items; item; item = item->next)
        if (is_content(search, item->kind == MR_JINJA_NODE_KEYWORD ? item->a : item)) return true;
    return false;
}

/* Records the information of one node. */
static void note(struct search *search, const struct mr_jinja_node *node)
{
    switch (node->kind) {
    case MR_JINJA_NODE_SET:
        if (node->a->kind == MR_JINJA_NODE_NAME && is_content(search, node->b))
            add(&search->variables, node->a->text);
        break;
    case MR_JINJA_NODE_CALL:
        if (node->a->kind == MR_JINJA_NODE_NAME && has_content_argument(search, node))
            add(&search->macros, node->a->text);
        break;
    case MR_JINJA_NODE_MACRO:
        if (has(&search->macros, node->text))
            for (const struct mr_jinja_node *one = node->b; one; one = one->next)
                add(&search->variables, one->text);
        break;
    case MR_JINJA_NODE_FOR:
        search->reads_parts |= is_content(search, node->a);
        break;
    case MR_JINJA_NODE_FILTER:
        search->reads_parts |= picks_items(node->text) && is_content(search, node->a);
        break;
    default:
        break;
    }
}

static void walk(struct search *search, const struct mr_jinja_node *node)
{
    for (; node; node = node->next) {
        const struct mr_jinja_node *parts[] = {node->a, node->b, node->c, node->d, node->items};
        note(search, node);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            walk(search, parts[i]);
    }
}

bool mr_jinja_reads_parts(const struct mr_jinja_node *root)
{
    struct search search = {0};
    uint32_t known;
    do {
        known = search.variables.count + search.macros.count;
        walk(&search, root);
    } while (!search.reads_parts && search.variables.count + search.macros.count > known);
    return search.reads_parts;
}
