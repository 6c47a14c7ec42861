#include "worker/intake/prompt.h"

#include "codec/buffer.h"
#include "codec/grammar/automaton.h"
#include "codec/limits.h"
#include "codec/records/request_tools.h"
#include "codec/tokenizer/detokenizer.h"
#include "codec/tokenizer/stop_match.h"
#include "worker/intake/grammars.h"
#include "worker/intake/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_prompt {
    struct mr_prompt_options options;
    struct mr_chat_template *chat;
    struct mr_chat_template *tool_chat; /* NULL: `chat` renders tools too */
    struct mr_tokenizer_scratch *scratch;
    struct mr_grammars *grammars;
    enum mr_tool_format tool_format; /* format in which the model writes tool calls */
    uint32_t *ids;                   /* [prompt_tokens_max] */
};

/* *out stays NULL for an empty text. */
static enum mr_status compile(struct mr_chat_template **out, struct mr_text text,
                              const struct mr_special_texts *special, struct mr_error *err)
{
    return text.length > 0 ? mr_chat_template_compile(out, text, special, err) : MR_OK;
}

enum mr_status mr_prompt_create(struct mr_prompt **out, const struct mr_prompt_options *options,
                                struct mr_error *err)
{
    enum mr_status status = MR_NOMEM;
    *out = NULL;
    struct mr_prompt *prompt = calloc(1, sizeof *prompt);
    if (!prompt) return mr_fail(err, MR_NOMEM, "no memory for prompts");
    prompt->options = *options;
    prompt->tool_format = mr_tool_format_find(
        options->tool_template.length > 0 ? options->tool_template : options->chat_template);
    prompt->ids = calloc(options->prompt_tokens_max + 1u, sizeof *prompt->ids);
    prompt->scratch = mr_tokenizer_scratch_create(options->tokenizer);
    if (mr_grammars_create(&prompt->grammars, options->tokenizer, err) != MR_OK) goto fail;
    if (!prompt->ids || !prompt->scratch) {
        mr_fail(err, MR_NOMEM, "no memory for prompts of %u tokens", options->prompt_tokens_max);
        goto fail;
    }
    status = compile(&prompt->chat, options->chat_template, &options->special, err);
    if (status == MR_OK)
        status = compile(&prompt->tool_chat, options->tool_template, &options->special, err);
    if (status != MR_OK) goto fail;
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
    mr_chat_template_destroy(prompt->tool_chat);
    if (prompt->scratch) mr_tokenizer_scratch_destroy(prompt->scratch);
    free(prompt->ids);
    free(prompt);
}

/* Encodes the text. The ids are in prompt->ids, or in the request's arena if the prompt is longer
 * and will be truncated. */
static enum mr_status encode(struct mr_prompt *prompt, struct mr_request *request,
                             struct mr_text text, struct mr_encode_options options,
                             struct mr_id_list *list, struct mr_error *err)
{
    *list = (struct mr_id_list){.ids = prompt->ids, .max = prompt->options.prompt_tokens_max};
    /* a longer prompt is rejected, so the rest of a large text is not encoded */
    if (request->prompt_rules.tokens_max == 0) list->enough = list->max;
    enum mr_status status =
        mr_tokenizer_encode(prompt->options.tokenizer, prompt->scratch, text, options, list, err);
    if (status != MR_PROMPT_TOO_LONG) return status;
    if (request->prompt_rules.tokens_max == 0)
        return mr_fail(err, status, "the prompt is at least %zu tokens, the limit is %u",
                       list->count, prompt->options.prompt_tokens_max);
    size_t count = list->count;
    *list = (struct mr_id_list){
        .ids = mr_arena_take_array(request->arena, count, sizeof *list->ids), .max = count};
    if (!list->ids)
        return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for %zu prompt tokens", count);
    return mr_tokenizer_encode(prompt->options.tokenizer, prompt->scratch, text, options, list,
                               err);
}

/* Cuts the prompt to the request's truncate_prompt_tokens. */
static void truncate(const struct mr_prompt *prompt, struct mr_request *request)
{
    const struct mr_prompt_rules *rules = &request->prompt_rules;
    size_t room = prompt->options.prompt_tokens_max, most = rules->tokens_max;
    if (most == UINT32_MAX) most = room >= request->max_tokens ? room + 1 - request->max_tokens : 1;
    if (most > room) most = room;
    if (most == 0 || request->token_count <= most) return;
    if (!rules->keep_start) request->token_ids += request->token_count - most;
    request->token_count = most;
}

/* The template with which a request is rendered; NULL: the model has none. */
static const struct mr_chat_template *template_of(const struct mr_prompt *prompt,
                                                  const struct mr_request *request)
{
    bool tools = request->chat.tools.kind == MR_DATA_LIST && prompt->tool_chat;
    return tools ? prompt->tool_chat : prompt->chat;
}

enum mr_status mr_prompt_render(const struct mr_prompt *prompt, const struct mr_request *request,
                                uint64_t unix_seconds, struct mr_rendered *out,
                                struct mr_error *err)
{
    const struct mr_chat_template *chat = template_of(prompt, request);
    if (!chat)
        return mr_fail(err, MR_INVALID_REQUEST, "this model has no chat template; send a prompt");
    return mr_chat_template_render(chat, request, unix_seconds, request->arena, out, err);
}

static enum mr_status encode_chat(struct mr_prompt *prompt, struct mr_request *request,
                                  uint64_t unix_seconds, struct mr_id_list *list,
                                  struct mr_error *err)
{
    struct mr_rendered rendered;
    enum mr_status status = mr_prompt_render(prompt, request, unix_seconds, &rendered, err);
    if (status != MR_OK) return status;
    return encode(prompt, request, rendered.text,
                  (struct mr_encode_options){.add_special = request->prompt_rules.add_special,
                                             .parse_special = true,
                                             .barred = rendered.user,
                                             .barred_count = rendered.user_count},
                  list, err);
}

/* Encodes the texts of a request that computes vectors or classes; a prompt is one of them. */
static enum mr_status encode_inputs(struct mr_prompt *prompt, struct mr_request *request,
                                    struct mr_error *err)
{
    const struct mr_input_encoder encoder = {.tokenizer = prompt->options.tokenizer,
                                             .scratch = prompt->scratch,
                                             .ids = prompt->ids,
                                             .tokens_max = prompt->options.prompt_tokens_max};
    struct mr_input input = {.text = request->prompt};
    if (request->inputs.count > 0) return mr_inputs_encode(&encoder, request, err);
    enum mr_status status = mr_input_encode(&encoder, request, &input, err);
    request->token_ids = input.token_ids;
    request->token_count = input.token_count;
    return status;
}

static enum mr_status encode_prompt(struct mr_prompt *prompt, struct mr_request *request,
                                    uint64_t unix_seconds, struct mr_error *err)
{
    struct mr_id_list list = {0};
    enum mr_status status = MR_OK;
    const struct mr_prompt_rules *rules = &request->prompt_rules;
    if (request->inputs.count > 0 || (mr_request_reads_texts(request) && request->prompt.bytes))
        return encode_inputs(prompt, request, err);
    if (request->has_token_ids) {
        truncate(prompt, request);
        if (request->token_count <= prompt->options.prompt_tokens_max) return MR_OK;
        return mr_fail(err, MR_PROMPT_TOO_LONG, "the prompt is %zu tokens, the limit is %u",
                       request->token_count, prompt->options.prompt_tokens_max);
    }
    if (request->chat.message_count > 0)
        status = encode_chat(prompt, request, unix_seconds, &list, err);
    else
        status = encode(
            prompt, request, request->prompt,
            (struct mr_encode_options){.add_special = !rules->special_given || rules->add_special,
                                       .parse_special = true},
            &list, err);
    if (status != MR_OK) return status;
    if (list.count == 0) return mr_fail(err, MR_EMPTY_PROMPT, "the prompt has no tokens");
    request->token_ids = list.ids;
    request->token_count = list.count;
    truncate(prompt, request);
    if (list.ids != prompt->ids) return MR_OK;
    size_t count = request->token_count;
    uint32_t *ids = mr_arena_take_array(request->arena, count, sizeof *ids);
    if (!ids) return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for %zu prompt tokens", count);
    memcpy(ids, request->token_ids, count * sizeof *ids);
    request->token_ids = ids;
    return MR_OK;
}

/* Encodes the continuations given as text, one by one. */
static enum mr_status encode_continuations(struct mr_prompt *prompt, struct mr_request *request,
                                           struct mr_error *err)
{
    const struct mr_encode_options options = {.parse_special = request->chat.message_count == 0};
    for (size_t i = 0; i < request->continuation_count; i++) {
        struct mr_continuation *continuation = &request->continuations[i];
        const size_t most = prompt->options.prompt_tokens_max;
        struct mr_id_list list = {.ids = prompt->ids, .max = most, .enough = most};
        if (!continuation->text.bytes) continue;
        enum mr_status status = mr_tokenizer_encode(prompt->options.tokenizer, prompt->scratch,
                                                    continuation->text, options, &list, err);
        if (status != MR_OK) return status;
        if (list.count == 0)
            return mr_fail(err, MR_INVALID_REQUEST, "continuations: entry %zu has no tokens", i);
        uint32_t *ids = mr_arena_take_array(request->arena, list.count, sizeof *ids);
        if (!ids)
            return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for %zu tokens of continuations",
                           list.count);
        memcpy(ids, list.ids, list.count * sizeof *ids);
        continuation->token_ids = ids;
        continuation->token_count = list.count;
    }
    return MR_OK;
}

/* ---- echo ---- */

/* Appends the text of all parts of the last message. joined: with line ends between them. */
static bool add_last_message(struct mr_buffer *text, const struct mr_chat *chat, bool joined)
{
    const struct mr_data *content =
        mr_data_get(&chat->messages[chat->message_count - 1], "content");
    if (!content) return true;
    if (content->kind == MR_DATA_TEXT) return mr_buffer_append(text, content->text);
    for (size_t i = 0; content->kind == MR_DATA_LIST && i < content->list.count; i++) {
        const struct mr_data *part = mr_data_part_text(&content->list.items[i]);
        if (joined && i > 0 && !mr_buffer_append(text, (struct mr_text){"\n", 1})) return false;
        if (part && !mr_buffer_append(text, part->text)) return false;
    }
    return true;
}

/* Appends the text of the prompt's token ids from the first one on. */
static bool add_decoded(struct mr_buffer *text, const struct mr_prompt *prompt,
                        const struct mr_request *request, size_t first, bool keep_special)
{
    struct mr_detokenizer detokenizer;
    char *end;
    mr_detokenizer_init(&detokenizer, prompt->options.tokenizer, !keep_special);
    for (size_t i = first; i < request->token_count; i++) {
        uint32_t id = request->token_ids[i];
        end = mr_buffer_reserve(text, mr_detokenizer_bound(&detokenizer, id));
        if (!end) return false;
        mr_buffer_commit(text, mr_detokenizer_push(&detokenizer, id, end));
    }
    end = mr_buffer_reserve(text, 12);
    if (end) mr_buffer_commit(text, mr_detokenizer_finish(&detokenizer, end));
    return end != NULL;
}

/* Sets the text with which the answer begins: the prompt, or the message that it continues. */
static enum mr_status set_echoed(const struct mr_prompt *prompt, struct mr_request *request,
                                 struct mr_error *err)
{
    struct mr_buffer text;
    mr_buffer_init(&text, MR_TEMPLATE_BYTES_MAX);
    bool room = true;
    if (request->prompt.bytes)
        room = mr_buffer_append(&text, request->prompt);
    else if (request->chat.message_count > 0)
        room = add_last_message(&text, &request->chat,
                                !mr_chat_template_reads_parts(template_of(prompt, request)));
    else
        room = add_decoded(&text, prompt, request, 0, request->keep_special);
    struct mr_text joined = mr_buffer_text(&text);
    char *copy = room ? mr_arena_copy_text(request->arena, joined.bytes, joined.length) : NULL;
    if (copy) request->echoed = (struct mr_text){copy, joined.length};
    mr_buffer_drop(&text);
    return copy ? MR_OK : mr_fail(err, MR_RECORD_TOO_LARGE, "no room for the text of echo");
}

/* Sets the format in which tool calls are found in the answer, and constrains strict ones. */
static enum mr_status set_tool_format(const struct mr_prompt *prompt, struct mr_request *request,
                                      struct mr_error *err)
{
    static const char unknown[] =
        "tools: the format in which this model writes calls is not known; "
        "calls stay in the text unless tool_choice is required";
    struct mr_tool_use *use = &request->tool_use;
    bool channels = prompt->tool_format == MR_TOOLS_HARMONY && use->separate_reasoning;
    if (use->choice == MR_TOOL_CHOICE_NONE && !channels) return MR_OK;
    bool forced = use->choice == MR_TOOL_CHOICE_REQUIRED || use->choice == MR_TOOL_CHOICE_NAMED;
    use->format = forced ? MR_TOOLS_ARRAY : prompt->tool_format;
    if (mr_tool_format_has_control(use->format)) request->keep_special = true;
    if (use->strict) return mr_request_constrain_calls(request, use->format, err);
    if (use->format == MR_TOOLS_NONE)
        mr_request_add_warning(request, (struct mr_text){unknown, sizeof unknown - 1});
    return MR_OK;
}

/* True if the text is the name of a control token, whose id is *id. */
static bool find_control(const struct mr_prompt *prompt, struct mr_text name, uint32_t *id)
{
    const struct mr_tokenizer *tokenizer = prompt->options.tokenizer;
    struct mr_id_list list = {.ids = id, .max = 1};
    enum mr_status status =
        mr_tokenizer_encode(tokenizer, prompt->scratch, name,
                            (struct mr_encode_options){.parse_special = true}, &list, NULL);
    return status == MR_OK && list.count == 1 &&
           mr_text_equal(mr_tokenizer_bytes(tokenizer, *id, false), name) &&
           mr_tokenizer_bytes(tokenizer, *id, true).length == 0;
}

/* Makes stop tokens of stop strings that are names of control tokens: these have no text in the
 * answer, in which a stop string could be found. */
static enum mr_status set_stop_tokens(const struct mr_prompt *prompt, struct mr_request *request,
                                      struct mr_error *err)
{
    size_t count = request->stop_token_count;
    if (request->stop_count == 0 || request->keep_special) return MR_OK;
    uint32_t *ids = mr_arena_take_array(request->arena, count + request->stop_count, sizeof *ids);
    if (!ids) return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for stop tokens");
    if (count > 0) memcpy(ids, request->stop_token_ids, count * sizeof *ids);
    for (size_t i = 0; i < request->stop_count; i++)
        count += find_control(prompt, request->stops[i], &ids[count]);
    request->stop_token_ids = ids;
    request->stop_token_count = count;
    return MR_OK;
}

/* The index of the token with which the prompt's last turn begins: the last control token that is
 * not a tag of reasoning. Only the end of a turn that is too long for a buffer counts. */
static size_t turn_start(const struct mr_prompt *prompt, const struct mr_request *request,
                         enum mr_tool_format format)
{
    const struct mr_tokenizer *tokenizer = prompt->options.tokenizer;
    size_t first = request->token_count;
    for (size_t bytes = 0; first > 0 && bytes < MR_TEMPLATE_BYTES_MAX / 8; first--) {
        uint32_t id = request->token_ids[first - 1];
        struct mr_text text = mr_tokenizer_bytes(tokenizer, id, false);
        bool control = mr_tokenizer_bytes(tokenizer, id, true).length < text.length;
        bytes += text.length + 1;
        if (control && !mr_opened_is_tag(format, text)) return first - 1;
    }
    return first;
}

/* Sets the tokens and words of the limit on reasoning. */
static enum mr_status set_thinking(const struct mr_prompt *prompt, struct mr_request *request,
                                   enum mr_tool_format format, struct mr_error *err)
{
    struct mr_thinking_limit *limit = &request->thinking;
    uint32_t ids[64];
    struct mr_id_list list = {.ids = ids, .max = sizeof ids / sizeof ids[0]};
    size_t count;
    const struct mr_text *words = mr_opened_words(format, &count);
    enum mr_status status = mr_stop_match_create(&limit->words, request->arena, words, count, err);
    if (status == MR_OK)
        status =
            mr_tokenizer_encode(prompt->options.tokenizer, prompt->scratch, mr_opened_end(format),
                                (struct mr_encode_options){.parse_special = true}, &list, err);
    if (status != MR_OK) return status;
    uint32_t *copy = mr_arena_take_array(request->arena, list.count, sizeof *copy);
    if (!copy) return mr_fail(err, MR_RECORD_TOO_LARGE, "no room for the end of reasoning");
    memcpy(copy, ids, list.count * sizeof *copy);
    limit->end_ids = copy;
    limit->end_count = list.count;
    limit->opened = mr_opened_text(format, request->tool_use.opened);
    limit->channels = format == MR_TOOLS_HARMONY;
    return MR_OK;
}

/* Finds out whether the prompt opens reasoning. A constraint does not apply to reasoning between
 * tags. If the answer is not split, the constraint applies to all of its text. */
static enum mr_status set_opened(const struct mr_prompt *prompt, struct mr_request *request,
                                 struct mr_error *err)
{
    struct mr_buffer text;
    struct mr_tool_use *use = &request->tool_use;
    const bool splits = use->format != MR_TOOLS_NONE || use->separate_reasoning;
    const bool limited = request->thinking.given && request->task == MR_TASK_GENERATE;
    enum mr_tool_format format = use->format;
    if (prompt->tool_format == MR_TOOLS_HARMONY) format = MR_TOOLS_HARMONY;
    if (!splits && !limited) return MR_OK;
    mr_buffer_init(&text, MR_TEMPLATE_BYTES_MAX);
    bool room = add_decoded(&text, prompt, request, turn_start(prompt, request, format), true);
    use->opened = mr_opened_find(format, mr_buffer_text(&text));
    request->constraint.after_reasoning =
        splits && use->opened != MR_OPENED_NOTHING && format != MR_TOOLS_HARMONY;
    mr_buffer_drop(&text);
    if (!room) return mr_fail(err, MR_NOMEM, "no memory for the end of the prompt");
    return limited ? set_thinking(prompt, request, format, err) : MR_OK;
}

/* Says which fields the constraint overrides: where no token satisfies both, it decides. */
static void warn_of_overrides(struct mr_request *request)
{
    const struct {
        const char *field;
        bool given;
    } fields[] = {{"min_tokens", request->min_tokens > 0},
                  {"bad_words", request->sampling.bad_word_count > 0},
                  {"allowed_token_ids", request->sampling.allowed_token_count > 0},
                  {"logit_bias", request->sampling.logit_bias_count > 0}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char sentence[128];
        int length = snprintf(sentence, sizeof sentence,
                              "the constraint of the answer takes precedence over %s where both "
                              "cannot hold",
                              fields[i].field);
        if (fields[i].given)
            mr_request_add_warning(request, (struct mr_text){sentence, (size_t)length});
    }
}

/* Compiles the constraint, and warns of what it leaves out or overrides. */
static enum mr_status set_grammar(const struct mr_prompt *prompt, struct mr_request *request,
                                  struct mr_error *err)
{
    enum mr_status status =
        mr_grammars_get(prompt->grammars, &request->constraint, &request->grammar, err);
    if (status != MR_OK) return status;
    const char *warning = request->grammar->warning;
    if (*warning && request->strict) return mr_fail(err, MR_UNSUPPORTED, "%s", warning);
    if (*warning) mr_request_add_warning(request, (struct mr_text){warning, strlen(warning)});
    warn_of_overrides(request);
    return MR_OK;
}

enum mr_status mr_prompt_encode(struct mr_prompt *prompt, struct mr_request *request,
                                uint64_t unix_seconds, struct mr_error *err)
{
    enum mr_status status = set_tool_format(prompt, request, err);
    if (status == MR_OK) status = encode_prompt(prompt, request, unix_seconds, err);
    if (status == MR_OK) status = encode_continuations(prompt, request, err);
    if (status == MR_OK) status = set_opened(prompt, request, err);
    if (status == MR_OK) status = set_stop_tokens(prompt, request, err);
    if (status == MR_OK && request->constraint.kind != MR_CONSTRAINT_NONE && !request->grammar)
        status = set_grammar(prompt, request, err);
    if (status == MR_OK && request->echo) status = set_echoed(prompt, request, err);
    return status;
}
