#include "codec/tools/tool_cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct rig {
    struct mr_tool_calls found;
    struct mr_tool_cursor cursor;
};

static struct mr_tool_cursor *open_rig(struct rig *rig, const char *text, bool ended)
{
    memset(rig, 0, sizeof *rig);
    rig->found.count_max = MR_TOOL_CALLS_MAX;
    rig->found.arena = mr_arena_create(1 << 20);
    rig->cursor =
        (struct mr_tool_cursor){{text, strlen(text)}, 0, ended, &rig->found, rig->found.arena};
    return &rig->cursor;
}

static void close_rig(struct rig *rig)
{
    mr_arena_destroy(rig->found.arena);
}

static void a_word_may_be_unfinished_only_while_the_text_goes_on(void **state)
{
    (void)state;
    struct rig rig;
    assert_int_equal(mr_tool_read_word(open_rig(&rig, "<too", false), "<tool>"), MR_TOOL_MORE);
    close_rig(&rig);
    assert_int_equal(mr_tool_read_word(open_rig(&rig, "<too", true), "<tool>"), MR_TOOL_BAD);
    close_rig(&rig);
    assert_int_equal(mr_tool_read_word(open_rig(&rig, "<tap", false), "<tool>"), MR_TOOL_BAD);
    close_rig(&rig);
    assert_int_equal(mr_tool_read_word(open_rig(&rig, "<tool>x", false), "<tool>"), MR_TOOL_FOUND);
    assert_int_equal(rig.cursor.at, 6);
    close_rig(&rig);
}

static void an_object_ends_at_its_bracket_whatever_its_texts_hold(void **state)
{
    (void)state;
    struct rig rig;
    struct mr_text object;
    const char *text = "{\"a\": \"}\\\"}\", \"b\": [{}]} tail";
    assert_int_equal(mr_tool_read_object(open_rig(&rig, text, false), &object), MR_TOOL_FOUND);
    assert_int_equal(object.length, strlen(text) - strlen(" tail"));
    close_rig(&rig);
    assert_int_equal(mr_tool_read_object(open_rig(&rig, "{\"a", false), &object), MR_TOOL_MORE);
    close_rig(&rig);
    assert_int_equal(mr_tool_read_object(open_rig(&rig, "{\"a", true), &object), MR_TOOL_BAD);
    close_rig(&rig);
}

static void names_have_plain_characters_and_an_end(void **state)
{
    (void)state;
    struct rig rig;
    struct mr_text name;
    assert_int_equal(mr_tool_read_name(open_rig(&rig, "get_x.y-1{", false), &name), MR_TOOL_FOUND);
    assert_true(mr_text_is(name, "get_x.y-1"));
    close_rig(&rig);
    assert_int_equal(mr_tool_read_name(open_rig(&rig, "get", false), &name), MR_TOOL_MORE);
    close_rig(&rig);
    assert_int_equal(mr_tool_read_name(open_rig(&rig, "{", false), &name), MR_TOOL_BAD);
    close_rig(&rig);
}

static void arrays_hold_at_least_one_call(void **state)
{
    (void)state;
    struct rig rig;
    const char *two = "[{\"name\":\"f\",\"arguments\":{}} , {\"name\":\"g\",\"parameters\":{}}]";
    assert_int_equal(mr_tool_read_array(open_rig(&rig, two, false)), MR_TOOL_FOUND);
    assert_int_equal(rig.found.count, 2);
    close_rig(&rig);
    assert_int_equal(mr_tool_read_array(open_rig(&rig, "[]", false)), MR_TOOL_BAD);
    close_rig(&rig);
}

static void literals_of_python_become_json(void **state)
{
    (void)state;
    struct rig rig;
    const char *text = "[f(a='it\\'s \\u00e9', b=-1.5, c=[True, None, {'k': \"v\"}], d=7), g()]";
    assert_int_equal(mr_tool_read_pythonic(open_rig(&rig, text, true)), MR_TOOL_FOUND);
    assert_int_equal(rig.found.count, 2);
    assert_true(mr_text_is(rig.found.calls[0].arguments,
                           "{\"a\":\"it's \xc3\xa9\",\"b\":-1.5,\"c\":[true,null,{\"k\":\"v\"}],"
                           "\"d\":7}"));
    assert_true(mr_text_is(rig.found.calls[1].arguments, "{}"));
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_may_be_unfinished_only_while_the_text_goes_on),
        cmocka_unit_test(an_object_ends_at_its_bracket_whatever_its_texts_hold),
        cmocka_unit_test(names_have_plain_characters_and_an_end),
        cmocka_unit_test(arrays_hold_at_least_one_call),
        cmocka_unit_test(literals_of_python_become_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
