#include "ops/files/end_tokens.h"

#include <stdbool.h>

/* In the format of gpt-oss <|end|> ends a message, and the answer may continue with the next
 * message. */
enum { MESSAGE_END, RETURN, CALL, TEXT_COUNT = MR_END_TOKENS_MAX };

static const char *const texts[TEXT_COUNT] = {
    [MESSAGE_END] = "<|end|>",
    [RETURN] = "<|return|>",
    [CALL] = "<|call|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "<|fim_pad|>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<fim_pad>",
    "<reponame>",
};

static int text_of(struct mr_text token)
{
    if (token.length < 5 || (token.bytes[0] != '<' && token.bytes[0] != '_')) return -1;
    for (int i = 0; i < TEXT_COUNT; i++)
        if (mr_text_is(token, texts[i])) return i;
    return -1;
}

uint32_t mr_end_tokens_find(const struct mr_text *tokens, uint32_t count,
                            uint32_t ids[MR_END_TOKENS_MAX])
{
    uint32_t id_of[TEXT_COUNT], found = 0;
    bool has[TEXT_COUNT] = {false};
    for (uint32_t id = 0; id < count; id++) {
        int text = text_of(tokens[id]);
        if (text < 0) continue;
        has[text] = true;
        id_of[text] = id;
    }
    if (has[RETURN] && has[CALL]) has[MESSAGE_END] = false;
    for (int i = 0; i < TEXT_COUNT; i++)
        if (has[i]) ids[found++] = id_of[i];
    return found;
}
