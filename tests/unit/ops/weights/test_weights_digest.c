#include "ops/weights/weights_digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/cpu_kernels/parallel.h"

#include "../tiny_weights.h"

static struct tiny tiny;

static void digest(unsigned char out[32])
{
    struct mr_weights_digest *all = NULL;
    unsigned char content[MR_DIGEST_BYTES];
    assert_int_equal(mr_weights_digest_create(&all, &tiny.tensors, NULL), MR_OK);
    assert_int_equal(mr_weights_digest_content(all, content, NULL), MR_OK);
    assert_int_equal(mr_weights_digest_of(&tiny.config, &tiny.tensors, content, out, NULL), MR_OK);
    mr_weights_digest_destroy(all);
}

static void assert_differs(const unsigned char before[32])
{
    unsigned char now[32];
    digest(now);
    assert_memory_not_equal(now, before, 32);
}

static void the_same_model_has_the_same_digest(void **state)
{
    (void)state;
    unsigned char one[32], two[32];
    digest(one);
    digest(two);
    assert_memory_equal(one, two, 32);
}

static void every_difference_changes_the_digest(void **state)
{
    (void)state;
    unsigned char before[32];
    digest(before);
    struct mr_stored_tensor *entry = &tiny.tensors.entries[3];
    uint64_t rows = entry->dims[0];
    entry->dims[0] = rows + 1;
    assert_differs(before);
    entry->dims[0] = rows;
    entry->storage = MR_STORAGE_BF16;
    assert_differs(before);
    entry->storage = MR_STORAGE_F32;
    entry->name.length--;
    assert_differs(before);
    entry->name.length++;
    tiny.numbers[3][0] += 1.0f;
    assert_differs(before);
    tiny.numbers[3][0] -= 1.0f;
    tiny.config.ropes[0].theta += 1.0;
    assert_differs(before);
    tiny.config.ropes[0].theta -= 1.0;
    tiny.config.windowed[1] = true;
    assert_differs(before);
    tiny.config.windowed[1] = false;
    tiny.tensors.count--;
    assert_differs(before);
    tiny.tensors.count++;
}

/* Changes bytes at the ends of the parts that are hashed separately, and between them. */
static void every_byte_of_a_large_tensor_changes_the_digest(void **state)
{
    (void)state;
    enum { SIZE = 3 * MR_DIGEST_PART_BYTES + 12345 };
    static const size_t places[] = {0,
                                    1,
                                    8191,
                                    100000,
                                    MR_DIGEST_PART_BYTES - 1,
                                    MR_DIGEST_PART_BYTES,
                                    2 * MR_DIGEST_PART_BYTES + 77,
                                    3 * MR_DIGEST_PART_BYTES,
                                    SIZE - 2,
                                    SIZE - 1};
    unsigned char *large = calloc(1, SIZE);
    struct mr_stored_tensor *entry = &tiny.tensors.entries[0], kept = *entry;
    unsigned char before[32];
    entry->bytes = large;
    entry->size_bytes = SIZE;
    digest(before);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        large[places[i]] = 1;
        assert_differs(before);
        large[places[i]] = 0;
    }
    large[100000] = 1;
    entry->size_bytes--;
    assert_differs(before);
    *entry = kept;
    free(large);
}

/* Tries different numbers of threads, and tensors added early, in another order and twice. */
static void the_digest_does_not_depend_on_how_it_was_computed(void **state)
{
    (void)state;
    enum { SIZE = 5 * MR_DIGEST_PART_BYTES + 1 };
    unsigned char *large = malloc(SIZE);
    uint64_t seed = 1;
    for (size_t i = 0; i < SIZE; i++)
        large[i] = (unsigned char)(number_next(&seed) * 255.0f);
    struct mr_stored_tensor *entry = &tiny.tensors.entries[1], kept = *entry;
    entry->bytes = large;
    entry->size_bytes = SIZE;
    unsigned char alone[32], parallel[32];
    struct mr_weights_digest *all = NULL;
    assert_int_equal(mr_weights_digest_create(&all, &tiny.tensors, NULL), MR_OK);
    assert_int_equal(mr_weights_digest_content(all, alone, NULL), MR_OK);
    mr_weights_digest_destroy(all);
    assert_int_equal(mr_parallel_set_thread_count(4, NULL), MR_OK);
    assert_int_equal(mr_weights_digest_create(&all, &tiny.tensors, NULL), MR_OK);
    for (uint32_t i = tiny.tensors.count; i-- > 0;)
        mr_weights_digest_add(all, &tiny.tensors.entries[i], &tiny.tensors.entries[i]);
    mr_weights_digest_add(all, entry, entry);
    assert_int_equal(mr_weights_digest_content(all, parallel, NULL), MR_OK);
    mr_weights_digest_destroy(all);
    assert_memory_equal(alone, parallel, 32);
    assert_int_equal(mr_parallel_set_thread_count(1, NULL), MR_OK);
    *entry = kept;
    free(large);
}

/* Workers of other versions and machines compute the same value. */
static void the_content_of_a_known_text_is_known(void **state)
{
    (void)state;
    static const unsigned char bytes[] = "millrace";
    static const unsigned char expected[4] = {0x56, 0x2e, 0x53, 0x70};
    struct mr_stored_tensor entry = {.bytes = bytes, .size_bytes = 8};
    struct mr_tensor_table table = {.entries = &entry, .count = 1, .capacity = 1};
    struct mr_weights_digest *all = NULL;
    unsigned char content[MR_DIGEST_BYTES];
    assert_int_equal(mr_weights_digest_create(&all, &table, NULL), MR_OK);
    assert_int_equal(mr_weights_digest_content(all, content, NULL), MR_OK);
    mr_weights_digest_destroy(all);
    assert_memory_equal(content, expected, sizeof expected);
}

static int open_tiny(void **state)
{
    (void)state;
    tiny_open(&tiny);
    return 0;
}

static int close_tiny(void **state)
{
    (void)state;
    tiny_close(&tiny);
    return 0;
}

/* A weight of two pieces: each byte of both, and their types and shapes, are part of the digest. */
static void every_piece_of_a_quantized_weight_changes_the_digest(void **state)
{
    (void)state;
    static unsigned char numbers[4], scales[4];
    unsigned char before[32];
    struct mr_stored_tensor *entry = &tiny.tensors.entries[3], kept = *entry;
    struct mr_quantized quantized = {
        .rows = 2,
        .width = 2,
        .row_block = 1,
        .group_width = 2,
        .group_count = 1,
        .pieces = {{MR_STORAGE_I8, numbers, 4}, {MR_STORAGE_BF16, scales, 4}}};
    *entry = (struct mr_stored_tensor){.name = kept.name,
                                       .storage = MR_STORAGE_PIECES,
                                       .dim_count = 2,
                                       .dims = {2, 2},
                                       .size_bytes = 8,
                                       .quantized = &quantized};
    digest(before);
    numbers[3]++;
    assert_differs(before);
    numbers[3]--;
    scales[3]++;
    assert_differs(before);
    scales[3]--;
    quantized.pieces[MR_QUANTIZED_SCALE].storage = MR_STORAGE_F16;
    assert_differs(before);
    quantized.pieces[MR_QUANTIZED_SCALE].storage = MR_STORAGE_BF16;
    quantized.format = MR_QUANTIZED_PACKED;
    assert_differs(before);
    quantized.format = MR_QUANTIZED_SCALED;
    unsigned char again[32];
    digest(again);
    assert_memory_equal(again, before, 32);
    *entry = kept;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_model_has_the_same_digest),
        cmocka_unit_test(every_difference_changes_the_digest),
        cmocka_unit_test(every_piece_of_a_quantized_weight_changes_the_digest),
        cmocka_unit_test(every_byte_of_a_large_tensor_changes_the_digest),
        cmocka_unit_test(the_digest_does_not_depend_on_how_it_was_computed),
        cmocka_unit_test(the_content_of_a_known_text_is_known),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
