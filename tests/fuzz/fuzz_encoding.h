/* fuzz_encoding - assertions that hold for any tokenizer, shared by the targets that load
 * tokenizers. */
#ifndef MR_TESTS_FUZZ_ENCODING_H
#define MR_TESTS_FUZZ_ENCODING_H

#include "codec/tokenizer/detokenizer.h"
#include "codec/tokenizer/tokenizer.h"
#include "codec/utf8.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#define IDS_MAX ((size_t)65536)

static uint32_t first_ids[IDS_MAX], second_ids[IDS_MAX];

/* Decoding returns valid UTF-8 within its length limit. */
static inline void decode(const struct mr_tokenizer *tokenizer, const struct mr_id_list *list)
{
    struct mr_detokenizer detokenizer;
    mr_detokenizer_init(&detokenizer, tokenizer, true);
    for (size_t i = 0; i < list->count && i < list->max; i++) {
        MR_ASSERT(list->ids[i] < mr_tokenizer_vocab_size(tokenizer));
        size_t bound = mr_detokenizer_bound(&detokenizer, list->ids[i]);
        char *out = malloc(bound ? bound : 1);
        MR_ASSERT(out);
        size_t length = mr_detokenizer_push(&detokenizer, list->ids[i], out);
        MR_ASSERT(length <= bound && mr_utf8_is_valid((struct mr_text){out, length}));
        free(out);
    }
}

/* Encodes twice with one scratch, whose cache the first call fills, and compares. */
static inline void encode(const struct mr_tokenizer *tokenizer, struct mr_text text,
                          struct mr_encode_options options)
{
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_id_list first = {.ids = first_ids, .max = IDS_MAX},
                      second = {.ids = second_ids, .max = IDS_MAX};
    struct mr_error err = {0};
    MR_ASSERT(scratch);
    enum mr_status status = mr_tokenizer_encode(tokenizer, scratch, text, options, &first, &err);
    MR_ASSERT(status == MR_OK || mr_status_class(status) == MR_CLASS_REJECT);
    MR_ASSERT(status == MR_OK || err.detail[0]);
    MR_ASSERT(mr_tokenizer_encode(tokenizer, scratch, text, options, &second, NULL) == status);
    if (status == MR_OK) {
        MR_ASSERT(first.count == second.count);
        MR_ASSERT(memcmp(first_ids, second_ids, first.count * sizeof *first_ids) == 0);
        decode(tokenizer, &first);
    }
    mr_tokenizer_scratch_destroy(scratch);
}

/* Encodes a usual text and this text in all ways, and destroys the tokenizer. */
static inline void encode_all(struct mr_tokenizer *tokenizer, struct mr_text text)
{
    static const char usual[] =
        "Hello  w\u00f6rld,\r\n<s>it's 1234 \u6f22\u5b57 \U0001f642 \xcc\x81 x";
    for (unsigned i = 0; i < 4; i++) {
        struct mr_encode_options options = {.add_special = i & 1u, .parse_special = i >> 1 & 1u};
        encode(tokenizer, (struct mr_text){usual, sizeof usual - 1}, options);
        encode(tokenizer, text, options);
        /* two ranges in which control tokens are plain text */
        const struct mr_text_range barred[] = {{0, text.length / 4},
                                               {text.length / 3, text.length / 2}};
        options.barred = barred;
        options.barred_count = 2;
        encode(tokenizer, text, options);
    }
    mr_tokenizer_destroy(tokenizer);
}

#endif
