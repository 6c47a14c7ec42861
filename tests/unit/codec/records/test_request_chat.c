#include "records.h"

#include "codec/records/request_chat.h"

#include <stdio.h>

#define USER "[{\"role\":\"user\",\"content\":\"hi\"}]"

static enum mr_status with_messages(const char *messages, const char *more)
{
    static char json[1 << 17];
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json, "{\"messages\":%s%s}", messages, more);
    return status_of_both(json, &context);
}

static void messages_are_role_and_content(void **state)
{
    (void)state;
    struct mr_request_context strict = test_context();
    strict.strict = true;
    assert_int_equal(with_messages("[{\"role\":\"user\",\"content\":\"\"}]", ""), MR_OK);
    assert_int_equal(with_messages("[{\"role\":\"user\"}]", ""), MR_INVALID_REQUEST);
    assert_int_equal(with_messages("[{\"content\":\"a\"}]", ""), MR_INVALID_REQUEST);
    assert_int_equal(with_messages("[{\"role\":\"\",\"content\":\"a\"}]", ""), MR_INVALID_REQUEST);
    assert_int_equal(with_messages("[{\"role\":1,\"content\":\"a\"}]", ""), MR_INVALID_REQUEST);
    assert_int_equal(with_messages("[{\"role\":\"user\",\"content\":null}]", ""),
                     MR_INVALID_REQUEST);
    assert_int_equal(with_messages("[\"hello\"]", ""), MR_INVALID_REQUEST);
    assert_int_equal(with_messages("{\"role\":\"user\",\"content\":\"a\"}", ""),
                     MR_INVALID_REQUEST);
    assert_int_equal(with_messages("[{\"role\":\"assistant\",\"content\":null}]", ""), MR_OK);
    assert_int_equal(with_messages("[{\"role\":\"user\",\"content\":[1]}]", ""),
                     MR_INVALID_REQUEST);
    assert_int_equal(
        with_messages("[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]", ""),
        MR_UNSUPPORTED_CONTENT);
    /* other members are for the template */
    const char *named = "{\"messages\":[{\"role\":\"user\",\"content\":"
                        "[{\"type\":\"text\",\"text\":\"a\"}],\"name\":{\"b\":[2]}}]}";
    assert_int_equal(status_of_both(named, &strict), MR_OK);
    struct decoded got = decode(text_of(named));
    const struct mr_data *message = &got.request->chat.messages[0];
    assert_int_equal(got.request->unknown_fields, 0);
    assert_int_equal(mr_data_get(mr_data_get(message, "name"), "b")->list.items[0].integer, 2);
    mr_request_destroy(got.request);
}

/* The arguments of the only call of the only message. */
static const struct mr_data *arguments_of(const struct decoded *got)
{
    const struct mr_data *calls = mr_data_get(&got->request->chat.messages[0], "tool_calls");
    return mr_data_get(mr_data_get(&calls->list.items[0], "function"), "arguments");
}

static void arguments_of_calls_are_opened(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        enum mr_data_kind kind;
    } cases[] = {
        {"{\"n\":7}", MR_DATA_MAP},        {"\" {\\\"n\\\": 7} \"", MR_DATA_MAP},
        {"\"{\\\"n\\\":\"", MR_DATA_TEXT}, {"\"[7]\"", MR_DATA_TEXT},
        {"\"{} {}\"", MR_DATA_TEXT},       {"null", MR_DATA_NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[512];
        snprintf(json, sizeof json,
                 "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":"
                 "\"f\",\"arguments\":%s}}]}]}",
                 cases[i].arguments);
        struct decoded got = decode(text_of(json));
        if (got.status != MR_OK) fail_msg("%s", got.err.detail);
        const struct mr_data *arguments = arguments_of(&got);
        assert_int_equal(arguments->kind, cases[i].kind);
        if (arguments->kind == MR_DATA_MAP)
            assert_int_equal(mr_data_get(arguments, "n")->integer, 7);
        mr_request_destroy(got.request);
    }
    struct decoded got =
        decode(text_of("{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":"
                       "{\"arguments\":\"\"}}]}]}"));
    assert_int_equal(arguments_of(&got)->kind, MR_DATA_MAP);
    assert_int_equal(arguments_of(&got)->map.count, 0);
    mr_request_destroy(got.request);
}

static void template_arguments_have_names_that_are_not_reserved(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"messages\":" USER ",\"chat_template_kwargs\":"
                                        "{\"enable_thinking\":false,\"a\":null,\"b\":-3,\"c\":1.5,"
                                        "\"d\":[\"text\",{\"e\":{}}]}}"));
    assert_int_equal(got.status, MR_OK);
    const struct mr_data *kwargs = &got.request->chat.kwargs;
    assert_int_equal(kwargs->map.count, 5);
    assert_true(mr_data_get(kwargs, "enable_thinking")->kind == MR_DATA_BOOL);
    assert_true(mr_data_get(kwargs, "a")->kind == MR_DATA_NULL);
    assert_int_equal(mr_data_get(kwargs, "b")->integer, -3);
    assert_true(mr_data_get(kwargs, "c")->number == 1.5);
    const struct mr_data *list = mr_data_get(kwargs, "d");
    assert_int_equal(list->list.count, 2);
    assert_true(mr_text_is(list->list.items[0].text, "text"));
    assert_int_equal(mr_data_get(&list->list.items[1], "e")->map.count, 0);
    mr_request_destroy(got.request);
    assert_int_equal(with_messages(USER, ",\"chat_template_kwargs\":{\"a b\":1}"),
                     MR_INVALID_REQUEST);
    assert_int_equal(with_messages(USER, ",\"chat_template_kwargs\":{\"1a\":1}"),
                     MR_INVALID_REQUEST);
    assert_int_equal(with_messages(USER, ",\"chat_template_kwargs\":5"), MR_INVALID_REQUEST);
}

static void tools_and_documents_are_lists_of_maps(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"messages\":" USER ",\"tools\":[{\"type\":\"function\","
                                        "\"function\":{\"name\":\"f\"}}],\"documents\":[]}"));
    assert_int_equal(got.status, MR_OK);
    assert_int_equal(got.request->chat.tools.list.count, 1);
    assert_true(got.request->chat.documents.kind == MR_DATA_LIST);
    assert_int_equal(got.request->unknown_fields, 0);
    mr_request_destroy(got.request);
    assert_int_equal(with_messages(USER, ",\"tools\":null"), MR_OK);
    assert_int_equal(with_messages(USER, ",\"tools\":{}"), MR_INVALID_REQUEST);
    assert_int_equal(with_messages(USER, ",\"tools\":[1]"), MR_INVALID_REQUEST);
    assert_int_equal(with_messages(USER, ",\"documents\":[\"text\"]"), MR_INVALID_REQUEST);
}

static void the_last_message_is_continued_or_answered(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"messages\":" USER ",\"continue_final_message\":true}"));
    assert_int_equal(got.status, MR_OK);
    assert_false(got.request->chat.add_generation_prompt);
    mr_request_destroy(got.request);
    assert_int_equal(with_messages(USER, ",\"add_generation_prompt\":false"), MR_OK);
    assert_int_equal(with_messages(USER, ",\"add_generation_prompt\":1"), MR_INVALID_REQUEST);
    assert_int_equal(
        with_messages(USER, ",\"add_generation_prompt\":true,\"continue_final_message\":true"),
        MR_INVALID_REQUEST);
}

static void reserved_template_arguments_are_rejected(void **state)
{
    (void)state;
    static const char *const names[] = {"messages",  "tools",        "add_generation_prompt",
                                        "tokenize",  "bos_token",    "eos_token",
                                        "documents", "chat_template"};
    char more[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(more, sizeof more, ",\"chat_template_kwargs\":{\"%s\":true}", names[i]);
        assert_int_equal(with_messages(USER, more), MR_INVALID_REQUEST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_role_and_content),
        cmocka_unit_test(arguments_of_calls_are_opened),
        cmocka_unit_test(template_arguments_have_names_that_are_not_reserved),
        cmocka_unit_test(tools_and_documents_are_lists_of_maps),
        cmocka_unit_test(the_last_message_is_continued_or_answered),
        cmocka_unit_test(reserved_template_arguments_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
