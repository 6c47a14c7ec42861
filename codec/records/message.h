/* message - splits the text of an answer into reasoning, content and tool calls, the members of an
 * assistant message in OpenAI's API: complete for the result, in deltas for token records.
 *
 * Reasoning is the text before </think> if the answer begins with <think> or the prompt has opened
 * reasoning (codec/records/opened.h). Calls are searched for after the reasoning. In the harmony
 * format the channels separate the parts (codec/tools/harmony.h). Content is the text without
 * reasoning and calls.
 *
 * White space belongs to the text, with two exceptions. The tags around reasoning and the calls own
 * the line ends next to them: one on either side, and two after </think>. Text next to them that is
 * all white space is left out. So a line end that a call may follow is held back until the next
 * byte, as is anything that may begin a tag or a call.
 *
 * A call is emitted when it is complete. If a constraint generates the calls, a begun call can only
 * be completed or cut off, so its name and arguments are emitted as they are read. A call that is
 * cut off has an index that the complete message lacks, and its text is content.
 *
 * The joined deltas equal the complete message. The deltas of a text's beginning depend only on its
 * bytes, so a stream that is resumed at any byte continues identically.
 *
 * Threads: one at a time. Memory: the text, and the reasoning and content of one push.
 * Errors: MR_NOMEM, MR_RECORD_TOO_LARGE above MR_RESULT_BYTES_MAX. */
#ifndef MR_CODEC_RECORDS_MESSAGE_H
#define MR_CODEC_RECORDS_MESSAGE_H

#include "codec/records/request.h"
#include "codec/records/result.h"

/* The rules for splitting the answer to a request. */
struct mr_message_rules {
    bool is_split; /* false: the request has neither tools nor separate_reasoning */
    enum mr_tool_format format;
    size_t calls_max;
    /* of the tools' parameters, for QWEN_CODER; must outlive the message. NULL, also from
     * mr_message_rules_of: all are texts */
    const struct mr_tool_types *types;
    bool
        steady; /* a constraint generates the calls: their arguments are emitted as they are read */
    bool has_reasoning; /* reasoning is reported; otherwise it is dropped */
    enum mr_opened opened;
    size_t
        echoed_bytes; /* the text begins with this many bytes of the prompt, which are left out */
};
struct mr_message_rules mr_message_rules_of(const struct mr_request *request);

/* Sets content, reasoning and tool_calls of *choice from its text if the request has tools or
 * separate_reasoning. The texts are in the arena: for all choices of a result together at most
 * MR_RESULT_BYTES_MAX. */
enum mr_status mr_message_split(struct mr_choice *choice, const struct mr_message_rules *rules,
                                struct mr_arena *arena, struct mr_error *err);

/* The state of splitting a growing answer. */
struct mr_message;

enum mr_status mr_message_create(struct mr_message **out, const struct mr_message_rules *rules,
                                 struct mr_error *err);
/* message may be NULL. */
void mr_message_destroy(struct mr_message *message);
/* Adds the next part of the text; ended: it is the last part. Sets *delta to the newly decided
 * members, valid until the next call. After an error, call again with the same part. */
enum mr_status mr_message_push(struct mr_message *message, struct mr_text part, bool ended,
                               struct mr_message_delta *delta, struct mr_error *err);

#endif
