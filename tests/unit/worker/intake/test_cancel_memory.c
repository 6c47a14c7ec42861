#include "worker/intake/cancel_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static struct mr_cancel_memory *make(uint32_t count_max)
{
    struct mr_cancel_memory *memory = NULL;
    assert_int_equal(mr_cancel_memory_create(&memory, count_max, 1000, NULL), MR_OK);
    return memory;
}

static void a_cancelled_id_is_known_once(void **state)
{
    (void)state;
    struct mr_cancel_memory *memory = make(4);
    mr_cancel_memory_add(memory, text_of("a"), 0, 10);
    assert_false(mr_cancel_memory_take(memory, text_of("b"), 0, 20));
    assert_true(mr_cancel_memory_take(memory, text_of("a"), 0, 20));
    assert_false(mr_cancel_memory_take(memory, text_of("a"), 0, 20));
    mr_cancel_memory_check(memory);
    mr_cancel_memory_destroy(memory);
}

static void it_is_forgotten_after_its_time_and_the_time_starts_again_when_repeated(void **state)
{
    (void)state;
    struct mr_cancel_memory *memory = make(4);
    mr_cancel_memory_add(memory, text_of("a"), 0, 0);
    mr_cancel_memory_add(memory, text_of("b"), 0, 0);
    mr_cancel_memory_add(memory, text_of("b"), 0, 900);
    assert_int_equal(mr_cancel_memory_count(memory), 2);
    assert_false(mr_cancel_memory_take(memory, text_of("a"), 0, 1000));
    assert_true(mr_cancel_memory_take(memory, text_of("b"), 0, 1000));
    mr_cancel_memory_check(memory);
    mr_cancel_memory_destroy(memory);
}

static void the_oldest_is_forgotten_when_full(void **state)
{
    (void)state;
    struct mr_cancel_memory *memory = make(8);
    char id[16];
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "id-%d", i);
        mr_cancel_memory_add(memory, text_of(id), 0, 1);
        if (i % 7 == 3) mr_cancel_memory_take(memory, text_of(id), 0, 1);
        mr_cancel_memory_check(memory);
    }
    assert_false(mr_cancel_memory_take(memory, text_of("id-80"), 0, 2));
    assert_true(mr_cancel_memory_take(memory, text_of("id-99"), 0, 2));
    assert_true(mr_cancel_memory_take(memory, text_of("id-93"), 0, 2));
    mr_cancel_memory_destroy(memory);
}

static void an_id_used_again_later_is_not_cancelled(void **state)
{
    (void)state;
    struct mr_cancel_memory *memory = make(8);
    mr_cancel_memory_add(memory, text_of("a"), 1000000, 1);
    assert_false(mr_cancel_memory_take(memory, text_of("a"), 1000001 + MR_CANCEL_SKEW_MS, 2));
    mr_cancel_memory_add(memory, text_of("b"), 1000000, 1);
    assert_true(mr_cancel_memory_take(memory, text_of("b"), 1000000 + MR_CANCEL_SKEW_MS, 2));
    mr_cancel_memory_check(memory);
    mr_cancel_memory_destroy(memory);
}

static void ids_that_no_request_can_have_are_ignored(void **state)
{
    (void)state;
    struct mr_cancel_memory *memory = make(8);
    char large[MR_ID_BYTES_MAX + 1];
    memset(large, 'x', sizeof large);
    mr_cancel_memory_add(memory, (struct mr_text){large, sizeof large}, 0, 1);
    mr_cancel_memory_add(memory, (struct mr_text){"", 0}, 0, 1);
    assert_int_equal(mr_cancel_memory_count(memory), 0);
    assert_false(mr_cancel_memory_take(memory, (struct mr_text){"", 0}, 0, 1));
    mr_cancel_memory_add(memory, (struct mr_text){large, sizeof large - 1}, 0, 1);
    assert_true(mr_cancel_memory_take(memory, (struct mr_text){large, sizeof large - 1}, 0, 1));
    mr_cancel_memory_check(memory);
    mr_cancel_memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_id_is_known_once),
        cmocka_unit_test(it_is_forgotten_after_its_time_and_the_time_starts_again_when_repeated),
        cmocka_unit_test(the_oldest_is_forgotten_when_full),
        cmocka_unit_test(an_id_used_again_later_is_not_cancelled),
        cmocka_unit_test(ids_that_no_request_can_have_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
