/* harmony - an answer in the harmony format of gpt-oss, as the messages that it consists of.
 *
 *     <|channel|>analysis<|message|>The user wants …<|end|>
 *     <|start|>assistant<|channel|>commentary to=functions.f
 * <|constrain|>json<|message|>{…}<|call|>
 *     <|start|>assistant<|channel|>final<|message|>It is …<|return|>
 *
 * The first message has no <|start|>assistant, which the prompt ends with. The channel `analysis`
 * is reasoning, any other one is content. A message to functions.NAME is a call if its text is a
 * JSON object, and otherwise content, header included. A text without a header is content.
 * Source: OpenAI's description of the format, openai/harmony, docs/format.md.
 *
 * The text may be the beginning of one that grows: the pieces that are read from a beginning depend
 * on its bytes only.
 *
 * Work: linear in the text. Threads: any (pure functions).
 * Memory: calls are added to *found, whose arena and limit the caller sets
 * (codec/tools/tool_list.h); their texts point into `text`. Errors: MR_NOMEM; the same _read may be
 * tried again. */
#ifndef MR_CODEC_TOOLS_HARMONY_H
#define MR_CODEC_TOOLS_HARMONY_H

#include "codec/status.h"
#include "codec/tools/tool_list.h"

enum mr_harmony_kind {
    MR_HARMONY_NONE, /* nothing more can be read from this text */
    MR_HARMONY_REASONING,
    MR_HARMONY_CONTENT,
    MR_HARMONY_CALL /* the call was added to *found */
};

struct mr_harmony_piece {
    enum mr_harmony_kind kind;
    struct mr_text text;
    bool begins; /* the first piece of its message */
};

/* Zeroed at the start of an answer. */
struct mr_harmony {
    size_t from;               /* the text before has been read */
    bool in_body;              /* the header of the message has been read */
    enum mr_harmony_kind kind; /* of the message */
    bool begun;                /* a piece of the message has been read */
    size_t header;             /* where the header of the message began */
    struct mr_text_range name; /* of the function; kind CALL */
    size_t searched;           /* no mark begins before */
};

/* Reads the next piece of text, which begins with the text of the call before. ended: nothing
 * follows. */
enum mr_status mr_harmony_read(struct mr_harmony *harmony, struct mr_tool_calls *found,
                               struct mr_text text, bool ended, struct mr_harmony_piece *piece,
                               struct mr_error *err);

#endif
