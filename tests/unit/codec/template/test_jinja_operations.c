#include "codec/template/jinja_operations.h"

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

static void positional_arguments_have_precedence(void **state)
{
    (void)state;
    struct mr_jinja_arguments arguments = {.named_count = 1, .names = {{"old", 3}}};
    arguments.named[0] = mr_jinja_int(7);
    assert_int_equal(mr_jinja_argument(&arguments, 0, "old").integer, 7);
    assert_int_equal(mr_jinja_argument(&arguments, 0, "new").kind, MR_JINJA_UNDEFINED);
    arguments.values[arguments.count++] = mr_jinja_int(8);
    assert_int_equal(mr_jinja_argument(&arguments, 0, "old").integer, 8);
    assert_int_equal(mr_jinja_keyword(&arguments, "old").integer, 7);
}

static void text_is_stripped_replaced_and_recased(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run();
    assert_text(mr_jinja_upper(&run, mr_jinja_literal("aB1"), &none), "AB1");
    assert_text(mr_jinja_title(&run, mr_jinja_literal("aB cd"), &none), "Ab Cd");
    assert_text(mr_jinja_capitalize(&run, mr_jinja_literal("aB cd"), &none), "Ab cd");
    assert_text(mr_jinja_strip(&run, mr_jinja_literal(" a "), NULL, MR_JINJA_LEFT), "a ");
    assert_text(mr_jinja_strip(&run, mr_jinja_literal(" a "), NULL, MR_JINJA_BOTH), "a");
    assert_text(mr_jinja_replace(&run, mr_jinja_literal("aXbX"), mr_jinja_literal("X"),
                                 mr_jinja_literal("--")),
                "a--b--");
    assert_int_equal(run.status, MR_OK);
    mr_arena_destroy(run.arena);
}

static void items_are_pairs_and_can_be_joined(void **state)
{
    (void)state;
    struct mr_jinja_run run = make_run();
    struct mr_jinja_value dict = mr_jinja_dict_new(&run);
    mr_jinja_dict_set(&run, dict.dict, mr_jinja_literal("k"), mr_jinja_int(5));
    struct mr_jinja_value items = mr_jinja_items(&run, dict, &none);
    assert_int_equal(items.list->count, 1);
    assert_text(mr_jinja_join(&run, items.list->items[0], mr_jinja_literal("=")), "k=5");
    assert_int_equal(mr_jinja_items(&run, mr_jinja_undefined(), &none).list->count, 0);
    assert_int_equal(run.status, MR_OK);
    mr_jinja_items(&run, mr_jinja_int(1), &none);
    assert_int_equal(run.status, MR_INVALID_REQUEST);
    mr_arena_destroy(run.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positional_arguments_have_precedence),
        cmocka_unit_test(text_is_stripped_replaced_and_recased),
        cmocka_unit_test(items_are_pairs_and_can_be_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
