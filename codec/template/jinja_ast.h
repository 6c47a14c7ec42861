/* jinja_ast - the tokens of a chat template and the tree that the parser makes of them.
 * Immutable after parsing. Memory: the template's arena. */
#ifndef MR_CODEC_TEMPLATE_JINJA_AST_H
#define MR_CODEC_TEMPLATE_JINJA_AST_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_jinja_token_kind {
    MR_JINJA_TOKEN_DATA, /* text outside of tags */
    MR_JINJA_TOKEN_PRINT_BEGIN,
    MR_JINJA_TOKEN_PRINT_END,
    MR_JINJA_TOKEN_BLOCK_BEGIN,
    MR_JINJA_TOKEN_BLOCK_END,
    MR_JINJA_TOKEN_NAME,
    MR_JINJA_TOKEN_STRING, /* text: without quotes and escapes */
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

/* The comments give the meaning of the fields of struct mr_jinja_node. */
enum mr_jinja_node_kind {
    /* statements */
    MR_JINJA_NODE_DATA,       /* text */
    MR_JINJA_NODE_PRINT,      /* a */
    MR_JINJA_NODE_IF,         /* if a: items, else b (list) */
    MR_JINJA_NODE_FOR,        /* for c (target) in a if b: items, else d (list) */
    MR_JINJA_NODE_SET,        /* a (target) = b */
    MR_JINJA_NODE_SET_BLOCK,  /* a (target) = output of items */
    MR_JINJA_NODE_MACRO,      /* text(b: parameters, each with its default in a): items */
    MR_JINJA_NODE_GENERATION, /* items */
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
    MR_JINJA_NODE_LIST,      /* items; also a tuple */
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
    MR_JINJA_NODE_COMPARE, /* a text b; also in and not in */
    MR_JINJA_NODE_AND,
    MR_JINJA_NODE_OR,
    MR_JINJA_NODE_CONDITIONAL, /* a if b else c; c NULL: undefined */
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
