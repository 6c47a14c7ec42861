#include "codec/template/jinja_builtins.h"

#include "codec/template/jinja_filters.h"

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

static struct mr_text named(const char *name)
{
    return (struct mr_text){name, strlen(name)};
}

static void filters_convert_values(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run(1 << 16);
    struct mr_jinja_arguments none = {0};
    struct mr_jinja_value text =
        mr_jinja_filter(&run, named("trim"), mr_jinja_literal(" x "), &none);
    assert_int_equal(text.text.length, 1);
    struct mr_jinja_value number =
        mr_jinja_filter(&run, named("int"), mr_jinja_literal("42"), &none);
    assert_int_equal(number.integer, 42);
    assert_int_equal(mr_jinja_filter(&run, named("int"), mr_jinja_float(1e300), &none).integer, 0);
    assert_int_equal(run.status, MR_OK);
    mr_jinja_filter(&run, named("nothing_of_the_kind"), text, &none);
    assert_int_equal(run.status, MR_INVALID_REQUEST);
    mr_arena_destroy(run.arena);
}

static void tests_check_the_kind(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run(1 << 16);
    struct mr_jinja_arguments none = {0};
    assert_true(mr_jinja_test(&run, named("string"), mr_jinja_literal(""), &none));
    assert_false(mr_jinja_test(&run, named("string"), mr_jinja_none(), &none));
    assert_false(mr_jinja_test(&run, named("integer"), mr_jinja_bool(true), &none));
    assert_true(mr_jinja_test(&run, named("number"), mr_jinja_bool(true), &none));
    assert_false(mr_jinja_test(&run, named("true"), mr_jinja_int(1), &none));
    assert_int_equal(run.status, MR_OK);
    mr_jinja_test(&run, named("prime"), mr_jinja_int(7), &none);
    assert_int_equal(run.status, MR_INVALID_REQUEST);
    mr_arena_destroy(run.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_convert_values),
        cmocka_unit_test(tests_check_the_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
