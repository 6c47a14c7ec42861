#include "codec/tokenizer_files/tokenizer_spec.h"

#include "codec/tokenizer/tokenizer_assemble.h"
#include "codec/tokenizer_files/scored_merges.h"
#include "codec/wire/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The pre-tokenizers that GGUF files may name. The texts are the components of the tokenizer.json
 * files that the models were published with. */
#define BYTES_ONLY              "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define GPT2                    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define SEQUENCE(first, second) "{\"type\":\"Sequence\",\"pretokenizers\":[" first "," second "]}"
#define SPLIT(pattern)                                                                             \
    "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":"       \
    "\"" pattern "\"}}"
#define DIGITS "{\"type\":\"Digits\",\"individual_digits\":true}"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define LLAMA3                                                                                     \
    CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}"                          \
                 "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" SPACES
#define QWEN2                                                                                      \
    CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}"                               \
                 "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" SPACES
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define GPT4O                                                                                      \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?"                          \
    "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "+" LOWER "*" CONTRACTIONS "?"                         \
    "|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*" SPACES

#define GPT2_JSON   GPT2
#define SMOLLM_JSON SEQUENCE(DIGITS, GPT2)
#define LLAMA3_JSON SEQUENCE(SPLIT(LLAMA3), BYTES_ONLY)
#define QWEN2_JSON  SEQUENCE(SPLIT(QWEN2), BYTES_ONLY)
#define GPT4O_JSON  SEQUENCE(SPLIT(GPT4O), BYTES_ONLY)

static const struct named_pre {
    const char *name;
    const char *pre_tokenizer;
    const char *normalizer; /* JSON of the component; NULL: none */
    bool ignore_merges;
} named[] = {
    {"gpt-2", GPT2_JSON, NULL, false},
    {"gpt2", GPT2_JSON, NULL, false},
    {"phi-2", GPT2_JSON, NULL, false},
    {"jina-en", GPT2_JSON, NULL, false},
    {"mpt", GPT2_JSON, NULL, false},
    {"olmo", GPT2_JSON, NULL, false},
    {"smollm", SMOLLM_JSON, NULL, false},
    {"starcoder", SMOLLM_JSON, NULL, false},
    {"refact", SMOLLM_JSON, NULL, false},
    {"command-r", SMOLLM_JSON, NULL, false},
    {"codeshell", SMOLLM_JSON, NULL, false},
    {"llama3", LLAMA3_JSON, NULL, true},
    {"llama-v3", LLAMA3_JSON, NULL, true},
    {"llama-bpe", LLAMA3_JSON, NULL, true},
    {"dbrx", LLAMA3_JSON, NULL, false},
    {"smaug-bpe", LLAMA3_JSON, NULL, true},
    {"qwen2", QWEN2_JSON, "{\"type\":\"NFC\"}", false},
    {"deepseek-r1-qwen", QWEN2_JSON, "{\"type\":\"NFC\"}", false},
    {"stablelm2", QWEN2_JSON, NULL, false},
    {"gpt-4o", GPT4O_JSON, NULL, true},
    {"llama4", GPT4O_JSON, NULL, true},
};

static const struct mr_json_limits limits = {4096, 64, 16};

static enum mr_status parse(struct mr_json **out, const char *component, struct mr_error *err)
{
    *out = NULL;
    if (!component) return MR_OK;
    return mr_json_parse(out, (struct mr_text){component, strlen(component)}, &limits, err);
}

static enum mr_status build_components(struct mr_tokenizer_parts *parts, const char *normalizer,
                                       const char *pre_tokenizer, struct mr_error *err)
{
    struct mr_json *before = NULL, *after = NULL;
    enum mr_status status = parse(&before, normalizer, err);
    if (status == MR_OK) status = parse(&after, pre_tokenizer, err);
    if (status == MR_OK)
        status =
            mr_normalizer_create(&parts->normalizer, before ? mr_json_root(before) : NULL, err);
    if (status == MR_OK)
        status =
            mr_pretokenizer_create(&parts->pretokenizer, after ? mr_json_root(after) : NULL, err);
    mr_json_destroy(before);
    mr_json_destroy(after);
    return status;
}

static enum mr_token_kind kind_of(const struct mr_tokenizer_spec *spec, uint32_t id)
{
    return spec->kinds ? spec->kinds[id] : MR_TOKEN_NORMAL;
}

/* Collects the added tokens: control tokens become special, user-defined ones become added tokens
 * that are not special. */
static enum mr_status collect_added(struct mr_tokenizer_parts *parts,
                                    const struct mr_tokenizer_spec *spec, struct mr_error *err)
{
    parts->added = calloc((size_t)spec->token_count + 1, sizeof *parts->added);
    if (!parts->added) return mr_fail(err, MR_NOMEM, "no memory for added tokens");
    for (uint32_t id = 0; id < spec->token_count; id++) {
        enum mr_token_kind kind = kind_of(spec, id);
        if (kind != MR_TOKEN_CONTROL && kind != MR_TOKEN_USER_DEFINED) continue;
        if (spec->tokens[id].length == 0) continue;
        parts->added[parts->added_count++] = (struct mr_added_token){
            .content = spec->tokens[id], .id = id, .special = kind == MR_TOKEN_CONTROL};
    }
    return MR_OK;
}

static enum mr_status check_id(const struct mr_tokenizer_spec *spec, uint32_t id, bool needed,
                               const char *name, struct mr_error *err)
{
    if (id == MR_TOKEN_NONE && !needed) return MR_OK;
    if (id < spec->token_count) return MR_OK;
    return mr_fail(err, MR_BAD_FILE, "the %s token is not in the vocabulary", name);
}

static enum mr_status collect_frame(struct mr_tokenizer_parts *parts,
                                    const struct mr_tokenizer_spec *spec, struct mr_error *err)
{
    enum mr_status status = check_id(spec, spec->bos_id, spec->add_bos, "begin", err);
    if (status == MR_OK) status = check_id(spec, spec->eos_id, spec->add_eos, "end", err);
    if (status == MR_OK) status = check_id(spec, spec->unk_id, false, "unknown", err);
    if (spec->add_bos) parts->first[parts->first_count++] = spec->bos_id;
    if (spec->add_eos) parts->last[parts->last_count++] = spec->eos_id;
    parts->bos_id = spec->bos_id;
    parts->eos_id = spec->eos_id;
    return status;
}

/* ---- byte-level BPE ---- */

static enum mr_status split_merge(struct mr_text line, struct mr_text *left, struct mr_text *right,
                                  struct mr_error *err)
{
    /* the space between the two tokens; a space at the start of the line is part of the first
     * token */
    const char *space = line.length > 1 ? memchr(line.bytes + 1, ' ', line.length - 1) : NULL;
    if (!space) return mr_fail(err, MR_BAD_FILE, "a merge is not a pair");
    *left = (struct mr_text){line.bytes, (size_t)(space - line.bytes)};
    *right = (struct mr_text){space + 1, line.length - left->length - 1};
    return MR_OK;
}

static enum mr_status collect_merges(struct mr_tokenizer_parts *parts,
                                     const struct mr_tokenizer_spec *spec, struct mr_error *err)
{
    parts->merges = calloc((size_t)spec->merge_count + 1, sizeof *parts->merges);
    if (!parts->merges) return mr_fail(err, MR_NOMEM, "no memory for merges");
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; i < spec->merge_count && status == MR_OK; i++) {
        struct mr_text left, right;
        status = split_merge(spec->merges[i], &left, &right, err);
        if (status == MR_OK)
            status = mr_tokenizer_resolve_merge(parts->vocab, left, right, &parts->merges[i], err);
        parts->merges[i].rank = i;
    }
    parts->merge_count = spec->merge_count;
    return status;
}

static enum mr_status build_byte_level(struct mr_tokenizer_parts *parts,
                                       const struct mr_tokenizer_spec *spec, struct mr_error *err)
{
    const struct named_pre *found = NULL;
    for (size_t i = 0; i < sizeof named / sizeof named[0] && !found; i++)
        if (mr_text_is(spec->pre, named[i].name)) found = &named[i];
    if (!found)
        return mr_fail(err, MR_BAD_FILE, "unknown pre-tokenizer %.*s",
                       (int)(spec->pre.length < 40 ? spec->pre.length : 40),
                       spec->pre.bytes ? spec->pre.bytes : "");
    parts->model.ignore_merges = found->ignore_merges;
    parts->model.unk_id = MR_TOKEN_NONE;
    parts->decoder.byte_level = true;
    enum mr_status status = collect_merges(parts, spec, err);
    if (status != MR_OK) return status;
    return build_components(parts, found->normalizer, found->pre_tokenizer, err);
}

/* ---- SentencePiece ---- */

static enum mr_status collect_scores(struct mr_tokenizer_parts *parts,
                                     const struct mr_tokenizer_spec *spec, struct mr_error *err)
{
    float *scores = calloc((size_t)spec->token_count + 1, sizeof *scores);
    if (!scores) return mr_fail(err, MR_NOMEM, "no memory for scores");
    for (uint32_t id = 0; id < spec->token_count; id++) {
        enum mr_token_kind kind = kind_of(spec, id);
        bool merges = kind == MR_TOKEN_NORMAL || kind == MR_TOKEN_USER_DEFINED;
        scores[id] = merges ? spec->scores[id] : NAN;
    }
    enum mr_status status = mr_scored_merges(parts, scores, err);
    free(scores);
    return status;
}

static enum mr_status build_sentencepiece(struct mr_tokenizer_parts *parts,
                                          const struct mr_tokenizer_spec *spec,
                                          struct mr_error *err)
{
    static const char mark[] = "\xe2\x96\x81"; /* U+2581 stands for a space */
    if (!spec->scores) return mr_fail(err, MR_BAD_FILE, "a llama vocabulary has no scores");
    parts->model.byte_fallback = true;
    parts->model.fuse_unk = true;
    parts->model.unk_id = spec->unk_id;
    parts->decoder.byte_fallback = true;
    if (spec->add_space_prefix) parts->decoder.first_space = MR_FIRST_SPACE_OF_TEXT;
    parts->decoder.from[0] = (struct mr_text){mark, 3};
    parts->decoder.to[0] = (struct mr_text){" ", 1};
    parts->decoder.replace_count = 1;
    enum mr_status status = collect_scores(parts, spec, err);
    if (status != MR_OK) return status;
    static const char replace[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                                  "\"content\":\"\xe2\x96\x81\"}";
    static const char prepend[] = "{\"type\":\"Sequence\",\"normalizers\":["
                                  "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},"
                                  "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                                  "\"content\":\"\xe2\x96\x81\"}]}";
    return build_components(parts, spec->add_space_prefix ? prepend : replace, NULL, err);
}

enum mr_status mr_tokenizer_create(struct mr_tokenizer **out, const struct mr_tokenizer_spec *spec,
                                   struct mr_error *err)
{
    *out = NULL;
    struct mr_tokenizer_parts parts = {.vocab = NULL};
    bool gpt2 = mr_text_is(spec->model, "gpt2");
    enum mr_status status = MR_OK;
    if (!gpt2 && !mr_text_is(spec->model, "llama"))
        status = mr_fail(err, MR_BAD_FILE, "unknown tokenizer model");
    if (status == MR_OK)
        status = mr_vocab_create(&parts.vocab, spec->tokens, spec->token_count, err);
    if (status == MR_OK) status = collect_added(&parts, spec, err);
    if (status == MR_OK) status = collect_frame(&parts, spec, err);
    if (status == MR_OK)
        status =
            gpt2 ? build_byte_level(&parts, spec, err) : build_sentencepiece(&parts, spec, err);
    if (status == MR_OK) status = mr_tokenizer_assemble(out, &parts, err);
    mr_tokenizer_parts_drop(&parts);
    return status;
}
