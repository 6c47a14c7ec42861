#include "codec/wire/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(literal) ((struct mr_text){literal, sizeof literal - 1})

/* The text of the member `id`; "": there is none. */
static const char *id_of(struct mr_text record)
{
    static char id[17];
    struct mr_text value;
    size_t length = mr_scan_member(record, "id", &value) ? mr_scan_text(value, id, 16) : 0;
    id[length] = '\0';
    return id;
}

static void an_id_is_found_in_front_of_an_error(void **state)
{
    (void)state;
    static const struct {
        struct mr_text record;
        const char *want;
    } cases[] = {
        {TEXT("{\"id\":\"a\",\"seed\":9223372036854775808}"), "a"},
        {TEXT("{\"seed\":9223372036854775808,\"id\":\"a\"}"), "a"},
        {TEXT(" {\"x\" : [1, {\"id\":\"no\"}, \"},{\\\"\"] , \"id\" : \"a\", \"prompt\":\"cut"),
         "a"},
        {TEXT("{\"id\":\"a\",\"id\":\"b\"}"), "a"},
        {TEXT("{\"id\":\"\\\"\\\\\\/\\u0041\"}"), "\"\\/A"},
        {TEXT("{\"id\":\"1234567890123456\"}"), "1234567890123456"},
        {TEXT("\x82\xa2id\xa1"
              "a\xa6prompt\xc1"),
         "a"},
        {TEXT("\x84\xa1x\x92\x81\xa2id\xa2no\xc7\x01\x05z\xa1y\xcb"
              "12345678\xa1z\xd9\x02zz\xa2id\xa1"
              "a"),
         "a"},
        {TEXT("\xde\x00\x02\xa1p\xc0\xa2id\xa1"
              "a"),
         "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(id_of(cases[i].record), cases[i].want);
}

static void what_has_no_readable_id_has_none(void **state)
{
    (void)state;
    static const struct mr_text records[] = {TEXT(""),
                                             TEXT("{"),
                                             TEXT("["),
                                             TEXT("x"),
                                             TEXT("{\"id\""),
                                             TEXT("{\"id\":"),
                                             TEXT("{\"id\":7}"),
                                             TEXT("{\"id\":null}"),
                                             TEXT("{\"id\":\"a"),
                                             TEXT("{\"id\":\"\"}"),
                                             TEXT("{\"id\":\"\\u20ac\"}"),
                                             TEXT("{\"id\":\"\\n\"}"),
                                             TEXT("{\"id\":\"a\\"),
                                             TEXT("{\"id\":\"12345678901234567\"}"),
                                             TEXT("{\"x\":{\"id\":\"a\"}}"),
                                             TEXT("{\"x\":\"y\" \"id\":\"a\"}"),
                                             TEXT("{\"x\":}}}},\"id\":\"a\"}"),
                                             TEXT("\x81\xa2id"),
                                             TEXT("\x81\xa2id\x07"),
                                             TEXT("\x81\xa2id\xa5"
                                                  "a"),
                                             TEXT("\x82\xa1x\xdd\xff\xff\xff\xff\xa2id\xa1"
                                                  "a"),
                                             TEXT("\x82\xa1x\xdf\xff\xff\xff\xff"),
                                             TEXT("\x81\x01\xa2id\xa1"
                                                  "a"),
                                             TEXT("\x91\xa2id\xa1"
                                                  "a"),
                                             TEXT("\xdf\xff")};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        assert_string_equal(id_of(records[i]), "");
}

/* Every prefix, on its own heap block, so that a sanitizer detects a read past its end. */
static void a_record_may_be_cut_anywhere(void **state)
{
    (void)state;
    static const struct mr_text records[] = {
        TEXT("{\"x\":[1,{\"y\":\"\\u0041\\\\\"}],\"id\":\"a\\u0062c\"}"),
        TEXT("\x83\xa1x\x92\x81\xa1y\xd9\x02zz\xc7\x01\x05z\xa1y\xcb"
             "12345678\xa2id\xa3"
             "abc")};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        for (size_t length = 0; length <= records[i].length; length++) {
            char *copy = malloc(length + !length);
            memcpy(copy, records[i].bytes, length);
            const char *id = id_of((struct mr_text){copy, length});
            bool whole = length + (i == 0) >= records[i].length;
            assert_string_equal(id, whole ? "abc" : "");
            free(copy);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_found_in_front_of_an_error),
        cmocka_unit_test(what_has_no_readable_id_has_none),
        cmocka_unit_test(a_record_may_be_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
