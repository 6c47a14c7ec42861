#include "codec/tokenizer/tokenizer.h"

#include "codec/check.h"
#include "codec/tokenizer/byte_alphabet.h"
#include "codec/tokenizer/tokenizer_parts.h"
#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Far above any record; keeps every position in 32 bits whatever normalization does. */
#define TEXT_BYTES_MAX   ((size_t)64 << 20)
#define BUFFER_BYTES_MAX ((size_t)2 << 30)

struct mr_tokenizer {
    struct mr_vocab *vocab; /* texts as the file writes them */
    struct mr_bpe *bpe;
    struct mr_normalizer *normalizer;
    struct mr_pretokenizer *pretokenizer;
    struct mr_added_tokens *added_raw;        /* looked for in the text */
    struct mr_added_tokens *added_normalized; /* looked for after normalization */
    struct mr_vocab *added_texts;             /* content of added tokens, by place in added_ids */
    uint32_t *added_ids;
    struct mr_vocab *decoded; /* the bytes each id stands for; only its texts are used */
    uint8_t *is_special;      /* [size] */
    uint32_t size;
    uint32_t first[MR_FRAME_IDS_MAX], last[MR_FRAME_IDS_MAX];
    size_t first_count, last_count;
    uint32_t bos_id, eos_id;
    bool strips_first_space;
};

struct mr_tokenizer_scratch {
    struct mr_regex_scratch *regex;
    struct mr_normalizer_scratch normalizer;
    struct mr_pretokenizer_scratch *pretokenizer;
    struct mr_bpe_scratch *bpe;
};

/* ---- assembling ---- */

enum mr_status mr_tokenizer_resolve_merge(const struct mr_vocab *vocab, struct mr_text left,
                                          struct mr_text right, struct mr_merge *out,
                                          struct mr_error *err)
{
    char merged[1024];
    if (left.length + right.length > sizeof merged)
        return mr_fail(err, MR_BAD_FILE, "a merge of %zu bytes", left.length + right.length);
    if (left.length > 0) memcpy(merged, left.bytes, left.length);
    if (right.length > 0) memcpy(merged + left.length, right.bytes, right.length);
    out->left = mr_vocab_find(vocab, left);
    out->right = mr_vocab_find(vocab, right);
    out->result = mr_vocab_find(vocab, (struct mr_text){merged, left.length + right.length});
    if (out->left == MR_TOKEN_NONE || out->right == MR_TOKEN_NONE || out->result == MR_TOKEN_NONE)
        return mr_fail(err, MR_BAD_FILE, "a merge of tokens outside the vocabulary");
    return MR_OK;
}

void mr_tokenizer_parts_drop(struct mr_tokenizer_parts *parts)
{
    mr_vocab_destroy(parts->vocab);
    mr_normalizer_destroy(parts->normalizer);
    mr_pretokenizer_destroy(parts->pretokenizer);
    free(parts->merges);
    free(parts->added);
}

static enum mr_status no_memory(struct mr_error *err)
{
    return mr_fail(err, MR_NOMEM, "no memory for a tokenizer");
}

/* Added tokens that are looked for after normalization are normalized themselves; that text is also
 * what they decode to. forms[i] is empty for the others and points into texts. */
static enum mr_status normalize_added(const struct mr_tokenizer *tokenizer,
                                      const struct mr_tokenizer_parts *parts, struct mr_text *forms,
                                      struct mr_buffer *texts, struct mr_error *err)
{
    struct mr_regex_scratch *regex = mr_regex_scratch_create();
    if (!regex) return no_memory(err);
    struct mr_normalizer_scratch scratch;
    mr_normalizer_scratch_init(&scratch, BUFFER_BYTES_MAX, regex);
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < parts->added_count && status == MR_OK; i++) {
        struct mr_text form = parts->added[i].content;
        if (parts->added[i].normalized)
            status = mr_normalizer_run(tokenizer->normalizer, &scratch, form, &form, err);
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

/* One trie for the tokens looked for as they are, one for the normalized ones. */
static enum mr_status build_tries(struct mr_tokenizer *tokenizer,
                                  const struct mr_tokenizer_parts *parts,
                                  const struct mr_text *forms, struct mr_error *err)
{
    struct mr_added_token *some = calloc(parts->added_count + 1, sizeof *some);
    if (!some) return no_memory(err);
    enum mr_status status = MR_OK;
    for (int normalized = 0; normalized < 2 && status == MR_OK; normalized++) {
        size_t count = 0;
        for (size_t i = 0; i < parts->added_count; i++) {
            if (parts->added[i].normalized != (normalized == 1)) continue;
            some[count] = parts->added[i];
            some[count++].content = forms[i];
        }
        status = mr_added_tokens_create(
            normalized ? &tokenizer->added_normalized : &tokenizer->added_raw, some, count, err);
    }
    free(some);
    return status;
}

static enum mr_status build_added_index(struct mr_tokenizer *tokenizer,
                                        const struct mr_tokenizer_parts *parts,
                                        struct mr_error *err)
{
    struct mr_text *texts = calloc(parts->added_count + 1, sizeof *texts);
    tokenizer->added_ids = calloc(parts->added_count + 1, sizeof *tokenizer->added_ids);
    enum mr_status status = texts && tokenizer->added_ids ? MR_OK : no_memory(err);
    for (size_t i = 0; i < parts->added_count && status == MR_OK; i++) {
        texts[i] = parts->added[i].content;
        tokenizer->added_ids[i] = parts->added[i].id;
    }
    if (status == MR_OK)
        status = mr_vocab_create(&tokenizer->added_texts, texts, parts->added_count, err);
    free(texts);
    return status;
}

static bool append_replaced(struct mr_buffer *out, struct mr_text text, struct mr_text from,
                            struct mr_text to)
{
    size_t at = 0;
    while (at < text.length) {
        const char *found = memmem(text.bytes + at, text.length - at, from.bytes, from.length);
        size_t end = found ? (size_t)(found - text.bytes) : text.length;
        if (!mr_buffer_append(out, (struct mr_text){text.bytes + at, end - at})) return false;
        if (found && !mr_buffer_append(out, to)) return false;
        at = found ? end + from.length : end;
    }
    return true;
}

/* The byte of a token written <0xHH>, -1 for any other. */
static int fallback_byte(struct mr_text text)
{
    if (text.length != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>') return -1;
    int high = mr_text_hex_value(text.bytes[3]), low = mr_text_hex_value(text.bytes[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Appends the bytes a token of this text decodes to. spare holds what lies between two steps. */
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
        /* Reserved first: the text read must not move while it is copied. */
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

/* The text an id is written as: that of the added token, else that of the vocabulary. */
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
        /* The reference knows a special token by its text: once normalized, it no longer does. */
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
    mr_buffer_init(&bytes, BUFFER_BYTES_MAX);
    mr_buffer_init(&spare, BUFFER_BYTES_MAX);
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
    mr_buffer_init(&texts, BUFFER_BYTES_MAX);
    struct mr_text *forms = calloc(parts->added_count + 1, sizeof *forms);
    enum mr_status status = forms ? MR_OK : no_memory(err);
    if (status == MR_OK) status = normalize_added(tokenizer, parts, forms, &texts, err);
    if (status == MR_OK) status = build_tries(tokenizer, parts, forms, err);
    if (status == MR_OK) status = build_added_index(tokenizer, parts, err);
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
    bool inside = true;
    for (size_t i = 0; i < tokenizer->first_count; i++)
        inside = inside && tokenizer->first[i] < tokenizer->size;
    for (size_t i = 0; i < tokenizer->last_count; i++)
        inside = inside && tokenizer->last[i] < tokenizer->size;
    if (inside) return MR_OK;
    return mr_fail(err, MR_BAD_FILE, "a begin or end token is outside the vocabulary");
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
    memcpy(tokenizer->first, parts->first, sizeof tokenizer->first);
    memcpy(tokenizer->last, parts->last, sizeof tokenizer->last);
    tokenizer->first_count = parts->first_count;
    tokenizer->last_count = parts->last_count;
    tokenizer->bos_id = parts->bos_id;
    tokenizer->eos_id = parts->eos_id;
    tokenizer->strips_first_space = parts->decoder.strips_first_space;
    parts->model.bytes = mr_pretokenizer_gives_bytes(tokenizer->pretokenizer);
    enum mr_status status = check_frame(tokenizer, err);
    if (status == MR_OK)
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

void mr_tokenizer_destroy(struct mr_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    mr_bpe_destroy(tokenizer->bpe);
    mr_vocab_destroy(tokenizer->vocab);
    mr_vocab_destroy(tokenizer->decoded);
    mr_vocab_destroy(tokenizer->added_texts);
    mr_normalizer_destroy(tokenizer->normalizer);
    mr_pretokenizer_destroy(tokenizer->pretokenizer);
    mr_added_tokens_destroy(tokenizer->added_raw);
    mr_added_tokens_destroy(tokenizer->added_normalized);
    free(tokenizer->added_ids);
    free(tokenizer->is_special);
    free(tokenizer);
}

/* ---- encoding ---- */

struct mr_tokenizer_scratch *mr_tokenizer_scratch_create(const struct mr_tokenizer *tokenizer)
{
    struct mr_tokenizer_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch) return NULL;
    scratch->regex = mr_regex_scratch_create();
    scratch->bpe = mr_bpe_scratch_create(tokenizer->bpe);
    mr_normalizer_scratch_init(&scratch->normalizer, BUFFER_BYTES_MAX, scratch->regex);
    scratch->pretokenizer =
        mr_pretokenizer_scratch_create(tokenizer->pretokenizer, BUFFER_BYTES_MAX, scratch->regex);
    if (scratch->regex && scratch->bpe && scratch->pretokenizer) return scratch;
    mr_tokenizer_scratch_destroy(scratch);
    return NULL;
}

void mr_tokenizer_scratch_destroy(struct mr_tokenizer_scratch *scratch)
{
    if (!scratch) return;
    mr_pretokenizer_scratch_destroy(scratch->pretokenizer);
    mr_normalizer_scratch_drop(&scratch->normalizer);
    mr_bpe_scratch_destroy(scratch->bpe);
    mr_regex_scratch_destroy(scratch->regex);
    free(scratch);
}

struct encoding {
    const struct mr_tokenizer *tokenizer;
    struct mr_tokenizer_scratch *scratch;
    struct mr_id_list *ids;
    bool parse_special;
    struct mr_error *err;
};

static enum mr_status take_piece(void *context, struct mr_text piece, struct mr_error *err)
{
    struct encoding *e = context;
    return mr_bpe_encode(e->tokenizer->bpe, e->scratch->bpe, piece, e->ids, err);
}

static enum mr_status encode_plain(struct encoding *e, struct mr_text text, bool at_start)
{
    struct mr_piece_sink sink = {take_piece, e};
    return mr_pretokenizer_run(e->tokenizer->pretokenizer, e->scratch->pretokenizer, text, at_start,
                               &sink, e->err);
}

/* Cuts text at the added tokens of one trie and hands the rest on. */
static enum mr_status encode_around(struct encoding *e, const struct mr_added_tokens *added,
                                    struct mr_text text, bool at_start,
                                    enum mr_status (*rest)(struct encoding *, struct mr_text, bool))
{
    if (mr_added_tokens_is_empty(added)) return rest(e, text, at_start);
    struct mr_added_cursor cursor = {0};
    struct mr_added_span span;
    enum mr_status status = MR_OK;
    while (status == MR_OK && mr_added_tokens_next(added, text, e->parse_special, &cursor, &span)) {
        struct mr_text part = {text.bytes + span.start, span.end - span.start};
        if (span.id == MR_TOKEN_NONE)
            status = rest(e, part, at_start && span.start == 0);
        else
            mr_id_list_add(e->ids, span.id);
    }
    return status;
}

static enum mr_status encode_normalized(struct encoding *e, struct mr_text text, bool at_start)
{
    struct mr_text normalized;
    enum mr_status status = mr_normalizer_run(e->tokenizer->normalizer, &e->scratch->normalizer,
                                              text, &normalized, e->err);
    if (status != MR_OK) return status;
    return encode_around(e, e->tokenizer->added_normalized, normalized, at_start, encode_plain);
}

enum mr_status mr_tokenizer_encode(const struct mr_tokenizer *tokenizer,
                                   struct mr_tokenizer_scratch *scratch, struct mr_text text,
                                   struct mr_encode_options options, struct mr_id_list *out,
                                   struct mr_error *err)
{
    out->count = 0;
    if (text.length > TEXT_BYTES_MAX)
        return mr_fail(err, MR_PROMPT_TOO_LONG, "text of %zu bytes, limit %zu", text.length,
                       TEXT_BYTES_MAX);
    if (!mr_utf8_is_valid(text)) return mr_fail(err, MR_MALFORMED, "text is not valid UTF-8");
    struct encoding e = {.tokenizer = tokenizer,
                         .scratch = scratch,
                         .ids = out,
                         .parse_special = options.parse_special,
                         .err = err};
    for (size_t i = 0; i < tokenizer->first_count && options.add_special; i++)
        mr_id_list_add(out, tokenizer->first[i]);
    enum mr_status status = MR_OK;
    if (text.length > 0)
        status = encode_around(&e, tokenizer->added_raw, text, true, encode_normalized);
    if (status != MR_OK) return status;
    for (size_t i = 0; i < tokenizer->last_count && options.add_special; i++)
        mr_id_list_add(out, tokenizer->last[i]);
    if (out->count > out->max)
        return mr_fail(err, MR_PROMPT_TOO_LONG, "text has %zu tokens, limit %zu", out->count,
                       out->max);
    return MR_OK;
}

/* ---- questions ---- */

uint32_t mr_tokenizer_vocab_size(const struct mr_tokenizer *tokenizer)
{
    return tokenizer->size;
}

uint32_t mr_tokenizer_bos_id(const struct mr_tokenizer *tokenizer)
{
    return tokenizer->bos_id;
}

uint32_t mr_tokenizer_eos_id(const struct mr_tokenizer *tokenizer)
{
    return tokenizer->eos_id;
}

uint32_t mr_tokenizer_find(const struct mr_tokenizer *tokenizer, struct mr_text token)
{
    uint32_t added = mr_vocab_find(tokenizer->added_texts, token);
    if (added != MR_TOKEN_NONE) return tokenizer->added_ids[added];
    return mr_vocab_find(tokenizer->vocab, token);
}

struct mr_text mr_tokenizer_bytes(const struct mr_tokenizer *tokenizer, uint32_t id,
                                  bool skip_special)
{
    struct mr_text nothing = {"", 0};
    if (id >= tokenizer->size || (skip_special && tokenizer->is_special[id])) return nothing;
    return mr_vocab_text(tokenizer->decoded, id);
}

bool mr_tokenizer_strips_first_space(const struct mr_tokenizer *tokenizer)
{
    return tokenizer->strips_first_space;
}
