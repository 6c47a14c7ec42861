/* Texts with tool calls as models write them, drawn at random in any format of codec/tools. */
#ifndef TESTS_UNIT_CODEC_TOOLS_TOOL_TEXTS_H
#define TESTS_UNIT_CODEC_TOOLS_TOOL_TEXTS_H

#include "codec/arena.h"
#include "codec/tools/tool_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT_CALLS 3

struct tool_text {
    char bytes[8192];
    size_t length;
    char names[TEXT_CALLS][32], arguments[TEXT_CALLS][1024];
    size_t count;
    char prose[256]; /* the text around the calls */
};

struct draw {
    uint64_t state;
    char *out;
    size_t length, room;
    bool python; /* write literals of Python */
};

static inline uint32_t draw_below(struct draw *draw, uint32_t count)
{
    draw->state = draw->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(draw->state >> 33) % count;
}

static inline void put(struct draw *draw, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(draw->out + draw->length, draw->room - draw->length, format, arguments);
    va_end(arguments);
    assert_true(written >= 0 && draw->length + (size_t)written < draw->room);
    draw->length += (size_t)written;
}

/* A text without characters that JSON and Python escape in different ways, but with braces, tags
 * and quotes that could mislead a parser. */
static inline void put_string(struct draw *draw)
{
    static const char *const pieces[] = {
        "Paris", "a b",         "}",        "{", "]", "\\\"",         "\\\\",
        "\\n",   "</tool_call", "\xc3\xa9", ":", ",", "\xe2\x82\xac", "x=1"};
    put(draw, "\"");
    for (uint32_t i = draw_below(draw, 4); i > 0; i--)
        put(draw, "%s", pieces[draw_below(draw, sizeof pieces / sizeof pieces[0])]);
    put(draw, "\"");
}

static inline void put_value(struct draw *draw, unsigned depth)
{
    switch (draw_below(draw, depth < 2 ? 7 : 5)) {
    case 0:
        put(draw, "%d", (int)draw_below(draw, 2000) - 1000);
        break;
    case 1:
        put(draw, "%d.5", (int)draw_below(draw, 100));
        break;
    case 2:
        put(draw, draw->python ? "True" : "true");
        break;
    case 3:
        put(draw, draw->python ? "None" : "null");
        break;
    case 4:
        put_string(draw);
        break;
    case 5:
        put(draw, "[");
        put_value(draw, depth + 1);
        put(draw, ",");
        put_value(draw, depth + 1);
        put(draw, "]");
        break;
    default:
        put(draw, "{\"k\":");
        put_value(draw, depth + 1);
        put(draw, "}");
    }
}

/* Writes the arguments a, b, … as a JSON object, or as key=value of Python. */
static inline void put_arguments(struct draw *draw, uint32_t count)
{
    if (!draw->python) put(draw, "{");
    for (uint32_t i = 0; i < count; i++) {
        put(draw, draw->python ? "%s%c=" : "%s\"%c\":", i > 0 ? "," : "", 'a' + (int)i);
        put_value(draw, 0);
    }
    if (!draw->python) put(draw, "}");
}

static inline void put_call(struct draw *draw, enum mr_tool_format format, const char *name,
                            const char *arguments, uint32_t variant)
{
#define WIDE(words) "<\xef\xbd\x9ctool\xe2\x96\x81" words "\xef\xbd\x9c>"
#define LOW         "\xe2\x96\x81"
    switch (format) {
    case MR_TOOLS_HERMES:
        put(draw, "<tool_call>\n{\"name\": \"%s\", \"arguments\": %s}\n</tool_call>", name,
            arguments);
        break;
    case MR_TOOLS_MISTRAL:
        put(draw, variant ? "[TOOL_CALLS]%s%s" : "[TOOL_CALLS]%s[ARGS]%s", name, arguments);
        break;
    case MR_TOOLS_HARMONY:
        put(draw,
            variant ? "<|start|>assistant to=functions.%s<|channel|>commentary json<|message|>%s"
                      "<|call|>"
                    : "<|start|>assistant<|channel|>commentary to=functions.%s <|constrain|>json"
                      "<|message|>%s<|call|>",
            name, arguments);
        break;
    case MR_TOOLS_DEEPSEEK:
        if (variant)
            put(draw, WIDE("call" LOW "begin") "%s" WIDE("sep") "%s" WIDE("call" LOW "end"), name,
                arguments);
        else
            put(draw,
                WIDE("call" LOW
                     "begin") "function" WIDE("sep") "%s\n```json\n%s\n```" WIDE("call" LOW "end"),
                name, arguments);
        break;
    default:
        put(draw, "{\"name\": \"%s\", \"%s\": %s}", name,
            format == MR_TOOLS_LLAMA || format == MR_TOOLS_ARRAY ? "parameters" : "arguments",
            arguments);
    }
}

/* The types of the arguments of all calls that are drawn: any JSON. */
static inline const struct mr_tool_types *tool_text_types(void)
{
    static char names[100][8];
    static struct mr_tool_parameter parameters[300];
    static struct mr_tool_types *types;
    struct mr_error err;
    if (types) return types;
    for (size_t i = 0; i < 300; i++) {
        snprintf(names[i / 3], sizeof names[0], "get_%u", (unsigned)(i / 3));
        parameters[i] = (struct mr_tool_parameter){
            {names[i / 3], strlen(names[i / 3])}, {&"abc"[i % 3], 1}, MR_TOOL_JSON};
    }
    assert_int_equal(mr_tool_types_create(&types, parameters, 300, &err), MR_OK);
    return types;
}

/* Writes the call of Qwen3-Coder, whose arguments are `count` draws. */
static inline void put_tags(struct draw *draw, const char *name, uint32_t count, uint32_t variant)
{
    put(draw, variant ? "<tool_call>\n<function=%s>\n" : "<function=%s>\n", name);
    for (uint32_t i = 0; i < count; i++) {
        put(draw, "<parameter=%c>\n", 'a' + (int)i);
        put_value(draw, 0);
        put(draw, "\n</parameter>\n");
    }
    put(draw, variant ? "</function>\n</tool_call>" : "</function>");
}

static inline struct tool_text tool_text_make(enum mr_tool_format format, uint32_t seed)
{
    struct tool_text text = {.count = 1 + seed % TEXT_CALLS};
    struct draw draw = {seed, text.bytes, 0, sizeof text.bytes, false};
    bool python = format == MR_TOOLS_PYTHONIC;
    bool whole = python || format == MR_TOOLS_LLAMA || format == MR_TOOLS_ARRAY;
    bool list = python || format == MR_TOOLS_ARRAY || format == MR_TOOLS_GRANITE;
    uint32_t variant = draw_below(&draw, 2);
    if (!whole && draw_below(&draw, 2)) {
        snprintf(text.prose, sizeof text.prose, "Let me <look> [that] {up}.");
        put(&draw,
            format == MR_TOOLS_HARMONY ? "<|channel|>commentary<|message|>%s<|end|>" : "%s\n",
            text.prose);
    }
    const char *between = list ? ", " : "";
    bool fenced = false;
    if (format == MR_TOOLS_GRANITE) {
        put(&draw, variant ? "<|tool_call|>" : "<tool_call>");
        list = text.count > 1 || draw_below(&draw, 2);
    }
    if (format == MR_TOOLS_LLAMA) {
        static const char *const separators[] = {"; ", "\n", "\n\n", ", "};
        if (variant) put(&draw, "<|python_tag|>");
        between = separators[draw_below(&draw, 4)];
        list = draw_below(&draw, 2);
        fenced = draw_below(&draw, 3) == 0;
        if (fenced) put(&draw, draw_below(&draw, 2) ? "```json\n" : "```\n");
    }
    if (list) put(&draw, "[");
    if (format == MR_TOOLS_DEEPSEEK) put(&draw, WIDE("calls" LOW "begin"));
    for (size_t i = 0; i < text.count; i++) {
        uint32_t count = draw_below(&draw, 4);
        uint64_t state = draw.state;
        struct draw json = {state, text.arguments[i], 0, sizeof text.arguments[i], false};
        put_arguments(&json, count);
        draw.state = json.state;
        snprintf(text.names[i], sizeof text.names[i], "get_%u", draw_below(&draw, 100));
        if (i > 0) put(&draw, "%s", between);
        /* the same draws as of the JSON above */
        struct draw same = {state, draw.out, draw.length, draw.room, python};
        if (python) {
            put(&same, "%s(", text.names[i]);
            put_arguments(&same, count);
            put(&same, ")");
            draw.length = same.length;
        } else if (format == MR_TOOLS_QWEN_CODER) {
            put_tags(&same, text.names[i], count, variant);
            draw.length = same.length;
        } else {
            put_call(&draw, format, text.names[i], text.arguments[i], variant);
        }
    }
    if (list) put(&draw, "]");
    if (fenced) put(&draw, "\n```");
    if (format == MR_TOOLS_GRANITE && !variant && !list) put(&draw, "</tool_call>");
    if (format == MR_TOOLS_DEEPSEEK) put(&draw, WIDE("calls" LOW "end"));
    text.length = draw.length;
    return text;
}

#endif
