#include "codec/tokenizer/tokenizer.h"

#include "codec/tokenizer/tokenizer_state.h"
#include "codec/utf8.h"

#include <stdlib.h>

/* Longest text to encode: far above any record, and small enough that positions in the normalized
 * text fit 32 bits. */
#define TEXT_BYTES_MAX ((size_t)64 << 20)

struct mr_tokenizer_scratch {
    struct mr_regex_scratch *regex;
    struct mr_normalizer_scratch normalizer;
    struct mr_pretokenizer_scratch *pretokenizer;
    struct mr_bpe_scratch *bpe;
};

void mr_tokenizer_destroy(struct mr_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    mr_bpe_destroy(tokenizer->bpe);
    mr_vocab_destroy(tokenizer->vocab);
    mr_vocab_destroy(tokenizer->decoded);
    mr_normalizer_destroy(tokenizer->normalizer);
    mr_pretokenizer_destroy(tokenizer->pretokenizer);
    mr_added_tokens_destroy(tokenizer->added_raw);
    mr_added_tokens_destroy(tokenizer->added_normalized);
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
    mr_normalizer_scratch_init(&scratch->normalizer, MR_TOKENIZER_BUFFER_BYTES_MAX, scratch->regex);
    scratch->pretokenizer = mr_pretokenizer_scratch_create(
        tokenizer->pretokenizer, MR_TOKENIZER_BUFFER_BYTES_MAX, scratch->regex);
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

/* Adds the ids of the added tokens in text to the output; calls `rest` for the text between
 * them. */
static enum mr_status encode_around(struct encoding *e, const struct mr_added_tokens *added,
                                    struct mr_text text, bool at_start,
                                    enum mr_status (*rest)(struct encoding *, struct mr_text, bool))
{
    if (mr_added_tokens_is_empty(added)) return rest(e, text, at_start);
    struct mr_added_cursor cursor = {0};
    struct mr_added_span span;
    enum mr_status status = MR_OK;
    while (status == MR_OK && mr_added_tokens_next(added, text, e->parse_special, &cursor, &span)) {
        struct mr_text part = mr_text_part(text, span.start, span.end);
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

/* ---- queries ---- */

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
