#include "codec/jinja/jinja_operations.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_jinja_arguments none;

static struct mr_jinja_run make_run(void)
{
    return (struct mr_jinja_run){.arena = mr_arena_create(1 << 16)};
}

static void assert_text(struct mr_jinja_value value, const char *expected)
{
    assert_int_equal(value.kind, MR_JINJA_TEXT);
    assert_true(mr_text_is(mr_jinja_as_text(value), expected));
}

static void arguments_are_bound_by_place_and_by_name(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run();
    struct mr_text what = {"f", 1};
    struct mr_jinja_arguments bound, arguments = {.named_count = 1, .names = {{"new", 3}}};
    arguments.named[0] = mr_jinja_int(7);
    arguments.values[arguments.count++] = mr_jinja_int(8);
    assert_true(mr_jinja_bind(&run, what, "old new count", &arguments, &bound));
    assert_int_equal(bound.values[0].integer, 8);
    assert_int_equal(bound.values[1].integer, 7);
    assert_int_equal(bound.values[2].kind, MR_JINJA_UNDEFINED);
    assert_false(mr_jinja_bind(&run, what, "old", &arguments, &bound));
    assert_int_equal(run.status, MR_INVALID_REQUEST);
    mr_arena_destroy(run.arena);
    run = make_run();
    assert_false(mr_jinja_bind(&run, what, "new", &arguments, &bound)); /* given twice */
    mr_arena_destroy(run.arena);
}

static void text_is_stripped_replaced_and_recased(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run();
    assert_text(mr_jinja_upper(&run, mr_jinja_literal("aB1"), &none), "AB1");
    assert_text(mr_jinja_title(&run, mr_jinja_literal("aB cd"), &none), "Ab Cd");
    assert_text(mr_jinja_capitalize(&run, mr_jinja_literal("aB cd"), &none), "Ab cd");
    assert_text(mr_jinja_strip(&run, mr_jinja_literal(" a "), mr_jinja_none(), MR_JINJA_LEFT),
                "a ");
    assert_text(mr_jinja_strip(&run, mr_jinja_literal(" a "), mr_jinja_none(), MR_JINJA_BOTH), "a");
    assert_text(mr_jinja_replace(&run, mr_jinja_literal("aXbX"), mr_jinja_literal("X"),
                                 mr_jinja_literal("--"), -1),
                "a--b--");
    assert_text(mr_jinja_replace(&run, mr_jinja_literal("ab"), mr_jinja_literal(""),
                                 mr_jinja_literal("-"), -1),
                "-a-b-");
    assert_text(mr_jinja_pad(&run, mr_jinja_literal("ab"), 5, MR_JINJA_BOTH, mr_jinja_none()),
                "  ab ");
    assert_text(
        mr_jinja_strip(&run, mr_jinja_literal("\xe3\x80\x80x\x1c"), mr_jinja_none(), MR_JINJA_BOTH),
        "x");
    assert_int_equal(run.status, MR_OK);
    mr_arena_destroy(run.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_bound_by_place_and_by_name),
        cmocka_unit_test(text_is_stripped_replaced_and_recased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
