/* tool_types - the types of tools' parameters, for a format that writes values without types
 * (codec/tools/tool_tags.h). mr_request_tool_types makes a list from the tools of a request.
 *
 * A parameter that is not in the list is a text, so the list has no parameters of type TEXT. It has
 * at most MR_TOOL_TYPES_MAX parameters. Parameters of one tool share one copy of its name.
 *
 * Work: n log n to create a list of n, log n for a lookup. Threads: a list is immutable.
 * Memory: one block of 40 bytes a parameter and the names; the owner frees it with free().
 * Errors: MR_NOMEM. */
#ifndef MR_CODEC_TOOLS_TOOL_TYPES_H
#define MR_CODEC_TOOLS_TOOL_TYPES_H

#include "codec/status.h"
#include "codec/text.h"

#define MR_TOOL_TYPES_MAX      4096u
#define MR_TOOL_NAME_BYTES_MAX 128u /* of tools and of parameters that have a type */

/* How the value of a parameter is read. A value that does not fit is a text. */
enum mr_tool_type {
    MR_TOOL_TEXT,         /* as it is */
    MR_TOOL_TEXT_OR_NULL, /* as it is, except that null is null */
    MR_TOOL_INTEGER,      /* this type and all below also allow null, except the last */
    MR_TOOL_NUMBER,
    MR_TOOL_BOOL,           /* true or false in any case */
    MR_TOOL_JSON,           /* any JSON */
    MR_TOOL_OBJECT_OR_ARRAY /* not null, because the schema leaves open whether the value may be a
                               text */
};

struct mr_tool_parameter {
    struct mr_text tool, name;
    enum mr_tool_type type;
};

struct mr_tool_types {
    size_t count;
    struct mr_tool_parameter *parameters; /* [count] ascending by tool and name, no two alike */
};

/* Copies the parameters, at most MR_TOOL_TYPES_MAX with names of at most MR_TOOL_NAME_BYTES_MAX. If
 * two have the same tool and name, the first one is kept. */
enum mr_status mr_tool_types_create(struct mr_tool_types **out,
                                    const struct mr_tool_parameter *parameters, size_t count,
                                    struct mr_error *err);
/* The type of a parameter; TEXT if the list lacks it or is NULL. */
enum mr_tool_type mr_tool_types_find(const struct mr_tool_types *types, struct mr_text tool,
                                     struct mr_text name);
/* Asserts the order of the list. types may be NULL. */
void mr_tool_types_check(const struct mr_tool_types *types);

#endif
