#include "codec/jinja/jinja_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_jinja_run make_run(size_t bytes)
{
    return (struct mr_jinja_run){.arena = mr_arena_create(bytes)};
}

static void dictionaries_keep_order_and_replace(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run(1 << 16);
    struct mr_jinja_value dict = mr_jinja_dict_new(&run);
    for (int i = 0; i < 20; i++)
        mr_jinja_dict_set(&run, dict.dict, mr_jinja_int(i), mr_jinja_int(-i));
    mr_jinja_dict_set(&run, dict.dict, mr_jinja_int(3), mr_jinja_literal("x"));
    assert_int_equal(dict.dict->count, 20);
    assert_int_equal(mr_jinja_dict_get(dict.dict, mr_jinja_int(3))->kind, MR_JINJA_TEXT);
    assert_null(mr_jinja_dict_get(dict.dict, mr_jinja_int(20)));
    assert_int_equal(dict.dict->keys[19].integer, 19);
    mr_arena_destroy(run.arena);
}

static void text_length_is_in_characters(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run(1 << 16);
    struct mr_jinja_value text = mr_jinja_literal("a\xc3\xa9\xe6\xbc\xa2");
    assert_int_equal(mr_jinja_length(&run, text), 3);
    assert_int_equal(mr_jinja_offset(text, 2), 3);
    assert_int_equal(mr_jinja_offset(text, 9), 6);
    assert_int_equal(mr_jinja_iterate(&run, text)->count, 3);
    mr_arena_destroy(run.arena);
}

static void comparing_values_without_order_fails_the_run(void **state)
{
    (void)state;
    struct mr_error err;
    struct mr_jinja_run run = make_run(1 << 16);
    run.err = &err;
    mr_jinja_compare(&run, mr_jinja_int(1), mr_jinja_literal("a"));
    assert_int_equal(run.status, MR_INVALID_REQUEST);
    mr_jinja_fail(&run, MR_NOMEM, "second");
    assert_int_equal(run.status, MR_INVALID_REQUEST);
    assert_null(strstr(err.detail, "second"));
    mr_arena_destroy(run.arena);
}

static void a_slice_outside_the_text_is_asserted(void **state)
{
    (void)state;
    expect_assert_failure(mr_jinja_slice_bytes(mr_jinja_literal("abc"), 2, 4));
    expect_assert_failure(mr_jinja_slice_bytes(mr_jinja_literal("abc"), 2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dictionaries_keep_order_and_replace),
        cmocka_unit_test(text_length_is_in_characters),
        cmocka_unit_test(comparing_values_without_order_fails_the_run),
        cmocka_unit_test(a_slice_outside_the_text_is_asserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
