#include "kvcache/block_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/crypto.h>

static size_t openssl_allocations, openssl_blocks; /* made in all, and not yet freed */

static void *counting_malloc(size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    openssl_allocations++;
    openssl_blocks++;
    return malloc(bytes);
}

static void *counting_realloc(void *old, size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    openssl_allocations++;
    openssl_blocks += old == NULL;
    return realloc(old, bytes);
}

static void counting_free(void *old, const char *file, int line)
{
    (void)file;
    (void)line;
    openssl_blocks -= old != NULL;
    free(old);
}

static struct mr_block_hash *hasher(void)
{
    struct mr_block_hash *hash = NULL;
    assert_int_equal(mr_block_hash_create(&hash, NULL), MR_OK);
    return hash;
}

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

/* Figures of an independent implementation (Python hashlib over the preimage in block_hash.h). */
static void keys_are_the_same_in_every_process(void **state)
{
    (void)state;
    struct mr_block_hash *hash = hasher();
    unsigned char fingerprint[MR_HASH_BYTES], root[MR_HASH_BYTES], key[MR_HASH_BYTES];
    uint32_t tokens[300];
    for (uint32_t i = 0; i < MR_HASH_BYTES; i++)
        fingerprint[i] = (unsigned char)i;
    for (uint32_t i = 0; i < 300; i++)
        tokens[i] = i * 1000003u;
    mr_block_hash_root(fingerprint, "default", root);
    assert_hex(root, "8b19c305a27fcf072fb71f2aaa3e1da0fd5598155ce1b4e818a057a7e27cde39");
    mr_block_hash_chain(hash, root, tokens, 256, key);
    assert_hex(key, "16ac6a5b4a234e2a03061080f86bfefacffb2a0d6953b341a61d108ac116f7c4");
    mr_block_hash_prompt(hash, root, tokens, 300, key);
    assert_hex(key, "cc7610c667d92c212097eff67a36f45f236525bd0cfba968990da06bb66e5d46");
    mr_block_hash_destroy(hash);
}

static void every_field_changes_the_key(void **state)
{
    (void)state;
    struct mr_block_hash *hash = hasher();
    unsigned char fingerprint[MR_HASH_BYTES] = {0};
    unsigned char keys[8][MR_HASH_BYTES];
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
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(keys[i], keys[j], MR_HASH_BYTES);
    mr_block_hash_destroy(hash);
}

static void a_key_may_replace_its_parent(void **state)
{
    (void)state;
    struct mr_block_hash *hash = hasher();
    unsigned char parent[MR_HASH_BYTES] = {7}, key[MR_HASH_BYTES];
    uint32_t tokens[2] = {5, 6};
    mr_block_hash_chain(hash, parent, tokens, 2, key);
    mr_block_hash_chain(hash, parent, tokens, 2, parent);
    assert_memory_equal(parent, key, MR_HASH_BYTES);
    mr_block_hash_destroy(hash);
}

/* OpenSSL 3.0 takes one small state for each hash and gives it back; nothing may add up. */
static void hashing_keeps_no_memory(void **state)
{
    (void)state;
    struct mr_block_hash *hash = hasher();
    unsigned char key[MR_HASH_BYTES] = {0};
    uint32_t tokens[256] = {0};
    mr_block_hash_chain(hash, key, tokens, 256, key);
    size_t allocations = openssl_allocations, blocks = openssl_blocks;
    for (int i = 0; i < 100; i++) {
        mr_block_hash_chain(hash, key, tokens, 256, key);
        mr_block_hash_prompt(hash, key, tokens, 256, key);
    }
    assert_int_equal(openssl_blocks, blocks);
    assert_true(openssl_allocations - allocations <= 200);
    mr_block_hash_destroy(hash);
}

int main(void)
{
    if (CRYPTO_set_mem_functions(counting_malloc, counting_realloc, counting_free) != 1) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_the_same_in_every_process),
        cmocka_unit_test(every_field_changes_the_key),
        cmocka_unit_test(a_key_may_replace_its_parent),
        cmocka_unit_test(hashing_keeps_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
