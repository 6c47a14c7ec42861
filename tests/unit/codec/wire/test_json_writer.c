#include "codec/wire/json_writer.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_written(struct mr_json_writer *writer, const char *want)
{
    char *bytes;
    size_t length;
    struct mr_error err;
    assert_int_equal(mr_json_writer_take(writer, &bytes, &length, &err), MR_OK);
    assert_int_equal(length, strlen(want));
    assert_string_equal(bytes, want);
    free(bytes);
}

static void commas_and_names_are_placed(void **state)
{
    (void)state;
    struct mr_json_writer writer;
    mr_json_writer_init(&writer, 1000);
    mr_json_begin_object(&writer);
    mr_json_name(&writer, "a");
    mr_json_begin_array(&writer);
    mr_json_put_int(&writer, INT64_MIN);
    mr_json_put_uint(&writer, UINT64_MAX);
    mr_json_begin_object(&writer);
    mr_json_end(&writer);
    mr_json_end(&writer);
    mr_json_name(&writer, "b");
    mr_json_put_bool(&writer, true);
    mr_json_name_text(&writer, (struct mr_text){"c\"d", 3});
    mr_json_put_null(&writer);
    mr_json_name(&writer, "raw");
    mr_json_put_raw(&writer, (struct mr_text){"{ }", 3});
    mr_json_end(&writer);
    assert_written(&writer, "{\"a\":[-9223372036854775808,18446744073709551615,{}],"
                            "\"b\":true,\"c\\\"d\":null,\"raw\":{ }}");
}

static void text_is_escaped_and_made_valid(void **state)
{
    (void)state;
    struct mr_json_writer writer;
    mr_json_writer_init(&writer, 1000);
    static const char text[] = "a\0\x1f\"\\\n\x7f\xc3\xa9\xff\xe2\x82z\xed\xa0\x80";
    mr_json_put_text(&writer, (struct mr_text){text, sizeof text - 1});
    assert_written(&writer, "\"a\\u0000\\u001f\\\"\\\\\\n\x7f\xc3\xa9\xef\xbf\xbd\xef\xbf\xbdz"
                            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    mr_json_put_string(&writer, "");
    assert_written(&writer, "\"\"");
}

static void numbers_are_the_shortest_that_parse_to_the_same_value(void **state)
{
    (void)state;
    struct mr_json_writer writer;
    mr_json_writer_init(&writer, 1000);
    mr_json_begin_array(&writer);
    mr_json_put_double(&writer, 0.1);
    mr_json_put_double(&writer, 1.0 / 3.0);
    mr_json_put_double(&writer, DBL_MAX);
    mr_json_put_double(&writer, 0.0);
    mr_json_put_double(&writer, -0.0); /* a real, not the integer -0 */
    mr_json_put_double(&writer, (double)NAN);
    mr_json_put_double(&writer, -(double)INFINITY);
    mr_json_put_float(&writer, 0.1f);
    mr_json_put_float(&writer, FLT_MIN);
    mr_json_put_float(&writer, 3.0f);
    mr_json_end(&writer);
    assert_written(&writer, "[0.1,0.3333333333333333,1.7976931348623157e+308,0,-0.0,null,null,"
                            "0.1,1.1754944e-38,3]");
}

static void the_maximum_is_kept_and_reported_by_take(void **state)
{
    (void)state;
    struct mr_json_writer writer;
    mr_json_writer_init(&writer, 5);
    mr_json_put_string(&writer, "abc");
    assert_written(&writer, "\"abc\"");
    mr_json_begin_array(&writer);
    mr_json_put_string(&writer, "abcd");
    mr_json_put_int(&writer, 1);
    mr_json_end(&writer);
    char *bytes;
    size_t length;
    struct mr_error err;
    assert_int_equal(mr_json_writer_take(&writer, &bytes, &length, &err), MR_RECORD_TOO_LARGE);
    assert_null(bytes);
    mr_json_put_int(&writer, 1);
    assert_written(&writer, "1");
}

static void misuse_is_asserted(void **state)
{
    (void)state;
    struct mr_json_writer writer;
    mr_json_writer_init(&writer, 100);
    expect_assert_failure(mr_json_end(&writer));
    mr_json_begin_object(&writer);
    expect_assert_failure(mr_json_put_int(&writer, 1));
    char *bytes;
    size_t length;
    expect_assert_failure(mr_json_writer_take(&writer, &bytes, &length, NULL));
    mr_json_end(&writer);
    expect_assert_failure(mr_json_put_int(&writer, 1));
    expect_assert_failure(mr_json_name(&writer, "x"));
    mr_json_writer_drop(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_and_names_are_placed),
        cmocka_unit_test(text_is_escaped_and_made_valid),
        cmocka_unit_test(numbers_are_the_shortest_that_parse_to_the_same_value),
        cmocka_unit_test(the_maximum_is_kept_and_reported_by_take),
        cmocka_unit_test(misuse_is_asserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
