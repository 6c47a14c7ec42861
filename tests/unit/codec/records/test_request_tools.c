#include "records.h"

#include "codec/records/request_tools.h"

#include <stdio.h>

#define TOOL(name, parameters)                                                                     \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":" parameters "}}"

/* {"messages": …, "tools": [<tools>], <more>} */
static struct decoded with(const char *tools, const char *more)
{
    static char json[1 << 14];
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[%s]%s}", tools,
             more);
    status_of_both(json, &context);
    return decode(text_of(json));
}

static void assert_choice(const char *tools, const char *more, enum mr_tool_choice choice)
{
    struct decoded got = with(tools, more);
    if (got.status != MR_OK) fail_msg("%s", got.err.detail);
    assert_int_equal(got.request->tool_use.choice, choice);
    assert_int_equal(got.request->constraint.kind, choice >= MR_TOOL_CHOICE_REQUIRED
                                                       ? MR_CONSTRAINT_JSON_SCHEMA
                                                       : MR_CONSTRAINT_NONE);
    mr_request_destroy(got.request);
}

static void the_model_chooses_unless_it_is_told(void **state)
{
    (void)state;
    const char *f = TOOL("f", "{}");
    assert_choice(f, "", MR_TOOL_CHOICE_AUTO);
    assert_choice(f, ",\"tool_choice\":\"auto\"", MR_TOOL_CHOICE_AUTO);
    assert_choice(f, ",\"tool_choice\":\"none\"", MR_TOOL_CHOICE_NONE);
    assert_choice(f, ",\"tool_choice\":\"required\"", MR_TOOL_CHOICE_REQUIRED);
    assert_choice(f, ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
                  MR_TOOL_CHOICE_NAMED);
    assert_choice("", "", MR_TOOL_CHOICE_NONE);
}

static void wrong_choices_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", ",\"tool_choice\":\"required\""},
        {TOOL("f", "{}"), ",\"tool_choice\":\"always\""},
        {TOOL("f", "{}"), ",\"tool_choice\":{\"function\":\"f\"}"},
        {TOOL("f", "{}"), ",\"tool_choice\":{\"function\":{\"name\":\"g\"}}"},
        {TOOL("f", "{}"), ",\"tool_choice\":\"required\",\"guided_regex\":\"a\""},
        {TOOL("f", "{}"), ",\"tool_choice\":\"required\",\"ignore_eos\":true"},
        {TOOL("f", "7"), ",\"tool_choice\":\"required\""},
        {TOOL("", "{}"), ",\"tool_choice\":\"required\""},
        {"{\"name\":\"f\"}", ",\"tool_choice\":\"required\""},
        {TOOL("f", "{}"), ",\"parallel_tool_calls\":1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct decoded got = with(wrong[i][0], wrong[i][1]);
        if (got.status != MR_INVALID_REQUEST) fail_msg("%s %s", wrong[i][0], wrong[i][1]);
    }
}

/* The schema has a call of each tool; references of a tool lead into the tool. */
static void required_calls_have_a_schema(void **state)
{
    (void)state;
    const char *tools =
        TOOL("f", "{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/n\"},"
                  "\"e\":{\"enum\":[{\"$ref\":\"#/"
                  "x\"}]}},\"$defs\":{\"n\":{\"type\":\"integer\"}}}") ",{\"type\":\"function\","
                                                                       "\"function\":{\"name\":"
                                                                       "\"g\"}}";
    struct decoded got = with(tools, ",\"tool_choice\":\"required\"");
    assert_int_equal(got.status, MR_OK);
    const char *schema = got.request->constraint.text.bytes;
    assert_non_null(strstr(schema, "\"#/items/anyOf/0/properties/parameters/$defs/n\""));
    assert_non_null(strstr(schema, "{\"$ref\":\"#/x\"}"));
    assert_non_null(strstr(schema, "{\"const\":\"g\"}"));
    struct mr_grammar *grammar;
    struct mr_error err = {0};
    enum mr_status status = mr_constraint_compile(&grammar, &got.request->constraint, NULL, &err);
    if (status != MR_OK) fail_msg("%s\n%s", err.detail, schema);
    mr_grammar_drop(grammar);
    mr_request_destroy(got.request);
    got = with(tools, ",\"tool_choice\":{\"function\":{\"name\":\"g\"}}");
    assert_null(strstr(got.request->constraint.text.bytes, "\"f\""));
    assert_non_null(strstr(got.request->constraint.text.bytes, "\"maxItems\":1,"));
    mr_request_destroy(got.request);
}

static void strict_without_a_constraint_is_warned_of(void **state)
{
    (void)state;
    const char *strict = "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}";
    struct decoded got = with(strict, "");
    assert_int_equal(got.request->warning_count, 1);
    mr_request_destroy(got.request);
    got = with(strict, ",\"tool_choice\":\"required\"");
    assert_int_equal(got.request->warning_count, 0);
    mr_request_destroy(got.request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_chooses_unless_it_is_told),
        cmocka_unit_test(wrong_choices_are_refused),
        cmocka_unit_test(required_calls_have_a_schema),
        cmocka_unit_test(strict_without_a_constraint_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
