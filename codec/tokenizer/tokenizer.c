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
    struct mr_bpe_scratch *bpe; /* at most one of these two is used, as in the tokenizer */
    struct mr_unigram_scratch *unigram;
};

void mr_tokenizer_destroy(struct mr_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    mr_bpe_destroy(tokenizer->bpe);
    mr_unigram_destroy(tokenizer->unigram);
    free(tokenizer->wordpiece);
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
    if (tokenizer->bpe) scratch->bpe = mr_bpe_scratch_create(tokenizer->bpe);
    if (tokenizer->unigram) scratch->unigram = mr_unigram_scratch_create();
    mr_normalizer_scratch_init(&scratch->normalizer, MR_TOKENIZER_BUFFER_BYTES_MAX, scratch->regex);
    scratch->pretokenizer = mr_pretokenizer_scratch_create(
        tokenizer->pretokenizer, MR_TOKENIZER_BUFFER_BYTES_MAX, scratch->regex);
    bool has_model = scratch->bpe || scratch->unigram || tokenizer->wordpiece;
    if (scratch->regex && has_model && scratch->pretokenizer) return scratch;
    mr_tokenizer_scratch_destroy(scratch);
    return NULL;
}

void mr_tokenizer_scratch_destroy(struct mr_tokenizer_scratch *scratch)
{
    if (!scratch) return;
    mr_pretokenizer_scratch_destroy(scratch->pretokenizer);
    mr_normalizer_scratch_drop(&scratch->normalizer);
    mr_bpe_scratch_destroy(scratch->bpe);
    mr_unigram_scratch_destroy(scratch->unigram);
    mr_regex_scratch_destroy(scratch->regex);
    free(scratch);
}

struct encoding {
    const struct mr_tokenizer *tokenizer;
    struct mr_tokenizer_scratch *scratch;
    struct mr_id_list *ids;
    struct mr_text text;
    struct mr_encode_options options;
    bool at_start; /* the part of text that is normalized now is its beginning */
    struct mr_error *err;
};

static enum mr_status take_piece(void *context, struct mr_text piece, struct mr_error *err)
{
    struct encoding *e = context;
    if (mr_id_list_is_enough(e->ids))
        return mr_fail(err, MR_PROMPT_TOO_LONG, "text has at least %zu tokens, limit %zu",
                       e->ids->count, e->ids->enough);
    if (e->tokenizer->wordpiece) {
        mr_wordpiece_encode(e->tokenizer->wordpiece, piece, e->ids);
        return MR_OK;
    }
    if (e->tokenizer->unigram)
        return mr_unigram_encode(e->tokenizer->unigram, e->scratch->unigram, piece, e->ids, err);
    return mr_bpe_encode(e->tokenizer->bpe, e->scratch->bpe, piece, e->ids, err);
}

static enum mr_status encode_plain(struct encoding *e, struct mr_text text, bool at_start)
{
    struct mr_piece_sink sink = {take_piece, e};
    return mr_pretokenizer_run(e->tokenizer->pretokenizer, e->scratch->pretokenizer, text, at_start,
                               &sink, e->err);
}

/* Barred ranges of a text. */
struct bars {
    const struct mr_text_range *ranges;
    size_t count;
};

/* Adds the ids of the added tokens in text to the output; calls `rest` for the text between
 * them. */
static enum mr_status encode_around(struct encoding *e, const struct mr_added_tokens *added,
                                    struct mr_text text, bool at_start, struct bars bars,
                                    enum mr_status (*rest)(struct encoding *, struct mr_text, bool))
{
    if (mr_added_tokens_is_empty(added)) return rest(e, text, at_start);
    struct mr_added_cursor cursor = {.barred = bars.ranges, .barred_count = bars.count};
    struct mr_added_span span;
    enum mr_status status = MR_OK;
    while (status == MR_OK &&
           mr_added_tokens_next(added, text, e->options.parse_special, &cursor, &span)) {
        struct mr_text part = mr_text_part(text, span.start, span.end);
        if (span.id == MR_TOKEN_NONE)
            status = rest(e, part, at_start && span.start == 0);
        else
            mr_id_list_add(e->ids, span.id);
    }
    return status;
}

static enum mr_status normalize(struct encoding *e, struct mr_text text, struct mr_text *out)
{
    return mr_normalizer_run(e->tokenizer->normalizer, &e->scratch->normalizer, text, e->at_start,
                             out, e->err);
}

/* Sets *bytes to the number of bytes that the normalizer puts in front of any text, like
 * SentencePiece's first space. */
static enum mr_status measure_prefix(struct encoding *e, size_t *bytes)
{
    struct mr_text normalized;
    enum mr_status status = normalize(e, (struct mr_text){"a", 1}, &normalized);
    *bytes = status == MR_OK && normalized.length > 0 ? normalized.length - 1 : 0;
    return status;
}

/* Normalizes text[start, end) alone and appends it to `joined`. */
static enum mr_status join_part(struct encoding *e, struct mr_text text, struct mr_text_range range,
                                size_t prefix, struct mr_buffer *joined)
{
    struct mr_text normalized;
    if (range.start >= range.end) return MR_OK;
    enum mr_status status = normalize(e, mr_text_part(text, range.start, range.end), &normalized);
    if (status != MR_OK) return status;
    size_t skipped = range.start > 0 && normalized.length >= prefix ? prefix : 0;
    if (mr_buffer_append(joined, mr_text_part(normalized, skipped, normalized.length)))
        return MR_OK;
    return mr_fail(e->err, MR_NOMEM, "no memory to normalize %zu bytes", text.length);
}

/* Fills ranges, [barred_count], with the barred ranges of text, a part of the encoded text, as
 * positions in the normalized text. Normalizes the parts of the text one by one and checks that
 * they join to the normalized text. When they do not, the whole text is barred. */
static enum mr_status map_bars(struct encoding *e, struct mr_text text,
                               struct mr_text_range *ranges, size_t *count,
                               struct mr_buffer *joined)
{
    size_t offset = (size_t)(text.bytes - e->text.bytes), at = 0, prefix;
    enum mr_status status = measure_prefix(e, &prefix);
    for (size_t i = 0; i < e->options.barred_count && status == MR_OK; i++) {
        struct mr_text_range range = e->options.barred[i];
        if (range.end <= offset || range.start >= offset + text.length) continue;
        range.start = range.start > offset ? range.start - offset : 0;
        range.end = range.end - offset < text.length ? range.end - offset : text.length;
        status = join_part(e, text, (struct mr_text_range){at, range.start}, prefix, joined);
        ranges[*count].start = joined->length;
        if (status == MR_OK) status = join_part(e, text, range, prefix, joined);
        ranges[(*count)++].end = joined->length;
        at = range.end;
    }
    if (status != MR_OK) return status;
    return join_part(e, text, (struct mr_text_range){at, text.length}, prefix, joined);
}

/* encode_normalized when the normalized text can have control tokens in barred ranges. */
static enum mr_status encode_barred(struct encoding *e, struct mr_text text, bool at_start)
{
    struct mr_buffer joined;
    struct mr_text normalized;
    size_t count = 0;
    struct mr_text_range *ranges = calloc(e->options.barred_count, sizeof *ranges);
    if (!ranges) return mr_fail(e->err, MR_NOMEM, "no memory for barred ranges");
    mr_buffer_init(&joined, MR_TOKENIZER_BUFFER_BYTES_MAX);
    enum mr_status status = map_bars(e, text, ranges, &count, &joined);
    if (status == MR_OK) status = normalize(e, text, &normalized);
    if (status == MR_OK) {
        if (count > 0 && !mr_text_equal(normalized, mr_buffer_text(&joined))) {
            ranges[0] = (struct mr_text_range){0, normalized.length};
            count = 1;
        }
        status = encode_around(e, e->tokenizer->added_normalized, normalized, at_start,
                               (struct bars){ranges, count}, encode_plain);
    }
    mr_buffer_drop(&joined);
    free(ranges);
    return status;
}

static enum mr_status encode_normalized(struct encoding *e, struct mr_text text, bool at_start)
{
    const struct mr_added_tokens *added = e->tokenizer->added_normalized;
    struct mr_text normalized;
    e->at_start = at_start;
    if (e->options.barred_count > 0 && mr_added_tokens_have_control(added))
        return encode_barred(e, text, at_start);
    enum mr_status status = normalize(e, text, &normalized);
    if (status != MR_OK) return status;
    return encode_around(e, added, normalized, at_start, (struct bars){0}, encode_plain);
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
                         .text = text,
                         .options = options,
                         .err = err};
    for (size_t i = 0; i < tokenizer->frame.first_count && options.add_special; i++)
        mr_id_list_add(out, tokenizer->frame.first[i]);
    struct bars bars = {options.barred, options.barred_count};
    enum mr_status status = MR_OK;
    if (text.length > 0)
        status = encode_around(&e, tokenizer->added_raw, text, true, bars, encode_normalized);
    if (status != MR_OK) return status;
    for (size_t i = 0; i < tokenizer->frame.last_count && options.add_special; i++)
        mr_id_list_add(out, tokenizer->frame.last[i]);
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

const struct mr_token_frame *mr_tokenizer_frame(const struct mr_tokenizer *tokenizer)
{
    return &tokenizer->frame;
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

enum mr_first_space mr_tokenizer_first_space(const struct mr_tokenizer *tokenizer)
{
    return tokenizer->first_space;
}
