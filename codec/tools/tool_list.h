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
/* calls, and what stands before and behind all of them */
#define MR_TOOL_PLACES_MAX          (MR_TOOL_CALLS_MAX + 2u)
#define MR_TOOL_PARAMETERS_MAX      128u /* of a QWEN_CODER call; one with more stays text */
#define MR_TOOL_ARGUMENTS_BYTES_MAX ((size_t)1 << 20) /* of a PYTHONIC or QWEN_CODER call */
#define MR_TOOL_WORK_MAX            ((size_t)64 << 20)

struct mr_tool_call {
    struct mr_text name;
    struct mr_text arguments; /* a JSON object */
};

/* How far the brackets and quotes of a text have been followed. */
struct mr_tool_scan {
    size_t at; /* the byte to be read next */
    uint32_t depth;
    bool quoted, escaped;
};

/* Where the parts of an argument are in the text. */
struct mr_tool_argument {
    struct mr_text_range key, value;
};

/* How far the text of a QWEN_CODER answer has been read (codec/tools/tool_tags.h). */
struct mr_tool_tags {
    size_t at;   /* the byte to be read next */
    int step;    /* what is expected there */
    size_t back; /* where to read on once a step has looked ahead; 0: where it stopped */
    /* of the call that is being read */
    bool grouped; /* it began with <tool_call> */
    struct mr_text_range name;
    struct mr_tool_argument parameters[MR_TOOL_PARAMETERS_MAX];
    size_t parameter_count;
    bool open;   /* the next parameter has its key, and the start of its value */
    size_t tag;  /* where the tag begins that ends this value, if what follows confirms it */
    bool closed; /* the call ends without a further </tool_call> */
};

struct mr_tool_calls {
    /* set by the caller, the rest zero */
    enum mr_tool_format format;
    size_t count_max; /* most calls to look for, at most MR_TOOL_CALLS_MAX */
    /* of the arguments of QWEN_CODER calls; NULL: all are texts */
    const struct mr_tool_types *types;
    /* a grammar makes the calls of a HERMES or ARRAY answer: `open` has those that are unfinished
     */
    bool steady;
    struct mr_arena *arena;
    /* the calls found so far */
    struct mr_tool_call calls[MR_TOOL_CALLS_MAX];
    size_t count;
    /* [place_count] the parts of the text that are calls, markers included, in ascending order */
    struct mr_text_range places[MR_TOOL_PLACES_MAX];
    size_t place_count;
    size_t from; /* the text before is decided: it is calls, or has none */
    /* of what may be a call at `from`; scan.at 0: nothing was scanned */
    struct mr_tool_scan scan;
    uint32_t tries; /* how often the call at `from` was read */
    /* The call at `from`, if it is unfinished and its name has been read: the arguments so far. Its
     * texts are part of the answer's. name.bytes NULL: none. */
    struct mr_tool_call open;
    struct mr_text_range open_name;
    size_t open_arguments;         /* where they begin */
    struct mr_tool_scan open_scan; /* up to their end */
    struct mr_tool_tags tags;
    bool in_array; /* the array of a format that is one has begun */
    bool plain;    /* no call follows: the rest is text */
    size_t work;   /* bytes read; at MR_TOOL_WORK_MAX JSON stays text */
};

#endif
