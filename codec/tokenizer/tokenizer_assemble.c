#include "codec/tokenizer/tokenizer_assemble.h"

#include "codec/tokenizer/byte_alphabet.h"
#include "codec/tokenizer/tokenizer_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum mr_status no_memory(struct mr_error *err)
{
    return mr_fail(err, MR_NOMEM, "no memory for a tokenizer");
}

/* Sets forms[i] to the text by which added token i is found and to which it decodes: the token's
 * content, normalized if the token is `normalized`. The forms point into texts. */
static enum mr_status normalize_added(const struct mr_tokenizer *tokenizer,
                                      const struct mr_tokenizer_parts *parts, struct mr_text *forms,
                                      struct mr_buffer *texts, struct mr_error *err)
{
    struct mr_regex_scratch *regex = mr_regex_scratch_create();
    if (!regex) return no_memory(err);
    struct mr_normalizer_scratch scratch;
    mr_normalizer_scratch_init(&scratch, MR_TOKENIZER_BUFFER_BYTES_MAX, regex);
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < parts->added_count && status == MR_OK; i++) {
        struct mr_text form = parts->added[i].content;
        if (parts->added[i].normalized)
            status = mr_normalizer_run(tokenizer->normalizer, &scratch, form, false, &form, err);
        if (status == MR_OK && !mr_buffer_append(texts, form)) status = no_memory(err);
        forms[i].length = form.length;
    }
    size_t at = 0;
    for (size_t i = 0; i < parts->added_count && status == MR_OK; i++) {
        forms[i].bytes = mr_buffer_text(texts).bytes + at;
        at += forms[i].length;
    }
    mr_normalizer_scratch_drop(&scratch);
    mr_regex_scratch_destroy(regex);
    return status;
}

/* Builds two tries of added tokens: one to search in the original text and one for the normalized
 * text. */
static enum mr_status build_tries(struct mr_tokenizer *tokenizer,
                                  const struct mr_tokenizer_parts *parts,
                                  const struct mr_text *forms, struct mr_error *err)
{
    struct mr_added_token *selected = calloc(parts->added_count + 1, sizeof *selected);
    if (!selected) return no_memory(err);
    enum mr_status status = MR_OK;
    for (int normalized = 0; normalized < 2 && status == MR_OK; normalized++) {
        size_t count = 0;
        for (size_t i = 0; i < parts->added_count; i++) {
            if (parts->added[i].normalized != (normalized == 1)) continue;
            selected[count] = parts->added[i];
            selected[count++].content = forms[i];
        }
        status = mr_added_tokens_create(normalized ? &tokenizer->added_normalized
                                                   : &tokenizer->added_raw,
                                        selected, count, err);
    }
    free(selected);
    return status;
}

static bool append_replaced(struct mr_buffer *out, struct mr_text text, struct mr_text from,
                            struct mr_text to)
{
    size_t at = 0;
    while (at < text.length) {
        const char *found = memmem(text.bytes + at, text.length - at, from.bytes, from.length);
        size_t end = found ? (size_t)(found - text.bytes) : text.length;
        if (!mr_buffer_append(out, mr_text_part(text, at, end))) return false;
        if (found && !mr_buffer_append(out, to)) return false;
        at = found ? end + from.length : end;
    }
    return true;
}

/* The byte that a token written <0xHH> stands for, -1 for any other token. */
static int fallback_byte(struct mr_text text)
{
    if (text.length != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>') return -1;
    int high = mr_text_hex_value(text.bytes[3]), low = mr_text_hex_value(text.bytes[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Appends the bytes to which a token with this text decodes to out. spare is memory for
 * intermediate texts. */
static bool decode_token(const struct mr_token_decoder *decoder, struct mr_text text,
                         struct mr_buffer *spare, struct mr_buffer *out)
{
    if (decoder->byte_level) {
        bool inside;
        if (!mr_byte_alphabet_decode(text, out, &inside)) return false;
        return inside || mr_buffer_append(out, text);
    }
    mr_buffer_clear(spare);
    size_t start = 0;
    if (!mr_buffer_append(spare, text)) return false;
    for (size_t i = 0; i < decoder->replace_count; i++) {
        size_t length = spare->length - start;
        /* Reserve memory first, because `before` points into the buffer, which must not move. */
        if (!mr_buffer_reserve(spare, length * (1 + decoder->to[i].length))) return false;
        struct mr_text before = {spare->bytes + start, length};
        start = spare->length;
        if (!append_replaced(spare, before, decoder->from[i], decoder->to[i])) return false;
    }
    struct mr_text result = {spare->bytes + start, spare->length - start};
    int byte = decoder->byte_fallback ? fallback_byte(result) : -1;
    if (byte >= 0) return mr_buffer_append(out, (struct mr_text){(char[]){(char)byte}, 1});
    return mr_buffer_append(out, result);
}

/* Sets texts[id] to the form of the added token with this id, or else to the text of the
 * vocabulary. */
static void collect_texts(const struct mr_tokenizer *tokenizer,
                          const struct mr_tokenizer_parts *parts, const struct mr_text *forms,
                          struct mr_text *texts)
{
    for (uint32_t id = 0; id < tokenizer->size; id++)
        texts[id] = mr_vocab_text(tokenizer->vocab, id);
    for (size_t i = 0; i < parts->added_count; i++) {
        const struct mr_added_token *token = &parts->added[i];
        if (token->content.length == 0) continue;
        texts[token->id] = forms[i];
        /* The reference implementation finds special tokens by their text, so a token whose form
         * differs from its content is not special. */
        bool same = mr_text_equal(forms[i], token->content);
        tokenizer->is_special[token->id] = token->special && same;
    }
}

static enum mr_status build_decoded(struct mr_tokenizer *tokenizer,
                                    const struct mr_tokenizer_parts *parts,
                                    const struct mr_text *forms, struct mr_error *err)
{
    size_t size = tokenizer->size;
    struct mr_buffer bytes, spare;
    mr_buffer_init(&bytes, MR_TOKENIZER_BUFFER_BYTES_MAX);
    mr_buffer_init(&spare, MR_TOKENIZER_BUFFER_BYTES_MAX);
    struct mr_text *texts = calloc(size + 1, sizeof *texts);
    size_t *ends = calloc(size + 1, sizeof *ends);
    tokenizer->is_special = calloc(size + 1, 1);
    enum mr_status status = texts && ends && tokenizer->is_special ? MR_OK : no_memory(err);
    if (status == MR_OK) collect_texts(tokenizer, parts, forms, texts);
    for (size_t id = 0; id < size && status == MR_OK; id++) {
        if (texts[id].bytes && !decode_token(&parts->decoder, texts[id], &spare, &bytes))
            status = no_memory(err);
        ends[id] = bytes.length;
    }
    for (size_t id = 0; id < size && status == MR_OK; id++) {
        size_t start = id > 0 ? ends[id - 1] : 0;
        texts[id] = (struct mr_text){mr_buffer_text(&bytes).bytes + start, ends[id] - start};
    }
    if (status == MR_OK) status = mr_vocab_create(&tokenizer->decoded, texts, size, err);
    free(texts);
    free(ends);
    mr_buffer_drop(&bytes);
    mr_buffer_drop(&spare);
    return status;
}

static enum mr_status build_added(struct mr_tokenizer *tokenizer,
                                  const struct mr_tokenizer_parts *parts, struct mr_error *err)
{
    struct mr_buffer texts;
    mr_buffer_init(&texts, MR_TOKENIZER_BUFFER_BYTES_MAX);
    struct mr_text *forms = calloc(parts->added_count + 1, sizeof *forms);
    enum mr_status status = forms ? MR_OK : no_memory(err);
    if (status == MR_OK) status = normalize_added(tokenizer, parts, forms, &texts, err);
    if (status == MR_OK) status = build_tries(tokenizer, parts, forms, err);
    if (status == MR_OK) status = build_decoded(tokenizer, parts, forms, err);
    free(forms);
    mr_buffer_drop(&texts);
    return status;
}

static uint32_t size_of(const struct mr_tokenizer_parts *parts)
{
    uint32_t size = mr_vocab_size(parts->vocab);
    for (size_t i = 0; i < parts->added_count; i++)
        if (parts->added[i].id >= size) size = parts->added[i].id + 1;
    return size;
}

static enum mr_status check_frame(const struct mr_tokenizer *tokenizer, struct mr_error *err)
{
    const struct mr_token_frame *frame = &tokenizer->frame;
    bool inside = true;
    for (size_t i = 0; i < frame->first_count; i++)
        inside = inside && frame->first[i] < tokenizer->size;
    for (size_t i = 0; i < frame->middle_count; i++)
        inside = inside && frame->middle[i] < tokenizer->size;
    for (size_t i = 0; i < frame->last_count; i++)
        inside = inside && frame->last[i] < tokenizer->size;
    if (inside) return MR_OK;
    return mr_fail(err, MR_BAD_FILE, "a begin or end token is outside the vocabulary");
}

/* Makes a Unigram model. A control token gets no score: it comes from the search for added tokens
 * alone, never from the segmentation of plain text. The reference implementation gives control
 * tokens of a tokenizer.json their score of 0, so a text in which the search is barred from them
 * would become one. */
static enum mr_status build_unigram(struct mr_tokenizer *tokenizer,
                                    struct mr_tokenizer_parts *parts, struct mr_error *err)
{
    for (size_t i = 0; i < parts->added_count; i++) {
        const struct mr_added_token *token = &parts->added[i];
        if (mr_added_token_is_control(token) && token->id < mr_vocab_size(tokenizer->vocab))
            parts->scores[token->id] = NAN;
    }
    return mr_unigram_create(&tokenizer->unigram, tokenizer->vocab, parts->scores, &parts->unigram,
                             err);
}

static enum mr_status build_wordpiece(struct mr_tokenizer *tokenizer,
                                      const struct mr_tokenizer_parts *parts, struct mr_error *err)
{
    tokenizer->wordpiece = malloc(sizeof *tokenizer->wordpiece);
    if (!tokenizer->wordpiece) return no_memory(err);
    *tokenizer->wordpiece = parts->wordpiece;
    tokenizer->wordpiece->vocab = tokenizer->vocab;
    return MR_OK;
}

enum mr_status mr_tokenizer_assemble(struct mr_tokenizer **out, struct mr_tokenizer_parts *parts,
                                     struct mr_error *err)
{
    *out = NULL;
    struct mr_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) return no_memory(err);
    tokenizer->size = size_of(parts);
    tokenizer->vocab = parts->vocab;
    tokenizer->normalizer = parts->normalizer;
    tokenizer->pretokenizer = parts->pretokenizer;
    parts->vocab = NULL;
    parts->normalizer = NULL;
    parts->pretokenizer = NULL;
    tokenizer->frame = parts->frame;
    tokenizer->bos_id = parts->bos_id;
    tokenizer->eos_id = parts->eos_id;
    tokenizer->first_space = parts->decoder.first_space;
    parts->model.bytes = mr_pretokenizer_gives_bytes(tokenizer->pretokenizer);
    enum mr_status status = check_frame(tokenizer, err);
    if (status == MR_OK && parts->wordpiece.chars_max > 0)
        status = build_wordpiece(tokenizer, parts, err);
    else if (status == MR_OK && parts->scores)
        status = build_unigram(tokenizer, parts, err);
    else if (status == MR_OK)
        status = mr_bpe_create(&tokenizer->bpe, tokenizer->vocab, parts->merges, parts->merge_count,
                               &parts->model, err);
    if (status == MR_OK) status = build_added(tokenizer, parts, err);
    if (status != MR_OK) {
        mr_tokenizer_destroy(tokenizer);
        return status;
    }
    *out = tokenizer;
    return MR_OK;
}
