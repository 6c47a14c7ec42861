#include "codec/records/foreign_fields.h"

#include <stdlib.h>
#include <string.h>

#define NO_MEDIA "only text is supported"

/* tests/integration/test_fields.py reads this table: one field a row. */
/* clang-format off */
static const struct mr_foreign_field fields[] = {
    /* OpenAI */
    {"audio", NULL, true, NO_MEDIA},
    {"function_call", "none", true, "use tool_choice"},
    {"functions", "[]", true, "use tools"},
    {"modalities", "[] text", true, NO_MEDIA},
    {"moderation", NULL, true, "answers are not moderated"},
    {"prediction", NULL, false, "it would affect the speed only"},
    {"prompt_cache_key", NULL, false, "prompts are cached by content; use session for a conversation"},
    {"prompt_cache_options", NULL, false, "prompts are cached by content; see the field cache"},
    {"prompt_cache_retention", NULL, false, "the operator sets how long prompts are cached"},
    {"safety_identifier", NULL, false, "use metadata, which the result repeats"},
    {"service_tier", "auto default", false, "use priority"},
    {"store", "false", false, "results stay in the results topic"},
    {"suffix", "\"\"", true, "infilling is not supported; the model only continues a text"},
    {"user", NULL, false, "use metadata, which the result repeats"},
    {"verbosity", "medium", false, "request it in a message"},
    {"web_search_options", NULL, true, "there is no web search"},
    /* vLLM */
    {"chat_template", NULL, true, "the operator sets the template (--chat-template)"},
    {"detokenize", "true", false, "set stream to false and read token_ids"},
    {"ec_transfer_params", NULL, true, NO_MEDIA},
    {"guided_decoding_backend", NULL, false, "there is one"},
    {"guided_whitespace_pattern", NULL, true, "use a regex"},
    {"include_reasoning", "true", false, "reasoning is part of text; use separate_reasoning"},
    {"kv_transfer_params", NULL, true, "workers share computed prompts through Redis"},
    {"length_penalty", "1", false, "it has an effect in beam search only"},
    {"logits_processors", "[]", true, "use logit_bias, bad_words or a response_format"},
    {"logprob_token_ids", NULL, true, "use logprobs"},
    {"media_io_kwargs", "{}", false, NO_MEDIA},
    {"mm_processor_kwargs", "{}", false, NO_MEDIA},
    {"prompt_embeds", NULL, true, "use prompt_token_ids"},
    {"repetition_detection", NULL, true, "use a penalty or max_tokens"},
    {"request_id", NULL, false, "use id"},
    {"return_mm_kwargs", "*", false, NO_MEDIA},
    {"return_prompt_text", "false", false, "millrace tokenize --chat shows it"},
    {"return_token_ids", "*", false, "records always have token_ids"},
    {"return_token_offsets", "false", false, "records have token_ids and text"},
    {"return_tokens_as_token_ids", "false", false, "logprobs have token_id and text"},
    {"routed_experts_prompt_start", "0", false, "experts are not reported"},
    {"spaces_between_special_tokens", "true", true, "the text of tokens is joined as it is"},
    {"stream_interval", NULL, false, "token records are written as tokens come"},
    {"structural_tag", NULL, true, "use response_format or tools"},
    {"use_beam_search", "false", true, "use n"},
    {"vllm_xargs", "{}", false, "there are no extensions"},
    {"watermarking", "false", true, "answers have no watermark"},
};
/* clang-format on */

const struct mr_foreign_field *mr_foreign_field_find(struct mr_text name)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (mr_text_is(name, fields[i].name)) return &fields[i];
    return NULL;
}

static bool is_word(struct mr_value value, struct mr_text word)
{
    char *end;
    switch (mr_value_kind(value)) {
    case MR_VALUE_BOOL:
        return mr_text_is(word, mr_value_bool(value) ? "true" : "false");
    case MR_VALUE_INT:
    case MR_VALUE_FLOAT:
        return strtod(word.bytes, &end) == mr_value_number(value) &&
               end == word.bytes + word.length;
    case MR_VALUE_TEXT:
        if (mr_value_text(value).length == 0) return mr_text_is(word, "\"\"");
        return mr_text_equal(mr_value_text(value), word);
    case MR_VALUE_MAP:
        return mr_value_count(value) == 0 && mr_text_is(word, "{}");
    case MR_VALUE_ARRAY:
        if (mr_value_count(value) == 0) return mr_text_is(word, "[]");
        return mr_value_count(value) == 1 &&
               mr_value_kind(mr_value_at(value, 0)) == MR_VALUE_TEXT &&
               is_word(mr_value_at(value, 0), word);
    default:
        return false;
    }
}

bool mr_foreign_field_is_neutral(const struct mr_foreign_field *field, struct mr_value value)
{
    if (mr_value_kind(value) == MR_VALUE_NULL) return true;
    for (const char *at = field->neutral; at && *at;) {
        size_t length = strcspn(at, " ");
        if (at[0] == '*' || is_word(value, (struct mr_text){at, length})) return true;
        at += length + strspn(at + length, " ");
    }
    return false;
}
