#include "codec/wire/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_json_limits limits = {4096, 64, 8};

static struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

static struct mr_json *parse(const char *string)
{
    struct mr_json *document;
    struct mr_error err;
    assert_int_equal(mr_json_parse(&document, text_of(string), &limits, &err), MR_OK);
    return document;
}

static enum mr_status refuse(struct mr_text text)
{
    struct mr_json *document;
    struct mr_error err;
    enum mr_status status = mr_json_parse(&document, text, &limits, &err);
    assert_null(document);
    assert_int_equal(err.status, status);
    return status;
}

static void assert_text(struct mr_text got, const char *want, size_t length)
{
    assert_int_equal(got.length, length);
    assert_memory_equal(got.bytes, want, length);
}

static void values_are_read_by_their_kind(void **state)
{
    (void)state;
    struct mr_json *document =
        parse("{\"n\":null,\"b\":true,\"i\":-9223372036854775808,\"r\":1.5,\"t\":\"a\\u0000b\","
              "\"a\":[1,[2]],\"o\":{\"x\":0}}");
    const struct mr_json_value *root = mr_json_root(document);
    assert_int_equal(mr_json_kind(root), MR_JSON_OBJECT);
    assert_int_equal(mr_json_count(root), 7);
    assert_int_equal(mr_json_kind(mr_json_get(root, "n")), MR_JSON_NULL);
    bool flag = false;
    assert_true(mr_json_bool(mr_json_get(root, "b"), &flag) && flag);
    int64_t integer = 0;
    assert_true(mr_json_int(mr_json_get(root, "i"), &integer));
    assert_true(integer == INT64_MIN);
    double number = 0;
    assert_true(mr_json_number(mr_json_get(root, "r"), &number));
    assert_true(number > 1.49 && number < 1.51);
    struct mr_text text;
    assert_true(mr_json_text(mr_json_get(root, "t"), &text));
    assert_text(text, "a\0b", 3);
    const struct mr_json_value *array = mr_json_get(root, "a");
    assert_int_equal(mr_json_count(array), 2);
    assert_true(mr_json_number(mr_json_at(array, 0), &number) && number > 0.99);
    assert_int_equal(mr_json_kind(mr_json_at(array, 1)), MR_JSON_ARRAY);
    mr_json_destroy(document);
}

static void reading_another_kind_or_null_returns_false(void **state)
{
    (void)state;
    struct mr_json *document = parse("{\"t\":\"1\",\"r\":1.0}");
    const struct mr_json_value *root = mr_json_root(document);
    bool flag = true;
    int64_t integer = 7;
    double number = 7;
    struct mr_text text = {NULL, 0};
    assert_false(mr_json_bool(mr_json_get(root, "t"), &flag));
    assert_false(mr_json_int(mr_json_get(root, "r"), &integer));
    assert_false(mr_json_number(mr_json_get(root, "t"), &number));
    assert_false(mr_json_text(mr_json_get(root, "r"), &text));
    assert_false(mr_json_int(mr_json_get(root, "absent"), &integer));
    assert_true(flag && integer == 7 && number > 6 && !text.bytes);
    assert_null(mr_json_get(mr_json_get(root, "absent"), "deeper"));
    assert_null(mr_json_at(root, 0));
    assert_int_equal(mr_json_count(NULL), 0);
    mr_json_destroy(document);
    mr_json_destroy(NULL);
}

static void members_come_in_the_order_written(void **state)
{
    (void)state;
    struct mr_json *document = parse("{\"z\":1,\"\":2,\"\\u00e9\":3}");
    struct mr_json_member member = {0};
    char names[16] = "";
    size_t at = 0;
    while (mr_json_next(mr_json_root(document), &member)) {
        memcpy(names + at, member.name.bytes, member.name.length);
        at += member.name.length;
        names[at++] = '|';
    }
    assert_text((struct mr_text){names, at}, "z||\xc3\xa9|", 6);
    mr_json_destroy(document);
}

static void text_that_is_not_json_is_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{",
        "{}x",
        "{\"a\":1,\"a\":2}",
        "{\"a\\u0000\":1}",
        "[01]",
        "[1e999x]",
        "[09223372036854775808]",
        "[NaN]",
        "[\"\xff\"]",
        "[\"\xed\xa0\x80\"]",
        "[\"\\ud800\"]",
        "[\"\x01\"]",
        "[1,]",
        "{'a':1}",
        "\"text alone\"",
        "\xef\xbb\xbf{}",
        "[\"\\",
        "}]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(refuse(text_of(bad[i])), MR_MALFORMED);
    assert_int_equal(refuse((struct mr_text){NULL, 0}), MR_MALFORMED);
    assert_int_equal(refuse((struct mr_text){"[1]\0", 4}), MR_MALFORMED);
}

static void limits_hold_before_parsing(void **state)
{
    (void)state;
    assert_int_equal(refuse(text_of("[[[[[[[[[1]]]]]]]]]")), MR_RECORD_TOO_LARGE);
    char many[200] = "[1";
    for (int i = 0; i < 64; i++)
        memcpy(many + strlen(many), ",1\0", 3);
    memcpy(many + strlen(many), "]\0", 2);
    assert_int_equal(refuse(text_of(many)), MR_RECORD_TOO_LARGE);
    static char large[5000];
    memset(large, ' ', sizeof large);
    assert_int_equal(refuse((struct mr_text){large, sizeof large}), MR_RECORD_TOO_LARGE);
    mr_json_destroy(parse("[[[[[[[[1]]]]]]]]"));
    mr_json_destroy(parse("[\"[[[[[[[[[[,,,\\\"[[[\"]"));
}

static void errors_do_not_quote_the_payload(void **state)
{
    (void)state;
    struct mr_json *document;
    struct mr_error err;
    mr_json_parse(&document, text_of("{\"secret\":1,\"secret\":2}"), &limits, &err);
    assert_null(strstr(err.detail, "secret"));
    assert_non_null(strstr(err.detail, "twice"));
}

static void raw_members_are_the_bytes_written(void **state)
{
    (void)state;
    struct mr_text raw;
    struct mr_text json = text_of(" { \"a\" : [1, \"]\"] , \"m\\u0065ta\" : { \"x\" : 1.10 } ,"
                                  "\"s\":\"q\\\"},\" , \"n\":-1e3\n}");
    assert_true(mr_json_raw_member(json, "meta", &raw));
    assert_text(raw, "{ \"x\" : 1.10 }", 14);
    assert_true(mr_json_raw_member(json, "a", &raw));
    assert_text(raw, "[1, \"]\"]", 8);
    assert_true(mr_json_raw_member(json, "s", &raw));
    assert_text(raw, "\"q\\\"},\"", 7);
    assert_true(mr_json_raw_member(json, "n", &raw));
    assert_text(raw, "-1e3", 4);
    assert_false(mr_json_raw_member(json, "x", &raw));
    assert_false(mr_json_raw_member(text_of("[]"), "x", &raw));
    assert_false(mr_json_raw_member(text_of("{}"), "x", &raw));
}

static void assert_big(const struct mr_json_value *value, const char *digits)
{
    struct mr_text text;
    char scratch[32];
    int64_t integer;
    assert_int_equal(mr_json_kind(value), MR_JSON_BIG);
    assert_false(mr_json_int(value, &integer) || mr_json_text(value, &text));
    assert_true(mr_json_big(value, &text));
    assert_text(text, digits, strlen(digits));
    assert_text(mr_json_number_text(value, scratch), digits, strlen(digits));
}

static void numbers_outside_of_64_bits_are_kept_as_written(void **state)
{
    (void)state;
    struct mr_json *document =
        parse("{\"a\":1000000000000000019884624838656,\"b\":-7,\"c\":\"9999999999999999999999\","
              "\"d\":1.5e3,\"e\":[18446744073709551615,{\"f\":-9223372036854775809}],"
              "\"g\":-9223372036854775808,\"h\":-1e400}");
    const struct mr_json_value *root = mr_json_root(document);
    double number;
    int64_t integer;
    struct mr_text plain;
    assert_big(mr_json_get(root, "a"), "1000000000000000019884624838656");
    assert_true(mr_json_number(mr_json_get(root, "a"), &number) && number > 9.9e29);
    assert_true(mr_json_int(mr_json_get(root, "b"), &integer) && integer == -7);
    assert_true(mr_json_text(mr_json_get(root, "c"), &plain) && plain.length == 22);
    assert_true(mr_json_number(mr_json_get(root, "d"), &number) && number == 1500.0);
    assert_big(mr_json_at(mr_json_get(root, "e"), 0), "18446744073709551615");
    assert_big(mr_json_get(mr_json_at(mr_json_get(root, "e"), 1), "f"), "-9223372036854775809");
    assert_true(mr_json_number(mr_json_get(root, "g"), &number) && number == -0x1p63);
    assert_big(mr_json_get(root, "h"), "-1e400");
    assert_false(mr_json_number(mr_json_get(root, "h"), &number));
    mr_json_destroy(document);
}

/* As Python's json.loads reads the text. */
static void wide_parsing_reads_what_python_reads(void **state)
{
    (void)state;
    struct mr_json *document;
    struct mr_text text = text_of("{\"a\":1,\"b\":\"x\\ud83dy\\ud83d\\ude00\\\\ud83d\",\"a\":2}"),
                   got, raw;
    int64_t integer;
    assert_int_equal(refuse(text), MR_MALFORMED);
    assert_int_equal(mr_json_parse_wide(&document, text, &limits, NULL), MR_OK);
    const struct mr_json_value *root = mr_json_root(document);
    assert_true(mr_json_int(mr_json_get(root, "a"), &integer) && integer == 2);
    assert_true(mr_json_text(mr_json_get(root, "b"), &got));
    assert_text(got, "x\xef\xbf\xbdy\xf0\x9f\x98\x80\\ud83d", 15);
    assert_true(mr_json_raw_member(text, "a", &raw));
    assert_text(raw, "2", 1);
    mr_json_destroy(document);
    text = text_of("{\"a\":\"\\ud83d\",}");
    assert_int_equal(mr_json_parse_wide(&document, text, &limits, NULL), MR_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_by_their_kind),
        cmocka_unit_test(reading_another_kind_or_null_returns_false),
        cmocka_unit_test(members_come_in_the_order_written),
        cmocka_unit_test(text_that_is_not_json_is_malformed),
        cmocka_unit_test(limits_hold_before_parsing),
        cmocka_unit_test(errors_do_not_quote_the_payload),
        cmocka_unit_test(raw_members_are_the_bytes_written),
        cmocka_unit_test(numbers_outside_of_64_bits_are_kept_as_written),
        cmocka_unit_test(wide_parsing_reads_what_python_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
