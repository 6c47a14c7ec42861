#include "codec/tokenizer_files/sentencepiece.h"

#include "codec/tokenizer/tokenizer_assemble.h"
#include "codec/tokenizer_files/scored_merges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How far the score of an unknown character is below the lowest score of a token, and the score of
 * a user-defined token for each byte after its first, both as in PyPI `sentencepiece` 0.2.3. */
#define UNK_PENALTY        10.0f
#define USER_DEFINED_BONUS 0.1f

/* Collects the control tokens and, for BPE, the user-defined ones, which are found in the
 * normalized text and never merge. In a Unigram model a user-defined token is a token with a very
 * good score. */
static enum mr_status collect_added(struct mr_tokenizer_parts *parts,
                                    const struct mr_sentencepiece_model *model,
                                    struct mr_error *err)
{
    parts->added = calloc((size_t)model->token_count + 1, sizeof *parts->added);
    if (!parts->added) return mr_fail(err, MR_NOMEM, "no memory for added tokens");
    bool bpe = model->type == MR_SENTENCEPIECE_BPE;
    for (uint32_t id = 0; id < model->token_count; id++) {
        struct mr_added_token token = {.content = model->tokens[id], .id = id};
        token.special = model->kinds[id] == MR_TOKEN_CONTROL;
        /* if spaces are escaped, a token with a space never occurs in a normalized text */
        bool never = model->escape_spaces && memchr(token.content.bytes, ' ', token.content.length);
        token.normalized = model->kinds[id] == MR_TOKEN_USER_DEFINED && bpe && !never;
        if (token.special || token.normalized) parts->added[parts->added_count++] = token;
    }
    return MR_OK;
}

static enum mr_status build_normalizer(struct mr_tokenizer_parts *parts,
                                       const struct mr_sentencepiece_model *model,
                                       bool prefix_every_part, struct mr_error *err)
{
    struct mr_sentence_rules rules = {.charsmap = model->charsmap,
                                      .add_dummy_prefix = model->add_dummy_prefix,
                                      .space_as_suffix = model->space_as_suffix,
                                      .prefix_every_part = prefix_every_part,
                                      .remove_extra_spaces = model->remove_extra_spaces,
                                      .escape_spaces = model->escape_spaces};
    struct mr_added_token *kept = calloc((size_t)model->token_count + 1, sizeof *kept);
    if (!kept) return mr_fail(err, MR_NOMEM, "no memory for a normalizer");
    for (uint32_t id = 0; id < model->token_count; id++)
        if (model->kinds[id] == MR_TOKEN_USER_DEFINED)
            kept[rules.kept_count++].content = model->tokens[id];
    rules.kept = kept;
    enum mr_status status = mr_normalizer_from_rules(&parts->normalizer, &rules, err);
    free(kept);
    return status;
}

static enum mr_status build_bpe(struct mr_tokenizer_parts *parts,
                                const struct mr_sentencepiece_model *model, struct mr_error *err)
{
    float *scores = calloc(model->token_count, sizeof *scores);
    if (!scores) return mr_fail(err, MR_NOMEM, "no memory for scores");
    for (uint32_t id = 0; id < model->token_count; id++)
        scores[id] = model->kinds[id] == MR_TOKEN_NORMAL ? model->scores[id] : NAN;
    parts->model.byte_fallback = model->byte_fallback;
    parts->model.fuse_unk = true;
    parts->model.unk_id = model->unk_id;
    enum mr_status status = mr_scored_merges(parts, scores, err);
    free(scores);
    return status;
}

static enum mr_status build_unigram(struct mr_tokenizer_parts *parts,
                                    const struct mr_sentencepiece_model *model,
                                    struct mr_error *err)
{
    float least = INFINITY;
    for (uint32_t id = 0; id < model->token_count; id++) {
        if (model->kinds[id] != MR_TOKEN_NORMAL) continue;
        least = fminf(least, model->scores[id]);
    }
    if (isinf(least)) return mr_fail(err, MR_BAD_FILE, "the Unigram model has no normal token");
    parts->scores = calloc(model->token_count, sizeof *parts->scores);
    if (!parts->scores) return mr_fail(err, MR_NOMEM, "no memory for scores");
    for (uint32_t id = 0; id < model->token_count; id++) {
        float bytes = (float)model->tokens[id].length;
        parts->scores[id] = NAN;
        if (model->kinds[id] == MR_TOKEN_NORMAL) parts->scores[id] = (double)model->scores[id];
        if (model->kinds[id] == MR_TOKEN_USER_DEFINED)
            parts->scores[id] = (double)(USER_DEFINED_BONUS * bytes - USER_DEFINED_BONUS);
    }
    parts->unigram = (struct mr_unigram_options){.unk_score = (double)(least - UNK_PENALTY),
                                                 .unk_id = model->unk_id,
                                                 .byte_fallback = model->byte_fallback,
                                                 .float_sums = true};
    return MR_OK;
}

static void set_decoder(struct mr_tokenizer_parts *parts,
                        const struct mr_sentencepiece_model *model)
{
    struct mr_token_decoder *decoder = &parts->decoder;
    decoder->byte_fallback = model->byte_fallback;
    decoder->from[0] = (struct mr_text){"\xe2\x96\x81", 3}; /* U+2581 stands for a space */
    decoder->to[0] = (struct mr_text){" ", 1};
    decoder->replace_count = 1;
    if (model->add_dummy_prefix) decoder->first_space = MR_FIRST_SPACE_OF_TEXT;
    if (model->remove_extra_spaces) decoder->first_space = MR_FIRST_SPACE_UNTIL_TEXT;
}

/* Adds the tokens of the other files, their names, and which of them begin and end a text. */
static enum mr_status apply_settings(struct mr_tokenizer_parts *parts,
                                     const struct mr_sentencepiece_model *model,
                                     const struct mr_tokenizer_settings *settings,
                                     struct mr_error *err)
{
    enum mr_status status = mr_tokenizer_settings_add_tokens(settings, parts, err);
    if (status != MR_OK) return status;
    parts->bos_id = mr_tokenizer_settings_token(settings, parts, "bos_token");
    parts->eos_id = mr_tokenizer_settings_token(settings, parts, "eos_token");
    if (parts->bos_id == MR_TOKEN_NONE) parts->bos_id = model->bos_id;
    if (parts->eos_id == MR_TOKEN_NONE) parts->eos_id = model->eos_id;
    if (parts->bos_id != MR_TOKEN_NONE &&
        mr_tokenizer_settings_flag(settings, "add_bos_token", true))
        parts->frame.first[parts->frame.first_count++] = parts->bos_id;
    if (parts->eos_id != MR_TOKEN_NONE &&
        mr_tokenizer_settings_flag(settings, "add_eos_token", false))
        parts->frame.last[parts->frame.last_count++] = parts->eos_id;
    return MR_OK;
}

enum mr_status mr_sentencepiece_fill(struct mr_tokenizer_parts *parts,
                                     const struct mr_sentencepiece_model *model,
                                     bool prefix_every_part, struct mr_error *err)
{
    bool bpe = model->type == MR_SENTENCEPIECE_BPE;
    if (!bpe && model->type != MR_SENTENCEPIECE_UNIGRAM)
        return mr_fail(err, MR_BAD_FILE,
                       "a SentencePiece model of words or characters is not supported");
    enum mr_status status = build_normalizer(parts, model, prefix_every_part, err);
    if (status == MR_OK) status = mr_pretokenizer_create(&parts->pretokenizer, NULL, err);
    if (status == MR_OK)
        status = bpe ? build_bpe(parts, model, err) : build_unigram(parts, model, err);
    set_decoder(parts, model);
    return status;
}

static enum mr_status read_parts(struct mr_tokenizer_parts *parts,
                                 const struct mr_sentencepiece_model *model,
                                 const struct mr_tokenizer_settings *settings, struct mr_error *err)
{
    bool every_part = mr_tokenizer_settings_flag(settings, "legacy", false);
    struct mr_text unknown = model->tokens[model->unk_id];
    enum mr_status status = mr_vocab_create(&parts->vocab, model->tokens, model->token_count, err);
    if (status == MR_OK && mr_vocab_find(parts->vocab, unknown) != model->unk_id)
        status = mr_fail(err, MR_BAD_FILE, "another token has the text of the unknown token");
    if (status == MR_OK) status = collect_added(parts, model, err);
    if (status == MR_OK) status = apply_settings(parts, model, settings, err);
    return status == MR_OK ? mr_sentencepiece_fill(parts, model, every_part, err) : status;
}

enum mr_status mr_tokenizer_from_sentencepiece(struct mr_tokenizer **out, struct mr_text model,
                                               const struct mr_tokenizer_files *files,
                                               struct mr_error *err)
{
    *out = NULL;
    struct mr_sentencepiece_model parsed;
    struct mr_tokenizer_settings settings;
    struct mr_tokenizer_parts parts = {.vocab = NULL};
    struct mr_error cause = {.detail = ""};
    enum mr_status status = mr_tokenizer_settings_open(&settings, files, err);
    if (status != MR_OK) return status;
    status = mr_sentencepiece_model_parse(&parsed, model, &cause);
    if (status == MR_OK) status = read_parts(&parts, &parsed, &settings, &cause);
    if (status == MR_OK) status = mr_tokenizer_assemble(out, &parts, &cause);
    if (status != MR_OK) mr_fail(err, status, "tokenizer.model: %.200s", cause.detail);
    mr_tokenizer_parts_drop(&parts);
    mr_sentencepiece_model_drop(&parsed);
    mr_tokenizer_settings_close(&settings);
    return status;
}
