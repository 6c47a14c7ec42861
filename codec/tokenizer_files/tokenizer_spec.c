#include "codec/tokenizer_files/tokenizer_spec.h"

#include "codec/tokenizer/tokenizer_assemble.h"
#include "codec/tokenizer_files/scored_merges.h"
#include "codec/tokenizer_files/sentencepiece.h"
#include "codec/wire/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The pre-tokenizers that GGUF files may name. The texts are the components of the tokenizer.json
 * files that the models were published with. */
#define BYTES_ONLY            "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define GPT2                  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define SEQUENCE(first, last) "{\"type\":\"Sequence\",\"pretokenizers\":[" first "," last "]}"
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

#define CASED_LETTERS                                                                              \
    "\\\\s?[A-Za-z\\u00b5\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u01ba\\u01bc-"                    \
    "\\u01bf\\u01c4-\\u0293\\u0295-\\u02af\\u0370-\\u0373\\u0376\\u0377\\u037b-"                   \
    "\\u037d\\u037f\\u0386\\u0388-\\u038a\\u038c\\u038e-\\u03a1\\u03a3-\\u03f5"                    \
    "\\u03f7-\\u0481\\u048a-\\u052f\\u0531-\\u0556\\u10a0-\\u10c5\\u13a0-\\u13f5"                  \
    "\\u13f8-\\u13fd\\u1c90-\\u1cba\\u1cbd-\\u1cbf\\u1d00-\\u1d2b\\u1d6b-\\u1d77"                  \
    "\\u1d79-\\u1d9a\\u1e00-\\u1f15\\u1f18-\\u1f1d\\u1f20-\\u1f45\\u1f48-\\u1f4d"                  \
    "\\u1f50-\\u1f57\\u1f59\\u1f5b\\u1f5d\\u1f5f-\\u1f7d\\u1f80-\\u1fb4\\u1fb6-"                   \
    "\\u1fbc\\u1fbe\\u1fc2-\\u1fc4\\u1fc6-\\u1fcc\\u1fd0-\\u1fd3\\u1fd6-\\u1fdb"                   \
    "\\u1fe0-\\u1fec\\u1ff2-\\u1ff4\\u1ff6-\\u1ffc\\u2102\\u2107\\u210a-\\u2113"                   \
    "\\u2115\\u2119-\\u211d\\u2124\\u2126\\u2128\\u212a-\\u212d\\u212f-\\u2134"                    \
    "\\u2139\\u213c-\\u213f\\u2145-\\u2149\\u214e\\u2183\\u2184\\u2c00-\\u2c7b"                    \
    "\\u2c7e-\\u2ce4\\u2ceb-\\u2cee\\u2cf2\\u2cf3\\ua640-\\ua66d\\ua680-\\ua69b"                   \
    "\\ua722-\\ua76f\\ua771-\\ua787\\ua78b-\\ua78e\\uab70-\\uabbf\\ufb00-\\ufb06"                  \
    "\\ufb13-\\ufb17\\uff21-\\uff3a\\uff41-\\uff5a\\ud801\\udc00-\\ud801\\udc4f"                   \
    "\\ud801\\udcb0-\\ud801\\udcd3\\ud801\\udcd8-\\ud801\\udcfb\\ud803\\udc80-"                    \
    "\\ud803\\udcb2\\ud803\\udcc0-\\ud803\\udcf2\\ud806\\udca0-\\ud806\\udcdf"                     \
    "\\ud83a\\udd00-\\ud83a\\udd43]+"
#define WIDE_PUNCTUATION                                                                           \
    "\\\\s?[!-/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3000-\\u3002]+"
#define CJK_OR_HANGUL "[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+"
#define CJK_OR_KANA   "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+"
#define DEEPSEEK3                                                                                  \
    "[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\\\"               \
    "p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*|\\\\s"               \
    "*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define TEKKEN                                                                                     \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*["               \
    "\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}"               \
    "\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*|"                 \
    "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+("               \
    "?!\\\\S)|\\\\s+"
#define DEEPSEEK3_DIGITS       "\\\\p{N}{1,3}"
#define LINE_BREAK             "[\\r\\n]"
#define LETTERS                "\\\\s?\\\\p{L}+"
#define PUNCTUATION            "\\\\s?\\\\p{P}+"
#define LAST_SPACES            "\\\\s+$"
#define THREE_DIGITS           "[0-9][0-9][0-9]"
#define CONTIGUOUS_PUNCTUATION "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}"
#define RUNS_OF_DIGITS         "{\"type\":\"Digits\",\"individual_digits\":false}"
#define AND                    ","

#define GPT2_JSON   GPT2
#define SMOLLM_JSON SEQUENCE(DIGITS, GPT2)
#define LLAMA3_JSON SEQUENCE(SPLIT(LLAMA3), BYTES_ONLY)
#define QWEN2_JSON  SEQUENCE(SPLIT(QWEN2), BYTES_ONLY)
#define GPT4O_JSON  SEQUENCE(SPLIT(GPT4O), BYTES_ONLY)
#define TEKKEN_JSON SEQUENCE(SPLIT(TEKKEN), BYTES_ONLY)
#define DEEPSEEK3_JSON                                                                             \
    SEQUENCE(SPLIT(DEEPSEEK3_DIGITS) AND SPLIT(CJK_OR_KANA) AND SPLIT(DEEPSEEK3), BYTES_ONLY)
#define DEEPSEEK_LLM_JSON                                                                          \
    SEQUENCE(SPLIT(LINE_BREAK) AND SPLIT(CASED_LETTERS) AND SPLIT(WIDE_PUNCTUATION)                \
                 AND SPLIT(LAST_SPACES) AND SPLIT(CJK_OR_HANGUL) AND DIGITS,                       \
             BYTES_ONLY)
#define DEEPSEEK_CODER_JSON                                                                        \
    SEQUENCE(SPLIT(LINE_BREAK) AND SPLIT(LETTERS) AND SPLIT(PUNCTUATION) AND SPLIT(CJK_OR_HANGUL)  \
                 AND DIGITS,                                                                       \
             BYTES_ONLY)
#define FALCON_JSON                                                                                \
    SEQUENCE(CONTIGUOUS_PUNCTUATION AND GPT2 AND RUNS_OF_DIGITS, SPLIT(THREE_DIGITS))
#define NFC "{\"type\":\"NFC\"}"

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
    {"mellum", GPT2_JSON, NULL, false},
    {"gigachat", GPT2_JSON, NULL, false},
    {"a.x-4.0", GPT2_JSON, NULL, false},
    {"trillion", GPT2_JSON, NULL, false},
    {"granite-docling", GPT2_JSON, NULL, false},
    {"smollm", SMOLLM_JSON, NULL, false},
    {"starcoder", SMOLLM_JSON, NULL, false},
    {"refact", SMOLLM_JSON, NULL, false},
    {"codeshell", SMOLLM_JSON, NULL, false},
    {"minerva-7b", SMOLLM_JSON, NULL, false},
    {"command-r", SMOLLM_JSON, NFC, false},
    {"llama3", LLAMA3_JSON, NULL, true},
    {"llama-v3", LLAMA3_JSON, NULL, true},
    {"llama-bpe", LLAMA3_JSON, NULL, true},
    {"smaug-bpe", LLAMA3_JSON, NULL, true},
    {"falcon3", LLAMA3_JSON, NULL, true},
    {"pixtral", LLAMA3_JSON, NULL, true},
    {"lfm2", LLAMA3_JSON, NULL, true},
    {"glm4", LLAMA3_JSON, NULL, true},
    {"dbrx", LLAMA3_JSON, NULL, false},
    {"chatglm-bpe", LLAMA3_JSON, NULL, false},
    {"qwen2", QWEN2_JSON, NFC, false},
    {"deepseek-r1-qwen", QWEN2_JSON, NFC, false},
    {"megrez", QWEN2_JSON, NFC, false},
    {"stablelm2", QWEN2_JSON, NFC, false},
    {"gpt-4o", GPT4O_JSON, NULL, true},
    {"llama4", GPT4O_JSON, NULL, true},
    {"kanana2", GPT4O_JSON, NULL, true},
    {"tekken", TEKKEN_JSON, NULL, true},
    {"deepseek-v3", DEEPSEEK3_JSON, NULL, false},
    {"deepseek-llm", DEEPSEEK_LLM_JSON, NULL, false},
    {"deepseek-coder", DEEPSEEK_CODER_JSON, NULL, false},
    {"falcon", FALCON_JSON, NULL, false},
};

static const struct mr_json_limits limits = {8192, 64, 16};

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
 * that are not special. In a Unigram model a user-defined token is a token with a very good
 * score. */
static enum mr_status collect_added(struct mr_tokenizer_parts *parts,
                                    const struct mr_tokenizer_spec *spec, struct mr_error *err)
{
    parts->added = calloc((size_t)spec->token_count + 1, sizeof *parts->added);
    if (!parts->added) return mr_fail(err, MR_NOMEM, "no memory for added tokens");
    for (uint32_t id = 0; id < spec->token_count; id++) {
        enum mr_token_kind kind = kind_of(spec, id);
        bool user_defined = kind == MR_TOKEN_USER_DEFINED && !mr_text_is(spec->model, "t5");
        if (kind != MR_TOKEN_CONTROL && !user_defined) continue;
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
    if (spec->add_bos) parts->frame.first[parts->frame.first_count++] = spec->bos_id;
    if (spec->add_eos) parts->frame.last[parts->frame.last_count++] = spec->eos_id;
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
    if (!found && spec->pre.length == 0)
        return mr_fail(err, MR_BAD_FILE,
                       "the file does not name its pre-tokenizer (tokenizer.ggml.pre), as files of "
                       "early 2024; use one that was converted later");
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

static enum mr_status build_unigram(struct mr_tokenizer_parts *parts,
                                    const struct mr_tokenizer_spec *spec, struct mr_error *err)
{
    if (!spec->scores || spec->unk_id == MR_TOKEN_NONE)
        return mr_fail(err, MR_BAD_FILE, "a t5 vocabulary has no scores or no unknown token");
    struct mr_sentencepiece_model model = {.token_count = spec->token_count,
                                           .unk_id = spec->unk_id,
                                           .type = MR_SENTENCEPIECE_UNIGRAM,
                                           .charsmap = spec->charsmap,
                                           .add_dummy_prefix = spec->add_space_prefix,
                                           .remove_extra_spaces = spec->remove_extra_spaces,
                                           .escape_spaces = true};
    size_t count = (size_t)spec->token_count + 1;
    model.tokens = calloc(count, sizeof *model.tokens);
    model.scores = calloc(count, sizeof *model.scores);
    model.kinds = calloc(count, sizeof *model.kinds);
    bool room = model.tokens && model.scores && model.kinds;
    enum mr_status status = room ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for a vocabulary");
    for (uint32_t id = 0; id < spec->token_count && status == MR_OK; id++) {
        model.tokens[id] = spec->tokens[id];
        model.scores[id] = spec->scores[id];
        model.kinds[id] = kind_of(spec, id);
        model.byte_fallback = model.byte_fallback || model.kinds[id] == MR_TOKEN_BYTE;
    }
    if (status == MR_OK) status = mr_sentencepiece_fill(parts, &model, false, err);
    mr_sentencepiece_model_drop(&model);
    return status;
}

static enum mr_status build(struct mr_tokenizer_parts *parts, const struct mr_tokenizer_spec *spec,
                            struct mr_error *err)
{
    static const struct {
        const char *model;
        enum mr_status (*build)(struct mr_tokenizer_parts *, const struct mr_tokenizer_spec *,
                                struct mr_error *);
    } models[] = {
        {"gpt2", build_byte_level}, {"llama", build_sentencepiece}, {"t5", build_unigram}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (mr_text_is(spec->model, models[i].model)) return models[i].build(parts, spec, err);
    return mr_fail(err, MR_BAD_FILE, "the tokenizer model %.*s is not supported",
                   (int)(spec->model.length < 40 ? spec->model.length : 40),
                   spec->model.bytes ? spec->model.bytes : "");
}

enum mr_status mr_tokenizer_create(struct mr_tokenizer **out, const struct mr_tokenizer_spec *spec,
                                   struct mr_error *err)
{
    *out = NULL;
    struct mr_tokenizer_parts parts = {.vocab = NULL};
    enum mr_status status = mr_vocab_create(&parts.vocab, spec->tokens, spec->token_count, err);
    if (status == MR_OK) status = collect_added(&parts, spec, err);
    if (status == MR_OK) status = collect_frame(&parts, spec, err);
    if (status == MR_OK) status = build(&parts, spec, err);
    if (status == MR_OK) status = mr_tokenizer_assemble(out, &parts, err);
    mr_tokenizer_parts_drop(&parts);
    return status;
}
