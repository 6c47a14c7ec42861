/* harmony - reads an answer in the harmony format of gpt-oss as a sequence of messages.
 *
 *     <|channel|>analysis<|message|>The user wants …<|end|>
 *     <|start|>assistant<|channel|>commentary to=functions.f
 * <|constrain|>json<|message|>{…}<|call|>
 *     <|start|>assistant<|channel|>final<|message|>It is …<|return|>
 *
 * The prompt ends with <|start|>assistant, so the first message lacks it. The channel `analysis` is
 * reasoning, every other channel is content. A message to functions.NAME is a call if its text is a
 * JSON object; without text its arguments are {}. Otherwise the message is content, header
 * included. A text without a header is content.
 * Source: OpenAI's description of the format, openai/harmony, docs/format.md.
 *
 * The text may be a growing one, read repeatedly. The pieces read so far depend only on its bytes,
 * not on the sizes in which they arrived.
 *
 * Work: linear in the text. Threads: any (pure functions).
 * Memory: calls are added to *found, whose arena and limit the caller sets
 * (codec/tools/tool_list.h); their texts point into `text`. Errors: MR_NOMEM; the caller may repeat
 * the call. */
#ifndef MR_CODEC_TOOLS_HARMONY_H
#define MR_CODEC_TOOLS_HARMONY_H

#include "codec/status.h"
#include "codec/tools/tool_list.h"

enum mr_harmony_kind {
    MR_HARMONY_NONE, /* this text does not decide anything further */
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
    size_t from;               /* bytes before this index have been read */
    bool in_body;              /* the header of the message has been read */
    enum mr_harmony_kind kind; /* of the message */
    bool begun;                /* a piece of the message has been read */
    size_t header;             /* index of the message's header */
    struct mr_text_range name; /* of the function; kind CALL */
    size_t searched;           /* no mark begins before this index */
};

/* Reads the next piece of text. text must begin with the text of the previous call. ended: the text
 * is complete. */
enum mr_status mr_harmony_read(struct mr_harmony *harmony, struct mr_tool_calls *found,
                               struct mr_text text, bool ended, struct mr_harmony_piece *piece,
                               struct mr_error *err);

#endif
