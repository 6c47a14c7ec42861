#include "codec/unicode/charsmap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A map of two sequences, "a" to "x" and "ab" to "yz", built by hand. Unit 0 is the root; a child
 * is at the parent's place, xor its distance, xor the byte; a value is at the same place without
 * the byte. */
#define UNITS 512
struct block {
    unsigned char bytes[4 + UNITS * 4 + 8];
};

static void put(struct block *block, size_t unit, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        block->bytes[4 + unit * 4 + i] = (unsigned char)(value >> 8 * i);
}

static struct block make(void)
{
    struct block block = {{0}};
    block.bytes[1] = UNITS * 4 >> 8;
    put(&block, 0, 256u << 10);                         /* children at 256 ^ byte */
    put(&block, 256 ^ 'a', 1u << 8 | 128u << 10 | 'a'); /* its value is 128 units away */
    size_t a = (256 ^ 'a') ^ 128;
    put(&block, a, 0x80000000u | 0);
    put(&block, a ^ 'b', 1u << 8 | 64u << 10 | 'b');
    put(&block, a ^ 'b' ^ 64, 0x80000000u | 2);
    memcpy(block.bytes + 4 + UNITS * 4, "x\0yz\0\0\0\0", 8);
    return block;
}

static struct mr_charsmap *create(const struct block *block)
{
    struct mr_charsmap *map;
    struct mr_text text = {(const char *)block->bytes, sizeof block->bytes};
    assert_int_equal(mr_charsmap_create(&map, text, NULL), MR_OK);
    return map;
}

static void the_longest_or_the_shortest_sequence_is_found(void **state)
{
    (void)state;
    struct block block = make();
    struct mr_charsmap *map = create(&block);
    struct mr_text found;
    assert_int_equal(mr_charsmap_find(map, (struct mr_text){"abc", 3}, false, &found), 2);
    assert_true(mr_text_is(found, "yz"));
    assert_int_equal(mr_charsmap_find(map, (struct mr_text){"abc", 3}, true, &found), 1);
    assert_true(mr_text_is(found, "x"));
    assert_int_equal(mr_charsmap_find(map, (struct mr_text){"a", 1}, false, &found), 1);
    assert_int_equal(mr_charsmap_find(map, (struct mr_text){"ba", 2}, false, &found), 0);
    assert_int_equal(mr_charsmap_find(map, (struct mr_text){"", 0}, false, &found), 0);
    mr_charsmap_destroy(map);
}

static void indexes_outside_the_block_find_nothing(void **state)
{
    (void)state;
    struct block block = make();
    struct mr_text found;
    put(&block, 0, 0x1fffffu << 10); /* children far outside */
    struct mr_charsmap *map = create(&block);
    assert_int_equal(mr_charsmap_find(map, (struct mr_text){"a", 1}, false, &found), 0);
    mr_charsmap_destroy(map);
    block = make();
    put(&block, (256 ^ 'a') ^ 128, 0x80000000u | 999); /* a replacement outside */
    map = create(&block);
    assert_int_equal(mr_charsmap_find(map, (struct mr_text){"a", 1}, false, &found), 0);
    mr_charsmap_destroy(map);
    block = make();
    put(&block, 256 ^ 'a', 1u << 8 | 1u << 9 | 0xfffffu << 10 | 'a'); /* a value outside */
    map = create(&block);
    assert_int_equal(mr_charsmap_find(map, (struct mr_text){"a", 1}, false, &found), 0);
    mr_charsmap_destroy(map);
}

static void a_damaged_block_is_a_bad_file(void **state)
{
    (void)state;
    struct block block = make();
    struct mr_charsmap *map;
    const char *bytes = (const char *)block.bytes;
    const size_t lengths[] = {0, 3, 4, 100, 4 + UNITS * 4 - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        assert_int_equal(mr_charsmap_create(&map, (struct mr_text){bytes, lengths[i]}, NULL),
                         MR_BAD_FILE);
    block.bytes[0] = 3; /* not a multiple of a unit */
    struct mr_error err;
    assert_int_equal(mr_charsmap_create(&map, (struct mr_text){bytes, sizeof block.bytes}, &err),
                     MR_BAD_FILE);
    assert_null(map);
    mr_charsmap_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_or_the_shortest_sequence_is_found),
        cmocka_unit_test(indexes_outside_the_block_find_nothing),
        cmocka_unit_test(a_damaged_block_is_a_bad_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
