/* jinja_ast - the tree a chat template is parsed into, and the tokens it is parsed from.
 * Immutable once parsed; lives in the template's arena. */
#ifndef MR_CODEC_TEMPLATE_JINJA_AST_H
#define MR_CODEC_TEMPLATE_JINJA_AST_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_jinja_token_kind {
    MR_JINJA_TOKEN_DATA, /* template text outside of tags */
    MR_JINJA_TOKEN_PRINT_BEGIN,
    MR_JINJA_TOKEN_PRINT_END,
    MR_JINJA_TOKEN_BLOCK_BEGIN,
    MR_JINJA_TOKEN_BLOCK_END,
    MR_JINJA_TOKEN_NAME,
    MR_JINJA_TOKEN_STRING, /* text already unescaped */
    MR_JINJA_TOKEN_INT,
    MR_JINJA_TOKEN_FLOAT,
    MR_JINJA_TOKEN_OPERATOR,
    MR_JINJA_TOKEN_END,
};

struct mr_jinja_token {
    enum mr_jinja_token_kind kind;
    uint32_t line;
    struct mr_text text;
};

enum mr_jinja_node_kind {
    /* statements */
    MR_JINJA_NODE_DATA,      /* text */
    MR_JINJA_NODE_PRINT,     /* a */
    MR_JINJA_NODE_IF,        /* if a: items, else b (list) */
    MR_JINJA_NODE_FOR,       /* for c (target) in a, only if b: items, else d (list) */
    MR_JINJA_NODE_SET,       /* a (target) = b */
    MR_JINJA_NODE_SET_BLOCK, /* a (target) = what items print */
    MR_JINJA_NODE_MACRO,     /* text(b: parameters, default in their a): items */
    MR_JINJA_NODE_SCOPE,     /* items, printed as they are (generation blocks) */
    MR_JINJA_NODE_BREAK,
    MR_JINJA_NODE_CONTINUE,
    /* expressions */
    MR_JINJA_NODE_STRING,
    MR_JINJA_NODE_INT,
    MR_JINJA_NODE_FLOAT,
    MR_JINJA_NODE_TRUE,
    MR_JINJA_NODE_FALSE,
    MR_JINJA_NODE_NONE,
    MR_JINJA_NODE_NAME,
    MR_JINJA_NODE_LIST,      /* items; tuples too */
    MR_JINJA_NODE_DICT,      /* items: PAIR */
    MR_JINJA_NODE_PAIR,      /* a: b */
    MR_JINJA_NODE_ATTRIBUTE, /* a.text */
    MR_JINJA_NODE_INDEX,     /* a[b] */
    MR_JINJA_NODE_SLICE,     /* a[b:c:d], each may be NULL */
    MR_JINJA_NODE_CALL,      /* a(items) */
    MR_JINJA_NODE_KEYWORD,   /* text=a inside a call */
    MR_JINJA_NODE_FILTER,    /* a | text(items) */
    MR_JINJA_NODE_TEST,      /* a is text(items) */
    MR_JINJA_NODE_NOT,
    MR_JINJA_NODE_NEGATE,
    MR_JINJA_NODE_BINARY,  /* a text b, arithmetic and ~ */
    MR_JINJA_NODE_COMPARE, /* a text b; in, not in too */
    MR_JINJA_NODE_AND,
    MR_JINJA_NODE_OR,
    MR_JINJA_NODE_CONDITIONAL, /* a if b else c (NULL: undefined) */
};

struct mr_jinja_node {
    enum mr_jinja_node_kind kind;
    uint32_t line;
    struct mr_text text;
    union {
        int64_t integer;
        double number;
    };
    const struct mr_jinja_node *a, *b, *c, *d;
    const struct mr_jinja_node *items; /* first of a list linked by next */
    struct mr_jinja_node *next;
};

#endif
