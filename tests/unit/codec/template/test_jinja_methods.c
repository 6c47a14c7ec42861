#include "codec/template/jinja_methods.h"

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

static struct mr_jinja_value call(struct mr_jinja_run *run, const char *self, const char *name,
                                  const char *argument)
{
    struct mr_jinja_arguments arguments = {0};
    struct mr_text method = {name, strlen(name)};
    if (argument) arguments.values[arguments.count++] = mr_jinja_literal(argument);
    return mr_jinja_method(run, mr_jinja_literal(self), method, &arguments);
}

static void assert_text(struct mr_jinja_value value, const char *expected)
{
    assert_int_equal(value.kind, MR_JINJA_TEXT);
    assert_int_equal(value.text.length, strlen(expected));
    assert_memory_equal(value.text.bytes, expected, strlen(expected));
}

static void text_methods_are_those_of_python(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run(1 << 16);
    assert_text(call(&run, "  a b \n", "strip", NULL), "a b");
    assert_text(call(&run, "xxaxx", "lstrip", "x"), "axx");
    assert_text(call(&run, "xxaxx", "rstrip", "x"), "xxa");
    assert_text(call(&run, "two words", "title", NULL), "Two Words");
    assert_text(call(&run, "tWO", "capitalize", NULL), "Two");
    assert_int_equal(call(&run, "abc", "startswith", "ab").integer, 1);
    assert_int_equal(call(&run, "abc", "endswith", "abcd").integer, 0);
    assert_int_equal(call(&run,
                          "\xc3\xa9"
                          "b",
                          "find", "b")
                         .integer,
                     1);
    struct mr_jinja_value parts = call(&run, "a,,b", "split", ",");
    assert_int_equal(parts.list->count, 3);
    assert_int_equal(call(&run, " a  b ", "split", NULL).list->count, 2);
    assert_int_equal(run.status, MR_OK);
    mr_arena_destroy(run.arena);
}

static void unknown_methods_and_wrong_arguments_fail(void **state)
{
    (void)state;
    static const char *const names[] = {"nothing", "replace", "split", "startswith", "join"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct mr_jinja_run run = make_run(1 << 16);
        call(&run, "text", names[i], i == 2 ? "" : NULL);
        assert_int_equal(run.status, MR_INVALID_REQUEST);
        mr_arena_destroy(run.arena);
    }
}

static void indexes_outside_are_undefined(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run(1 << 16);
    struct mr_jinja_value list = mr_jinja_list_new(&run);
    mr_jinja_list_push(&run, list.list, mr_jinja_int(5));
    assert_int_equal(mr_jinja_index(&run, list, mr_jinja_int(-1)).integer, 5);
    assert_int_equal(mr_jinja_index(&run, list, mr_jinja_int(1)).kind, MR_JINJA_UNDEFINED);
    assert_int_equal(mr_jinja_index(&run, list, mr_jinja_int(INT64_MIN)).kind, MR_JINJA_UNDEFINED);
    assert_int_equal(run.status, MR_OK);
    mr_jinja_attribute(&run, mr_jinja_undefined(), (struct mr_text){"x", 1});
    assert_int_equal(run.status, MR_INVALID_REQUEST);
    mr_arena_destroy(run.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_methods_are_those_of_python),
        cmocka_unit_test(indexes_outside_are_undefined),
        cmocka_unit_test(unknown_methods_and_wrong_arguments_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
