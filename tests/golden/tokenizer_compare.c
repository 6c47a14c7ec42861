#include "tokenizer_compare.h"

#include "codec/tokenizer/detokenizer.h"
#include "codec/tokenizer_files/sentencepiece.h"
#include "codec/tokenizer_files/tekken.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "codec/tokenizer_files/tokenizer_spec.h"
#include "ops/files/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS_MAX ((size_t)1 << 22)

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long end = ftell(file);
    rewind(file);
    *length = end > 0 ? (size_t)end : 0;
    char *bytes = malloc(*length + 1);
    if (bytes && fread(bytes, 1, *length, file) != *length) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* ---- .spec files ---- */

static uint32_t take_u32(const char **at)
{
    uint32_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

static struct mr_text take_text(const char **at)
{
    uint32_t length = take_u32(at);
    struct mr_text text = {*at, length};
    *at += length;
    return text;
}

static enum mr_status load_spec(struct mr_tokenizer **out, const char *at, struct mr_error *err)
{
    struct mr_tokenizer_spec spec = {.model = take_text(&at), .pre = {NULL, 0}};
    spec.pre = take_text(&at);
    spec.token_count = take_u32(&at);
    struct mr_text *tokens = calloc(spec.token_count + 1, sizeof *tokens);
    enum mr_token_kind *kinds = calloc(spec.token_count + 1, sizeof *kinds);
    float *scores = calloc(spec.token_count + 1, sizeof *scores);
    for (uint32_t i = 0; i < spec.token_count; i++) {
        tokens[i] = take_text(&at);
        kinds[i] = (enum mr_token_kind)take_u32(&at);
        uint32_t bits = take_u32(&at);
        memcpy(&scores[i], &bits, sizeof bits);
    }
    spec.merge_count = take_u32(&at);
    struct mr_text *merges = calloc(spec.merge_count + 1, sizeof *merges);
    for (uint32_t i = 0; i < spec.merge_count; i++)
        merges[i] = take_text(&at);
    spec.tokens = tokens;
    spec.kinds = kinds;
    spec.scores = scores;
    spec.merges = merges;
    spec.bos_id = take_u32(&at);
    spec.eos_id = take_u32(&at);
    spec.unk_id = take_u32(&at);
    spec.add_bos = take_u32(&at) != 0;
    spec.add_eos = take_u32(&at) != 0;
    spec.add_space_prefix = take_u32(&at) != 0;
    enum mr_status status = mr_tokenizer_create(out, &spec, err);
    free(tokens);
    free(kinds);
    free(scores);
    free(merges);
    return status;
}

static enum mr_status load_gguf(struct mr_tokenizer **out, const char *path, struct mr_error *err)
{
    struct mr_gguf *gguf;
    enum mr_status status = mr_gguf_open(&gguf, path, err);
    if (status != MR_OK) return status;
    status = mr_gguf_tokenizer_create(out, gguf, err);
    mr_gguf_close(gguf);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

struct mr_tokenizer *tokenizer_load(const char *path)
{
    struct mr_tokenizer *tokenizer = NULL;
    struct mr_error err = {.detail = "cannot be read"};
    if (ends_with(path, ".gguf")) {
        load_gguf(&tokenizer, path, &err);
    } else {
        size_t length;
        char *bytes = read_file(path, &length);
        struct mr_text nothing = {NULL, 0};
        struct mr_tokenizer_files none = {{"", 0}, {"", 0}, {"", 0}};
        if (bytes && ends_with(path, ".spec"))
            load_spec(&tokenizer, bytes, &err);
        else if (bytes && strstr(path, "tekken"))
            mr_tokenizer_from_tekken(&tokenizer, (struct mr_text){bytes, length}, &none, &err);
        else if (bytes && ends_with(path, ".model"))
            mr_tokenizer_from_sentencepiece(&tokenizer, (struct mr_text){bytes, length}, &none,
                                            &err);
        else if (bytes)
            mr_tokenizer_from_json(&tokenizer, (struct mr_text){bytes, length}, nothing, &err);
        free(bytes);
    }
    if (!tokenizer) fprintf(stderr, "%s: %s\n", path, err.detail);
    return tokenizer;
}

char *tokenizer_decode(const struct mr_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                       bool skip_special, size_t *length)
{
    struct mr_detokenizer detokenizer;
    mr_detokenizer_init(&detokenizer, tokenizer, skip_special);
    size_t bound = 64;
    for (size_t i = 0; i < count; i++)
        bound += mr_detokenizer_bound(&detokenizer, ids[i]) + 12;
    char *text = malloc(bound);
    *length = 0;
    for (size_t i = 0; text && i < count; i++)
        *length += mr_detokenizer_push(&detokenizer, ids[i], text + *length);
    if (text) *length += mr_detokenizer_finish(&detokenizer, text + *length);
    return text;
}

/* ---- requests ---- */

struct session {
    struct mr_tokenizer *tokenizer;
    struct mr_tokenizer_scratch *scratch;
    uint32_t *ids;
};

static void write_u32(uint32_t value)
{
    fwrite(&value, sizeof value, 1, stdout);
}

static bool answer_encode(const struct session *s, unsigned char flags, uint32_t length)
{
    /* A block of exactly this size, so that AddressSanitizer detects a read of one byte more. */
    char *text = malloc(length > 0 ? length : 1);
    if (!text || fread(text, 1, length, stdin) != length) {
        free(text);
        return false;
    }
    struct mr_encode_options options = {.add_special = (flags & 1) != 0,
                                        .parse_special = (flags & 2) != 0};
    struct mr_id_list list = {.ids = s->ids, .max = IDS_MAX};
    struct mr_error err;
    enum mr_status status = mr_tokenizer_encode(
        s->tokenizer, s->scratch, (struct mr_text){text, length}, options, &list, &err);
    free(text);
    write_u32(status == MR_OK ? (uint32_t)list.count : UINT32_MAX);
    if (status == MR_OK) fwrite(s->ids, sizeof *s->ids, list.count, stdout);
    return true;
}

static bool answer_decode(const struct session *s, bool skip_special, uint32_t count)
{
    if (count > IDS_MAX || fread(s->ids, sizeof *s->ids, count, stdin) != count) return false;
    size_t length;
    char *text = tokenizer_decode(s->tokenizer, s->ids, count, skip_special, &length);
    if (!text) return false;
    write_u32((uint32_t)length);
    fwrite(text, 1, length, stdout);
    free(text);
    return true;
}

static bool answer_all(const struct session *s)
{
    unsigned char head[6];
    bool good = true;
    while (good && fread(head, 1, sizeof head, stdin) == sizeof head) {
        uint32_t count;
        memcpy(&count, head + 2, sizeof count);
        good = head[0] == 'E' ? answer_encode(s, head[1], count)
                              : answer_decode(s, head[1] != 0, count);
    }
    return good && fflush(stdout) == 0;
}

int tokenizer_compare(const char *path)
{
    struct session s = {.tokenizer = tokenizer_load(path)};
    if (!s.tokenizer) return 1;
    s.scratch = mr_tokenizer_scratch_create(s.tokenizer);
    s.ids = calloc(IDS_MAX, sizeof *s.ids);
    bool good = s.scratch && s.ids && answer_all(&s);
    free(s.ids);
    mr_tokenizer_scratch_destroy(s.scratch);
    mr_tokenizer_destroy(s.tokenizer);
    return good ? 0 : 1;
}
