#include "codec/records/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void members_are_found_by_name(void **state)
{
    (void)state;
    const struct mr_data_member members[] = {
        {{"a", 1}, {.kind = MR_DATA_INT, .integer = 1}},
        {{"b", 1}, {.kind = MR_DATA_TEXT, .text = {"x", 1}}},
    };
    const struct mr_data map = {.kind = MR_DATA_MAP, .map = {members, 2}};
    assert_int_equal(mr_data_get(&map, "a")->integer, 1);
    assert_ptr_equal(mr_data_get(&map, "b"), &members[1].value);
    assert_null(mr_data_get(&map, "c"));
    assert_null(mr_data_get(&members[0].value, "a"));
}

static void a_part_has_a_text_of_one_of_three_names(void **state)
{
    (void)state;
    const struct mr_data_member members[] = {
        {{"type", 4}, {.kind = MR_DATA_TEXT, .text = {"refusal", 7}}},
        {{"refusal", 7}, {.kind = MR_DATA_TEXT, .text = {"no", 2}}},
        {{"text", 4}, {.kind = MR_DATA_NULL}},
    };
    const struct mr_data refusal = {.kind = MR_DATA_MAP, .map = {members, 3}},
                         none = {.kind = MR_DATA_MAP, .map = {members, 1}};
    assert_ptr_equal(mr_data_part_text(&refusal), &members[1].value);
    assert_ptr_equal(mr_data_part_text(&members[0].value), &members[0].value);
    assert_null(mr_data_part_text(&none));
    assert_null(mr_data_part_text(&members[2].value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found_by_name),
        cmocka_unit_test(a_part_has_a_text_of_one_of_three_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
