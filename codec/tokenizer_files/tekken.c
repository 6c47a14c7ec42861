#include "codec/tokenizer_files/tekken.h"

#include "codec/base64.h"
#include "codec/tokenizer/byte_alphabet.h"
#include "codec/tokenizer/tokenizer_assemble.h"
#include "codec/tokenizer_files/scored_merges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most special tokens of a file; the known files have 1,000. */
#define SPECIAL_MAX 65536

/* Room for "<SPECIAL_65535>". */
#define FILLER_BYTES 24

/* The special tokens of files that list none: those up to version 7 of the format. */
static const char *const default_special[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};
#define DEFAULT_SPECIAL_COUNT (sizeof default_special / sizeof default_special[0])

struct reading {
    struct mr_tokenizer_parts parts;
    uint32_t special_count, size; /* ids of special tokens, and of all tokens */
    struct mr_text *texts;        /* [size] texts of the vocabulary in the byte alphabet */
    float *scores;                /* [size] minus the rank; NaN for special tokens */
    size_t *ends;                 /* [size] ends of the texts in `bytes` */
    struct mr_buffer bytes;
    char *fillers; /* [special_count] names of special tokens that the file does not list */
    struct mr_error *err;
};

static enum mr_status no_memory(struct reading *r)
{
    return mr_fail(r->err, MR_NOMEM, "no memory for a vocabulary of %u tokens", r->size);
}

static bool read_count(const struct mr_json_value *config, const char *name, uint32_t max,
                       uint32_t *out)
{
    int64_t value = -1;
    if (!mr_json_int(mr_json_get(config, name), &value) || value < 1 || value > max) return false;
    *out = (uint32_t)value;
    return true;
}

static enum mr_status read_sizes(struct reading *r, const struct mr_json_value *root)
{
    const struct mr_json_value *config = mr_json_get(root, "config");
    size_t listed = mr_json_count(mr_json_get(root, "vocab"));
    if (!read_count(config, "default_vocab_size", MR_VOCAB_TOKENS_MAX, &r->size) ||
        !read_count(config, "default_num_special_tokens", SPECIAL_MAX, &r->special_count))
        return mr_fail(r->err, MR_BAD_FILE,
                       "config has no default_vocab_size or "
                       "default_num_special_tokens in range");
    if (r->size <= r->special_count || r->size - r->special_count > listed)
        return mr_fail(r->err, MR_BAD_FILE,
                       "a vocabulary of %zu tokens and %u special tokens does not have the %u "
                       "tokens of default_vocab_size",
                       listed, r->special_count, r->size);
    r->texts = calloc(r->size, sizeof *r->texts);
    r->scores = calloc(r->size, sizeof *r->scores);
    r->ends = calloc(r->size, sizeof *r->ends);
    r->fillers = calloc(r->special_count, FILLER_BYTES);
    r->parts.added = calloc(r->special_count, sizeof *r->parts.added);
    bool room = r->texts && r->scores && r->ends && r->fillers && r->parts.added;
    return room ? MR_OK : no_memory(r);
}

/* ---- special tokens ---- */

static enum mr_status set_special(struct reading *r, int64_t rank, struct mr_text text,
                                  bool special)
{
    if (rank < 0 || rank >= r->special_count || text.length == 0 ||
        r->parts.added[rank].content.length > 0)
        return mr_fail(r->err, MR_BAD_FILE,
                       "a special token has no text, or its rank is out of range or used twice");
    r->parts.added[rank] =
        (struct mr_added_token){.content = text, .id = (uint32_t)rank, .special = special};
    return MR_OK;
}

/* Reads the list of special tokens. The special ids after the list have names made from their
 * numbers. */
static enum mr_status read_special(struct reading *r, const struct mr_json_value *list)
{
    enum mr_status status = MR_OK;
    bool listed = !mr_json_is_null(list);
    for (size_t i = 0; i < mr_json_count(list) && status == MR_OK; i++) {
        const struct mr_json_value *entry = mr_json_at(list, i);
        int64_t rank = -1;
        struct mr_text text = {"", 0};
        bool control = true;
        mr_json_int(mr_json_get(entry, "rank"), &rank);
        mr_json_text(mr_json_get(entry, "token_str"), &text);
        mr_json_bool(mr_json_get(entry, "is_control"), &control);
        status = set_special(r, rank, text, control);
    }
    for (size_t i = 0; i < DEFAULT_SPECIAL_COUNT && !listed && status == MR_OK; i++) {
        const char *name = default_special[i];
        status = set_special(r, (int64_t)i, (struct mr_text){name, strlen(name)}, true);
    }
    for (uint32_t id = 0; id < r->special_count && status == MR_OK; id++) {
        if (r->parts.added[id].content.length > 0) continue;
        char *name = r->fillers + (size_t)id * FILLER_BYTES;
        int length = snprintf(name, FILLER_BYTES, "<SPECIAL_%u>", id);
        status = set_special(r, id, (struct mr_text){name, (size_t)length}, true);
    }
    r->parts.added_count = r->special_count;
    return status;
}

static uint32_t special_id(const struct reading *r, const char *name)
{
    for (uint32_t id = 0; id < r->special_count; id++)
        if (mr_text_is(r->parts.added[id].content, name)) return id;
    return MR_TOKEN_NONE;
}

/* ---- vocabulary ---- */

/* Appends the token's bytes in the byte alphabet. */
static enum mr_status read_bytes(struct reading *r, const struct mr_json_value *entry, size_t rank)
{
    struct mr_text base64 = {"", 0};
    unsigned char bytes[MR_SCORED_TOKEN_BYTES_MAX];
    size_t length = 0;
    int64_t given = -1;
    mr_json_int(mr_json_get(entry, "rank"), &given);
    mr_json_text(mr_json_get(entry, "token_bytes"), &base64);
    if (given != (int64_t)rank)
        return mr_fail(r->err, MR_BAD_FILE, "vocab[%zu] does not have rank %zu", rank, rank);
    if (!mr_base64_decode(base64, bytes, sizeof bytes, &length) || length == 0)
        return mr_fail(r->err, MR_BAD_FILE,
                       "token_bytes of vocab[%zu] is not base64 of 1 to %zu "
                       "bytes",
                       rank, sizeof bytes);
    struct mr_text text = {(const char *)bytes, length};
    return mr_byte_alphabet_encode(text, &r->bytes) ? MR_OK : no_memory(r);
}

static enum mr_status read_vocab(struct reading *r, const struct mr_json_value *list)
{
    enum mr_status status = MR_OK;
    for (uint32_t id = 0; id < r->size && status == MR_OK; id++) {
        bool special = id < r->special_count;
        size_t rank = special ? 0 : id - r->special_count;
        r->scores[id] = special ? NAN : -(float)rank;
        if (!special) status = read_bytes(r, mr_json_at(list, rank), rank);
        r->ends[id] = r->bytes.length;
    }
    if (status != MR_OK) return status;
    struct mr_text all = mr_buffer_text(&r->bytes);
    for (uint32_t id = r->special_count; id < r->size; id++)
        r->texts[id] = mr_text_part(all, r->ends[id - 1], r->ends[id]);
    status = mr_vocab_create(&r->parts.vocab, r->texts, r->size, r->err);
    for (unsigned byte = 0; byte < 256 && status == MR_OK; byte++) {
        char text[4];
        size_t length = mr_byte_alphabet_put(text, (unsigned char)byte);
        if (mr_vocab_find(r->parts.vocab, (struct mr_text){text, length}) == MR_TOKEN_NONE)
            status = mr_fail(r->err, MR_BAD_FILE, "the vocabulary has no token for byte %u", byte);
    }
    return status;
}

/* ---- the file ---- */

static void set_frame(struct reading *r, const struct mr_tokenizer_settings *settings)
{
    struct mr_tokenizer_parts *parts = &r->parts;
    parts->bos_id = special_id(r, "<s>");
    parts->eos_id = special_id(r, "</s>");
    if (parts->bos_id != MR_TOKEN_NONE &&
        mr_tokenizer_settings_flag(settings, "add_bos_token", true))
        parts->frame.first[parts->frame.first_count++] = parts->bos_id;
    if (parts->eos_id != MR_TOKEN_NONE &&
        mr_tokenizer_settings_flag(settings, "add_eos_token", false))
        parts->frame.last[parts->frame.last_count++] = parts->eos_id;
}

static enum mr_status read_file(struct reading *r, const struct mr_json_value *root,
                                const struct mr_tokenizer_settings *settings)
{
    struct mr_text pattern;
    if (!mr_json_text(mr_json_get(mr_json_get(root, "config"), "pattern"), &pattern))
        return mr_fail(r->err, MR_BAD_FILE, "config has no pattern");
    enum mr_status status = read_sizes(r, root);
    if (status == MR_OK) status = read_special(r, mr_json_get(root, "special_tokens"));
    if (status == MR_OK) status = read_vocab(r, mr_json_get(root, "vocab"));
    if (status == MR_OK) status = mr_scored_merges(&r->parts, r->scores, r->err);
    if (status == MR_OK) status = mr_normalizer_create(&r->parts.normalizer, NULL, r->err);
    if (status == MR_OK)
        status = mr_pretokenizer_from_pattern(&r->parts.pretokenizer, pattern, r->err);
    if (status != MR_OK) return status;
    r->parts.model.ignore_merges = true;
    r->parts.model.unk_id = MR_TOKEN_NONE;
    r->parts.decoder.byte_level = true;
    set_frame(r, settings);
    return MR_OK;
}

static void drop(struct reading *r)
{
    mr_tokenizer_parts_drop(&r->parts);
    mr_buffer_drop(&r->bytes);
    free(r->texts);
    free(r->scores);
    free(r->ends);
    free(r->fillers);
}

enum mr_status mr_tokenizer_from_tekken(struct mr_tokenizer **out, struct mr_text json,
                                        const struct mr_tokenizer_files *files,
                                        struct mr_error *err)
{
    *out = NULL;
    struct mr_json *file = NULL;
    struct mr_tokenizer_settings settings;
    struct mr_error cause = {.detail = ""};
    struct reading reading = {.err = &cause};
    mr_buffer_init(&reading.bytes, UINT32_MAX);
    enum mr_status status = mr_tokenizer_settings_open(&settings, files, err);
    if (status != MR_OK) return status;
    status = mr_tokenizer_parse(&file, json, "tekken.json", err);
    if (status == MR_OK) {
        status = read_file(&reading, mr_json_root(file), &settings);
        if (status == MR_OK) status = mr_tokenizer_assemble(out, &reading.parts, &cause);
        if (status != MR_OK) mr_fail(err, status, "tekken.json: %.200s", cause.detail);
    }
    drop(&reading);
    mr_tokenizer_settings_close(&settings);
    mr_json_destroy(file);
    return status;
}
