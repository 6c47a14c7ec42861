#include "kvcache/fingerprint.h"

#include "kvcache/kv_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEYS_MAX 6000u

static const unsigned char zeros[MR_HASH_BYTES];

/* Texts that differ in the hash input only because fields are framed, and extreme numbers. */
static const char *const texts[] = {"", "a", "b", "ab", "ba", "a\x01", "bf16", "llama"};
static const uint32_t numbers[] = {0, 1, 256, 65536, UINT32_MAX};

#define TEXTS   (sizeof texts / sizeof *texts)
#define NUMBERS (sizeof numbers / sizeof *numbers)

static struct mr_kv_identity plain(void)
{
    return (struct mr_kv_identity){.weights = zeros,
                                   .tokenizer = zeros,
                                   .architecture = "",
                                   .rope = "",
                                   .kv_dtype = "",
                                   .layout = "",
                                   .adapter = "",
                                   .numerics = ""};
}

static const char **text_field(struct mr_kv_identity *identity, uint32_t field)
{
    const char **const fields[] = {&identity->architecture, &identity->rope,
                                   &identity->kv_dtype,     &identity->layout,
                                   &identity->adapter,      &identity->numerics};
    return field < sizeof fields / sizeof *fields ? fields[field] : NULL;
}

static uint32_t *number_field(struct mr_kv_identity *identity, uint32_t field)
{
    uint32_t *const fields[] = {&identity->layer_count,   &identity->hidden_size,
                                &identity->head_count,    &identity->kv_head_count,
                                &identity->head_dim,      &identity->vocab_size,
                                &identity->window_tokens, &identity->block_tokens,
                                &identity->part,          &identity->part_count};
    return field < sizeof fields / sizeof *fields ? fields[field] : NULL;
}

struct keys {
    unsigned char bytes[KEYS_MAX][MR_HASH_BYTES];
    uint32_t count;
};

static void add(struct keys *keys, const struct mr_kv_identity *identity, const char *tenant)
{
    struct mr_kv_fingerprint fingerprint;
    assert_int_equal(mr_kv_fingerprint_of(identity, &fingerprint, NULL), MR_OK);
    assert_true(keys->count < KEYS_MAX);
    mr_kv_cache_namespace(&fingerprint, tenant, keys->bytes[keys->count++]);
}

static int order(const void *left, const void *right)
{
    return memcmp(left, right, MR_HASH_BYTES);
}

static void assert_all_differ(struct keys *keys)
{
    qsort(keys->bytes, keys->count, MR_HASH_BYTES, order);
    for (uint32_t i = 1; i < keys->count; i++)
        assert_memory_not_equal(keys->bytes[i - 1], keys->bytes[i], MR_HASH_BYTES);
}

static void add_every_pair_of_texts(struct keys *keys)
{
    for (uint32_t first = 0; text_field(&(struct mr_kv_identity){0}, first) != NULL; first++)
        for (uint32_t second = 0; second < first; second++)
            for (size_t i = 1; i < TEXTS; i++)
                for (size_t j = 1; j < TEXTS; j++) {
                    struct mr_kv_identity identity = plain();
                    *text_field(&identity, first) = texts[i];
                    *text_field(&identity, second) = texts[j];
                    add(keys, &identity, "");
                }
}

static void add_every_pair_of_numbers(struct keys *keys)
{
    for (uint32_t first = 0; number_field(&(struct mr_kv_identity){0}, first) != NULL; first++)
        for (uint32_t second = 0; second < first; second++)
            for (size_t i = 1; i < NUMBERS; i++)
                for (size_t j = 1; j < NUMBERS; j++) {
                    struct mr_kv_identity identity = plain();
                    *number_field(&identity, first) = numbers[i];
                    *number_field(&identity, second) = numbers[j];
                    add(keys, &identity, "");
                }
}

static void distinct_identities_and_tenants_have_distinct_roots(void **state)
{
    (void)state;
    struct keys *keys = calloc(1, sizeof *keys);
    assert_non_null(keys);
    struct mr_kv_identity identity = plain();
    for (size_t i = 0; i < TEXTS; i++)
        add(keys, &identity, texts[i]);
    for (uint32_t bit = 0; bit < 8 * MR_HASH_BYTES; bit++) {
        unsigned char digest[MR_HASH_BYTES] = {0};
        digest[bit / 8] = (unsigned char)(1u << bit % 8);
        identity = plain();
        identity.weights = digest;
        add(keys, &identity, "");
        identity = plain();
        identity.tokenizer = digest;
        add(keys, &identity, "");
    }
    add_every_pair_of_texts(keys);
    add_every_pair_of_numbers(keys);
    assert_true(keys->count > 1500);
    assert_all_differ(keys);
    free(keys);
}

static void blocks_of_distinct_tokens_have_distinct_keys(void **state)
{
    (void)state;
    struct keys *keys = calloc(1, sizeof *keys);
    struct mr_sha256 *hash = mr_sha256_create();
    assert_non_null(keys);
    for (uint32_t depth = 0; depth < 3; depth++)
        for (uint32_t count = 0; count <= 8; count++)
            for (uint32_t value = 0; value < 50; value++) {
                if (count == 0 && (value > 0 || depth > 0)) continue;
                unsigned char parent[MR_HASH_BYTES] = {(unsigned char)depth};
                uint32_t tokens[8] = {value * 0x01010101u, value, 256 * value};
                for (uint32_t i = 3; i < 8; i++)
                    tokens[i] = value << i;
                mr_block_hash_chain(hash, parent, tokens, count, keys->bytes[keys->count++]);
                mr_block_hash_prompt(hash, parent, tokens, count, keys->bytes[keys->count++]);
            }
    assert_all_differ(keys);
    mr_sha256_destroy(hash);
    free(keys);
}

/* Expected value from an independent implementation: Python's hashlib over the fields described in
 * fingerprint.h. */
static void a_fingerprint_is_the_same_in_every_process(void **state)
{
    (void)state;
    static const char expected[] =
        "89eb23e622d3804fe3bccd0e2636abbaffe5baecab718d75fd62e5736b0e521a";
    unsigned char digest[MR_HASH_BYTES];
    for (uint32_t i = 0; i < MR_HASH_BYTES; i++)
        digest[i] = (unsigned char)i;
    struct mr_kv_identity identity = {.weights = digest,
                                      .tokenizer = digest,
                                      .architecture = "llama",
                                      .layer_count = 30,
                                      .hidden_size = 576,
                                      .head_count = 9,
                                      .kv_head_count = 3,
                                      .head_dim = 64,
                                      .vocab_size = 49152,
                                      .rope = "plain 64 10000",
                                      .kv_dtype = "bf16",
                                      .layout = "panels",
                                      .block_tokens = 256,
                                      .adapter = "",
                                      .numerics = "cpu avx512",
                                      .part_count = 1};
    struct mr_kv_fingerprint fingerprint;
    char text[2 * MR_HASH_BYTES + 1];
    assert_int_equal(mr_kv_fingerprint_of(&identity, &fingerprint, NULL), MR_OK);
    for (uint32_t i = 0; i < 2 * MR_HASH_BYTES; i++)
        text[i] = "0123456789abcdef"[fingerprint.bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    text[2 * MR_HASH_BYTES] = '\0';
    assert_string_equal(text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distinct_identities_and_tenants_have_distinct_roots),
        cmocka_unit_test(blocks_of_distinct_tokens_have_distinct_keys),
        cmocka_unit_test(a_fingerprint_is_the_same_in_every_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
