#include "codec/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void digests_are_those_of_fips_180(void **state)
{
    (void)state;
    static const unsigned char abc[MR_SHA256_BYTES] = {
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
        0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
        0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    struct mr_sha256 *hash = mr_sha256_create();
    unsigned char digest[MR_SHA256_BYTES];
    for (int round = 0; round < 2; round++) {
        mr_sha256_begin(hash);
        mr_sha256_add(hash, "a", 1);
        mr_sha256_add(hash, "bc", 2);
        mr_sha256_end(hash, digest);
        assert_memory_equal(digest, abc, sizeof abc);
    }
    mr_sha256_destroy(hash);
}

static void a_digest_is_written_in_lower_case(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0x00, 0x9f, 0xa0, 0xff};
    char text[7] = "......";
    mr_sha256_hex(bytes, 3, text);
    assert_string_equal(text, "009fa0");
}

static void fields_are_hashed_with_their_lengths(void **state)
{
    (void)state;
    struct mr_sha256 *hash = mr_sha256_create();
    unsigned char one[MR_SHA256_BYTES], two[MR_SHA256_BYTES];
    mr_sha256_begin(hash);
    mr_sha256_add_field(hash, "a", "bc", 2);
    mr_sha256_add_field(hash, "d", "", 0);
    mr_sha256_end(hash, one);
    mr_sha256_begin(hash);
    mr_sha256_add_field(hash, "a", "b", 1);
    mr_sha256_add_field(hash, "cd", "", 0);
    mr_sha256_end(hash, two);
    assert_memory_not_equal(one, two, sizeof one);
    mr_sha256_destroy(hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_fips_180),
        cmocka_unit_test(a_digest_is_written_in_lower_case),
        cmocka_unit_test(fields_are_hashed_with_their_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
