/* chat_template - messages to prompt text through the model's own Jinja template.
 *
 * A small interpreter of the Jinja subset that model templates use, with trim_blocks and
 * lstrip_blocks on as the reference does. The template comes from the operator (model files), never
 * from a request. Output is a list of segments: text the template wrote, and text that came from a
 * message. Special tokens are recognised in the first kind only, so user text cannot forge one.
 *
 * Threads: a compiled template is immutable and shared; rendering keeps its state on the stack and
 *          in the arena given. Memory: compiled form owned by the template. Limits:
 *          MR_TEMPLATE_STEPS_MAX steps, MR_TEMPLATE_DEPTH_MAX nesting, MR_TEMPLATE_BYTES_MAX
 * output. Errors:  _compile MR_BAD_FILE with line and reason; _render MR_INVALID_REQUEST when the
 * template raises (raise_exception) or a limit is met. */
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
    bool from_user; /* special tokens in it stay text */
};

struct mr_rendered {
    struct mr_segment *segments; /* in the arena; adjacent ones of one kind are merged */
    size_t segment_count;
};

enum mr_status mr_chat_template_compile(struct mr_chat_template **out, struct mr_text source,
                                        struct mr_text bos_token, struct mr_text eos_token,
                                        struct mr_error *err);
void mr_chat_template_destroy(struct mr_chat_template *chat_template);

/* Renders with add_generation_prompt true. date: "26 Jul 2024"-style text for strftime_now
 * templates is computed from unix_seconds. kwargs: scalar chat_template_kwargs of the request. */
enum mr_status mr_chat_template_render(const struct mr_chat_template *chat_template,
                                       const struct mr_request *request, uint64_t unix_seconds,
                                       struct mr_arena *arena, struct mr_rendered *out,
                                       struct mr_error *err);

#endif
