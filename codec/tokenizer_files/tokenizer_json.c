#include "codec/tokenizer_files/tokenizer_json.h"

#include "codec/tokenizer/tokenizer_assemble.h"
#include "codec/tokenizer_files/tokenizer_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How far the score of an unknown character is below the lowest score of a token, as in the
 * reference implementation. */
#define UNIGRAM_UNK_PENALTY 10.0

static struct mr_text type_of(const struct mr_json_value *component)
{
    struct mr_text type = {"", 0};
    mr_json_text(mr_json_get(component, "type"), &type);
    return type;
}

/* ---- model ---- */

static enum mr_status find_vocab_size(const struct mr_json_value *vocab, size_t *size,
                                      struct mr_error *err)
{
    struct mr_json_member member = {0};
    *size = 0;
    while (mr_json_next(vocab, &member)) {
        int64_t id = -1;
        if (!mr_json_int(member.value, &id) || id < 0 || id >= (int64_t)MR_VOCAB_TOKENS_MAX)
            return mr_fail(err, MR_BAD_FILE, "a token id is not a number in range");
        if ((size_t)id >= *size) *size = (size_t)id + 1;
    }
    return MR_OK;
}

static enum mr_status read_vocab(struct mr_tokenizer_parts *parts,
                                 const struct mr_json_value *vocab, struct mr_error *err)
{
    if (!vocab || mr_json_kind(vocab) != MR_JSON_OBJECT)
        return mr_fail(err, MR_BAD_FILE, "the model has no vocabulary");
    size_t size;
    enum mr_status status = find_vocab_size(vocab, &size, err);
    if (status != MR_OK) return status;
    struct mr_text *texts = calloc(size + 1, sizeof *texts);
    if (!texts) return mr_fail(err, MR_NOMEM, "no memory for a vocabulary");
    struct mr_json_member member = {0};
    while (mr_json_next(vocab, &member) && status == MR_OK) {
        int64_t id = 0;
        mr_json_int(member.value, &id);
        if (texts[id].bytes) status = mr_fail(err, MR_BAD_FILE, "two tokens have one id");
        texts[id] = member.name;
    }
    if (status == MR_OK) status = mr_vocab_create(&parts->vocab, texts, size, err);
    free(texts);
    return status;
}

/* Reads a merge, which is ["left", "right"] or, in older files, "left right". */
static bool read_pair(const struct mr_json_value *merge, struct mr_text *left,
                      struct mr_text *right)
{
    struct mr_text line;
    if (!mr_json_text(merge, &line))
        return mr_json_count(merge) == 2 && mr_json_text(mr_json_at(merge, 0), left) &&
               mr_json_text(mr_json_at(merge, 1), right);
    const char *space = memchr(line.bytes, ' ', line.length);
    if (!space) return false;
    *left = (struct mr_text){line.bytes, (size_t)(space - line.bytes)};
    *right = (struct mr_text){space + 1, line.length - left->length - 1};
    return !memchr(right->bytes, ' ', right->length);
}

static enum mr_status read_merges(struct mr_tokenizer_parts *parts,
                                  const struct mr_json_value *merges, struct mr_error *err)
{
    if (!merges || mr_json_kind(merges) != MR_JSON_ARRAY)
        return mr_fail(err, MR_BAD_FILE, "the model has no merges");
    size_t count = mr_json_count(merges);
    parts->merges = calloc(count + 1, sizeof *parts->merges);
    if (!parts->merges) return mr_fail(err, MR_NOMEM, "no memory for %zu merges", count);
    for (size_t i = 0; i < count; i++) {
        struct mr_text left, right;
        if (!read_pair(mr_json_at(merges, i), &left, &right))
            return mr_fail(err, MR_BAD_FILE, "merge %zu is not a pair", i);
        enum mr_status status =
            mr_tokenizer_resolve_merge(parts->vocab, left, right, &parts->merges[i], err);
        if (status != MR_OK) return status;
        parts->merges[i].rank = (uint32_t)i;
    }
    parts->merge_count = count;
    return MR_OK;
}

/* Reads a boolean member; absent and null mean false. */
static enum mr_status read_flag(const struct mr_json_value *object, const char *name, bool *out,
                                struct mr_error *err)
{
    const struct mr_json_value *value = mr_json_get(object, name);
    *out = false;
    if (mr_json_is_null(value) || mr_json_bool(value, out)) return MR_OK;
    return mr_fail(err, MR_BAD_FILE, "%s is not true or false", name);
}

/* Fails for options that would change the ids and that no known model uses. */
static enum mr_status refuse_unsupported(const struct mr_json_value *model, struct mr_error *err)
{
    double dropout = 0;
    struct mr_text text = {"", 0};
    mr_json_number(mr_json_get(model, "dropout"), &dropout);
    if (dropout > 0)
        return mr_fail(err, MR_BAD_FILE, "dropout is not supported: it makes ids random");
    mr_json_text(mr_json_get(model, "continuing_subword_prefix"), &text);
    if (text.length > 0)
        return mr_fail(err, MR_BAD_FILE, "continuing_subword_prefix is not supported");
    mr_json_text(mr_json_get(model, "end_of_word_suffix"), &text);
    if (text.length > 0) return mr_fail(err, MR_BAD_FILE, "end_of_word_suffix is not supported");
    return MR_OK;
}

static enum mr_status read_bpe(struct mr_tokenizer_parts *parts, const struct mr_json_value *model,
                               struct mr_error *err)
{
    enum mr_status status = refuse_unsupported(model, err);
    if (status == MR_OK)
        status = read_flag(model, "ignore_merges", &parts->model.ignore_merges, err);
    if (status == MR_OK)
        status = read_flag(model, "byte_fallback", &parts->model.byte_fallback, err);
    if (status == MR_OK) status = read_flag(model, "fuse_unk", &parts->model.fuse_unk, err);
    if (status == MR_OK) status = read_vocab(parts, mr_json_get(model, "vocab"), err);
    if (status == MR_OK) status = read_merges(parts, mr_json_get(model, "merges"), err);
    if (status != MR_OK) return status;
    struct mr_text unk;
    parts->model.unk_id = MR_TOKEN_NONE;
    if (!mr_json_text(mr_json_get(model, "unk_token"), &unk)) return MR_OK;
    parts->model.unk_id = mr_vocab_find(parts->vocab, unk);
    if (parts->model.unk_id == MR_TOKEN_NONE)
        return mr_fail(err, MR_BAD_FILE, "the unknown token is not in the vocabulary");
    return MR_OK;
}

/* Reads the vocabulary of a Unigram model, a list of [text, score]; an id is a place in it. Sets
 * *least to the lowest score. */
static enum mr_status read_scored(struct mr_tokenizer_parts *parts,
                                  const struct mr_json_value *list, double *least,
                                  struct mr_error *err)
{
    size_t count = mr_json_count(list);
    if (!list || mr_json_kind(list) != MR_JSON_ARRAY || count == 0 || count > MR_VOCAB_TOKENS_MAX)
        return mr_fail(err, MR_BAD_FILE, "the Unigram model has no vocabulary");
    parts->scores = calloc(count, sizeof *parts->scores);
    struct mr_text *texts = calloc(count, sizeof *texts);
    enum mr_status status = MR_OK;
    if (!texts || !parts->scores) status = mr_fail(err, MR_NOMEM, "no memory for a vocabulary");
    for (size_t id = 0; id < count && status == MR_OK; id++) {
        const struct mr_json_value *entry = mr_json_at(list, id);
        if (!mr_json_text(mr_json_at(entry, 0), &texts[id]) ||
            !mr_json_number(mr_json_at(entry, 1), &parts->scores[id]))
            status = mr_fail(err, MR_BAD_FILE, "token %zu is not a text with a score", id);
        else if (parts->scores[id] < *least)
            *least = parts->scores[id];
    }
    if (status == MR_OK) status = mr_vocab_create(&parts->vocab, texts, count, err);
    free(texts);
    return status;
}

static enum mr_status read_unigram(struct mr_tokenizer_parts *parts,
                                   const struct mr_json_value *model, struct mr_error *err)
{
    double least = INFINITY;
    int64_t unk = -1;
    struct mr_unigram_options *options = &parts->unigram;
    enum mr_status status = read_flag(model, "byte_fallback", &options->byte_fallback, err);
    if (status == MR_OK) status = read_scored(parts, mr_json_get(model, "vocab"), &least, err);
    if (status != MR_OK) return status;
    if (!mr_json_int(mr_json_get(model, "unk_id"), &unk) || unk < 0 || unk >= UINT32_MAX)
        return mr_fail(err, MR_BAD_FILE, "the Unigram model has no unk_id");
    options->unk_id = (uint32_t)unk;
    options->unk_score = least - UNIGRAM_UNK_PENALTY;
    return MR_OK;
}

static enum mr_status read_wordpiece(struct mr_tokenizer_parts *parts,
                                     const struct mr_json_value *model, struct mr_error *err)
{
    struct mr_wordpiece *wordpiece = &parts->wordpiece;
    struct mr_text prefix = {"##", 2}, unk = {"[UNK]", 5};
    int64_t most = 100;
    enum mr_status status = read_vocab(parts, mr_json_get(model, "vocab"), err);
    if (status != MR_OK) return status;
    mr_json_text(mr_json_get(model, "continuing_subword_prefix"), &prefix);
    mr_json_text(mr_json_get(model, "unk_token"), &unk);
    mr_json_int(mr_json_get(model, "max_input_chars_per_word"), &most);
    if (prefix.length > sizeof wordpiece->prefix || most < 1 || most > MR_WORDPIECE_CHARS_MAX)
        return mr_fail(err, MR_BAD_FILE,
                       "WordPiece with words of %lld characters or a prefix of %zu bytes",
                       (long long)most, prefix.length);
    memcpy(wordpiece->prefix, prefix.bytes, prefix.length);
    wordpiece->prefix_length = prefix.length;
    wordpiece->chars_max = (uint32_t)most;
    wordpiece->unk_id = mr_vocab_find(parts->vocab, unk);
    if (wordpiece->unk_id != MR_TOKEN_NONE) return MR_OK;
    return mr_fail(err, MR_BAD_FILE, "the unknown token is not in the vocabulary");
}

static enum mr_status read_model(struct mr_tokenizer_parts *parts,
                                 const struct mr_json_value *model, struct mr_error *err)
{
    struct mr_text type = type_of(model);
    if (mr_text_is(type, "Unigram")) return read_unigram(parts, model, err);
    if (mr_text_is(type, "WordPiece")) return read_wordpiece(parts, model, err);
    if (type.length == 0 || mr_text_is(type, "BPE")) return read_bpe(parts, model, err);
    return mr_fail(err, MR_BAD_FILE, "the tokenizer model %.40s is not supported", type.bytes);
}

/* ---- added tokens ---- */

static enum mr_status read_added_token(const struct mr_json_value *value,
                                       struct mr_added_token *token, struct mr_error *err)
{
    if (!mr_json_text(mr_json_get(value, "content"), &token->content))
        return mr_fail(err, MR_BAD_FILE, "an added token has no content");
    enum mr_status status = read_flag(value, "special", &token->special, err);
    if (status == MR_OK) status = read_flag(value, "lstrip", &token->lstrip, err);
    if (status == MR_OK) status = read_flag(value, "rstrip", &token->rstrip, err);
    if (status == MR_OK) status = read_flag(value, "single_word", &token->single_word, err);
    if (status == MR_OK) status = read_flag(value, "normalized", &token->normalized, err);
    return status;
}

/* Reads the entries that have a content; at most `count` of them. */
static enum mr_status read_listed(struct mr_added_token *listed, size_t *listed_count,
                                  const struct mr_json_value *list, struct mr_error *err)
{
    size_t count = mr_json_count(list);
    for (size_t i = 0; i < count; i++) {
        struct mr_added_token token = {.id = MR_TOKEN_NONE};
        enum mr_status status = read_added_token(mr_json_at(list, i), &token, err);
        if (status != MR_OK) return status;
        if (token.content.length > 0) listed[(*listed_count)++] = token;
    }
    return MR_OK;
}

/* Adds the listed tokens, each text once. Assigns ids as the reference implementation does, which
 * ignores the ids in the file: a token in the vocabulary has its id there, other tokens get the
 * next free ids. A token listed twice keeps its id and has the flags of the second entry.
 * last_entry finds the last entry with a text. */
static void add_listed(struct mr_tokenizer_parts *parts, struct mr_added_token *listed,
                       size_t listed_count, const struct mr_vocab *last_entry)
{
    uint32_t next_id = mr_vocab_count(parts->vocab);
    for (size_t i = 0; i < listed_count; i++) {
        struct mr_added_token *last = &listed[mr_vocab_find(last_entry, listed[i].content)];
        if (last->id != MR_TOKEN_NONE) continue;
        last->id = mr_vocab_find(parts->vocab, last->content);
        if (last->id == MR_TOKEN_NONE) last->id = next_id++;
        parts->added[parts->added_count++] = *last;
    }
}

static enum mr_status read_added(struct mr_tokenizer_parts *parts, const struct mr_json_value *list,
                                 struct mr_error *err)
{
    size_t count = mr_json_count(list), listed_count = 0;
    struct mr_vocab *last_entry = NULL;
    struct mr_added_token *listed = calloc(count + 1, sizeof *listed);
    struct mr_text *texts = calloc(count + 1, sizeof *texts);
    parts->added = calloc(count + 1, sizeof *parts->added);
    enum mr_status status = MR_OK;
    if (!listed || !texts || !parts->added)
        status = mr_fail(err, MR_NOMEM, "no memory for %zu added tokens", count);
    if (status == MR_OK) status = read_listed(listed, &listed_count, list, err);
    for (size_t i = 0; i < listed_count && status == MR_OK; i++)
        texts[i] = listed[i].content;
    if (status == MR_OK) status = mr_vocab_create(&last_entry, texts, listed_count, err);
    if (status == MR_OK) add_listed(parts, listed, listed_count, last_entry);
    mr_vocab_destroy(last_entry);
    free(texts);
    free(listed);
    return status;
}

/* ---- decoder ---- */

static enum mr_status read_decode_replace(struct mr_token_decoder *decoder,
                                          const struct mr_json_value *component,
                                          struct mr_error *err)
{
    size_t i = decoder->replace_count;
    if (i == MR_DECODE_REPLACES_MAX || decoder->byte_fallback || decoder->byte_level)
        return mr_fail(err, MR_BAD_FILE, "decoder has Replace where it is not supported");
    if (!mr_json_text(mr_json_get(mr_json_get(component, "pattern"), "String"),
                      &decoder->from[i]) ||
        decoder->from[i].length == 0 ||
        !mr_json_text(mr_json_get(component, "content"), &decoder->to[i]))
        return mr_fail(err, MR_BAD_FILE, "decoder Replace does not replace plain text");
    decoder->replace_count++;
    return MR_OK;
}

static enum mr_status read_decode_strip(struct mr_token_decoder *decoder,
                                        const struct mr_json_value *component, bool fused,
                                        struct mr_error *err)
{
    struct mr_text content = {"", 0};
    int64_t start = -1, stop = -1;
    mr_json_text(mr_json_get(component, "content"), &content);
    mr_json_int(mr_json_get(component, "start"), &start);
    mr_json_int(mr_json_get(component, "stop"), &stop);
    if (!fused || !mr_text_is(content, " ") || start != 1 || stop != 0 ||
        decoder->first_space != MR_FIRST_SPACE_KEPT)
        return mr_fail(err, MR_BAD_FILE,
                       "decoder Strip does not remove exactly one leading space of the text");
    decoder->first_space = MR_FIRST_SPACE_OF_TEXT;
    return MR_OK;
}

/* The decoder Metaspace writes a space for its replacement character. In the first token it writes
 * nothing for them, unless prepend_scheme is "never". */
static enum mr_status read_decode_metaspace(struct mr_token_decoder *decoder,
                                            const struct mr_json_value *component,
                                            struct mr_error *err)
{
    struct mr_text scheme = {"always", 6};
    size_t i = decoder->replace_count;
    mr_json_text(mr_json_get(component, "prepend_scheme"), &scheme);
    if (i == MR_DECODE_REPLACES_MAX || decoder->byte_level ||
        decoder->first_space != MR_FIRST_SPACE_KEPT ||
        !mr_json_text(mr_json_get(component, "replacement"), &decoder->from[i]) ||
        decoder->from[i].length == 0)
        return mr_fail(err, MR_BAD_FILE, "decoder Metaspace is not supported here");
    decoder->to[i] = (struct mr_text){" ", 1};
    decoder->replace_count++;
    if (!mr_text_is(scheme, "never")) decoder->first_space = MR_FIRST_SPACE_OF_TOKEN;
    return MR_OK;
}

static enum mr_status read_decoder_step(struct mr_token_decoder *decoder,
                                        const struct mr_json_value *component, bool *fused,
                                        struct mr_error *err)
{
    struct mr_text type = type_of(component);
    if (mr_text_is(type, "Strip")) return read_decode_strip(decoder, component, *fused, err);
    bool fuse = mr_text_is(type, "Fuse");
    if (*fused && !fuse)
        return mr_fail(err, MR_BAD_FILE, "decoder %.40s after Fuse is not supported", type.bytes);
    /* ByteLevel joins the texts of all tokens, as Fuse does */
    *fused = fuse || mr_text_is(type, "ByteLevel");
    /* The decoder WordPiece joins words and removes some spaces; models with it generate no text.
     */
    if (mr_text_is(type, "WordPiece") && !decoder->byte_level) return MR_OK;
    if (mr_text_is(type, "Replace")) return read_decode_replace(decoder, component, err);
    if (mr_text_is(type, "Metaspace")) return read_decode_metaspace(decoder, component, err);
    bool bytes = decoder->byte_level || decoder->byte_fallback;
    if (mr_text_is(type, "ByteLevel") && !bytes && decoder->replace_count == 0)
        decoder->byte_level = true;
    else if (mr_text_is(type, "ByteFallback") && !bytes)
        decoder->byte_fallback = true;
    else if (!fuse)
        return mr_fail(err, MR_BAD_FILE, "unknown decoder %.40s", type.bytes);
    return MR_OK;
}

static enum mr_status read_decoder(struct mr_token_decoder *decoder,
                                   const struct mr_json_value *component, struct mr_error *err)
{
    bool fused = false;
    if (!mr_text_is(type_of(component), "Sequence"))
        return read_decoder_step(decoder, component, &fused, err);
    const struct mr_json_value *list = mr_json_get(component, "decoders");
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < mr_json_count(list) && status == MR_OK; i++)
        status = read_decoder_step(decoder, mr_json_at(list, i), &fused, err);
    return status;
}

/* ---- post-processor ---- */

/* A place of the frame: its ids and their number. */
struct frame_place {
    uint32_t *ids;
    size_t *count;
};

static enum mr_status add_frame_id(struct frame_place place, uint32_t id, struct mr_error *err)
{
    if (*place.count == MR_FRAME_IDS_MAX)
        return mr_fail(err, MR_BAD_FILE, "post-processor adds more than %d tokens",
                       MR_FRAME_IDS_MAX);
    place.ids[(*place.count)++] = id;
    return MR_OK;
}

static enum mr_status add_frame_token(struct frame_place place, const struct mr_json_value *token,
                                      struct mr_error *err)
{
    const struct mr_json_value *ids = mr_json_get(token, "ids");
    if (mr_json_count(ids) == 0)
        return mr_fail(err, MR_BAD_FILE, "post-processor names a token it does not define");
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < mr_json_count(ids) && status == MR_OK; i++) {
        int64_t id = -1;
        if (!mr_json_int(mr_json_at(ids, i), &id) || id < 0 || id >= (int64_t)MR_VOCAB_TOKENS_MAX)
            return mr_fail(err, MR_BAD_FILE, "post-processor has a bad token id");
        status = add_frame_id(place, (uint32_t)id, err);
    }
    return status;
}

/* Reads a template with `texts` places for texts ("Sequence") into the places before, between and
 * after them. *last_type: token type of the last text. */
static enum mr_status read_pieces(const struct frame_place *places, size_t texts,
                                  const struct mr_json_value *pieces,
                                  const struct mr_json_value *defined, int64_t *last_type,
                                  struct mr_error *err)
{
    size_t read = 0; /* texts */
    for (size_t i = 0; i < mr_json_count(pieces); i++) {
        const struct mr_json_value *piece = mr_json_at(pieces, i);
        const struct mr_json_value *text = mr_json_get(piece, "Sequence");
        struct mr_text name;
        if (text) {
            if (read++ == texts)
                return mr_fail(err, MR_BAD_FILE, "post-processor repeats the text");
            mr_json_int(mr_json_get(text, "type_id"), last_type);
            continue;
        }
        if (!mr_json_text(mr_json_get(mr_json_get(piece, "SpecialToken"), "id"), &name))
            return mr_fail(err, MR_BAD_FILE, "post-processor has an unknown piece");
        enum mr_status status = add_frame_token(places[read], mr_json_get_text(defined, name), err);
        if (status != MR_OK) return status;
    }
    return read == texts ? MR_OK : mr_fail(err, MR_BAD_FILE, "post-processor leaves the text out");
}

static bool same_ids(const uint32_t *left, size_t left_count, const uint32_t *right,
                     size_t right_count)
{
    return left_count == right_count &&
           (left_count == 0 || memcmp(left, right, left_count * sizeof *left) == 0);
}

/* Reads how a pair of texts is encoded. A template that does not begin and end as that of a single
 * text leaves the tokenizer without pairs. */
static void read_pair_frame(struct mr_token_frame *frame, const struct mr_json_value *component)
{
    struct mr_token_frame pair = {.first_count = 0};
    const struct frame_place places[] = {{pair.first, &pair.first_count},
                                         {pair.middle, &pair.middle_count},
                                         {pair.last, &pair.last_count}};
    int64_t type = 0;
    if (read_pieces(places, 2, mr_json_get(component, "pair"),
                    mr_json_get(component, "special_tokens"), &type, NULL) != MR_OK ||
        !same_ids(pair.first, pair.first_count, frame->first, frame->first_count) ||
        !same_ids(pair.last, pair.last_count, frame->last, frame->last_count))
        return;
    memcpy(frame->middle, pair.middle, sizeof frame->middle);
    frame->middle_count = pair.middle_count;
    frame->pairs = true;
    frame->types = type == 1;
}

static enum mr_status read_template(struct mr_tokenizer_parts *parts,
                                    const struct mr_json_value *component, struct mr_error *err)
{
    struct mr_token_frame *frame = &parts->frame;
    const struct frame_place places[] = {{frame->first, &frame->first_count},
                                         {frame->last, &frame->last_count}};
    int64_t type;
    enum mr_status status = read_pieces(places, 1, mr_json_get(component, "single"),
                                        mr_json_get(component, "special_tokens"), &type, err);
    if (status == MR_OK) read_pair_frame(frame, component);
    return status;
}

/* The frame [CLS] text [SEP] of BERT; RoBERTa has two [SEP] between the texts of a pair, and no
 * token types. */
static enum mr_status read_cls_sep(struct mr_token_frame *frame,
                                   const struct mr_json_value *component, bool bert,
                                   struct mr_error *err)
{
    int64_t first = -1, last = -1;
    mr_json_int(mr_json_at(mr_json_get(component, "cls"), 1), &first);
    mr_json_int(mr_json_at(mr_json_get(component, "sep"), 1), &last);
    if (first < 0 || last < 0 || first > UINT32_MAX / 2 || last > UINT32_MAX / 2)
        return mr_fail(err, MR_BAD_FILE, "post-processor has no cls or sep");
    *frame = (struct mr_token_frame){.first = {(uint32_t)first},
                                     .middle = {(uint32_t)last, (uint32_t)last},
                                     .last = {(uint32_t)last},
                                     .first_count = 1,
                                     .middle_count = bert ? 1 : 2,
                                     .last_count = 1,
                                     .pairs = true,
                                     .types = bert};
    return MR_OK;
}

static enum mr_status read_frame(struct mr_tokenizer_parts *parts,
                                 const struct mr_json_value *component, unsigned depth,
                                 struct mr_error *err)
{
    struct mr_text type = type_of(component);
    if (mr_json_is_null(component) || mr_text_is(type, "ByteLevel"))
        return MR_OK; /* as post-processor, ByteLevel only changes offsets, which are not used */
    if (mr_text_is(type, "TemplateProcessing")) return read_template(parts, component, err);
    if (mr_text_is(type, "BertProcessing") || mr_text_is(type, "RobertaProcessing"))
        return read_cls_sep(&parts->frame, component, mr_text_is(type, "BertProcessing"), err);
    if (!mr_text_is(type, "Sequence") || depth > 4)
        return mr_fail(err, MR_BAD_FILE, "unknown post-processor %.40s", type.bytes);
    const struct mr_json_value *list = mr_json_get(component, "processors");
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < mr_json_count(list) && status == MR_OK; i++) {
        if (parts->frame.first_count + parts->frame.last_count > 0 &&
            !mr_text_is(type_of(mr_json_at(list, i)), "ByteLevel"))
            return mr_fail(err, MR_BAD_FILE, "two post-processors add tokens");
        status = read_frame(parts, mr_json_at(list, i), depth + 1, err);
    }
    return status;
}

static enum mr_status read_parts(struct mr_tokenizer_parts *parts, const struct mr_json_value *root,
                                 struct mr_error *err)
{
    const struct mr_json_value *decoder = mr_json_get(root, "decoder");
    if (mr_json_is_null(decoder)) return mr_fail(err, MR_BAD_FILE, "tokenizer.json has no decoder");
    enum mr_status status = read_model(parts, mr_json_get(root, "model"), err);
    if (status == MR_OK) status = read_added(parts, mr_json_get(root, "added_tokens"), err);
    if (status == MR_OK) status = read_decoder(&parts->decoder, decoder, err);
    if (status == MR_OK) status = read_frame(parts, mr_json_get(root, "post_processor"), 0, err);
    if (status == MR_OK)
        status = mr_normalizer_create(&parts->normalizer, mr_json_get(root, "normalizer"), err);
    if (status == MR_OK)
        status =
            mr_pretokenizer_create(&parts->pretokenizer, mr_json_get(root, "pre_tokenizer"), err);
    return status;
}

enum mr_status mr_tokenizer_from_json(struct mr_tokenizer **out, struct mr_text json,
                                      struct mr_text config, struct mr_error *err)
{
    *out = NULL;
    struct mr_json *file = NULL;
    struct mr_tokenizer_settings settings;
    struct mr_tokenizer_parts parts = {.vocab = NULL};
    enum mr_status status =
        mr_tokenizer_settings_open(&settings, &(struct mr_tokenizer_files){.config = config}, err);
    if (status == MR_OK) status = mr_tokenizer_parse(&file, json, "tokenizer.json", err);
    if (status == MR_OK) status = read_parts(&parts, mr_json_root(file), err);
    if (status == MR_OK) {
        parts.bos_id = mr_tokenizer_settings_token(&settings, &parts, "bos_token");
        parts.eos_id = mr_tokenizer_settings_token(&settings, &parts, "eos_token");
        status = mr_tokenizer_assemble(out, &parts, err);
    }
    mr_tokenizer_parts_drop(&parts);
    mr_tokenizer_settings_close(&settings);
    mr_json_destroy(file);
    return status;
}
