#include "records.h"

#include "codec/records/request_format.h"

#include <stdio.h>

/* Decodes {"prompt":"x", <members>} in both encodings. */
static enum mr_status with(const char *members)
{
    static char json[1 << 16];
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json, "{\"prompt\":\"x\",%s}", members);
    return status_of_both(json, &context);
}

/* Asserts kind and text of the constraint that the members set. */
static void assert_constraint(const char *members, enum mr_constraint_kind kind, const char *text)
{
    char json[1024];
    struct mr_request *request;
    struct mr_reply_address address;
    struct mr_error err = {.detail = ""};
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json, "{\"prompt\":\"x\",%s}", members);
    if (mr_request_decode(&request, (struct mr_text){json, strlen(json)}, &context, &address,
                          &err) != MR_OK)
        fail_msg("%s: %s", members, err.detail);
    assert_int_equal(request->constraint.kind, kind);
    if (!mr_text_is(request->constraint.text, text))
        fail_msg("%.*s", (int)request->constraint.text.length, request->constraint.text.bytes);
    assert_null(request->grammar);
    mr_request_destroy(request);
}

static void every_form_sets_the_constraint(void **state)
{
    (void)state;
    assert_constraint("\"response_format\":{\"type\":\"text\"}", MR_CONSTRAINT_NONE, "");
    assert_constraint("\"response_format\":{\"type\":\"json_object\"}", MR_CONSTRAINT_JSON_OBJECT,
                      "");
    assert_constraint("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":"
                      "\"n\",\"strict\":true,\"schema\":{\"b\": 1, \"a\":[null,2.5,\"\\n\"]}}}",
                      MR_CONSTRAINT_JSON_SCHEMA, "{\"b\":1,\"a\":[null,2.5,\"\\n\"]}");
    assert_constraint("\"response_format\":{\"type\":\"regex\",\"regex\":\"a+\"}",
                      MR_CONSTRAINT_REGEX, "a+");
    assert_constraint("\"response_format\":{\"type\":\"choice\",\"choice\":[\"a\",\"b\"]}",
                      MR_CONSTRAINT_CHOICE, "[\"a\",\"b\"]");
    assert_constraint(
        "\"response_format\":{\"type\":\"grammar\",\"grammar\":\"root ::= \\\"a\\\"\"}",
        MR_CONSTRAINT_EBNF, "root ::= \"a\"");
    assert_constraint("\"guided_json\":{\"type\":\"null\"}", MR_CONSTRAINT_JSON_SCHEMA,
                      "{\"type\":\"null\"}");
    assert_constraint("\"guided_json\":\"{}\"", MR_CONSTRAINT_JSON_SCHEMA, "{}");
    assert_constraint("\"guided_regex\":\"a\",\"guided_json\":null", MR_CONSTRAINT_REGEX, "a");
    assert_constraint("\"guided_choice\":[\"a\"]", MR_CONSTRAINT_CHOICE, "[\"a\"]");
    assert_constraint("\"guided_grammar\":\"g\"", MR_CONSTRAINT_EBNF, "g");
    assert_constraint("\"structured_outputs\":{\"json\":{},\"regex\":null}",
                      MR_CONSTRAINT_JSON_SCHEMA, "{}");
    assert_constraint("\"structured_outputs\":{\"json_object\":true}", MR_CONSTRAINT_JSON_OBJECT,
                      "");
}

static void wrong_forms_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "\"response_format\":{\"type\":\"json_schema\"}",
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}",
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":7}}",
        "\"response_format\":{\"type\":\"regex\"}",
        "\"response_format\":{\"type\":\"regex\",\"regex\":\"\"}",
        "\"response_format\":{\"type\":\"choice\",\"choice\":\"a\"}",
        "\"response_format\":{\"type\":\"json\"}",
        "\"guided_regex\":5",
        "\"guided_json\":[1]",
        "\"structured_outputs\":[]",
        "\"structured_outputs\":{\"json_object\":1}",
        "\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}",
        "\"guided_regex\":\"a\",\"response_format\":{\"type\":\"json_object\"}",
        "\"ignore_eos\":true,\"guided_regex\":\"a\"",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (with(wrong[i]) != MR_INVALID_REQUEST) fail_msg("%s", wrong[i]);
    assert_int_equal(with("\"structured_outputs\":{\"structural_tag\":\"x\"}"), MR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_sets_the_constraint),
        cmocka_unit_test(wrong_forms_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
