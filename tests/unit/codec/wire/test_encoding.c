#include "codec/wire/encoding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static void the_header_selects_the_encoding(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        enum mr_status status;
        enum mr_encoding encoding;
    } cases[] = {
        {"application/json", MR_OK, MR_ENCODING_JSON},
        {"application/msgpack", MR_OK, MR_ENCODING_MSGPACK},
        {"application/x-msgpack", MR_OK, MR_ENCODING_MSGPACK},
        {" Application/JSON ; charset=UTF-8", MR_OK, MR_ENCODING_JSON},
        {"application/json;charset=\"utf-8\"; q=1", MR_OK, MR_ENCODING_JSON},
        {"application/json; charset=latin1", MR_UNSUPPORTED_ENCODING, MR_ENCODING_JSON},
        {"application/msgpack; charset=utf-16", MR_UNSUPPORTED_ENCODING, MR_ENCODING_MSGPACK},
        {"text/plain", MR_UNSUPPORTED_ENCODING, MR_ENCODING_JSON},
        {"application/jsonp", MR_UNSUPPORTED_ENCODING, MR_ENCODING_JSON},
        {"json", MR_UNSUPPORTED_ENCODING, MR_ENCODING_JSON},
        {";", MR_UNSUPPORTED_ENCODING, MR_ENCODING_JSON},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum mr_encoding encoding;
        struct mr_error err;
        enum mr_status status =
            mr_encoding_detect(text_of(cases[i].header), text_of("\x80"), &encoding, &err);
        if (status != cases[i].status || encoding != cases[i].encoding)
            fail_msg("%s: %s", cases[i].header, mr_status_name(status));
    }
}

static void without_a_header_the_first_byte_selects_the_encoding(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        size_t length;
        enum mr_status status;
        enum mr_encoding encoding;
    } cases[] = {
        {"{}", 2, MR_OK, MR_ENCODING_JSON},
        {" \t\r\n{", 5, MR_OK, MR_ENCODING_JSON},
        {"\x80", 1, MR_OK, MR_ENCODING_MSGPACK},
        {"\x8f", 1, MR_OK, MR_ENCODING_MSGPACK},
        {"\xde\x00", 2, MR_OK, MR_ENCODING_MSGPACK},
        {"\xdf\x00", 2, MR_OK, MR_ENCODING_MSGPACK},
        {"\x90", 1, MR_MALFORMED, MR_ENCODING_JSON},
        {"[1]", 3, MR_MALFORMED, MR_ENCODING_JSON},
        {"hello", 5, MR_MALFORMED, MR_ENCODING_JSON},
        {"", 0, MR_MALFORMED, MR_ENCODING_JSON},
        {"   ", 3, MR_MALFORMED, MR_ENCODING_JSON},
        {"\xef\xbb\xbf{}", 5, MR_MALFORMED, MR_ENCODING_JSON},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum mr_encoding encoding;
        struct mr_error err;
        struct mr_text record = {cases[i].record, cases[i].length};
        assert_int_equal(mr_encoding_detect(text_of(" "), record, &encoding, &err),
                         cases[i].status);
        assert_int_equal(encoding, cases[i].encoding);
    }
}

static void each_encoding_has_one_content_type(void **state)
{
    (void)state;
    assert_string_equal(mr_encoding_content_type(MR_ENCODING_JSON), "application/json");
    assert_string_equal(mr_encoding_content_type(MR_ENCODING_MSGPACK), "application/msgpack");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_selects_the_encoding),
        cmocka_unit_test(without_a_header_the_first_byte_selects_the_encoding),
        cmocka_unit_test(each_encoding_has_one_content_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
