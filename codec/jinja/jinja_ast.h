/* jinja_ast - the tokens of a chat template and the tree that the parser builds from them.
 * Immutable after parsing. Memory: the template's arena. */
#ifndef MR_CODEC_JINJA_JINJA_AST_H
#define MR_CODEC_JINJA_JINJA_AST_H

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
    MR_JINJA_TOKEN_STRING, /* string literal; its text has no quotes and escapes */
    MR_JINJA_TOKEN_INT,
    MR_JINJA_TOKEN_FLOAT,
    MR_JINJA_TOKEN_OPERATOR,
    MR_JINJA_TOKEN_END,
};

struct mr_jinja_token {
    enum mr_jinja_token_kind kind;
    uint32_t line, column; /* both from 1; the column counts bytes */
    struct mr_text text;
};

/* The kind of a node of the tree. The comments name the fields of struct mr_jinja_node that it
 * uses: a, b, c, d, items, text. */
enum mr_jinja_node_kind {
    /* nodes of statements: */
    MR_JINJA_NODE_DATA,  /* text between tags, in field text */
    MR_JINJA_NODE_PRINT, /* {{ a }} */
    MR_JINJA_NODE_IF,    /* {% if a %}items{% else %}b: b is the first of a list of statements */
    /* for c in a if b: items; else d. c is the target, d the first of a list of statements */
    MR_JINJA_NODE_FOR, /* text not empty: the loop is recursive */
    MR_JINJA_NODE_SET, /* {% set a = b %} */
    /* {% set a %}items{% endset %}: assigns the output of items to a. b NULL, or filters to apply
     * to the output, which is a node OUTPUT in it */
    MR_JINJA_NODE_SET_BLOCK,
    MR_JINJA_NODE_FILTER_BLOCK, /* {% filter a %}items{% endfilter %}; a as b of SET_BLOCK */
    MR_JINJA_NODE_CALL_BLOCK,   /* {% call(b) a %}items{% endcall %}: b parameters, a a CALL */
    MR_JINJA_NODE_WITH,         /* {% with b %}items{% endwith %}: b is a list of SET nodes */
    /* macro `text`: b is the list of parameters, each with its default in its field a; items is the
     * body */
    MR_JINJA_NODE_MACRO,
    MR_JINJA_NODE_SCOPE, /* {% generation %}items{% endgeneration %}: items in their own scope */
    MR_JINJA_NODE_BREAK,
    MR_JINJA_NODE_CONTINUE,
    /* nodes of expressions: */
    MR_JINJA_NODE_STRING,
    MR_JINJA_NODE_INT,
    MR_JINJA_NODE_FLOAT,
    MR_JINJA_NODE_TRUE,
    MR_JINJA_NODE_FALSE,
    MR_JINJA_NODE_NONE,
    MR_JINJA_NODE_NAME,
    MR_JINJA_NODE_LIST,         /* the list of the values in items */
    MR_JINJA_NODE_TUPLE,        /* the same, a tuple */
    MR_JINJA_NODE_OUTPUT,       /* the text that a block with filters printed */
    MR_JINJA_NODE_DICT,         /* a dictionary; items are its PAIR nodes */
    MR_JINJA_NODE_PAIR,         /* one member of a dictionary: key a, value b */
    MR_JINJA_NODE_ATTRIBUTE,    /* attribute `text` of value a: {{ a.text }} */
    MR_JINJA_NODE_INDEX,        /* {{ a[b] }} */
    MR_JINJA_NODE_SLICE,        /* {{ a[b:c:d] }}; b, c and d may each be NULL */
    MR_JINJA_NODE_CALL,         /* call of a with the arguments in items */
    MR_JINJA_NODE_KEYWORD,      /* keyword argument of a call: name in text, value in a */
    MR_JINJA_NODE_SPREAD,       /* arguments *a of a call */
    MR_JINJA_NODE_SPREAD_NAMED, /* arguments **a of a call */
    MR_JINJA_NODE_FILTER,       /* {{ a | text(items) }}: filter named text */
    MR_JINJA_NODE_TEST,         /* {{ a is text(items) }}: test named text */
    MR_JINJA_NODE_NOT,
    MR_JINJA_NODE_NEGATE,
    MR_JINJA_NODE_POSITIVE,
    MR_JINJA_NODE_BINARY,  /* operator named text with operands a and b: arithmetic and ~ */
    MR_JINJA_NODE_COMPARE, /* comparison named text of a and b; also `in` and `not in` */
    MR_JINJA_NODE_AND,
    MR_JINJA_NODE_OR,
    /* {{ a if b else c }}; c NULL: the value is undefined when b is false */
    MR_JINJA_NODE_CONDITIONAL,
};

struct mr_jinja_node {
    enum mr_jinja_node_kind kind;
    uint32_t line, column;
    struct mr_text text;
    union {
        int64_t integer;
        double number;
    };
    const struct mr_jinja_node *a, *b, *c, *d;
    const struct mr_jinja_node *items; /* first node of a list linked by next */
    struct mr_jinja_node *next;
};

#endif
