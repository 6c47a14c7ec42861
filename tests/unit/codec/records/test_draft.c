#include "records.h"

#include "codec/records/draft.h"

static void a_draft_is_a_request_in_both_encodings(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "max_tokens=7",     "temperature=0.5", "stop=[\"a\",\"b\"]",   "session=plain words",
        "model=\"quoted\"", "ignore_eos=true", "metadata={\"k\":null}"};
    const struct mr_draft draft = {.id = {"d-1", 3},
                                   .prompt = {"say \"hi\"", 8},
                                   .no_stream = true,
                                   .fields = fields,
                                   .field_count = sizeof fields / sizeof fields[0]};
    for (unsigned encoding = 0; encoding < 2; encoding++) {
        unsigned char *bytes;
        size_t length;
        struct mr_error err;
        assert_int_equal(mr_draft_encode(&draft, (enum mr_encoding)encoding, &bytes, &length, &err),
                         MR_OK);
        struct decoded got = decode((struct mr_text){(char *)bytes, length});
        free(bytes);
        assert_int_equal(got.status, MR_OK);
        assert_int_equal(got.address.encoding, encoding);
        assert_string_equal(got.address.id, "d-1");
        assert_true(mr_text_is(got.request->prompt, "say \"hi\""));
        assert_true(mr_text_is(got.request->session, "plain words"));
        assert_true(mr_text_is(got.request->model, "quoted"));
        assert_true(got.request->max_tokens == 7 && got.request->stop_count == 2);
        assert_true(got.request->sampling.temperature == 0.5f && got.request->ignore_eos);
        assert_false(got.request->stream);
        mr_request_destroy(got.request);
    }
}

static void a_chat_draft_has_one_user_message(void **state)
{
    (void)state;
    const struct mr_draft draft = {.prompt = {"hello", 5}, .as_chat = true};
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    assert_int_equal(mr_draft_encode(&draft, MR_ENCODING_JSON, &bytes, &length, &err), MR_OK);
    assert_string_equal((char *)bytes,
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}");
    free(bytes);
}

static void text_that_is_not_json_stays_text(void **state)
{
    (void)state;
    static const char *const fields[] = {"session=1,2", "model=[1"};
    const struct mr_draft draft = {.fields = fields, .field_count = 2};
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    assert_int_equal(mr_draft_encode(&draft, MR_ENCODING_JSON, &bytes, &length, &err), MR_OK);
    assert_string_equal((char *)bytes, "{\"session\":\"1,2\",\"model\":\"[1\"}");
    free(bytes);
}

static void invalid_fields_are_rejected(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"novalue", "a=1"}, {"=1", "a=1"}, {"a=1", "a=2"}, {"id=x", "a=1"}, {"prompt=y", "a=1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct mr_draft draft = {
            .id = {"i", 1}, .prompt = {"p", 1}, .fields = cases[i], .field_count = 2};
        unsigned char *bytes;
        size_t length;
        struct mr_error err;
        assert_int_equal(mr_draft_encode(&draft, MR_ENCODING_JSON, &bytes, &length, &err),
                         MR_INVALID_REQUEST);
        assert_null(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_draft_is_a_request_in_both_encodings),
        cmocka_unit_test(a_chat_draft_has_one_user_message),
        cmocka_unit_test(text_that_is_not_json_stays_text),
        cmocka_unit_test(invalid_fields_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
