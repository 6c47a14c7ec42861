#include "tests/fakes/fake_request.h"

#include "codec/check.h"
#include "codec/tokenizer_files/tokenizer_spec.h"

#include <string.h>

uint32_t *mr_fake_ids(struct mr_request *request, const uint32_t *ids, uint32_t count)
{
    uint32_t *copy = mr_arena_take_array(request->arena, count, sizeof *copy);
    MR_ASSERT(copy != NULL);
    if (count > 0) memcpy(copy, ids, count * sizeof *copy);
    return copy;
}

struct mr_request *mr_fake_request(const char *id, const uint32_t *tokens, uint32_t count)
{
    struct mr_arena *arena = mr_arena_create((size_t)1 << 20);
    struct mr_request *request = mr_arena_take(arena, sizeof *request);
    MR_ASSERT(request != NULL);
    *request = (struct mr_request){
        .arena = arena,
        .has_token_ids = true,
        .max_tokens = 16,
        .choice_count = 1,
        .stream = true,
        .cache_read = true,
        .cache_write = true,
        .speculate = true,
        .sampling = {.temperature = 0.0f,
                     .top_p = 1.0f,
                     .typical_p = 1.0f,
                     .repetition_penalty = 1.0f,
                     .logprobs = -1},
    };
    char *name = mr_arena_copy_text(arena, id, strlen(id));
    request->id = (struct mr_text){name, strlen(id)};
    request->token_ids = mr_fake_ids(request, tokens, count);
    request->token_count = count;
    return request;
}

/* GPT-2's alphabet: printable bytes stand for themselves, the others for U+0100 onward. */
static size_t spell(uint32_t byte, uint32_t *others, char out[4])
{
    bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    uint32_t point = printable ? byte : 0x100 + (*others)++;
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    out[0] = (char)(0xc0 | (point >> 6));
    out[1] = (char)(0x80 | (point & 0x3f));
    return 2;
}

struct mr_tokenizer *mr_fake_tokenizer(void)
{
    static const char end_text[] = "<|end|>";
    char letters[MR_FAKE_VOCABULARY][4];
    struct mr_text tokens[MR_FAKE_VOCABULARY] = {{end_text, sizeof end_text - 1}};
    enum mr_token_kind kinds[MR_FAKE_VOCABULARY] = {MR_TOKEN_CONTROL};
    uint32_t others = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        size_t length = spell(byte, &others, letters[byte]);
        tokens[byte + 1] = (struct mr_text){letters[byte], length};
        kinds[byte + 1] = MR_TOKEN_NORMAL;
    }
    struct mr_tokenizer_spec spec = {.model = {"gpt2", 4},
                                     .pre = {"gpt2", 4},
                                     .tokens = tokens,
                                     .kinds = kinds,
                                     .token_count = MR_FAKE_VOCABULARY,
                                     .bos_id = MR_TOKEN_NONE,
                                     .eos_id = MR_FAKE_END,
                                     .unk_id = MR_TOKEN_NONE};
    struct mr_tokenizer *tokenizer = NULL;
    struct mr_error err = {0};
    MR_ASSERT(mr_tokenizer_create(&tokenizer, &spec, &err) == MR_OK);
    return tokenizer;
}
