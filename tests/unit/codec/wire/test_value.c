#include "tests/unit/codec/records/records.h"

static void every_kind_reads_the_same_in_both_encodings(void **state)
{
    (void)state;
    const char *json = "{\"n\":null,\"b\":true,\"i\":-5,\"f\":2.5,\"t\":\"x\\u0000y\",\"a\":[1,2],"
                       "\"m\":{\"k\":7}}";
    struct mr_text records[2] = {text_of(json), msgpack_of(json)};
    enum mr_encoding encodings[2] = {MR_ENCODING_JSON, MR_ENCODING_MSGPACK};
    for (size_t i = 0; i < 2; i++) {
        struct mr_document *document;
        struct mr_error err;
        struct mr_value root, value;
        assert_int_equal(mr_document_open(&document, records[i], encodings[i], &err), MR_OK);
        root = mr_document_root(document);
        assert_int_equal(mr_value_kind(root), MR_VALUE_MAP);
        assert_int_equal(mr_value_count(root), 7);
        assert_true(mr_value_get(root, "n", &value) && mr_value_kind(value) == MR_VALUE_NULL);
        assert_true(mr_value_get(root, "b", &value) && mr_value_bool(value));
        assert_true(mr_value_get(root, "i", &value) && mr_value_int(value) == -5);
        assert_true(mr_value_number(value) == -5.0);
        assert_true(mr_value_get(root, "f", &value) && mr_value_number(value) == 2.5);
        assert_true(mr_value_get(root, "t", &value) && mr_value_text(value).length == 3);
        assert_true(mr_value_get(root, "a", &value) && mr_value_count(value) == 2);
        assert_true(mr_value_int(mr_value_at(value, 1)) == 2);
        assert_true(mr_value_get(root, "m", &value) && mr_value_get(value, "k", &value));
        assert_false(mr_value_get(root, "absent", &value));
        mr_document_close(document);
    }
    free((char *)records[1].bytes);
}

static void a_float_without_fraction_is_an_integer(void **state)
{
    (void)state;
    const char *json =
        "{\"a\":[10.0,-3,1e3,-9223372036854775808.0,1.5,9223372036854775808.0,1e300,\"1\","
        "true]}";
    const int64_t wanted[] = {10, -3, 1000, INT64_MIN};
    struct mr_document *document;
    struct mr_error err;
    int64_t integer = 0;
    assert_int_equal(mr_document_open(&document, text_of(json), MR_ENCODING_JSON, &err), MR_OK);
    struct mr_value array;
    assert_true(mr_value_get(mr_document_root(document), "a", &array));
    for (size_t i = 0; i < mr_value_count(array); i++) {
        bool is = mr_value_integer(mr_value_at(array, i), &integer);
        assert_int_equal(is, i < 4);
        if (is) assert_true(integer == wanted[i]);
    }
    mr_document_close(document);
}

static void members_come_in_the_order_written(void **state)
{
    (void)state;
    struct mr_document *document;
    struct mr_error err;
    struct mr_member member = {0};
    char names[8] = "";
    assert_int_equal(
        mr_document_open(&document, text_of("{\"c\":1,\"a\":2,\"b\":3}"), MR_ENCODING_JSON, &err),
        MR_OK);
    for (size_t i = 0; mr_value_next(mr_document_root(document), &member); i++)
        names[i] = member.name.bytes[0];
    assert_string_equal(names, "cab");
    mr_document_close(document);
}

static void reading_as_another_kind_is_asserted(void **state)
{
    (void)state;
    struct mr_document *document;
    struct mr_error err;
    assert_int_equal(mr_document_open(&document, text_of("{}"), MR_ENCODING_JSON, &err), MR_OK);
    struct mr_value root = mr_document_root(document);
    expect_assert_failure(mr_value_int(root));
    expect_assert_failure(mr_value_bool(root));
    expect_assert_failure(mr_value_text(root));
    expect_assert_failure(mr_value_number(root));
    expect_assert_failure(mr_value_at(root, 0));
    mr_document_close(document);
}

static void kinds_have_names(void **state)
{
    (void)state;
    for (unsigned kind = MR_VALUE_NULL; kind <= MR_VALUE_MAP; kind++)
        assert_true(strlen(mr_value_kind_name((enum mr_value_kind)kind)) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_reads_the_same_in_both_encodings),
        cmocka_unit_test(a_float_without_fraction_is_an_integer),
        cmocka_unit_test(members_come_in_the_order_written),
        cmocka_unit_test(reading_as_another_kind_is_asserted),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
