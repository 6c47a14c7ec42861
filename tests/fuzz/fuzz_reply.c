/* Token and result records as the client commands and recovery read them. A decoded record is
 * encoded and decoded again, and must not change.
 *
 * Input: a byte (bit 0: JSON, bit 1: a result), then the record. */
#include "codec/limits.h"
#include "codec/records/reply.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

union reply {
    struct mr_token_record token;
    struct mr_result result;
};

static enum mr_status decode(union reply *reply, bool is_result, struct mr_text bytes,
                             enum mr_encoding encoding, struct mr_arena *arena)
{
    struct mr_error err = {0};
    enum mr_status status =
        is_result ? mr_result_decode(&reply->result, bytes, encoding, arena, &err)
                  : mr_token_record_decode(&reply->token, bytes, encoding, arena, &err);
    MR_ASSERT(status == MR_OK || (err.status == status && err.detail[0]));
    return status;
}

static struct mr_text encode(const union reply *reply, bool is_result, enum mr_encoding encoding)
{
    unsigned char *bytes = NULL;
    size_t length = 0;
    enum mr_status status =
        is_result ? mr_result_encode(&reply->result, encoding, &bytes, &length, NULL)
                  : mr_token_record_encode(&reply->token, encoding, &bytes, &length, NULL);
    MR_ASSERT((status == MR_OK) == (bytes != NULL));
    return (struct mr_text){(char *)bytes, length};
}

/* Decodes the encoded record, and encodes it again. */
static struct mr_text round_trip(struct mr_text bytes, bool is_result, enum mr_encoding encoding,
                                 struct mr_arena *arena)
{
    union reply reply;
    struct mr_text again = {0};
    if (bytes.bytes) {
        MR_ASSERT(decode(&reply, is_result, bytes, encoding, arena) == MR_OK);
        again = encode(&reply, is_result, encoding);
    }
    return again;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    uint8_t kind = fuzz_u8(&cursor);
    enum mr_encoding encoding = kind & 1u ? MR_ENCODING_JSON : MR_ENCODING_MSGPACK;
    bool is_result = kind >> 1 & 1u;
    struct mr_arena *arena = mr_arena_create((size_t)64 << 20);
    union reply first;
    MR_ASSERT(arena);
    if (decode(&first, is_result, fuzz_rest(&cursor), encoding, arena) == MR_OK) {
        /* one more time, because JSON writes -0.0 as -0, which is read as the integer 0 */
        struct mr_text once = encode(&first, is_result, encoding);
        struct mr_text twice = round_trip(once, is_result, encoding, arena);
        struct mr_text thrice = round_trip(twice, is_result, encoding, arena);
        MR_ASSERT(mr_text_equal(twice, thrice));
        free((char *)(uintptr_t)thrice.bytes);
        free((char *)(uintptr_t)twice.bytes);
        free((char *)(uintptr_t)once.bytes);
    }
    mr_arena_destroy(arena);
    return 0;
}
