#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/remote_queue_state.h"

#include <string.h>

#define BYTES  ((size_t)1 << 16)
#define PIECES 40u

static struct mr_queue_memory *make(void)
{
    struct mr_queue_memory *memory;
    assert_int_equal(mr_queue_memory_create(&memory, BYTES, NULL), MR_OK);
    return memory;
}

static void all_memory_can_be_taken_again(void **state)
{
    struct mr_queue_memory *memory = make();
    unsigned char *pieces[BYTES / 128 + 1];
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t count = 0;
        while ((pieces[count] = mr_queue_memory_take(memory, 100)) != NULL)
            count++;
        assert_int_equal(count, BYTES / 128);
        assert_int_equal(mr_queue_memory_check(memory), BYTES);
        for (uint32_t i = 0; i < count; i++) /* from the front, the back, and every other one */
            mr_queue_memory_give(memory, pieces[round == 0   ? i
                                                : round == 1 ? count - 1 - i
                                                             : i * 7 % count]);
        assert_int_equal(mr_queue_memory_check(memory), 0);
        void *whole = mr_queue_memory_take(memory, BYTES - 64);
        assert_non_null(whole);
        mr_queue_memory_give(memory, whole);
    }
    mr_queue_memory_destroy(memory);
}

static void a_piece_that_does_not_fit_is_refused(void **state)
{
    struct mr_queue_memory *memory = make();
    (void)state;
    assert_null(mr_queue_memory_take(memory, SIZE_MAX));
    assert_null(mr_queue_memory_take(memory, BYTES));
    void *left = mr_queue_memory_take(memory, BYTES / 2), *right = mr_queue_memory_take(memory, 1);
    assert_non_null(left);
    assert_non_null(right);
    assert_null(mr_queue_memory_take(memory, BYTES / 2));
    mr_queue_memory_give(memory, left);
    left = mr_queue_memory_take(memory, BYTES / 2);
    assert_non_null(left);
    mr_queue_memory_give(memory, left);
    mr_queue_memory_give(memory, right);
    assert_int_equal(mr_queue_memory_check(memory), 0);
    mr_queue_memory_destroy(memory);
    mr_queue_memory_destroy(NULL);
}

/* Pieces of all sizes, returned in any order. */
static void pieces_are_zeroed_and_do_not_overlap(void **state)
{
    struct mr_queue_memory *memory = make();
    unsigned char *pieces[PIECES] = {0};
    size_t sizes[PIECES];
    uint64_t drawn = 5;
    uint32_t refused = 0;
    (void)state;
    for (uint32_t round = 0; round < 20000; round++) {
        drawn = drawn * 6364136223846793005u + 1442695040888963407u;
        uint32_t i = (uint32_t)(drawn >> 33) % PIECES;
        if (pieces[i]) {
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(pieces[i][k], i + 1);
            mr_queue_memory_give(memory, pieces[i]);
            pieces[i] = NULL;
            continue;
        }
        sizes[i] = 1 + (drawn >> 40) % 5000;
        pieces[i] = mr_queue_memory_take(memory, sizes[i]);
        refused += pieces[i] == NULL;
        for (size_t k = 0; pieces[i] && k < sizes[i]; k++)
            assert_int_equal(pieces[i][k], 0);
        if (pieces[i]) memset(pieces[i], (int)i + 1, sizes[i]);
        (void)mr_queue_memory_check(memory);
    }
    assert_in_range(refused, 1, 10000);
    for (uint32_t i = 0; i < PIECES; i++)
        if (pieces[i]) mr_queue_memory_give(memory, pieces[i]);
    assert_int_equal(mr_queue_memory_check(memory), 0);
    mr_queue_memory_destroy(memory);
}

static void returning_a_piece_twice_is_caught(void **state)
{
    struct mr_queue_memory *memory = make();
    (void)state;
    void *piece = mr_queue_memory_take(memory, 10);
    mr_queue_memory_give(memory, piece);
    expect_assert_failure(mr_queue_memory_give(memory, piece));
    mr_queue_memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_memory_can_be_taken_again),
        cmocka_unit_test(a_piece_that_does_not_fit_is_refused),
        cmocka_unit_test(pieces_are_zeroed_and_do_not_overlap),
        cmocka_unit_test(returning_a_piece_twice_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
