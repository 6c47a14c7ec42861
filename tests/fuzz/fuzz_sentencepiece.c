/* tokenizer.model: loads a SentencePiece model, encodes texts and decodes ids.
 *
 * Input: the length of the model in two bytes, the model, the tokenizer_config.json, a byte of
 * value 0, the added_tokens.json, a byte of value 0, and a text to encode. */
#include "codec/tokenizer_files/sentencepiece.h"
#include "tests/fuzz/fuzz_encoding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    struct mr_text model = fuzz_take(&cursor, fuzz_u16(&cursor));
    struct mr_text config = fuzz_part(&cursor), added = fuzz_part(&cursor);
    struct mr_tokenizer_files files = {config, {"", 0}, added};
    struct mr_tokenizer *tokenizer = NULL;
    struct mr_error err = {0};
    enum mr_status status = mr_tokenizer_from_sentencepiece(&tokenizer, model, &files, &err);
    MR_ASSERT(status == MR_OK || (status == MR_BAD_FILE && !tokenizer && err.detail[0]));
    if (status == MR_OK) encode_all(tokenizer, fuzz_rest(&cursor));
    return 0;
}
