#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/aes_gcm.h"

#include <string.h>

static const unsigned char key[MR_AES_KEY_BYTES] = {1, 2, 3};
static const unsigned char nonce[MR_AES_NONCE_BYTES] = {9};

/* NIST GCM test case 14: a key, nonce and text of zeros. */
static void encryption_equals_the_published_vector(void **state)
{
    static const unsigned char zeros[32];
    static const unsigned char text[16] = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e,
                                           0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d, 0x18};
    static const unsigned char tag[16] = {0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0,
                                          0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
    unsigned char out[16], made[MR_AES_TAG_BYTES];
    struct mr_aes_message message = {.nonce = zeros, .length = sizeof out};
    struct mr_aes_gcm *gcm = mr_aes_gcm_create(zeros);
    (void)state;
    mr_aes_gcm_seal(gcm, &message, zeros, out, made);
    assert_memory_equal(out, text, sizeof text);
    assert_memory_equal(made, tag, sizeof tag);
    mr_aes_gcm_destroy(gcm);
}

static void text_can_be_sealed_and_opened_in_place(void **state)
{
    unsigned char bytes[1000], want[1000], tag[MR_AES_TAG_BYTES];
    struct mr_aes_message message = {nonce, "data", 4, sizeof bytes};
    struct mr_aes_gcm *gcm = mr_aes_gcm_create(key);
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        want[i] = bytes[i] = (unsigned char)(i * 7);
    mr_aes_gcm_seal(gcm, &message, bytes, bytes, tag);
    assert_memory_not_equal(bytes, want, sizeof bytes);
    assert_true(mr_aes_gcm_open(gcm, &message, bytes, bytes, tag));
    assert_memory_equal(bytes, want, sizeof bytes);
    mr_aes_gcm_destroy(gcm);
}

static void any_changed_bit_is_detected(void **state)
{
    unsigned char sealed[24], copy[24], out[24], tag[MR_AES_TAG_BYTES], data[5] = "abcd";
    struct mr_aes_message message = {nonce, data, sizeof data, sizeof sealed};
    struct mr_aes_gcm *gcm = mr_aes_gcm_create(key);
    (void)state;
    memset(sealed, 'x', sizeof sealed);
    mr_aes_gcm_seal(gcm, &message, sealed, sealed, tag);
    for (size_t bit = 0; bit < 8 * sizeof sealed; bit++) {
        memcpy(copy, sealed, sizeof copy);
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(mr_aes_gcm_open(gcm, &message, copy, out, tag));
    }
    for (size_t bit = 0; bit < 8 * sizeof tag; bit++) {
        tag[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(mr_aes_gcm_open(gcm, &message, sealed, out, tag));
        tag[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    data[2]++;
    assert_false(mr_aes_gcm_open(gcm, &message, sealed, out, tag));
    data[2]--;
    assert_true(mr_aes_gcm_open(gcm, &message, sealed, out, tag));
    mr_aes_gcm_destroy(gcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encryption_equals_the_published_vector),
        cmocka_unit_test(text_can_be_sealed_and_opened_in_place),
        cmocka_unit_test(any_changed_bit_is_detected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
