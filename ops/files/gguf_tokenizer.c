#include "ops/files/gguf_tokenizer.h"

#include "codec/tokenizer_files/tokenizer_spec.h"
#include "ops/files/end_tokens.h"

#include <stdlib.h>
#include <string.h>

/* The arrays that a tokenizer specification points to; freed once the tokenizer is created. */
struct parts {
    struct mr_text *tokens, *merges;
    enum mr_token_kind *kinds;
    float *scores;
};

static enum mr_status read_texts(const struct mr_gguf *gguf, const char *key, struct mr_text **out,
                                 uint32_t *count, struct mr_error *err)
{
    const struct mr_gguf_value *value = mr_gguf_array(gguf, key, MR_GGUF_TEXT);
    if (!value)
        return mr_fail(err, MR_BAD_FILE, "GGUF key \"%s\" is missing or not a list of texts", key);
    *out = mr_gguf_texts(value);
    *count = (uint32_t)value->count;
    return *out ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for \"%s\"", key);
}

/* Token types as numbered by llama.cpp: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6
 * byte. */
static enum mr_status read_kinds(const struct mr_gguf *gguf, uint32_t token_count,
                                 enum mr_token_kind **out, struct mr_error *err)
{
    static const enum mr_token_kind kinds[] = {
        MR_TOKEN_NORMAL,       MR_TOKEN_NORMAL, MR_TOKEN_CONTROL, MR_TOKEN_CONTROL,
        MR_TOKEN_USER_DEFINED, MR_TOKEN_UNUSED, MR_TOKEN_BYTE,
    };
    if (!mr_gguf_find(gguf, "tokenizer.ggml.token_type")) return MR_OK;
    const struct mr_gguf_value *value =
        mr_gguf_array(gguf, "tokenizer.ggml.token_type", MR_GGUF_I32);
    if (!value || value->count != token_count)
        return mr_fail(err, MR_BAD_FILE, "\"tokenizer.ggml.token_type\" is not %u integers",
                       token_count);
    *out = calloc((size_t)token_count + 1, sizeof(**out));
    if (!*out) return mr_fail(err, MR_NOMEM, "no memory for the kinds of %u tokens", token_count);
    for (uint32_t i = 0; i < token_count; i++) {
        int64_t kind = mr_gguf_element_int(value, i);
        if (kind < 0 || kind >= (int64_t)(sizeof(kinds) / sizeof(kinds[0])))
            return mr_fail(err, MR_BAD_FILE, "token %u has the unknown type %lld", i,
                           (long long)kind);
        (*out)[i] = kinds[kind];
    }
    return MR_OK;
}

/* Marks the end tokens as control tokens, also when the file lists them as words. Then a user's
 * text cannot contain an end token, and an answer does not show one. */
static void correct_kinds(struct parts *parts, uint32_t token_count)
{
    uint32_t ids[MR_END_TOKENS_MAX];
    if (!parts->kinds) return;
    uint32_t count = mr_end_tokens_find(parts->tokens, token_count, ids);
    for (uint32_t i = 0; i < count; i++)
        parts->kinds[ids[i]] = MR_TOKEN_CONTROL;
}

static enum mr_status read_scores(const struct mr_gguf *gguf, uint32_t token_count, float **out,
                                  struct mr_error *err)
{
    if (!mr_gguf_find(gguf, "tokenizer.ggml.scores")) return MR_OK;
    const struct mr_gguf_value *value = mr_gguf_array(gguf, "tokenizer.ggml.scores", MR_GGUF_F32);
    if (!value || value->count != token_count)
        return mr_fail(err, MR_BAD_FILE, "\"tokenizer.ggml.scores\" is not %u numbers",
                       token_count);
    *out = calloc((size_t)token_count + 1, sizeof(**out));
    if (!*out) return mr_fail(err, MR_NOMEM, "no memory for the scores of %u tokens", token_count);
    for (uint32_t i = 0; i < token_count; i++)
        (*out)[i] = (float)mr_gguf_element_number(value, i);
    return MR_OK;
}

static uint32_t special_id(const struct mr_gguf *gguf, const char *key)
{
    uint32_t id = MR_TOKEN_NONE;
    mr_gguf_u32(gguf, key, &id);
    return id;
}

/* Returns the id under a key. For a file without the key: `id`, if llama.cpp assumes it for the
 * model. */
static uint32_t id_or(const struct mr_gguf *gguf, const char *key, bool assumed, uint32_t id,
                      uint32_t token_count)
{
    uint32_t found = special_id(gguf, key);
    return found == MR_TOKEN_NONE && assumed && id < token_count ? id : found;
}

/* Reads flags and special tokens. Absent keys get the values that llama.cpp assumes: files with the
 * pre-tokenizers named here often lack add_bos_token although the model needs a begin token. */
static void read_flags(const struct mr_gguf *gguf, struct mr_tokenizer_spec *spec)
{
    static const char *const with_bos[] = {"llama-bpe", "llama3", "llama-v3", "falcon3",
                                           "pixtral",   "lfm2",   "tekken"};
    bool sentencepiece = mr_text_is(spec->model, "llama"), t5 = mr_text_is(spec->model, "t5");
    uint32_t count = spec->token_count;
    spec->add_bos = sentencepiece ||
                    mr_stored_name_in(spec->pre, with_bos, sizeof(with_bos) / sizeof(with_bos[0]));
    spec->add_eos = t5;
    spec->add_space_prefix = sentencepiece;
    mr_gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &spec->add_bos);
    mr_gguf_bool(gguf, "tokenizer.ggml.add_eos_token", &spec->add_eos);
    mr_gguf_bool(gguf, "tokenizer.ggml.add_space_prefix", &spec->add_space_prefix);
    mr_gguf_bool(gguf, "tokenizer.ggml.remove_extra_whitespaces", &spec->remove_extra_spaces);
    spec->bos_id = id_or(gguf, "tokenizer.ggml.bos_token_id", sentencepiece, 1, count);
    spec->eos_id =
        id_or(gguf, "tokenizer.ggml.eos_token_id", sentencepiece || t5, t5 ? 1 : 2, count);
    spec->unk_id =
        id_or(gguf, "tokenizer.ggml.unknown_token_id", sentencepiece || t5, t5 ? 2 : 0, count);
    const struct mr_gguf_value *map = mr_gguf_find(gguf, "tokenizer.ggml.precompiled_charsmap");
    if (map && map->is_array && (map->type == MR_GGUF_U8 || map->type == MR_GGUF_I8))
        spec->charsmap = (struct mr_text){(const char *)map->bytes, (size_t)map->count};
}

static enum mr_status read_spec(const struct mr_gguf *gguf, struct parts *parts,
                                struct mr_tokenizer_spec *spec, struct mr_error *err)
{
    if (!mr_gguf_text(gguf, "tokenizer.ggml.model", &spec->model))
        return mr_fail(err, MR_BAD_FILE, "GGUF key \"tokenizer.ggml.model\" is missing");
    mr_gguf_text(gguf, "tokenizer.ggml.pre", &spec->pre);
    enum mr_status status =
        read_texts(gguf, "tokenizer.ggml.tokens", &parts->tokens, &spec->token_count, err);
    if (status == MR_OK) status = read_kinds(gguf, spec->token_count, &parts->kinds, err);
    if (status == MR_OK) correct_kinds(parts, spec->token_count);
    if (status == MR_OK) status = read_scores(gguf, spec->token_count, &parts->scores, err);
    if (status == MR_OK && mr_gguf_find(gguf, "tokenizer.ggml.merges"))
        status = read_texts(gguf, "tokenizer.ggml.merges", &parts->merges, &spec->merge_count, err);
    spec->tokens = parts->tokens;
    spec->kinds = parts->kinds;
    spec->scores = parts->scores;
    spec->merges = parts->merges;
    read_flags(gguf, spec);
    return status;
}

enum mr_status mr_gguf_tokenizer_create(struct mr_tokenizer **out, const struct mr_gguf *gguf,
                                        struct mr_error *err)
{
    *out = NULL;
    struct parts parts = {0};
    struct mr_tokenizer_spec spec = {.pre = {"", 0}};
    enum mr_status status = read_spec(gguf, &parts, &spec, err);
    if (status == MR_OK) status = mr_tokenizer_create(out, &spec, err);
    free(parts.tokens);
    free(parts.merges);
    free(parts.kinds);
    free(parts.scores);
    return status;
}

struct mr_text mr_gguf_token_text(const struct mr_gguf *gguf, const char *key)
{
    struct mr_text found = {"", 0};
    uint32_t id = special_id(gguf, key);
    const struct mr_gguf_value *tokens = mr_gguf_array(gguf, "tokenizer.ggml.tokens", MR_GGUF_TEXT);
    if (!tokens || id >= tokens->count) return found;
    struct mr_text *texts = mr_gguf_texts(tokens);
    if (texts) found = texts[id];
    free(texts);
    return found;
}
