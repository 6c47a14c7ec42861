#include "kvcache/remote/block_frame.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>
/* makes XXH3_state_t a complete type, so that a struct can contain it */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#ifdef __x86_64__
/* xxHash chooses the widest vector instructions of this CPU at run time */
#include <xxh_x86dispatch.h>
#endif

#define DIGEST_AT    48u
#define NONCE_AT     36u
#define DIGEST_BYTES 16u
#define STRING_BYTES ((size_t)10)       /* bytes Redis adds to a string: 9 of header and the NUL */
#define SLICE_COST   ((size_t)64 << 10) /* a split into one more slice must save this many bytes */
/* step of the slice sizes tried when a value may be cut anywhere */
#define ANYWHERE ((size_t)64 << 10)

_Static_assert(DIGEST_BYTES == MR_AES_TAG_BYTES, "tag and digest have the same size");
_Static_assert(sizeof(XXH128_canonical_t) == DIGEST_BYTES, "XXH3-128");

/* ---- slices ---- */

size_t mr_slices_allocated(size_t value_bytes)
{
    size_t size = value_bytes + STRING_BYTES;
    if (size <= 128) return (size + 15) & ~(size_t)15;
    unsigned power = 63u - (unsigned)__builtin_clzll((unsigned long long)size - 1);
    size_t step = (size_t)1 << (power - 2);
    return (size + step - 1) / step * step;
}

static size_t memory_of(size_t length, size_t slice)
{
    size_t whole = length / slice, rest = length % slice;
    size_t sum = whole * (mr_slices_allocated(slice + MR_FRAME_BYTES) + SLICE_COST);
    return rest ? sum + mr_slices_allocated(rest + MR_FRAME_BYTES) + SLICE_COST : sum;
}

struct mr_slices mr_slices_of(size_t length, size_t layer_bytes)
{
    MR_ASSERT(length > 0);
    size_t unit = layer_bytes ? layer_bytes : ANYWHERE;
    if (unit > MR_SLICE_BYTES_MAX) unit = ANYWHERE; /* one layer is too large for a slice */
    size_t best = length, least = SIZE_MAX;
    for (size_t slice = unit; slice < length + unit && slice <= MR_SLICE_BYTES_MAX; slice += unit) {
        size_t memory = memory_of(length, slice < length ? slice : length);
        if (memory > least) continue;
        least = memory;
        best = slice < length ? slice : length;
    }
    return (struct mr_slices){.count = (uint32_t)((length + best - 1) / best), .bytes = best};
}

size_t mr_slices_length(const struct mr_slices *slices, size_t length, uint32_t index)
{
    MR_ASSERT(index < slices->count);
    size_t from = slices->bytes * index;
    return length - from < slices->bytes ? length - from : slices->bytes;
}

/* ---- keys ---- */

enum mr_status mr_frame_keys_add(struct mr_frame_keys *keys, uint32_t id,
                                 const unsigned char key[MR_AES_KEY_BYTES], struct mr_error *err)
{
    if (id == 0 || id > 255) return mr_fail(err, MR_BAD_CONFIG, "a key id is 1 to 255, not %u", id);
    if (keys->count == MR_FRAME_KEYS_MAX)
        return mr_fail(err, MR_BAD_CONFIG, "more than %zu keys", MR_FRAME_KEYS_MAX);
    for (size_t i = 0; i < keys->count; i++)
        if (keys->ids[i] == id) return mr_fail(err, MR_BAD_CONFIG, "key id %u is used twice", id);
    struct mr_aes_gcm *state = mr_aes_gcm_create(key);
    if (!state) return mr_fail(err, MR_NOMEM, "no memory for a key");
    keys->ids[keys->count] = (uint8_t)id;
    keys->states[keys->count++] = state;
    return MR_OK;
}

enum mr_status mr_frame_keys_add_all(struct mr_frame_keys *keys,
                                     const struct mr_frame_secret *secrets, size_t count,
                                     struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < count && status == MR_OK; i++)
        status = mr_frame_keys_add(keys, secrets[i].id, secrets[i].key, err);
    return status;
}

void mr_frame_keys_clear(struct mr_frame_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        mr_aes_gcm_destroy(keys->states[i]);
    *keys = (struct mr_frame_keys){0};
}

struct mr_aes_gcm *mr_frame_keys_find(const struct mr_frame_keys *keys, uint8_t id)
{
    for (size_t i = 0; i < keys->count; i++)
        if (keys->ids[i] == id) return keys->states[i];
    return NULL;
}

/* ---- header ---- */

static void put(unsigned char *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

/* Writes every field of the header except the nonce and the digest. */
static void put_frame(const struct mr_frame *frame, uint8_t key_id, unsigned char *header)
{
    MR_ASSERT(frame->slice < frame->slice_count && frame->slice_count <= UINT16_MAX);
    MR_ASSERT(frame->length <= UINT32_MAX);
    memset(header, 0, MR_FRAME_BYTES);
    memcpy(header, "mrkv", 4);
    put(header + 4, MR_FRAME_VERSION, 2);
    header[6] = (unsigned char)frame->codec;
    header[7] = key_id;
    memcpy(header + 8, frame->key, MR_FRAME_NAME_BYTES);
    put(header + 24, frame->token_count, 4);
    put(header + 28, frame->slice, 2);
    put(header + 30, frame->slice_count, 2);
    put(header + 32, frame->length, 4);
}

/* ---- digest ---- */

struct mr_frame_digest {
    XXH3_state_t state;
    size_t seen; /* bytes digested so far */
};

struct mr_frame_digest *mr_frame_digest_create(void)
{
    return aligned_alloc(_Alignof(struct mr_frame_digest), sizeof(struct mr_frame_digest));
}

void mr_frame_digest_destroy(struct mr_frame_digest *digest)
{
    free(digest);
}

void mr_frame_digest_begin(struct mr_frame_digest *digest)
{
    XXH3_128bits_reset(&digest->state);
    digest->seen = 0;
}

void mr_frame_digest_add(struct mr_frame_digest *digest, const void *bytes, size_t length)
{
    const unsigned char *next = bytes;
    while (length > 0) {
        const bool counts = digest->seen < DIGEST_AT || digest->seen >= MR_FRAME_BYTES;
        const size_t end = digest->seen < DIGEST_AT        ? DIGEST_AT
                           : digest->seen < MR_FRAME_BYTES ? MR_FRAME_BYTES
                                                           : SIZE_MAX;
        const size_t part = length < end - digest->seen ? length : end - digest->seen;
        if (counts) XXH3_128bits_update(&digest->state, next, part);
        digest->seen += part;
        next += part;
        length -= part;
    }
}

static void digest_write(const struct mr_frame_digest *digest, unsigned char out[DIGEST_BYTES])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&digest->state));
    memcpy(out, canonical.digest, DIGEST_BYTES);
}

static void digest_of(const unsigned char *header, const void *payload, size_t length,
                      unsigned char out[DIGEST_BYTES])
{
    struct mr_frame_digest digest;
    mr_frame_digest_begin(&digest);
    mr_frame_digest_add(&digest, header, MR_FRAME_BYTES);
    mr_frame_digest_add(&digest, payload, length);
    digest_write(&digest, out);
}

/* ---- writing and reading ---- */

static struct mr_aes_message message_of(const unsigned char *header, size_t length)
{
    return (struct mr_aes_message){
        .nonce = header + NONCE_AT, .data = header, .data_length = DIGEST_AT, .length = length};
}

void mr_frame_write(const struct mr_frame_order *order, struct mr_frame_keys *keys,
                    unsigned char header[MR_FRAME_BYTES])
{
    const struct mr_frame *frame = &order->frame;
    bool sealing = keys && keys->count;
    put_frame(frame, sealing ? keys->ids[0] : (uint8_t)0, header);
    if (!sealing) {
        digest_of(header, order->payload, frame->length, header + DIGEST_AT);
        return;
    }
    memcpy(header + NONCE_AT, order->nonce, MR_AES_NONCE_BYTES);
    struct mr_aes_message message = message_of(header, frame->length);
    mr_aes_gcm_seal(keys->states[0], &message, order->payload, order->sealed, header + DIGEST_AT);
}

const char *mr_verdict_text(enum mr_verdict verdict)
{
#define X(name, text)                                                                              \
    if (verdict == MR_VERDICT_##name) return text;
    MR_VERDICT_LIST(X)
#undef X
    MR_ASSERT(verdict < MR_VERDICT_COUNT);
    return "";
}

enum mr_verdict mr_frame_read(const unsigned char header[MR_FRAME_BYTES],
                              const struct mr_frame *expected, void *payload,
                              struct mr_frame_keys *keys, const struct mr_frame_digest *taken)
{
    unsigned char want[MR_FRAME_BYTES], digest[DIGEST_BYTES];
    uint8_t key_id = header[7];
    bool sealing = keys && keys->count;
    if (memcmp(header, "mrkv", 4) != 0) return MR_VERDICT_FOREIGN;
    if (get(header + 4, 2) != MR_FRAME_VERSION) return MR_VERDICT_VERSION;
    put_frame(expected, key_id, want);
    if (memcmp(header, want, NONCE_AT) != 0) return MR_VERDICT_MISPLACED;
    if (sealing != (key_id != 0)) return MR_VERDICT_SEALED;
    if (!sealing) {
        if (taken && taken->seen == MR_FRAME_BYTES + expected->length)
            digest_write(taken, digest);
        else
            digest_of(header, payload, expected->length, digest);
        return memcmp(header + DIGEST_AT, digest, DIGEST_BYTES) == 0 ? MR_VERDICT_GOOD
                                                                     : MR_VERDICT_DAMAGED;
    }
    struct mr_aes_gcm *state = mr_frame_keys_find(keys, key_id);
    if (!state) return MR_VERDICT_SEALED;
    struct mr_aes_message message = message_of(header, expected->length);
    bool good = mr_aes_gcm_open(state, &message, payload, payload, header + DIGEST_AT);
    return good ? MR_VERDICT_GOOD : MR_VERDICT_DAMAGED;
}
