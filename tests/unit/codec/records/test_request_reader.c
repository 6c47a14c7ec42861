#include "records.h"

#include "codec/records/request_reader.h"

static void unknown_fields_are_counted_or_rejected(void **state)
{
    (void)state;
    const char *json = "{\"prompt\":\"x\",\"users\":\"u\",\"top\":{\"a\":[1]},\"cache\":{\"z\":1}}";
    struct decoded got = decode(text_of(json));
    assert_int_equal(got.status, MR_OK);
    assert_int_equal(got.request->unknown_fields, 3);
    mr_request_destroy(got.request);
    struct mr_request_context context = test_context();
    context.strict = true;
    assert_int_equal(status_of_both(json, &context), MR_UNKNOWN_FIELD);
    got = decode_with(text_of("{\"prompt\":\"x\",\"tempreature\":1}"), &context);
    assert_non_null(strstr(got.err.detail, "tempreature"));
    got = decode_with(text_of("{\"prompt\":\"x\",\"my secret, dear\":1}"), &context);
    assert_null(strstr(got.err.detail, "secret"));
    assert_int_equal(status_of_both("{\"prompt\":\"x\",\"n\":2}", &context), MR_OK);
}

static void a_misspelt_field_is_named_with_the_one_that_may_be_meant(void **state)
{
    (void)state;
    const char *json = "{\"prompt\":\"x\",\"timeout\":1,\"what\":2,\"cache\":{\"reed\":true},"
                       "\"a secret, dear\":3}";
    static const char *const sentences[] = {
        "unknown field timeout has no effect; did you mean timeout_ms?",
        "unknown field what has no effect", "unknown field reed has no effect; did you mean read?",
        "unknown field with a name that is not an identifier has no effect"};
    struct decoded got = decode(text_of(json));
    assert_int_equal(got.status, MR_OK);
    assert_int_equal(got.request->warning_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(mr_text_is(got.request->warnings[i], sentences[i]));
    mr_request_destroy(got.request);
    struct mr_request_context context = test_context();
    context.strict = true;
    got = decode_with(text_of("{\"prompt\":\"x\",\"timeout\":1}"), &context);
    assert_int_equal(got.status, MR_UNKNOWN_FIELD);
    assert_non_null(strstr(got.err.detail, "did you mean timeout_ms?"));
}

static void a_request_outlives_its_record(void **state)
{
    (void)state;
    struct mr_text record =
        msgpack_of("{\"id\":\"i\",\"model\":\"m\",\"messages\":[{\"role\":\"user\","
                   "\"content\":\"hello\"}],\"stop\":[\"a\",\"b\"],"
                   "\"metadata\":{\"k\":[1,2]}}");
    struct decoded got = decode(record);
    memset((char *)record.bytes, 0xff, record.length);
    free((char *)record.bytes);
    assert_int_equal(got.status, MR_OK);
    assert_true(mr_text_is(got.request->model, "m"));
    assert_true(mr_text_is(mr_data_get(&got.request->chat.messages[0], "content")->text, "hello"));
    assert_true(mr_text_is(got.request->stops[1], "b"));
    assert_true(mr_text_is(got.request->metadata, "\x81\xa1k\x92\x01\x02"));
    mr_request_destroy(got.request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_fields_are_counted_or_rejected),
        cmocka_unit_test(a_misspelt_field_is_named_with_the_one_that_may_be_meant),
        cmocka_unit_test(a_request_outlives_its_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
