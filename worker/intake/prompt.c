#include "worker/intake/prompt.h"

#include "worker/ticket/grammars.h"

#include <stdlib.h>
#include <string.h>

struct mr_prompt {
    struct mr_prompt_options options;
    struct mr_chat_template *chat;
    struct mr_tokenizer_scratch *scratch;
    struct mr_grammars *grammars;
    uint32_t *ids; /* [prompt_tokens_max] */
};

enum mr_status mr_prompt_create(struct mr_prompt **out, const struct mr_prompt_options *options,
                                struct mr_error *err)
{
    enum mr_status status = MR_NOMEM;
    *out = NULL;
    struct mr_prompt *prompt = calloc(1, sizeof *prompt);
    if (!prompt) return mr_fail(err, MR_NOMEM, "no memory for prompts");
    prompt->options = *options;
    prompt->ids = calloc(options->prompt_tokens_max + 1u, sizeof *prompt->ids);
    prompt->scratch = mr_tokenizer_scratch_create(options->tokenizer);
    if (mr_grammars_create(&prompt->grammars, options->tokenizer, err) != MR_OK) goto fail;
    if (!prompt->ids || !prompt->scratch) {
        mr_fail(err, MR_NOMEM, "no memory for prompts of %u tokens", options->prompt_tokens_max);
        goto fail;
    }
    if (options->chat_template.length > 0) {
        status =
            mr_chat_template_compile(&prompt->chat, options->chat_template, &options->special, err);
        if (status != MR_OK) goto fail;
    }
    *out = prompt;
    return MR_OK;
fail:
    mr_prompt_destroy(prompt);
    return status;
}

void mr_prompt_destroy(struct mr_prompt *prompt)
{
    if (!prompt) return;
    mr_grammars_destroy(prompt->grammars);
    mr_chat_template_destroy(prompt->chat);
    if (prompt->scratch) mr_tokenizer_scratch_destroy(prompt->scratch);
    free(prompt->ids);
    free(prompt);
}

/* Encodes the text into prompt->ids. */
static enum mr_status encode(struct mr_prompt *prompt, struct mr_text text,
                             struct mr_encode_options options, size_t *count, struct mr_error *err)
{
    struct mr_id_list list = {.ids = prompt->ids, .max = prompt->options.prompt_tokens_max};
    enum mr_status status =
        mr_tokenizer_encode(prompt->options.tokenizer, prompt->scratch, text, options, &list, err);
    *count = list.count;
    if (status == MR_PROMPT_TOO_LONG)
        mr_fail(err, status, "the prompt is %zu tokens, the limit is %u", list.count,
                prompt->options.prompt_tokens_max);
    return status;
}

enum mr_status mr_prompt_render(const struct mr_prompt *prompt, const struct mr_request *request,
                                uint64_t unix_seconds, struct mr_rendered *out,
                                struct mr_error *err)
{
    if (!prompt->chat)
        return mr_fail(err, MR_INVALID_REQUEST, "this model has no chat template; send a prompt");
    return mr_chat_template_render(prompt->chat, request, unix_seconds, request->arena, out, err);
}

static enum mr_status encode_chat(struct mr_prompt *prompt, struct mr_request *request,
                                  uint64_t unix_seconds, size_t *count, struct mr_error *err)
{
    struct mr_rendered rendered;
    enum mr_status status = mr_prompt_render(prompt, request, unix_seconds, &rendered, err);
    if (status != MR_OK) return status;
    return encode(prompt, rendered.text,
                  (struct mr_encode_options){.parse_special = true,
                                             .barred = rendered.user,
                                             .barred_count = rendered.user_count},
                  count, err);
}

static enum mr_status encode_prompt(struct mr_prompt *prompt, struct mr_request *request,
                                    uint64_t unix_seconds, struct mr_error *err)
{
    size_t count = 0;
    enum mr_status status = MR_OK;
    if (request->has_token_ids) {
        if (request->token_count <= prompt->options.prompt_tokens_max) return MR_OK;
        return mr_fail(err, MR_PROMPT_TOO_LONG, "the prompt is %zu tokens, the limit is %u",
                       request->token_count, prompt->options.prompt_tokens_max);
    }
    if (request->chat.message_count > 0)
        status = encode_chat(prompt, request, unix_seconds, &count, err);
    else
        status = encode(prompt, request->prompt,
                        (struct mr_encode_options){.add_special = true, .parse_special = true},
                        &count, err);
    if (status != MR_OK) return status;
    if (count == 0) return mr_fail(err, MR_EMPTY_PROMPT, "the prompt has no tokens");
    uint32_t *ids = mr_arena_take_array(request->arena, count, sizeof *ids);
    if (!ids) return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for %zu prompt tokens", count);
    memcpy(ids, prompt->ids, count * sizeof *ids);
    request->token_ids = ids;
    request->token_count = count;
    return MR_OK;
}

enum mr_status mr_prompt_encode(struct mr_prompt *prompt, struct mr_request *request,
                                uint64_t unix_seconds, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    if (request->constraint.kind != MR_CONSTRAINT_NONE && !request->grammar)
        status = mr_grammars_get(prompt->grammars, &request->constraint, &request->grammar, err);
    return status == MR_OK ? encode_prompt(prompt, request, unix_seconds, err) : status;
}
