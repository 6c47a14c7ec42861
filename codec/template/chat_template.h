/* chat_template - turns the messages of a request into prompt text with the model's Jinja template.
 *
 * This is an interpreter of the part of Jinja that model templates use, with the options
 * trim_blocks and lstrip_blocks, as in the reference. Templates come from model files, never from a
 * request. The output is a list of segments: text of the template and text of the request. The
 * caller looks for special tokens in the first kind only, so a user cannot write one.
 *
 * Threads: a compiled template is immutable and shared; a rendering has its state on the stack and
 *          in the arena of the caller.
 * Memory:  the template owns its compiled form.
 * Limits:  MR_TEMPLATE_STEPS_MAX, MR_TEMPLATE_DEPTH_MAX, MR_TEMPLATE_BYTES_MAX.
 * Errors:  _compile: MR_BAD_FILE with line and reason, MR_NOMEM. _render: MR_INVALID_REQUEST when
 *          the template calls raise_exception, fails, or exceeds a limit. */
#ifndef MR_CODEC_TEMPLATE_CHAT_TEMPLATE_H
#define MR_CODEC_TEMPLATE_CHAT_TEMPLATE_H

#include "codec/arena.h"
#include "codec/records/request.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_chat_template;

struct mr_segment {
    struct mr_text text;
    bool from_user; /* text of the request: a special token in this segment stays text */
};

struct mr_rendered {
    /* memory in the arena; text of the template and of the request alternate */
    struct mr_segment *segments;
    size_t segment_count;
};

enum mr_status mr_chat_template_compile(struct mr_chat_template **out, struct mr_text source,
                                        struct mr_text bos_token, struct mr_text eos_token,
                                        struct mr_error *err);
void mr_chat_template_destroy(struct mr_chat_template *chat_template);

/* Renders the messages with add_generation_prompt true. The function strftime_now of templates
 * formats unix_seconds. The chat_template_kwargs of the request are variables of the template. */
enum mr_status mr_chat_template_render(const struct mr_chat_template *chat_template,
                                       const struct mr_request *request, uint64_t unix_seconds,
                                       struct mr_arena *arena, struct mr_rendered *out,
                                       struct mr_error *err);

#endif
