#include "codec/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void take_is_zeroed_and_aligned(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 16);
    unsigned char *one = mr_arena_take(arena, 3);
    unsigned char *two = mr_arena_take(arena, 5000);
    assert_int_equal((uintptr_t)one % _Alignof(max_align_t), 0);
    assert_int_equal((uintptr_t)two % _Alignof(max_align_t), 0);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(two[i], 0);
    mr_arena_destroy(arena);
}

static void the_maximum_is_kept(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(64);
    assert_non_null(mr_arena_take(arena, 48));
    assert_null(mr_arena_take(arena, 17));
    assert_null(mr_arena_take(arena, SIZE_MAX));
    assert_null(mr_arena_take_array(arena, SIZE_MAX / 2, 4));
    assert_non_null(mr_arena_take(arena, 16));
    assert_int_equal(mr_arena_bytes(arena), 64);
    mr_arena_destroy(arena);
}

static void copied_text_is_terminated(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1024);
    char *copy = mr_arena_copy_text(arena, "tokens", 3);
    assert_string_equal(copy, "tok");
    assert_null(mr_arena_copy_text(arena, "x", SIZE_MAX));
    mr_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take_is_zeroed_and_aligned),
        cmocka_unit_test(the_maximum_is_kept),
        cmocka_unit_test(copied_text_is_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
