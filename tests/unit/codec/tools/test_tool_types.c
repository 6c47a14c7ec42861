#include "codec/tools/tool_types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static struct mr_tool_parameter parameter(const char *tool, const char *name,
                                          enum mr_tool_type type)
{
    return (struct mr_tool_parameter){text_of(tool), text_of(name), type};
}

static void a_parameter_is_found_by_tool_and_name(void **state)
{
    (void)state;
    const struct mr_tool_parameter parameters[] = {
        parameter("g", "b", MR_TOOL_JSON),    parameter("f", "ab", MR_TOOL_BOOL),
        parameter("g", "a", MR_TOOL_INTEGER), parameter("f", "a", MR_TOOL_NUMBER),
        parameter("fg", "a", MR_TOOL_JSON),   parameter("", "", MR_TOOL_TEXT_OR_NULL)};
    struct mr_tool_types *types;
    struct mr_error err;
    assert_int_equal(mr_tool_types_create(&types, parameters, 6, &err), MR_OK);
    mr_tool_types_check(types);
    assert_int_equal(types->count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(mr_tool_types_find(types, parameters[i].tool, parameters[i].name),
                         parameters[i].type);
    assert_int_equal(mr_tool_types_find(types, text_of("f"), text_of("b")), MR_TOOL_TEXT);
    assert_int_equal(mr_tool_types_find(types, text_of("h"), text_of("a")), MR_TOOL_TEXT);
    assert_int_equal(mr_tool_types_find(NULL, text_of("f"), text_of("a")), MR_TOOL_TEXT);
    free(types);
}

static void the_first_of_two_with_one_name_counts(void **state)
{
    (void)state;
    const struct mr_tool_parameter parameters[] = {
        parameter("f", "a", MR_TOOL_JSON), parameter("e", "a", MR_TOOL_NUMBER),
        parameter("f", "a", MR_TOOL_BOOL), parameter("f", "a", MR_TOOL_INTEGER)};
    struct mr_tool_types *types;
    struct mr_error err;
    assert_int_equal(mr_tool_types_create(&types, parameters, 4, &err), MR_OK);
    mr_tool_types_check(types);
    assert_int_equal(types->count, 2);
    assert_int_equal(mr_tool_types_find(types, text_of("f"), text_of("a")), MR_TOOL_JSON);
    free(types);
}

static void the_name_of_a_tool_is_stored_once(void **state)
{
    (void)state;
    static char names[MR_TOOL_TYPES_MAX][8];
    static char tool[MR_TOOL_NAME_BYTES_MAX + 1];
    static struct mr_tool_parameter parameters[MR_TOOL_TYPES_MAX];
    struct mr_tool_types *types;
    struct mr_error err;
    memset(tool, 'f', MR_TOOL_NAME_BYTES_MAX);
    for (unsigned i = 0; i < MR_TOOL_TYPES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "p%u", i);
        parameters[i] = parameter(tool, names[i], i % 2 ? MR_TOOL_JSON : MR_TOOL_BOOL);
    }
    assert_int_equal(mr_tool_types_create(&types, parameters, MR_TOOL_TYPES_MAX, &err), MR_OK);
    mr_tool_types_check(types);
    assert_int_equal(types->count, MR_TOOL_TYPES_MAX);
    for (size_t i = 0; i < types->count; i++) {
        assert_ptr_equal(types->parameters[i].tool.bytes, types->parameters[0].tool.bytes);
        assert_int_equal(mr_tool_types_find(types, text_of(tool), text_of(names[i])),
                         parameters[i].type);
    }
    free(types);
}

static void a_list_that_is_too_long_is_asserted(void **state)
{
    (void)state;
    struct mr_tool_parameter one = parameter("f", "a", MR_TOOL_JSON);
    struct mr_tool_types *types;
    struct mr_error err;
    expect_assert_failure(mr_tool_types_create(&types, &one, MR_TOOL_TYPES_MAX + 1, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_is_found_by_tool_and_name),
        cmocka_unit_test(the_first_of_two_with_one_name_counts),
        cmocka_unit_test(the_name_of_a_tool_is_stored_once),
        cmocka_unit_test(a_list_that_is_too_long_is_asserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
