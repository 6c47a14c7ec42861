/* sentencepiece_bytes - writes the bytes of small SentencePiece models for tests. */
#ifndef MR_TESTS_SENTENCEPIECE_BYTES_H
#define MR_TESTS_SENTENCEPIECE_BYTES_H

#include "codec/text.h"

#include <string.h>

struct model_bytes {
    char bytes[4096];
    size_t length;
};

static inline void add_bytes(struct model_bytes *model, const void *bytes, size_t length)
{
    memcpy(model->bytes + model->length, bytes, length);
    model->length += length;
}

/* Appends a field with a number below 16 and bytes shorter than 128. */
static inline void add_message(struct model_bytes *model, unsigned number, const void *bytes,
                               size_t length)
{
    const char head[] = {(char)(number << 3 | 2), (char)length};
    add_bytes(model, head, 2);
    add_bytes(model, bytes, length);
}

/* Appends a token of a type as the file numbers it: 1 normal, 2 unknown, 3 control ... */
static inline void add_token(struct model_bytes *model, const char *text, float score, char type)
{
    struct model_bytes token = {.length = 0};
    add_message(&token, 1, text, strlen(text));
    add_bytes(&token, "\x15", 1);
    add_bytes(&token, &score, 4);
    add_bytes(&token, "\x18", 1);
    add_bytes(&token, &type, 1);
    add_message(model, 1, token.bytes, token.length);
}

/* A model of this type (1 Unigram, 2 BPE) without extra rules:
 * <unk> <s> </s> U+2581 a b ab U+2581a */
static inline struct model_bytes small_model(char type)
{
    struct model_bytes model = {.length = 0};
    add_token(&model, "<unk>", 0, 2);
    add_token(&model, "<s>", 0, 3);
    add_token(&model, "</s>", 0, 3);
    add_token(&model, "\xe2\x96\x81", -3, 1);
    add_token(&model, "a", -4, 1);
    add_token(&model, "b", -4, 1);
    add_token(&model, "ab", -2, 1);
    add_token(&model,
              "\xe2\x96\x81"
              "a",
              -1, 1);
    const char trainer[] = {0x18, type};
    add_message(&model, 2, trainer, 2);
    const char normalizer[] = {0x20, 0}; /* extra spaces stay */
    add_message(&model, 3, normalizer, 2);
    return model;
}

static inline struct mr_text text_of_model(const struct model_bytes *model)
{
    return (struct mr_text){model->bytes, model->length};
}

#endif
