#include "tests/unit/codec/records/records.h"

#include <math.h>

/* Writes one value of every kind. */
static void write_all(struct mr_writer *writer)
{
    mr_writer_map(writer, 9);
    mr_writer_name(writer, "null");
    mr_writer_null(writer);
    mr_writer_name(writer, "bool");
    mr_writer_bool(writer, true);
    mr_writer_name(writer, "int");
    mr_writer_int(writer, -7);
    mr_writer_name(writer, "uint");
    mr_writer_uint(writer, 300);
    mr_writer_name(writer, "double");
    mr_writer_double(writer, 0.1);
    mr_writer_name(writer, "float");
    mr_writer_float(writer, 0.5f);
    mr_writer_name(writer, "empty");
    mr_writer_array(writer, 0);
    mr_writer_name(writer, "ids");
    mr_writer_ids(writer, (const uint32_t[]){1, 2}, 2);
    mr_writer_name(writer, "map");
    mr_writer_map(writer, 1);
    mr_writer_name(writer, "t");
    mr_writer_string(writer, "x\"y");
}

static void maps_and_arrays_end_after_their_last_value(void **state)
{
    (void)state;
    struct mr_writer writer;
    struct mr_error err;
    unsigned char *bytes;
    size_t length;
    mr_writer_init(&writer, MR_ENCODING_JSON, 4096);
    write_all(&writer);
    assert_int_equal(mr_writer_take(&writer, &bytes, &length, &err), MR_OK);
    assert_true(mr_text_is((struct mr_text){(char *)bytes, length},
                           "{\"null\":null,\"bool\":true,\"int\":-7,\"uint\":300,\"double\":0.1,"
                           "\"float\":0.5,\"empty\":[],\"ids\":[1,2],\"map\":{\"t\":\"x\\\"y\"}}"));
    free(bytes);
    mr_writer_init(&writer, MR_ENCODING_MSGPACK, 4096);
    write_all(&writer);
    assert_int_equal(mr_writer_take(&writer, &bytes, &length, &err), MR_OK);
    struct mr_document *document;
    assert_int_equal(mr_document_open(&document, (struct mr_text){(char *)bytes, length},
                                      MR_ENCODING_MSGPACK, &err),
                     MR_OK);
    assert_int_equal(mr_value_count(mr_document_root(document)), 9);
    mr_document_close(document);
    free(bytes);
}

static void invalid_text_is_replaced_in_both_encodings(void **state)
{
    (void)state;
    for (unsigned encoding = 0; encoding < 2; encoding++) {
        struct mr_writer writer;
        struct mr_error err;
        unsigned char *bytes;
        size_t length;
        mr_writer_init(&writer, (enum mr_encoding)encoding, 4096);
        mr_writer_text(&writer, (struct mr_text){"a\xff\xe2\x82z", 5});
        assert_int_equal(mr_writer_take(&writer, &bytes, &length, &err), MR_OK);
        const char *body = encoding == MR_ENCODING_JSON ? "\"a\xef\xbf\xbd\xef\xbf\xbdz\""
                                                        : "\xa8"
                                                          "a\xef\xbf\xbd\xef\xbf\xbdz";
        assert_true(mr_text_is((struct mr_text){(char *)bytes, length}, body));
        free(bytes);
    }
}

static void a_value_is_copied_between_the_encodings(void **state)
{
    (void)state;
    const char *json = "{\"a\":[null,true,-5,1.5,\"t\\u00e4\",{}],\"b\":{\"c\":[[],[1]]}}";
    struct mr_text msgpack = msgpack_of(json);
    struct mr_document *document;
    struct mr_error err;
    struct mr_writer writer;
    unsigned char *bytes;
    size_t length;
    assert_int_equal(mr_document_open(&document, msgpack, MR_ENCODING_MSGPACK, &err), MR_OK);
    mr_writer_init(&writer, MR_ENCODING_JSON, 4096);
    mr_writer_value(&writer, mr_document_root(document));
    assert_int_equal(mr_writer_take(&writer, &bytes, &length, &err), MR_OK);
    assert_true(mr_text_is((struct mr_text){(char *)bytes, length},
                           "{\"a\":[null,true,-5,1.5,\"t\xc3\xa4\",{}],\"b\":{\"c\":[[],[1]]}}"));
    free(bytes);
    mr_document_close(document);
    free((char *)msgpack.bytes);
}

static void the_maximum_is_reported_by_take(void **state)
{
    (void)state;
    for (unsigned encoding = 0; encoding < 2; encoding++) {
        struct mr_writer writer;
        struct mr_error err = {0};
        unsigned char *bytes;
        size_t length;
        mr_writer_init(&writer, (enum mr_encoding)encoding, 8);
        mr_writer_string(&writer, "longer than eight bytes");
        assert_int_equal(mr_writer_take(&writer, &bytes, &length, &err), MR_RECORD_TOO_LARGE);
        assert_null(bytes);
    }
}

static void a_wrong_count_is_asserted(void **state)
{
    (void)state;
    struct mr_writer writer;
    struct mr_error err;
    unsigned char *bytes;
    size_t length;
    mr_writer_init(&writer, MR_ENCODING_MSGPACK, 4096);
    mr_writer_array(&writer, 2);
    mr_writer_null(&writer);
    expect_assert_failure(mr_writer_take(&writer, &bytes, &length, &err));
    mr_writer_null(&writer);
    expect_assert_failure(mr_writer_null(&writer));
    mr_writer_drop(&writer);
}

static void numbers_that_are_not_finite_are_null_in_json(void **state)
{
    (void)state;
    struct mr_writer writer;
    struct mr_error err;
    unsigned char *bytes;
    size_t length;
    mr_writer_init(&writer, MR_ENCODING_JSON, 4096);
    mr_writer_array(&writer, 2);
    mr_writer_double(&writer, (double)INFINITY);
    mr_writer_float(&writer, NAN);
    assert_int_equal(mr_writer_take(&writer, &bytes, &length, &err), MR_OK);
    assert_true(mr_text_is((struct mr_text){(char *)bytes, length}, "[null,null]"));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_and_arrays_end_after_their_last_value),
        cmocka_unit_test(invalid_text_is_replaced_in_both_encodings),
        cmocka_unit_test(a_value_is_copied_between_the_encodings),
        cmocka_unit_test(the_maximum_is_reported_by_take),
        cmocka_unit_test(a_wrong_count_is_asserted),
        cmocka_unit_test(numbers_that_are_not_finite_are_null_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
