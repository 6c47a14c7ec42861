/* tokenizer.json and tekken.json: loads a tokenizer, encodes texts and decodes ids.
 *
 * Input: the tokenizer.json or tekken.json, a byte of value 0, the tokenizer_config.json, a byte of
 * value 0, and a text to encode. */
#include "codec/tokenizer_files/tekken.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "tests/fuzz/fuzz_encoding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    struct mr_text json = fuzz_part(&cursor), config = fuzz_part(&cursor);
    struct mr_text text = fuzz_rest(&cursor);
    struct mr_tokenizer_files files = {config, {"", 0}, {"", 0}};
    for (unsigned format = 0; format < 2; format++) {
        struct mr_tokenizer *tokenizer = NULL;
        struct mr_error err = {0};
        enum mr_status status = format == 0
                                    ? mr_tokenizer_from_json(&tokenizer, json, config, &err)
                                    : mr_tokenizer_from_tekken(&tokenizer, json, &files, &err);
        /* a pattern that is too long to translate is MR_NOMEM */
        MR_ASSERT(status == MR_OK || status == MR_BAD_FILE || status == MR_NOMEM);
        MR_ASSERT(status == MR_OK || (!tokenizer && err.detail[0]));
        if (status == MR_OK) encode_all(tokenizer, text);
    }
    return 0;
}
