#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/block_frame.h"

#include <stdlib.h>
#include <string.h>

#define MIB      ((size_t)1 << 20)
#define PAYLOAD  ((size_t)3000)
#define TROUBLES 10000

static unsigned char key[MR_HASH_BYTES] = {7, 1, 2, 3};
static uint64_t drawn = 42;

static uint64_t draw(void)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return drawn;
}

/* ---- slices ---- */

static void slices_cover_the_item_and_hold_whole_layers(void **state)
{
    static const size_t layers[] = {1, 8, 22, 30, 32, 48, 80, 126};
    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t count = layers[draw() % 8], layer = 1024 * (1 + draw() % 3000);
        size_t length = count * layer, sum = 0;
        struct mr_slices slices = mr_slices_of(length, layer);
        for (uint32_t i = 0; i < slices.count; i++) {
            size_t bytes = mr_slices_length(&slices, length, i);
            assert_true(bytes > 0 && bytes <= MR_SLICE_BYTES_MAX);
            assert_true(bytes % layer == 0);
            sum += bytes;
        }
        assert_int_equal(sum, length);
    }
}

static void a_layer_larger_than_a_slice_is_cut_inside(void **state)
{
    struct mr_slices slices = mr_slices_of(20 * MIB, 10 * MIB);
    (void)state;
    assert_true(slices.bytes <= MR_SLICE_BYTES_MAX && slices.count >= 4);
}

static void a_small_item_is_one_slice(void **state)
{
    (void)state;
    for (size_t length = 1; length < 300000; length += 7777)
        assert_int_equal(mr_slices_of(length, 0).count, 1);
}

/* A block of 256 tokens of SmolLM2 in bf16: 30 layers of 192 KiB. Rounding up to a power of two
 * would waste a fifth. */
static void slices_stay_just_under_an_allocator_class(void **state)
{
    size_t layer = 192 * 1024, length = 30 * layer, memory = 0;
    struct mr_slices slices = mr_slices_of(length, layer);
    (void)state;
    for (uint32_t i = 0; i < slices.count; i++)
        memory += mr_slices_allocated(mr_slices_length(&slices, length, i) + MR_FRAME_BYTES);
    assert_true((double)memory <= 1.08 * (double)length);
    assert_int_equal(mr_slices_allocated(4 * MIB), 5 * MIB);
    assert_int_equal(mr_slices_allocated(4 * MIB - 10), 4 * MIB);
    assert_int_equal(mr_slices_allocated(6), 16);
}

/* ---- header ---- */

struct stored {
    unsigned char header[MR_FRAME_BYTES];
    unsigned char payload[PAYLOAD];
};

static struct mr_frame frame_of(uint32_t slice)
{
    return (struct mr_frame){
        .key = key, .token_count = 256, .slice = slice, .slice_count = 3, .length = PAYLOAD};
}

static struct stored store(uint32_t slice, struct mr_frame_keys *keys)
{
    struct stored value;
    unsigned char nonce[MR_AES_NONCE_BYTES], plain[PAYLOAD];
    for (size_t i = 0; i < sizeof nonce; i++)
        nonce[i] = (unsigned char)draw();
    for (size_t i = 0; i < PAYLOAD; i++)
        value.payload[i] = plain[i] = (unsigned char)(i * (slice + 3));
    struct mr_frame_order order = {
        .frame = frame_of(slice), .payload = plain, .sealed = value.payload, .nonce = nonce};
    mr_frame_write(&order, keys, value.header);
    return value;
}

static enum mr_verdict judge(struct stored *value, uint32_t slice, struct mr_frame_keys *keys)
{
    struct mr_frame expected = frame_of(slice);
    return mr_frame_read(value->header, &expected, value->payload, keys, NULL);
}

static void the_header_is_64_little_endian_bytes(void **state)
{
    struct stored value = store(1, NULL);
    const unsigned char front[8] = {'m', 'r', 'k', 'v', 1, 0, 0, 0};
    const unsigned char middle[12] = {0, 1, 0, 0, 1, 0, 3, 0, 0xb8, 0x0b, 0, 0};
    (void)state;
    assert_memory_equal(value.header, front, sizeof front);
    assert_memory_equal(value.header + 8, key, MR_FRAME_NAME_BYTES);
    assert_memory_equal(value.header + 24, middle, sizeof middle);
    assert_int_equal(judge(&value, 1, NULL), MR_VERDICT_GOOD);
}

static void each_unexpected_field_has_its_verdict(void **state)
{
    struct stored value = store(0, NULL);
    (void)state;
    assert_int_equal(judge(&value, 1, NULL), MR_VERDICT_MISPLACED);
    value.header[0] = 'x';
    assert_int_equal(judge(&value, 0, NULL), MR_VERDICT_FOREIGN);
    value.header[0] = 'm';
    value.header[4] = 0;
    assert_int_equal(judge(&value, 0, NULL), MR_VERDICT_VERSION);
    value.header[4] = 1;
    value.payload[PAYLOAD - 1] ^= 1;
    assert_int_equal(judge(&value, 0, NULL), MR_VERDICT_DAMAGED);
    assert_string_equal(mr_verdict_text(MR_VERDICT_DAMAGED), "damaged");
}

/* A value in pieces of every size, intact and with one byte changed. */
static void a_digest_taken_in_pieces_is_the_same(void **state)
{
    struct stored value = store(1, NULL);
    struct mr_frame expected = frame_of(1);
    struct mr_frame_digest *digest = mr_frame_digest_create();
    (void)state;
    for (size_t piece = 1; piece < 200; piece += 7)
        for (int changed = 0; changed < 2; changed++) {
            value.payload[PAYLOAD / 2] ^= (unsigned char)changed;
            mr_frame_digest_begin(digest);
            for (size_t at = 0; at < MR_FRAME_BYTES; at += piece)
                mr_frame_digest_add(digest, value.header + at,
                                    MR_FRAME_BYTES - at < piece ? MR_FRAME_BYTES - at : piece);
            for (size_t at = 0; at < PAYLOAD; at += piece)
                mr_frame_digest_add(digest, value.payload + at,
                                    PAYLOAD - at < piece ? PAYLOAD - at : piece);
            value.payload[PAYLOAD / 2] ^= (unsigned char)changed;
            assert_int_equal(mr_frame_read(value.header, &expected, value.payload, NULL, digest),
                             changed ? MR_VERDICT_DAMAGED : MR_VERDICT_GOOD);
        }
    mr_frame_digest_destroy(digest);
}

static void exact_and_int8_never_meet(void **state)
{
    struct stored value = store(0, NULL);
    struct mr_frame expected = frame_of(0);
    (void)state;
    expected.codec = MR_FRAME_INT8;
    assert_int_equal(mr_frame_read(value.header, &expected, value.payload, NULL, NULL),
                     MR_VERDICT_MISPLACED);
    struct mr_frame_order order = {.frame = expected, .payload = value.payload};
    mr_frame_write(&order, NULL, value.header);
    assert_int_equal(value.header[6], 1);
    assert_int_equal(mr_frame_read(value.header, &expected, value.payload, NULL, NULL),
                     MR_VERDICT_GOOD);
    assert_int_equal(judge(&value, 0, NULL), MR_VERDICT_MISPLACED);
}

/* One kind of damage in each value: a changed byte, a tail replaced with zeros, the header or
 * payload of another slice, another length, or an older version. */
static void spoil(struct stored *value, const struct stored *other, int kind)
{
    unsigned char *bytes = (unsigned char *)value;
    size_t at = draw() % sizeof *value;
    switch (kind) {
    case 0:
        bytes[at] ^= (unsigned char)(1u << draw() % 8);
        break;
    case 1:
        at = draw() % (PAYLOAD - 1) + MR_FRAME_BYTES;
        memset(bytes + at, 0, sizeof *value - at);
        bytes[at] ^= 0x55; /* the byte may have been zero before */
        break;
    case 2:
        memcpy(value->header, other->header, MR_FRAME_BYTES);
        break;
    case 3:
        memcpy(value->payload, other->payload, PAYLOAD);
        break;
    case 4:
        value->header[32 + draw() % 4] ^= (unsigned char)(1 + draw() % 255);
        break;
    default:
        value->header[4] = (unsigned char)(draw() % 2 ? 0 : 2 + draw() % 200);
        break;
    }
}

static void ten_thousand_damaged_values_are_all_misses(void **state)
{
    struct stored good = store(0, NULL), other = store(1, NULL);
    (void)state;
    for (int i = 0; i < TROUBLES; i++) {
        struct stored value = good;
        spoil(&value, &other, i % 6);
        if (memcmp(&value, &good, sizeof value) == 0) continue;
        assert_int_not_equal(judge(&value, 0, NULL), MR_VERDICT_GOOD);
    }
    assert_int_equal(judge(&good, 0, NULL), MR_VERDICT_GOOD);
}

static void ten_thousand_damaged_sealed_values_are_all_misses(void **state)
{
    struct mr_frame_keys keys = {0};
    unsigned char secret[MR_AES_KEY_BYTES] = {3, 1, 4};
    (void)state;
    assert_int_equal(mr_frame_keys_add(&keys, 5, secret, NULL), MR_OK);
    struct stored good = store(0, &keys), other = store(1, &keys);
    for (int i = 0; i < TROUBLES; i++) {
        struct stored value = good;
        spoil(&value, &other, i % 6);
        if (memcmp(&value, &good, sizeof value) == 0) continue;
        assert_int_not_equal(judge(&value, 0, &keys), MR_VERDICT_GOOD);
    }
    assert_int_equal(judge(&good, 0, &keys), MR_VERDICT_GOOD);
    mr_frame_keys_clear(&keys);
}

static void a_sealed_value_shows_nothing_of_its_payload(void **state)
{
    struct mr_frame_keys keys = {0};
    unsigned char secret[MR_AES_KEY_BYTES] = {8};
    struct stored plain = store(2, NULL);
    (void)state;
    assert_int_equal(mr_frame_keys_add(&keys, 1, secret, NULL), MR_OK);
    struct stored sealed = store(2, &keys), again = store(2, &keys);
    assert_memory_not_equal(sealed.payload, again.payload,
                            PAYLOAD); /* each value has a new nonce */
    for (size_t i = 0; i + 16 < PAYLOAD; i++)
        assert_null(memmem(sealed.payload, PAYLOAD, plain.payload + i, 16));
    assert_int_equal(judge(&sealed, 2, &keys), MR_VERDICT_GOOD);
    assert_memory_equal(sealed.payload, plain.payload, PAYLOAD);
    mr_frame_keys_clear(&keys);
}

static void keys_are_rotated_by_their_ids(void **state)
{
    struct mr_frame_keys before = {0}, after = {0}, none = {0};
    unsigned char first[MR_AES_KEY_BYTES] = {1}, second[MR_AES_KEY_BYTES] = {2};
    (void)state;
    assert_int_equal(mr_frame_keys_add(&before, 1, first, NULL), MR_OK);
    assert_int_equal(mr_frame_keys_add(&after, 2, second, NULL), MR_OK);
    struct stored value = store(0, &before), copy = value, plain = store(0, NULL);
    assert_int_equal(judge(&copy, 0, &after), MR_VERDICT_SEALED);
    copy = value;
    assert_int_equal(judge(&copy, 0, &none), MR_VERDICT_SEALED);
    assert_int_equal(judge(&plain, 0, &after), MR_VERDICT_SEALED);
    assert_int_equal(mr_frame_keys_add(&after, 1, first, NULL), MR_OK);
    copy = value;
    assert_int_equal(judge(&copy, 0, &after), MR_VERDICT_GOOD);
    assert_int_equal(mr_frame_keys_add(&after, 1, second, NULL), MR_BAD_CONFIG);
    assert_int_equal(mr_frame_keys_add(&after, 0, second, NULL), MR_BAD_CONFIG);
    assert_int_equal(mr_frame_keys_add(&after, 256, second, NULL), MR_BAD_CONFIG);
    mr_frame_keys_clear(&before);
    mr_frame_keys_clear(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_cover_the_item_and_hold_whole_layers),
        cmocka_unit_test(a_layer_larger_than_a_slice_is_cut_inside),
        cmocka_unit_test(a_small_item_is_one_slice),
        cmocka_unit_test(slices_stay_just_under_an_allocator_class),
        cmocka_unit_test(the_header_is_64_little_endian_bytes),
        cmocka_unit_test(each_unexpected_field_has_its_verdict),
        cmocka_unit_test(a_digest_taken_in_pieces_is_the_same),
        cmocka_unit_test(exact_and_int8_never_meet),
        cmocka_unit_test(ten_thousand_damaged_values_are_all_misses),
        cmocka_unit_test(ten_thousand_damaged_sealed_values_are_all_misses),
        cmocka_unit_test(a_sealed_value_shows_nothing_of_its_payload),
        cmocka_unit_test(keys_are_rotated_by_their_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
