/* tool_types - the types of the parameters of tools, for a format that writes values without them
 * (codec/tools/tool_tags.h). mr_request_tool_types makes a list from the tools of a request.
 *
 * A parameter that is in no list is a text, so a list has no parameters of type TEXT. It has at
 * most MR_TOOL_TYPES_MAX parameters, and the name of a tool once, however many it has.
 *
 * Work: n log n to make a list of n, log n for a lookup. Threads: a list is immutable.
 * Memory: one block of 40 bytes a parameter and the names; the owner frees it with free().
 * Errors: MR_NOMEM. */
#ifndef MR_CODEC_TOOLS_TOOL_TYPES_H
#define MR_CODEC_TOOLS_TOOL_TYPES_H

#include "codec/status.h"
#include "codec/text.h"

#define MR_TOOL_TYPES_MAX      4096u
#define MR_TOOL_NAME_BYTES_MAX 128u /* of tools and of parameters that have a type */

/* How the value of a parameter is read. What cannot be read so is a text. */
enum mr_tool_type {
    MR_TOOL_TEXT,         /* as it is */
    MR_TOOL_TEXT_OR_NULL, /* null is no text */
    MR_TOOL_INTEGER,      /* this and all below may be null as well */
    MR_TOOL_NUMBER,
    MR_TOOL_BOOL,           /* true or false in any case */
    MR_TOOL_JSON,           /* any JSON */
    MR_TOOL_OBJECT_OR_ARRAY /* never null: the schema does not say whether it may be a text */
};

struct mr_tool_parameter {
    struct mr_text tool, name;
    enum mr_tool_type type;
};

struct mr_tool_types {
    size_t count;
    struct mr_tool_parameter *parameters; /* [count] ascending by tool and name, no two alike */
};

/* Copies the parameters, at most MR_TOOL_TYPES_MAX with names of at most MR_TOOL_NAME_BYTES_MAX.
 * Of two with the same tool and name the first counts. */
enum mr_status mr_tool_types_create(struct mr_tool_types **out,
                                    const struct mr_tool_parameter *parameters, size_t count,
                                    struct mr_error *err);
/* TEXT when the list has no such parameter or is NULL. */
enum mr_tool_type mr_tool_types_find(const struct mr_tool_types *types, struct mr_text tool,
                                     struct mr_text name);
/* Asserts the order of the list. types may be NULL. */
void mr_tool_types_check(const struct mr_tool_types *types);

#endif
