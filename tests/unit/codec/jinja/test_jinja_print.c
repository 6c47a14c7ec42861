#include "codec/jinja/jinja_print.h"

#include "codec/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_text(const struct mr_jinja_buffer *buffer, const char *expected)
{
    assert_int_equal(buffer->length, strlen(expected));
    assert_memory_equal(buffer->bytes, expected, buffer->length);
}

static struct mr_jinja_value sample(struct mr_jinja_run *run)
{
    struct mr_jinja_value list = mr_jinja_list_new(run), dict = mr_jinja_dict_new(run);
    mr_jinja_dict_set(run, dict.dict, mr_jinja_literal("k\n"), mr_jinja_literal("a'\"\x01"));
    mr_jinja_list_push(run, list.list, dict);
    mr_jinja_list_push(run, list.list, mr_jinja_bool(true));
    mr_jinja_list_push(run, list.list, mr_jinja_none());
    mr_jinja_list_push(run, list.list, mr_jinja_float(2));
    mr_jinja_list_push(run, list.list, mr_jinja_int(-7));
    return list;
}

static void values_are_printed_as_python_and_json_do(void **state)
{
    (void)state;
    struct mr_jinja_run run = {.arena = mr_arena_create(1 << 16)};
    struct mr_jinja_buffer python = {0}, json = {0}, wide = {0};
    mr_jinja_print(&run, &python, sample(&run));
    assert_text(&python, "[{'k\\n': 'a\\'\"\\x01'}, True, None, 2.0, -7]");
    struct mr_jinja_json_style style = {.comma = mr_jinja_literal(", "),
                                        .colon = mr_jinja_literal(": ")};
    mr_jinja_print_json(&run, &json, sample(&run), &style);
    assert_text(&json, "[{\"k\\n\": \"a'\\\"\\u0001\"}, true, null, 2.0, -7]");
    struct mr_jinja_value list = mr_jinja_list_new(&run);
    mr_jinja_list_push(&run, list.list, mr_jinja_int(1));
    style.indent = mr_jinja_literal("  ");
    mr_jinja_print_json(&run, &wide, list, &style);
    assert_text(&wide, "[\n  1\n]");
    assert_int_equal(run.status, MR_OK);
    mr_arena_destroy(run.arena);
}

static void a_list_that_contains_itself_fails_the_run(void **state)
{
    (void)state;
    for (int json = 0; json < 2; json++) {
        struct mr_jinja_run run = {.arena = mr_arena_create(1 << 16)};
        struct mr_jinja_buffer out = {0};
        struct mr_jinja_value list = mr_jinja_list_new(&run);
        mr_jinja_list_push(&run, list.list, list);
        if (json)
            mr_jinja_print_json(&run, &out, list, &(struct mr_jinja_json_style){0});
        else
            mr_jinja_print(&run, &out, list);
        assert_int_equal(run.status, MR_INVALID_REQUEST);
        mr_arena_destroy(run.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_printed_as_python_and_json_do),
        cmocka_unit_test(a_list_that_contains_itself_fails_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
