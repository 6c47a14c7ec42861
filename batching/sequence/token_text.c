#include "batching/sequence/token_text.h"

#include "codec/tokenizer/detokenizer.h"
#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

#define PENDING_BYTES_MAX 3u /* most bytes of an incomplete character in a detokenizer */

struct repaired {
    uint32_t id;
    struct mr_text text; /* points into mr_token_text.bytes */
};

struct mr_token_text {
    const struct mr_tokenizer *tokenizer;
    /* [repaired_count] tokens whose bytes are not valid UTF-8, sorted by id */
    struct repaired *repaired;
    char *bytes;
    uint32_t repaired_count;
    size_t bytes_max;
};

/* Writes `text` to `out` with U+FFFD in place of ill-formed bytes and returns the length. out may
 * be NULL. */
static size_t repair(struct mr_text text, char *out)
{
    size_t length = 0;
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step step = mr_utf8_next(text, at);
        char character[4];
        size_t bytes = mr_utf8_put(character, step.code_point);
        if (out != NULL) memcpy(out + length, character, bytes);
        length += bytes;
        at += step.length;
    }
    return length;
}

/* Counts the tokens whose bytes are not valid UTF-8, finds the longest text of a token, and returns
 * the bytes that the repaired texts take. */
static size_t survey(struct mr_token_text *texts)
{
    struct mr_detokenizer worst;
    mr_detokenizer_init(&worst, texts->tokenizer, false);
    worst.pending_count = PENDING_BYTES_MAX;
    size_t repaired_bytes = 0;
    for (uint32_t id = 0; id < mr_tokenizer_vocab_size(texts->tokenizer); id++) {
        size_t bound = mr_detokenizer_bound(&worst, id);
        if (bound > texts->bytes_max) texts->bytes_max = bound;
        struct mr_text bytes = mr_tokenizer_bytes(texts->tokenizer, id, false);
        if (mr_utf8_is_valid(bytes)) continue;
        texts->repaired_count++;
        repaired_bytes += repair(bytes, NULL);
    }
    return repaired_bytes;
}

static void repair_all(struct mr_token_text *texts)
{
    uint32_t count = 0;
    size_t used = 0;
    for (uint32_t id = 0; id < mr_tokenizer_vocab_size(texts->tokenizer); id++) {
        struct mr_text bytes = mr_tokenizer_bytes(texts->tokenizer, id, false);
        if (mr_utf8_is_valid(bytes)) continue;
        size_t length = repair(bytes, texts->bytes + used);
        texts->repaired[count++] = (struct repaired){id, {texts->bytes + used, length}};
        used += length;
    }
}

enum mr_status mr_token_text_create(struct mr_token_text **out,
                                    const struct mr_tokenizer *tokenizer, struct mr_error *err)
{
    *out = NULL;
    struct mr_token_text *texts = calloc(1, sizeof *texts);
    if (texts == NULL) goto fail;
    texts->tokenizer = tokenizer;
    size_t bytes = survey(texts);
    texts->repaired = calloc((size_t)texts->repaired_count + 1, sizeof *texts->repaired);
    if (texts->repaired == NULL) goto fail_texts;
    texts->bytes = malloc(bytes + 1);
    if (texts->bytes == NULL) goto fail_repaired;
    repair_all(texts);
    *out = texts;
    return MR_OK;

fail_repaired:
    free(texts->repaired);
fail_texts:
    free(texts);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for the texts of a vocabulary");
}

void mr_token_text_destroy(struct mr_token_text *texts)
{
    if (texts == NULL) return;
    free(texts->bytes);
    free(texts->repaired);
    free(texts);
}

struct mr_text mr_token_text_of(const struct mr_token_text *texts, uint32_t id)
{
    uint32_t low = 0, high = texts->repaired_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (texts->repaired[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < texts->repaired_count && texts->repaired[low].id == id)
        return texts->repaired[low].text;
    return mr_tokenizer_bytes(texts->tokenizer, id, false);
}

struct mr_token_logprob mr_token_text_logprob(const struct mr_token_text *texts, uint32_t id,
                                              float logprob)
{
    struct mr_text text = mr_token_text_of(texts, id);
    struct mr_text bytes = mr_tokenizer_bytes(texts->tokenizer, id, false);
    if (bytes.bytes == text.bytes) bytes = (struct mr_text){0};
    return (struct mr_token_logprob){id, logprob, text, bytes};
}

size_t mr_token_text_bytes_max(const struct mr_token_text *texts)
{
    return texts->bytes_max;
}
