#include "kvcache/block_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_hex(const unsigned char *key, const char *expected)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * MR_HASH_BYTES + 1] = "";
    for (size_t i = 0; i < MR_HASH_BYTES; i++) {
        text[2 * i] = digits[key[i] >> 4];
        text[2 * i + 1] = digits[key[i] & 15];
    }
    assert_string_equal(text, expected);
}

/* Expected values from an independent implementation: Python's hashlib over the fields described in
 * block_hash.h. */
static void keys_are_the_same_in_every_process(void **state)
{
    (void)state;
    struct mr_sha256 *hash = mr_sha256_create();
    unsigned char fingerprint[MR_HASH_BYTES], root[MR_HASH_BYTES], key[MR_HASH_BYTES];
    uint32_t tokens[300];
    for (uint32_t i = 0; i < MR_HASH_BYTES; i++)
        fingerprint[i] = (unsigned char)i;
    for (uint32_t i = 0; i < 300; i++)
        tokens[i] = i * 1000003u;
    mr_block_hash_root(fingerprint, "default", root);
    assert_hex(root, "64b70df19403c6edd32e6c59a515b6e2c1b245c22dd9276a4d8c3d601c0ca610");
    mr_block_hash_chain(hash, root, tokens, 256, key);
    assert_hex(key, "5ad11dc4fa1c20f65f4ae076aacd2f4ac516b967225f1f29d0e018df1267254c");
    mr_block_hash_prompt(hash, root, tokens, 300, key);
    assert_hex(key, "edca28c635b229dcabebeb0fad667efd21c4f74f42749313e55ff207220fef89");
    mr_sha256_destroy(hash);
}

static void every_field_changes_the_key(void **state)
{
    (void)state;
    struct mr_sha256 *hash = mr_sha256_create();
    unsigned char fingerprint[MR_HASH_BYTES] = {0};
    unsigned char keys[13][MR_HASH_BYTES];
    uint32_t tokens[3] = {1, 2, 3}, swapped[3] = {2, 1, 3};
    mr_block_hash_root(fingerprint, "a", keys[0]);
    mr_block_hash_root(fingerprint, "ab", keys[1]);
    fingerprint[31] = 1;
    mr_block_hash_root(fingerprint, "a", keys[2]);
    mr_block_hash_chain(hash, keys[0], tokens, 3, keys[3]);
    mr_block_hash_chain(hash, keys[0], swapped, 3, keys[4]);
    mr_block_hash_chain(hash, keys[0], tokens, 2, keys[5]);
    mr_block_hash_chain(hash, keys[1], tokens, 3, keys[6]);
    mr_block_hash_prompt(hash, keys[0], tokens, 3, keys[7]);
    for (int i = 8; i < 13; i++)
        memcpy(keys[i], keys[0], MR_HASH_BYTES);
    mr_block_hash_salt(keys[8], "s", 1);
    mr_block_hash_salt(keys[9], "st", 2);
    mr_block_hash_adapter(keys[10], keys[1]);
    mr_block_hash_adapter(keys[11], keys[2]);
    mr_block_hash_salt(keys[12], (const char *)keys[1], MR_HASH_BYTES);
    for (int i = 0; i < 13; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(keys[i], keys[j], MR_HASH_BYTES);
    mr_sha256_destroy(hash);
}

static void a_key_may_replace_its_parent(void **state)
{
    (void)state;
    struct mr_sha256 *hash = mr_sha256_create();
    unsigned char parent[MR_HASH_BYTES] = {7}, key[MR_HASH_BYTES];
    uint32_t tokens[2] = {5, 6};
    mr_block_hash_chain(hash, parent, tokens, 2, key);
    mr_block_hash_chain(hash, parent, tokens, 2, parent);
    assert_memory_equal(parent, key, MR_HASH_BYTES);
    mr_sha256_destroy(hash);
}

static void more_tokens_than_a_block_holds_are_refused(void **state)
{
    (void)state;
    struct mr_sha256 *hash = mr_sha256_create();
    unsigned char key[MR_HASH_BYTES] = {0};
    uint32_t tokens[257] = {0};
    expect_assert_failure(mr_block_hash_chain(hash, key, tokens, 257, key));
    mr_sha256_destroy(hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_the_same_in_every_process),
        cmocka_unit_test(every_field_changes_the_key),
        cmocka_unit_test(a_key_may_replace_its_parent),
        cmocka_unit_test(more_tokens_than_a_block_holds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
