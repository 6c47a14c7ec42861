/* chat_template - turns the messages of a request into prompt text with the model's Jinja template.
 *
 * This is an interpreter of the part of Jinja that model templates use, with the options
 * trim_blocks and lstrip_blocks, as in the reference. Templates come from model files, never from a
 * request. The output is one text, and the ranges of it that come from the request. The caller bars
 * these ranges from control tokens when it encodes the text, so a user cannot write one.
 *
 * Threads: a compiled template is immutable and shared; a rendering has its state on the stack and
 *          in the arena of the caller.
 * Memory:  the template owns its compiled form.
 * Limits:  MR_TEMPLATE_STEPS_MAX, MR_TEMPLATE_DEPTH_MAX, MR_TEMPLATE_BYTES_MAX.
 * Errors:  _compile: MR_BAD_FILE with line and reason, MR_NOMEM. _render: MR_INVALID_REQUEST when
 *          the template calls raise_exception, fails, or exceeds a limit; MR_UNSUPPORTED_CONTENT
 *          for a part without text that cannot be joined. */
#ifndef MR_CODEC_TEMPLATE_CHAT_TEMPLATE_H
#define MR_CODEC_TEMPLATE_CHAT_TEMPLATE_H

#include "codec/arena.h"
#include "codec/records/request.h"
#include "codec/special_texts.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_chat_template;

struct mr_rendered {
    struct mr_text text; /* memory in the arena */
    /* [user_count] the ranges of text that come from the request, in ascending order, none empty
     * and none touching the next; memory in the arena */
    const struct mr_text_range *user;
    size_t user_count;
};

/* Copies source and the texts of special. The template reads these texts as the variables
 * bos_token, eos_token and so on. An empty text is an undefined variable, as in transformers. */
enum mr_status mr_chat_template_compile(struct mr_chat_template **out, struct mr_text source,
                                        const struct mr_special_texts *special,
                                        struct mr_error *err);
void mr_chat_template_destroy(struct mr_chat_template *chat_template);
/* False when the template reads the content of a message only as a text
 * (codec/template/jinja_content.h). The template then gets a list of parts as one text: the texts
 * of the parts, joined by line ends. */
bool mr_chat_template_reads_parts(const struct mr_chat_template *chat_template);

/* Renders request->chat as transformers' apply_chat_template does: messages (contents may be
 * joined), tools and documents with all their members, chat_template_kwargs as variables,
 * add_generation_prompt, continue_final_message. The function strftime_now of templates formats
 * unix_seconds. */
enum mr_status mr_chat_template_render(const struct mr_chat_template *chat_template,
                                       const struct mr_request *request, uint64_t unix_seconds,
                                       struct mr_arena *arena, struct mr_rendered *out,
                                       struct mr_error *err);

#endif
