/* tokenizer.json: loads a tokenizer, encodes texts and decodes ids.
 *
 * Input: the tokenizer.json, a byte of value 0, the tokenizer_config.json, a byte of value 0, and a
 * text to encode. */
#include "codec/tokenizer/detokenizer.h"
#include "codec/tokenizer/tokenizer.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "codec/utf8.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#define IDS_MAX ((size_t)65536)

static uint32_t first_ids[IDS_MAX], second_ids[IDS_MAX];

/* Decoding gives valid UTF-8, at most as long as the bound says. */
static void decode(const struct mr_tokenizer *tokenizer, const struct mr_id_list *list)
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
static void encode(const struct mr_tokenizer *tokenizer, struct mr_text text,
                   struct mr_encode_options options)
{
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_id_list first = {first_ids, 0, IDS_MAX}, second = {second_ids, 0, IDS_MAX};
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char usual[] =
        "Hello  w\u00f6rld,\r\n<s>it's 1234 \u6f22\u5b57 \U0001f642 \xcc\x81 x";
    struct fuzz_cursor cursor = {data, size};
    struct mr_text json = fuzz_part(&cursor), config = fuzz_part(&cursor);
    struct mr_text text = fuzz_rest(&cursor);
    struct mr_tokenizer *tokenizer = NULL;
    struct mr_error err = {0};
    enum mr_status status = mr_tokenizer_from_json(&tokenizer, json, config, &err);
    /* a pattern that is too long to translate is MR_NOMEM */
    MR_ASSERT(status == MR_OK || !tokenizer);
    MR_ASSERT(status == MR_OK || ((status == MR_BAD_FILE || status == MR_NOMEM) && err.detail[0]));
    if (status != MR_OK) return 0;
    for (unsigned i = 0; i < 4; i++) {
        struct mr_encode_options options = {.add_special = i & 1u, .parse_special = i >> 1 & 1u};
        encode(tokenizer, (struct mr_text){usual, sizeof usual - 1}, options);
        encode(tokenizer, text, options);
    }
    mr_tokenizer_destroy(tokenizer);
    return 0;
}
