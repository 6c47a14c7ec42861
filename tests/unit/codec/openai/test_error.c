/* Error codes become the errors of OpenAI's API. */
#include "bodies.h"

#include "codec/openai/error.h"

static void an_error_has_a_status_and_names_the_member(void **state)
{
    (void)state;
    static const struct {
        const char *code, *message;
        int status;
        const char *expected;
    } errors[] = {
        {"invalid_request", "top_p must be at most 1", 400,
         "{\"error\":{\"message\":\"top_p must be at most 1\",\"type\":\"invalid_request_error\","
         "\"param\":\"top_p\",\"code\":\"invalid_request\"}}"},
        {"prompt_too_long", "the prompt is long", 400,
         "{\"error\":{\"message\":\"the prompt is long\",\"type\":\"invalid_request_error\","
         "\"param\":null,\"code\":\"context_length_exceeded\"}}"},
        {"model_not_found", "no", 404, NULL},
        {"duplicate_id", "no", 409, NULL},
        {"record_too_large", "no", 413, NULL},
        {"overloaded", "no", 429, NULL},
        {"deadline_exceeded", "no", 504, NULL},
        {"of a later version", "no", 500, NULL},
    };
    struct mr_document *request = open_json("{\"top_p\":7}");
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        char result[256], *body;
        size_t length;
        struct mr_openai_error error;
        struct mr_json_writer writer;
        snprintf(result, sizeof result,
                 "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"retryable\":true}}",
                 errors[i].code, errors[i].message);
        struct mr_document *document = open_json(result);
        assert_true(
            mr_openai_result_failed(mr_document_root(document), mr_document_root(request), &error));
        assert_int_equal(error.http_status, errors[i].status);
        assert_true(error.retryable);
        mr_json_writer_init(&writer, 1 << 16);
        mr_openai_put_error(&writer, &error);
        assert_int_equal(mr_json_writer_take(&writer, &body, &length, NULL), MR_OK);
        if (errors[i].expected) assert_string_equal(body, errors[i].expected);
        free(body);
        mr_document_close(document);
    }
    struct mr_openai_error error;
    assert_false(
        mr_openai_result_failed(mr_document_root(request), mr_document_root(request), &error));
    mr_document_close(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_has_a_status_and_names_the_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
