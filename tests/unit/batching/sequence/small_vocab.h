/* small_vocab - a tokenizer over a list of tokens given as raw bytes: id i is the i-th of the list,
 * and the last control_count are control tokens. */
#ifndef TESTS_UNIT_BATCHING_SMALL_VOCAB_H
#define TESTS_UNIT_BATCHING_SMALL_VOCAB_H

#include "codec/tokenizer/tokenizer.h"
#include "codec/tokenizer_files/tokenizer_spec.h"
#include "codec/utf8.h"

#include <string.h>

#define SMALL_VOCAB_TOKENS_MAX 64u
#define SMALL_VOCAB_BYTES_MAX  64u

/* The printable character that stands for a byte in byte-level vocabularies: itself when it is
 * printable Latin-1, else the next one from U+0100 on. */
static inline uint32_t small_vocab_character(unsigned char byte)
{
    uint32_t skipped = 0x100;
    for (uint32_t other = 0; other <= byte; other++) {
        bool printable = (other >= '!' && other <= '~') || (other >= 0xa1 && other != 0xad);
        if (other == byte) return printable ? byte : skipped;
        skipped += !printable;
    }
    return 0;
}

static inline size_t small_vocab_spell(const char *bytes, size_t length, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++)
        used += mr_utf8_put(out + used, small_vocab_character((unsigned char)bytes[i]));
    return used;
}

/* NULL on failure. Control tokens keep their given spelling. */
static inline struct mr_tokenizer *small_vocab_create(const char *const *tokens, uint32_t count,
                                                      uint32_t control_count)
{
    static char spelled[SMALL_VOCAB_TOKENS_MAX][4 * SMALL_VOCAB_BYTES_MAX];
    struct mr_text texts[SMALL_VOCAB_TOKENS_MAX];
    enum mr_token_kind kinds[SMALL_VOCAB_TOKENS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        bool is_control = i >= count - control_count;
        texts[i] = (struct mr_text){tokens[i], strlen(tokens[i])};
        kinds[i] = is_control ? MR_TOKEN_CONTROL : MR_TOKEN_NORMAL;
        if (is_control) continue;
        texts[i].length = small_vocab_spell(tokens[i], strlen(tokens[i]), spelled[i]);
        texts[i].bytes = spelled[i];
    }
    struct mr_tokenizer_spec spec = {.model = {"gpt2", 4},
                                     .pre = {"gpt-2", 5},
                                     .tokens = texts,
                                     .kinds = kinds,
                                     .token_count = count,
                                     .bos_id = MR_TOKEN_NONE,
                                     .eos_id = MR_TOKEN_NONE,
                                     .unk_id = MR_TOKEN_NONE};
    struct mr_tokenizer *tokenizer = NULL;
    (void)mr_tokenizer_create(&tokenizer, &spec, NULL);
    return tokenizer;
}

#endif
