#include "codec/tools/tool_format.h"

#include "codec/check.h"

#include <string.h>

static bool contains(struct mr_text text, const char *word)
{
    size_t length = strlen(word);
    for (size_t at = 0; at + length <= text.length; at++)
        if (memcmp(text.bytes + at, word, length) == 0) return true;
    return false;
}

enum mr_tool_format mr_tool_format_find(struct mr_text chat_template)
{
    /* The first row whose words all occur in the template wins. Rows with rarer words come first.
     */
    static const struct {
        const char *word, *other;
        enum mr_tool_format format;
    } rows[] = {
        {"<\xef\xbd\x9ctool\xe2\x96\x81", "sep", MR_TOOLS_DEEPSEEK},
        {"<|channel|>", "to=functions.", MR_TOOLS_HARMONY},
        {"to=functions", "<|message|>", MR_TOOLS_HARMONY},
        {"[TOOL_CALLS]", "", MR_TOOLS_MISTRAL},
        {"<|tool_call|>", "", MR_TOOLS_GRANITE},
        {"<tool_call>", "granite", MR_TOOLS_GRANITE},
        {"<function=", "<parameter=", MR_TOOLS_QWEN_CODER},
        {"<tool_call>", "<arg_key>", MR_TOOLS_NONE}, /* GLM 4.5, which uses other tags */
        {"<tool_call>", "", MR_TOOLS_HERMES},
        {"[func_name1(", "", MR_TOOLS_PYTHONIC},
        {"<|python_start|>", "", MR_TOOLS_PYTHONIC},
        {"<|python_tag|>", "", MR_TOOLS_LLAMA},
        {"\"parameters\": ", "<|eot_id|>", MR_TOOLS_LLAMA},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (contains(chat_template, rows[i].word) && contains(chat_template, rows[i].other))
            return rows[i].format;
    return MR_TOOLS_NONE;
}

bool mr_tool_format_has_control(enum mr_tool_format format)
{
    return format == MR_TOOLS_MISTRAL || format == MR_TOOLS_HARMONY ||
           format == MR_TOOLS_DEEPSEEK || format == MR_TOOLS_GRANITE;
}

const char *mr_tool_format_name(enum mr_tool_format format)
{
    static const char *const names[] = {"none",    "hermes",  "granite",  "llama", "pythonic",
                                        "mistral", "harmony", "deepseek", "array", "qwen-coder"};
    MR_ASSERT((unsigned)format < MR_TOOLS_FORMAT_COUNT);
    return names[format];
}
