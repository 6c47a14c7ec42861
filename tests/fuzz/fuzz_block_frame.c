/* KV blocks as Redis returns them: a header and a payload.
 *
 * Input: a byte (bit 0: encryption keys, bit 1: another codec, bit 2: only read), the fields that
 * the reader expects (token count u16, slice u8, slice count u8), the place and the bits of a
 * change (u16, u8), the header (64 bytes), and the payload. */
#include "kvcache/remote/block_frame.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#define AES_IDS 2u

static const unsigned char block_key[MR_HASH_BYTES] = "an item whose key this is, 32 b";

static void open_keys(struct mr_frame_keys *keys)
{
    static const struct mr_frame_secret secrets[AES_IDS] = {{7, {1}}, {255, {2}}};
    MR_ASSERT(mr_frame_keys_add_all(keys, secrets, AES_IDS, NULL) == MR_OK);
}

static unsigned char *copy_of(struct mr_text text)
{
    unsigned char *copy = malloc(text.length + (text.length == 0));
    MR_ASSERT(copy);
    if (text.length) memcpy(copy, text.bytes, text.length);
    return copy;
}

/* Reads arbitrary bytes. A valid value without encryption equals the value that a writer would
 * write. */
static void read_any(const unsigned char header[MR_FRAME_BYTES], const struct mr_frame *expected,
                     struct mr_text payload, struct mr_frame_keys *keys)
{
    unsigned char *copy = copy_of(payload), again[MR_FRAME_BYTES];
    enum mr_verdict verdict = mr_frame_read(header, expected, copy, keys, NULL);
    MR_ASSERT(verdict < MR_VERDICT_COUNT && mr_verdict_text(verdict)[0]);
    if (verdict == MR_VERDICT_GOOD && keys->count == 0) {
        struct mr_frame_order order = {.frame = *expected, .payload = payload.bytes};
        mr_frame_write(&order, keys, again);
        memcpy(again + 36, header + 36, MR_AES_NONCE_BYTES); /* nothing reads the nonce */
        MR_ASSERT(memcmp(again, header, 36) == 0);
    }
    free(copy);
}

/* The result of verifying a value whose digest is computed while it is received in two pieces. */
static enum mr_verdict read_in_pieces(const unsigned char header[MR_FRAME_BYTES],
                                      const struct mr_frame *expected, struct mr_text payload,
                                      struct mr_frame_keys *keys, size_t cut)
{
    struct mr_frame_digest *digest = mr_frame_digest_create();
    unsigned char *copy = copy_of(payload);
    MR_ASSERT(digest);
    mr_frame_digest_begin(digest);
    cut %= MR_FRAME_BYTES + 1;
    mr_frame_digest_add(digest, header, cut);
    mr_frame_digest_add(digest, header + cut, MR_FRAME_BYTES - cut);
    cut = payload.length ? cut % payload.length : 0;
    mr_frame_digest_add(digest, copy, cut);
    mr_frame_digest_add(digest, copy + cut, payload.length - cut);
    enum mr_verdict verdict = mr_frame_read(header, expected, copy, keys, digest);
    mr_frame_digest_destroy(digest);
    free(copy);
    return verdict;
}

/* A written value is valid and unchanged. After a change of any bit it is invalid. */
static void round_trip(const struct mr_frame *frame, struct mr_text payload,
                       struct mr_frame_keys *keys, size_t place, uint8_t bits)
{
    static const unsigned char nonce[MR_AES_NONCE_BYTES] = {3};
    unsigned char header[MR_FRAME_BYTES];
    unsigned char *stored = copy_of(payload), *copy;
    struct mr_frame_order order = {
        .frame = *frame, .payload = payload.bytes, .sealed = stored, .nonce = nonce};
    mr_frame_write(&order, keys, header);
    struct mr_text value = {(char *)stored, payload.length};
    copy = copy_of(value);
    MR_ASSERT(mr_frame_read(header, frame, copy, keys, NULL) == MR_VERDICT_GOOD);
    if (payload.length) MR_ASSERT(memcmp(copy, payload.bytes, payload.length) == 0);
    free(copy);
    place %= MR_FRAME_BYTES + payload.length;
    *(place < MR_FRAME_BYTES ? &header[place] : &stored[place - MR_FRAME_BYTES]) ^= bits;
    enum mr_verdict verdict = read_in_pieces(header, frame, value, keys, place);
    MR_ASSERT((verdict == MR_VERDICT_GOOD) == (bits == 0));
    free(stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    struct mr_frame_keys keys = {0};
    unsigned char header[MR_FRAME_BYTES] = {0};
    uint8_t flags = fuzz_u8(&cursor);
    struct mr_frame frame = {.key = block_key, .token_count = fuzz_u16(&cursor)};
    frame.slice = fuzz_u8(&cursor);
    frame.slice_count = frame.slice + 1 + fuzz_u8(&cursor);
    frame.codec = flags & 2u ? MR_FRAME_INT8 : MR_FRAME_EXACT;
    size_t place = fuzz_u16(&cursor);
    uint8_t bits = fuzz_u8(&cursor);
    struct mr_text head = fuzz_take(&cursor, MR_FRAME_BYTES), payload = fuzz_rest(&cursor);
    memcpy(header, head.bytes, head.length);
    frame.length = payload.length;
    if (flags & 1u) open_keys(&keys);
    read_any(header, &frame, payload, &keys);
    if (!(flags & 4u)) round_trip(&frame, payload, &keys, place, bits);
    if (payload.length) {
        struct mr_slices slices = mr_slices_of(payload.length * (size_t)4099, place);
        size_t sum = 0;
        for (uint32_t i = 0; i < slices.count; i++)
            sum += mr_slices_length(&slices, payload.length * (size_t)4099, i);
        MR_ASSERT(sum == payload.length * (size_t)4099);
    }
    mr_frame_keys_clear(&keys);
    return 0;
}
