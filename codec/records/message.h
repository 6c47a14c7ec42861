/* message - splits the text of an answer into reasoning, content and tool calls, as the message of
 * an assistant has them in OpenAI's form: whole for the result, in deltas for token records.
 *
 * Reasoning is what stands before </think> in a text that begins with <think>, or whose prompt ends
 * with it. Calls are looked for behind it. In the harmony format the channels say what is what
 * (codec/tools/harmony.h). Content is the text without reasoning and calls. White space at the ends
 * of reasoning and content is left out, that at the ends of the text so far is held back, and so is
 * what may be the beginning of a tag or of a call.
 *
 * A call is put out when it is complete. Where the request's grammar makes it, so that it can only
 * be cut off, its name and arguments come as they are read; one that is cut off has an index that
 * the whole message does not have, and its text is content.
 *
 * The deltas joined are the whole, and what has been put out for the beginning of a text depends on
 * its bytes only: a stream that is resumed at any byte goes on as it was.
 *
 * Threads: one at a time. Memory: the text, and the reasoning and content of one push.
 * Errors: MR_NOMEM, MR_RECORD_TOO_LARGE above MR_RESULT_BYTES_MAX. */
#ifndef MR_CODEC_RECORDS_MESSAGE_H
#define MR_CODEC_RECORDS_MESSAGE_H

#include "codec/records/request.h"
#include "codec/records/result.h"

/* How the answer to a request is split. */
struct mr_message_rules {
    bool is_split; /* false: the request has neither tools nor separate_reasoning */
    enum mr_tool_format format;
    size_t calls_max;
    /* of the tools' parameters, for QWEN_CODER; must outlive the message. NULL, also from
     * mr_message_rules_of: all are texts */
    const struct mr_tool_types *types;
    bool steady;           /* a grammar makes the calls: their arguments are put out as they come */
    bool has_reasoning;    /* reasoning is reported; otherwise it is left out */
    bool reasoning_opened; /* the prompt ends with <think> */
    size_t echoed_bytes;   /* the text begins with that much of the prompt, which is left out */
};
struct mr_message_rules mr_message_rules_of(const struct mr_request *request);

/* Fills the members of *choice from its text if the request has tools or separate_reasoning. The
 * arena gets the members of all choices of a result, at most MR_RESULT_BYTES_MAX. */
enum mr_status mr_message_split(struct mr_choice *choice, const struct mr_message_rules *rules,
                                struct mr_arena *arena, struct mr_error *err);

/* An answer that grows. */
struct mr_message;

enum mr_status mr_message_create(struct mr_message **out, const struct mr_message_rules *rules,
                                 struct mr_error *err);
/* message may be NULL. */
void mr_message_destroy(struct mr_message *message);
/* Adds the next part of the text; ended: it is the last one. *delta is what was decided by it,
 * valid until the next call. After an error, call again with the same part. */
enum mr_status mr_message_push(struct mr_message *message, struct mr_text part, bool ended,
                               struct mr_message_delta *delta, struct mr_error *err);

#endif
