/* tool_types - the types of the parameters of tools, for a format that writes values without them
 * (codec/tools/tool_tags.c). Types only. mr_request_tool_types makes them of the tools of a
 * request.
 *
 * Memory: one block, which free() frees. */
#ifndef MR_CODEC_TOOLS_TOOL_TYPES_H
#define MR_CODEC_TOOLS_TOOL_TYPES_H

#include "codec/text.h"

/* How the value of a parameter is read. What cannot be read so is a text. */
enum mr_tool_type {
    MR_TOOL_TEXT, /* also a parameter that no schema names */
    MR_TOOL_INTEGER,
    MR_TOOL_NUMBER,
    MR_TOOL_BOOL, /* true or false in any case */
    MR_TOOL_JSON  /* any JSON */
};

struct mr_tool_parameter {
    struct mr_text tool, name;
    enum mr_tool_type type;
};

struct mr_tool_types {
    size_t count;
    const struct mr_tool_parameter *parameters; /* [count] */
};

#endif
