/* Items and tools of /v1/responses become those of chat completions. */
#include "bodies.h"

#include "codec/openai/items.h"

/* The messages of the member `input`; NULL: refused. */
static char *translate(const char *json, const char *instructions, struct mr_error *err)
{
    struct mr_document *document = open_json(json);
    struct mr_value input;
    struct mr_json_writer writer;
    char *bytes = NULL;
    size_t length;
    assert_true(mr_value_get(mr_document_root(document), "input", &input));
    mr_json_writer_init(&writer, 1 << 16);
    if (mr_openai_put_messages(&writer, (struct mr_text){instructions, strlen(instructions)}, input,
                               err) == MR_OK)
        assert_int_equal(mr_json_writer_take(&writer, &bytes, &length, NULL), MR_OK);
    mr_json_writer_drop(&writer);
    mr_document_close(document);
    return bytes;
}

static void parts_of_text_stay_parts_unless_there_is_one(void **state)
{
    (void)state;
    char *messages =
        translate("{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
                  "\"text\":\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]},"
                  "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
                  "\"refusal\",\"refusal\":\"no\"}]}]}",
                  "", NULL);
    assert_string_equal(messages,
                        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                        "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":"
                        "\"no\"}]");
    free(messages);
}

static void calls_after_each_other_are_one_message(void **state)
{
    (void)state;
    char *messages =
        translate("{\"input\":[{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"f\","
                  "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"1\","
                  "\"output\":\"x\"},{\"type\":\"function_call\",\"call_id\":\"2\",\"name\":\"g\","
                  "\"arguments\":\"{}\"}]}",
                  "I", NULL);
    const char *first = strstr(messages, "\"tool_calls\"");
    assert_memory_equal(messages, "[{\"role\":\"system\",\"content\":\"I\"},", 33);
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "\"tool_calls\""));
    free(messages);
}

static void an_item_that_is_incomplete_is_named(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "{\"input\":[{\"role\":\"user\"}]}",
        "{\"input\":[{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{}\"}]}",
        "{\"input\":[{\"type\":\"function_call_output\",\"output\":\"x\"}]}",
        "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_file\"}]}]}",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct mr_error err = {0};
        assert_null(translate(refused[i], "", &err));
        assert_memory_equal(err.detail, "input[0] ", 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_text_stay_parts_unless_there_is_one),
        cmocka_unit_test(calls_after_each_other_are_one_message),
        cmocka_unit_test(an_item_that_is_incomplete_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
