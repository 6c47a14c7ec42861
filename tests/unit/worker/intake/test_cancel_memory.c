#include "worker/intake/cancel_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct mr_text a = {"a", 1}, b = {"b", 1};

static struct mr_id_memory *make(void)
{
    struct mr_id_memory *memory = NULL;
    assert_int_equal(mr_id_memory_create(&memory, 8, 1000, NULL), MR_OK);
    return memory;
}

static void a_cancelled_id_is_known_once_and_to_one_tenant(void **state)
{
    (void)state;
    struct mr_id_memory *memory = make();
    mr_cancel_memory_add(memory, 1, a, 0, 10);
    assert_false(mr_cancel_memory_take(memory, 1, b, 0, 20));
    assert_false(mr_cancel_memory_take(memory, 0, a, 0, 20));
    assert_true(mr_cancel_memory_take(memory, 1, a, 0, 20));
    assert_false(mr_cancel_memory_take(memory, 1, a, 0, 20));
    mr_id_memory_check(memory);
    mr_id_memory_destroy(memory);
}

static void an_id_used_again_later_is_not_cancelled(void **state)
{
    (void)state;
    struct mr_id_memory *memory = make();
    mr_cancel_memory_add(memory, 0, a, 1000000, 1);
    assert_false(mr_cancel_memory_take(memory, 0, a, 1000001 + MR_CANCEL_SKEW_MS, 2));
    assert_int_equal(mr_id_memory_count(memory), 0); /* and forgotten */
    mr_cancel_memory_add(memory, 0, b, 1000000, 1);
    assert_true(mr_cancel_memory_take(memory, 0, b, 1000000 + MR_CANCEL_SKEW_MS, 2));
    mr_id_memory_check(memory);
    mr_id_memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_id_is_known_once_and_to_one_tenant),
        cmocka_unit_test(an_id_used_again_later_is_not_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
