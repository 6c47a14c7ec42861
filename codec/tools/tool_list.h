/* tool_list - the calls found in an answer so far, and the state of the search for more
 * (codec/tools/tool_calls.h). Types only.
 *
 * Memory: texts of calls are in the arena or in the answer's text. */
#ifndef MR_CODEC_TOOLS_TOOL_LIST_H
#define MR_CODEC_TOOLS_TOOL_LIST_H

#include "codec/arena.h"
#include "codec/tools/tool_format.h"
#include "codec/tools/tool_types.h"

#include <stdint.h>

#define MR_TOOL_CALLS_MAX 64u /* calls found in one answer; further ones stay text */
/* the calls, and the markers before and after all of them */
#define MR_TOOL_PLACES_MAX          (MR_TOOL_CALLS_MAX + 2u)
#define MR_TOOL_PARAMETERS_MAX      128u /* of a QWEN_CODER call; a call with more stays text */
#define MR_TOOL_ARGUMENTS_BYTES_MAX ((size_t)1 << 20) /* of a PYTHONIC or QWEN_CODER call */
#define MR_TOOL_WORK_MAX            ((size_t)64 << 20)

struct mr_tool_call {
    struct mr_text name;
    struct mr_text arguments; /* a JSON object */
};

/* The state of following the brackets and quotes of a text. */
struct mr_tool_scan {
    size_t at; /* index of the next byte */
    uint32_t depth;
    bool quoted, escaped;
};

/* Where the parts of an argument are in the text. */
struct mr_tool_argument {
    struct mr_text_range key, value;
};

/* The state of reading a QWEN_CODER answer (codec/tools/tool_tags.h). */
struct mr_tool_tags {
    size_t at;   /* index of the next byte */
    int step;    /* the item expected there */
    size_t back; /* where to continue after a step with look-ahead; 0: where the step stopped */
    /* of the current call */
    bool grouped; /* it began with <tool_call> */
    struct mr_text_range name;
    struct mr_tool_argument parameters[MR_TOOL_PARAMETERS_MAX];
    size_t parameter_count;
    bool open;   /* the key and the start of the value of the next parameter have been read */
    size_t tag;  /* start of the tag that ends this value if the following text confirms it */
    bool closed; /* the call has ended, no </tool_call> is expected */
};

struct mr_tool_calls {
    /* set by the caller, the rest zero */
    enum mr_tool_format format;
    size_t count_max; /* most calls to find, at most MR_TOOL_CALLS_MAX */
    /* of the arguments of QWEN_CODER calls; NULL: all are texts */
    const struct mr_tool_types *types;
    /* a constraint makes the calls of a HERMES or ARRAY answer: `open` has the unfinished one */
    bool steady;
    struct mr_arena *arena;
    /* the calls found so far */
    struct mr_tool_call calls[MR_TOOL_CALLS_MAX];
    size_t count;
    /* [place_count] the parts of the text that are calls, including markers, in ascending order */
    struct mr_text_range places[MR_TOOL_PLACES_MAX];
    size_t place_count;
    size_t from; /* the text before this index is decided */
    /* of the possible call at `from`; scan.at 0: not started */
    struct mr_tool_scan scan;
    uint32_t tries; /* how often the possible call at `from` was read */
    /* The unfinished call at `from` with its arguments so far, once its name has been read;
     * name.bytes NULL: there is none. Its texts point into the answer. */
    struct mr_tool_call open;
    struct mr_text_range open_name;
    size_t open_arguments;         /* index at which they begin */
    struct mr_tool_scan open_scan; /* up to their end */
    struct mr_tool_tags tags;
    bool in_array; /* ARRAY: its opening bracket has been read */
    bool plain;    /* no further call is searched for: the rest is text */
    size_t work;   /* bytes read; from MR_TOOL_WORK_MAX on, JSON stays text */
};

#endif
