#include "tests/unit/codec/records/records.h"

#include <stdio.h>

static enum mr_status open_json(const char *json)
{
    struct mr_document *document;
    struct mr_error err = {0};
    enum mr_status status = mr_document_open(&document, text_of(json), MR_ENCODING_JSON, &err);
    assert_int_equal(status == MR_OK, document != NULL);
    if (status != MR_OK) assert_int_equal(err.status, status);
    mr_document_close(document);
    return status;
}

static void a_record_must_be_a_map(void **state)
{
    (void)state;
    assert_int_equal(open_json("{}"), MR_OK);
    assert_int_equal(open_json("[]"), MR_MALFORMED);
    assert_int_equal(open_json("5"), MR_MALFORMED);
    assert_int_equal(open_json(""), MR_MALFORMED);
    assert_int_equal(open_json("{} {}"), MR_MALFORMED);
    assert_int_equal(open_json("{\"a\":1,\"a\":2}"), MR_MALFORMED);
    assert_int_equal(open_json("{\"a\":NaN}"), MR_MALFORMED);
    assert_int_equal(open_json("{\"a\":\"\xc3(\"}"), MR_MALFORMED);
}

static void nesting_has_the_same_limit_in_both_encodings(void **state)
{
    (void)state;
    for (unsigned depth = MR_NESTING_MAX; depth <= MR_NESTING_MAX + 1; depth++) {
        char json[128] = "{\"k\":";
        for (unsigned i = 1; i < depth; i++)
            strncat(json, "[", 2);
        for (unsigned i = 1; i < depth; i++)
            strncat(json, "]", 2);
        strncat(json, "}", 2);
        assert_int_equal(open_json(json), depth == MR_NESTING_MAX ? MR_OK : MR_MALFORMED);
    }
}

static void members_are_found_raw(void **state)
{
    (void)state;
    struct mr_document *document;
    struct mr_error err;
    struct mr_text raw;
    const char *json = "{\"a\": [1, 2 ], \"m\": {\"x\": 1.0}}";
    assert_int_equal(mr_document_open(&document, text_of(json), MR_ENCODING_JSON, &err), MR_OK);
    assert_true(mr_document_raw_member(document, "m", &raw) && mr_text_is(raw, "{\"x\": 1.0}"));
    assert_false(mr_document_raw_member(document, "x", &raw));
    mr_document_close(document);
    struct mr_text msgpack = msgpack_of(json);
    assert_int_equal(mr_document_open(&document, msgpack, MR_ENCODING_MSGPACK, &err), MR_OK);
    assert_true(mr_document_raw_member(document, "a", &raw) && mr_text_is(raw, "\x92\x01\x02"));
    mr_document_close(document);
    free((char *)msgpack.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_must_be_a_map),
        cmocka_unit_test(nesting_has_the_same_limit_in_both_encodings),
        cmocka_unit_test(members_are_found_raw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
