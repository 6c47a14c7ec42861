/* Bodies of OpenAI's API become the values of request records. */
#include "codec/openai/call.h"

#include "codec/records/request_decode.h"
#include "codec/wire/document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum mr_status translate(const char *path, const char *body, char **record,
                                struct mr_error *err)
{
    struct mr_openai_call call = {.id = {"r-1", 3}};
    struct mr_document *document;
    size_t length;
    assert_true(mr_openai_find((struct mr_text){path, strlen(path)}, &call.endpoint));
    assert_int_equal(
        mr_document_open(&document, (struct mr_text){body, strlen(body)}, MR_ENCODING_JSON, err),
        MR_OK);
    call.body = mr_document_root(document);
    enum mr_status status = mr_openai_call_record(&call, record, &length, err);
    mr_document_close(document);
    return status;
}

/* A body, and the beginning of its record; the members id and stream follow it. */
static const struct {
    const char *path, *body, *record;
} translated[] = {
    {"/v1/chat/completions",
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"stream\":false,"
     "\"max_completion_tokens\":5,\"seed\":9007199254740993}",
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
     "\"max_completion_tokens\":5,\"seed\":9007199254740993,"
     "\"id\":\"r-1\",\"stream\":false,\"separate_reasoning\":true}"},
    {"/v1/chat/completions", "{\"messages\":[],\"separate_reasoning\":false}",
     "{\"messages\":[],\"separate_reasoning\":false,\"id\":\"r-1\",\"stream\":false}"},
    {"/v1/completions", "{\"prompt\":[\"a\"],\"logprobs\":2,\"id\":\"mine\"}",
     "{\"prompt\":\"a\",\"logprobs\":2,\"id\":\"r-1\",\"stream\":false}"},
    {"/v1/completions", "{\"prompt\":[1,2]}",
     "{\"prompt_token_ids\":[1,2],\"id\":\"r-1\",\"stream\":false}"},
    {"/v1/completions", "{\"prompt\":[[1,2]]}",
     "{\"prompt_token_ids\":[1,2],\"id\":\"r-1\",\"stream\":false}"},
    {"/v1/embeddings", "{\"input\":\"a\",\"encoding_format\":\"base64\"}",
     "{\"prompt\":\"a\",\"encoding_format\":\"base64\",\"id\":\"r-1\",\"stream\":false,"
     "\"task\":\"embed\"}"},
    {"/v1/embeddings", "{\"input\":[\"a\",\"b\"]}",
     "{\"input\":[\"a\",\"b\"],\"id\":\"r-1\",\"stream\":false,\"task\":\"embed\"}"},
    {"/v1/rerank", "{\"query\":\"q\",\"documents\":[\"a\"],\"top_n\":1}",
     "{\"query\":\"q\",\"documents\":[\"a\"],\"top_n\":1,\"id\":\"r-1\",\"stream\":false,"
     "\"task\":\"rerank\"}"},
    {"/v1/responses",
     "{\"instructions\":\"Be brief\",\"input\":\"Hi\",\"max_output_tokens\":9,\"store\":false,"
     "\"reasoning\":{\"effort\":\"low\"},\"previous_response_id\":null,"
     "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{}}}}",
     "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief\"},{\"role\":\"user\","
     "\"content\":\"Hi\"}],\"max_tokens\":9,\"reasoning_effort\":\"low\",\"response_format\":"
     "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{}}},"
     "\"id\":\"r-1\",\"stream\":false,\"separate_reasoning\":true}"},
    {"/v1/responses",
     "{\"input\":[{\"role\":\"developer\",\"content\":[{\"type\":\"input_text\",\"text\":\"D\"}]},"
     "{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\","
     "\"text\":\"hm\"}]},"
     "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{}\"},"
     "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"g\",\"arguments\":\"{}\"},"
     "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"1\"}],"
     "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":true}],"
     "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}}",
     "{\"messages\":[{\"role\":\"system\",\"content\":\"D\"},{\"role\":\"assistant\","
     "\"reasoning_content\":\"hm\",\"content\":null,\"tool_calls\":["
     "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
     "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},"
     "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"1\"}],"
     "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}],"
     "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
     "\"id\":\"r-1\",\"stream\":false,\"separate_reasoning\":true}"},
};

static void a_body_becomes_a_record(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof translated / sizeof *translated; i++) {
        char *record;
        struct mr_error err = {0};
        assert_int_equal(translate(translated[i].path, translated[i].body, &record, &err), MR_OK);
        assert_string_equal(record, translated[i].record);
        free(record);
    }
}

static void a_record_of_a_chat_is_one_that_workers_accept(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof translated / sizeof *translated; i++) {
        const char *path = translated[i].path;
        char *record;
        struct mr_error err = {0};
        struct mr_request *request = NULL;
        struct mr_reply_address address;
        const struct mr_request_context context = {
            .default_max_tokens = 16, .fallback_id = {"x", 1}, .record_bytes_max = 1 << 20};
        if (strstr(translated[i].body, "\"messages\":[]")) continue; /* a chat needs a message */
        assert_int_equal(translate(path, translated[i].body, &record, &err), MR_OK);
        if (mr_request_decode(&request, (struct mr_text){record, strlen(record)}, &context,
                              &address, &err) != MR_OK)
            fail_msg("%s: %s", record, err.detail);
        assert_false(request->stream);
        assert_string_equal(address.id, "r-1");
        mr_request_destroy(request);
        free(record);
    }
}

static void defaults_fill_in_what_the_body_leaves_out(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\":\"a\",\"priority\":3,\"deadline_ms\":5}";
    struct mr_document *document;
    char *record;
    size_t length;
    assert_int_equal(mr_document_open(&document, (struct mr_text){body, sizeof body - 1},
                                      MR_ENCODING_JSON, NULL),
                     MR_OK);
    struct mr_openai_call call = {.endpoint = MR_OPENAI_COMPLETIONS,
                                  .body = mr_document_root(document),
                                  .stream = true,
                                  .priority = "low",
                                  .timeout_ms = 9};
    assert_int_equal(mr_openai_call_record(&call, &record, &length, NULL), MR_OK);
    assert_string_equal(record,
                        "{\"prompt\":\"a\",\"priority\":3,\"deadline_ms\":5,\"stream\":true}");
    free(record);
    mr_document_close(document);
    assert_int_equal(mr_document_open(&document, (struct mr_text){"{}", 2}, MR_ENCODING_JSON, NULL),
                     MR_OK);
    call.body = mr_document_root(document);
    assert_int_equal(mr_openai_call_record(&call, &record, &length, NULL), MR_OK);
    assert_string_equal(record, "{\"stream\":true,\"priority\":\"low\",\"timeout_ms\":9}");
    free(record);
    mr_document_close(document);
}

static void what_no_record_can_express_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body, *name;
    } refused[] = {
        {"/v1/completions", "{\"prompt\":[\"a\",\"b\"]}", "prompt "},
        {"/v1/completions", "{\"prompt\":[]}", "prompt "},
        {"/v1/embeddings", "{\"input\":[]}", "input "},
        {"/v1/embeddings", "{\"input\":7}", "input "},
        {"/v1/responses", "{\"input\":\"a\",\"previous_response_id\":\"r\"}",
         "previous_response_id "},
        {"/v1/responses", "{\"input\":\"a\",\"conversation\":\"c\"}", "conversation "},
        {"/v1/responses", "{\"input\":\"a\",\"background\":true}", "background "},
        {"/v1/responses", "{\"input\":7}", "input "},
        {"/v1/responses", "{\"input\":[7]}", "input[0] "},
        {"/v1/responses", "{\"input\":[{\"type\":\"item_reference\",\"id\":\"i\"}]}", "input[0] "},
        {"/v1/responses",
         "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}", "input[0] "},
        {"/v1/responses", "{\"input\":\"a\",\"tools\":[{\"type\":\"web_search\"}]}", "tools[0] "},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *record;
        struct mr_error err = {0};
        assert_int_not_equal(translate(refused[i].path, refused[i].body, &record, &err), MR_OK);
        assert_null(record);
        assert_memory_equal(err.detail, refused[i].name, strlen(refused[i].name));
    }
}

static void a_body_at_the_limit_of_nesting_ends_in_an_error(void **state)
{
    (void)state;
    char body[256], open[30] = "", close[30] = "";
    memset(open, '[', sizeof open - 1);
    memset(close, ']', sizeof close - 1);
    snprintf(body, sizeof body,
             "{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"parameters\":%s%s}]}", open,
             close);
    char *record;
    struct mr_error err = {0};
    assert_int_equal(translate("/v1/responses", body, &record, &err), MR_MALFORMED);
    assert_null(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_becomes_a_record),
        cmocka_unit_test(a_record_of_a_chat_is_one_that_workers_accept),
        cmocka_unit_test(defaults_fill_in_what_the_body_leaves_out),
        cmocka_unit_test(what_no_record_can_express_is_refused_by_name),
        cmocka_unit_test(a_body_at_the_limit_of_nesting_ends_in_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
