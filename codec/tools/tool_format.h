/* tool_format - the format in which a model writes tool calls into its text; the chat template
 * determines it. codec/tools/README.md shows each format.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_CODEC_TOOLS_TOOL_FORMAT_H
#define MR_CODEC_TOOLS_TOOL_FORMAT_H

#include "codec/text.h"

enum mr_tool_format {
    MR_TOOLS_NONE, /* calls are not searched for */
    MR_TOOLS_HERMES,
    MR_TOOLS_GRANITE,
    MR_TOOLS_LLAMA,
    MR_TOOLS_PYTHONIC,
    MR_TOOLS_MISTRAL,
    MR_TOOLS_HARMONY,
    MR_TOOLS_DEEPSEEK,
    MR_TOOLS_ARRAY, /* a constraint makes the answer an array of calls */
    MR_TOOLS_QWEN_CODER,
    MR_TOOLS_FORMAT_COUNT
};

/* Detects the format that a chat template instructs the model to use; NONE if there is none. */
enum mr_tool_format mr_tool_format_find(struct mr_text chat_template);
/* True if markers of the format are control tokens, which the text must then keep. */
bool mr_tool_format_has_control(enum mr_tool_format format);
/* "hermes" and so on. */
const char *mr_tool_format_name(enum mr_tool_format format);

#endif
