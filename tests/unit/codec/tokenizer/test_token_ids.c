#include "codec/tokenizer/token_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void ids_above_the_maximum_are_counted_and_not_stored(void **state)
{
    (void)state;
    uint32_t ids[3] = {0, 0, 77};
    struct mr_id_list list = {.ids = ids, .max = 2};
    for (uint32_t id = 5; id < 8; id++)
        mr_id_list_add(&list, id);
    assert_int_equal(list.count, 3);
    assert_int_equal(ids[0], 5);
    assert_int_equal(ids[1], 6);
    assert_int_equal(ids[2], 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_above_the_maximum_are_counted_and_not_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
