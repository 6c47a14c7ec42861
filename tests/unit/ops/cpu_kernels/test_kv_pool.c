#include "ops/cpu_kernels/kv_kernels.h"
#include "tests/unit/ops/numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum form { F32, BF16, INT8, FORM_COUNT };
/* Bytes of the K of one token in one head of 32 numbers. */
static const size_t token_bytes[] = {32 * 4, 32 * 2, 32 + 2};

static struct mr_cpu_kv *make(enum form form)
{
    const struct mr_cpu_kv_spec spec = {.layer_count = 2,
                                        .kv_head_count = 3,
                                        .head_dim = 32,
                                        .block_count = 4,
                                        .bf16 = form != F32,
                                        .int8 = form == INT8};
    struct mr_cpu_kv *kv;
    struct mr_error err;
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_OK);
    return kv;
}

static unsigned char *random_bytes(size_t count)
{
    unsigned char *bytes = malloc(count);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 37 + i / 256);
    return bytes;
}

static void export_returns_the_imported_bytes(void **state)
{
    (void)state;
    for (enum form form = F32; form < FORM_COUNT; form++) {
        struct mr_cpu_kv *kv = make(form);
        for (uint32_t tokens = 1; tokens <= MR_BLOCK_TOKENS; tokens += tokens < 20 ? 1 : 59) {
            const size_t bytes = mr_cpu_kv_export_bytes(kv, tokens);
            const size_t exact = 2u * 2 * 3 * tokens * token_bytes[form];
            assert_in_range(bytes, exact, exact + 2u * 3 * 32 * 16 * 4);
            unsigned char *noise = random_bytes(bytes), *in = calloc(1, bytes);
            unsigned char *out = calloc(1, bytes);
            mr_cpu_kv_import(kv, 2, 0, tokens, noise);
            mr_cpu_kv_export(kv, 2, 0, tokens, in);
            mr_cpu_kv_import(kv, 3, 0, tokens, in);
            mr_cpu_kv_export(kv, 3, 0, tokens, out);
            assert_memory_equal(in, out, bytes);
            free(noise);
            free(out);
            free(in);
        }
        mr_cpu_kv_destroy(kv);
    }
}

static void the_stored_form_of_a_full_block_is_its_memory(void **state)
{
    (void)state;
    for (enum form form = F32; form < FORM_COUNT; form++) {
        struct mr_cpu_kv *kv = make(form);
        const size_t bytes = mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS);
        unsigned char *in = random_bytes(bytes), *out = calloc(1, bytes);
        mr_cpu_kv_import(kv, 1, 0, MR_BLOCK_TOKENS, in);
        assert_memory_equal(mr_cpu_kv_bytes_of(kv, 1), in, bytes);
        memcpy(mr_cpu_kv_bytes_of(kv, 3), mr_cpu_kv_bytes_of(kv, 1), bytes);
        mr_cpu_kv_export(kv, 3, 0, MR_BLOCK_TOKENS, out);
        assert_memory_equal(out, in, bytes);
        free(out);
        free(in);
        mr_cpu_kv_destroy(kv);
    }
}

static void numbers_after_the_last_token_are_not_exported(void **state)
{
    (void)state;
    for (enum form form = F32; form < FORM_COUNT; form++) {
        struct mr_cpu_kv *one = make(form), *two = make(form);
        const size_t whole = mr_cpu_kv_export_bytes(one, MR_BLOCK_TOKENS);
        unsigned char *noise = random_bytes(whole), *part = malloc(whole), *again = malloc(whole);
        mr_cpu_kv_import(one, 0, 0, MR_BLOCK_TOKENS, noise);
        for (uint32_t tokens = 1; tokens < MR_BLOCK_TOKENS; tokens += 14) {
            const size_t bytes = mr_cpu_kv_export_bytes(one, tokens);
            mr_cpu_kv_copy(one, 0, 1, tokens);
            mr_cpu_kv_export(one, 0, 0, tokens, part);
            mr_cpu_kv_import(two, 1, 0, tokens, part);
            mr_cpu_kv_export(two, 1, 0, tokens, again);
            assert_memory_equal(part, again, bytes);
            memset(noise, 0, whole);
            mr_cpu_kv_import(two, 1, 0, MR_BLOCK_TOKENS, noise);
            mr_cpu_kv_copy(one, 0, 1, tokens);
            mr_cpu_kv_import(two, 1, 0, tokens, part);
            mr_cpu_kv_export(two, 1, 0, MR_BLOCK_TOKENS, again);
            mr_cpu_kv_import(one, 2, 0, MR_BLOCK_TOKENS, noise);
            mr_cpu_kv_copy(one, 0, 2, tokens);
            mr_cpu_kv_export(one, 2, 0, tokens, part);
            mr_cpu_kv_export(two, 1, 0, tokens, again);
            assert_memory_equal(part, again, bytes);
        }
        free(again);
        free(part);
        free(noise);
        mr_cpu_kv_destroy(two);
        mr_cpu_kv_destroy(one);
    }
}

/* Pieces of whole panels, in any order, give the same block. */
static void a_block_can_be_exported_and_imported_in_pieces(void **state)
{
    (void)state;
    for (enum form form = F32; form < FORM_COUNT; form++) {
        struct mr_cpu_kv *kv = make(form);
        const size_t whole = mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS);
        unsigned char *in = random_bytes(whole), *piece = malloc(whole);
        mr_cpu_kv_import(kv, 0, 0, MR_BLOCK_TOKENS, in);
        for (uint32_t tokens = 16; tokens < MR_BLOCK_TOKENS; tokens *= 2) {
            memset(mr_cpu_kv_bytes_of(kv, 1), 0, whole);
            assert_int_equal(mr_cpu_kv_export_bytes(kv, tokens) * (MR_BLOCK_TOKENS / tokens),
                             whole);
            for (uint32_t first = MR_BLOCK_TOKENS; first > 0;) {
                first -= tokens;
                mr_cpu_kv_export(kv, 0, first, tokens, piece);
                mr_cpu_kv_import(kv, 1, first, tokens, piece);
            }
            assert_memory_equal(mr_cpu_kv_bytes_of(kv, 1), in, whole);
        }
        free(piece);
        free(in);
        mr_cpu_kv_destroy(kv);
    }
}

static void a_copy_equals_the_source_which_is_unchanged(void **state)
{
    (void)state;
    for (enum form form = F32; form < FORM_COUNT; form++) {
        struct mr_cpu_kv *kv = make(form);
        const size_t whole = mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS);
        unsigned char *in = random_bytes(whole), *out = malloc(whole), *want = malloc(whole);
        mr_cpu_kv_import(kv, 0, 0, MR_BLOCK_TOKENS, in);
        for (uint32_t tokens = 1; tokens <= MR_BLOCK_TOKENS; tokens += 15) {
            mr_cpu_kv_copy(kv, 0, 2, tokens);
            mr_cpu_kv_export(kv, 0, 0, tokens, want);
            mr_cpu_kv_export(kv, 2, 0, tokens, out);
            assert_memory_equal(out, want, mr_cpu_kv_export_bytes(kv, tokens));
            mr_cpu_kv_export(kv, 0, 0, MR_BLOCK_TOKENS, out);
            assert_memory_equal(out, in, whole);
        }
        free(want);
        free(out);
        free(in);
        mr_cpu_kv_destroy(kv);
    }
}

static void block_bytes_count_every_layer(void **state)
{
    (void)state;
    const struct mr_cpu_kv_spec spec = {
        .layer_count = 30, .kv_head_count = 3, .head_dim = 64, .block_count = 1, .bf16 = true};
    assert_int_equal(mr_cpu_kv_block_bytes(&spec), 23040u * MR_BLOCK_TOKENS);
}

static bool is_resident(void *page)
{
    unsigned char resident = 0;
    assert_int_equal(mincore(page, 4096, &resident), 0);
    return resident & 1;
}

/* *obeyed: whether the page was resident then. qemu-user accepts the advice and does nothing. */
static bool system_populates(bool *obeyed)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    const bool can = madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
    *obeyed = can && is_resident(page);
    munmap(page, 4096);
    return can;
}

static void populating_makes_the_pool_resident_and_keeps_its_contents(void **state)
{
    (void)state;
    const struct mr_cpu_kv_spec spec = {
        .layer_count = 2, .kv_head_count = 3, .head_dim = 32, .block_count = 12};
    struct mr_cpu_kv *kv;
    struct mr_error err;
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_OK);
    const size_t bytes = mr_cpu_kv_block_bytes(&spec);
    unsigned char *noise = random_bytes(bytes);
    memcpy(mr_cpu_kv_bytes_of(kv, 5), noise, bytes);
    size_t steps = 0;
    while (mr_cpu_kv_populate(kv))
        steps++;
    assert_memory_equal(mr_cpu_kv_bytes_of(kv, 5), noise, bytes);
    bool obeyed;
    const bool populates = system_populates(&obeyed);
    assert_int_equal(steps, populates ? (12 * bytes + (2 << 20) - 1) / (2 << 20) : 0);
    const uintptr_t last = (uintptr_t)mr_cpu_kv_bytes_of(kv, 11) / 4096 * 4096;
    if (obeyed) assert_true(is_resident((void *)last));
    free(noise);
    mr_cpu_kv_destroy(kv);
}

static void pools_outside_the_limits_are_rejected(void **state)
{
    (void)state;
    struct mr_cpu_kv_spec spec = {
        .layer_count = 1, .kv_head_count = 1, .head_dim = 24, .block_count = 1};
    struct mr_cpu_kv *kv;
    struct mr_error err;
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_UNSUPPORTED);
    assert_null(kv);
    spec.head_dim = 272;
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_UNSUPPORTED);
    spec.head_dim = 256;
    spec.layer_count = 1u << 20;
    spec.block_count = UINT32_MAX;
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_NOMEM);
    mr_cpu_kv_destroy(NULL);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_cpu_kv *kv = make(true);
    unsigned char byte = 0;
    expect_assert_failure(mr_cpu_kv_copy(kv, 0, 4, 1));
    expect_assert_failure(mr_cpu_kv_copy(kv, 1, 1, 1));
    expect_assert_failure(mr_cpu_kv_copy(kv, 0, 1, MR_BLOCK_TOKENS + 1));
    expect_assert_failure(mr_cpu_kv_import(kv, 4, 0, 1, &byte));
    expect_assert_failure(mr_cpu_kv_import(kv, 0, 8, 1, &byte));
    expect_assert_failure(mr_cpu_kv_export(kv, 0, 16, MR_BLOCK_TOKENS - 15, &byte));
    expect_assert_failure(mr_cpu_kv_bytes_of(kv, 4));
    mr_cpu_kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(export_returns_the_imported_bytes),
        cmocka_unit_test(the_stored_form_of_a_full_block_is_its_memory),
        cmocka_unit_test(numbers_after_the_last_token_are_not_exported),
        cmocka_unit_test(a_block_can_be_exported_and_imported_in_pieces),
        cmocka_unit_test(a_copy_equals_the_source_which_is_unchanged),
        cmocka_unit_test(block_bytes_count_every_layer),
        cmocka_unit_test(populating_makes_the_pool_resident_and_keeps_its_contents),
        cmocka_unit_test(pools_outside_the_limits_are_rejected),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
