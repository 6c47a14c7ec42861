#include "codec/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_text_equals_its_word_and_no_shorter_or_longer_one(void **state)
{
    (void)state;
    struct mr_text text = {"function-call", 8};
    assert_true(mr_text_is(text, "function"));
    assert_false(mr_text_is(text, "functio"));
    assert_false(mr_text_is(text, "function-"));
    assert_false(mr_text_is(text, "Function"));
    assert_true(mr_text_is((struct mr_text){"", 0}, ""));
    assert_false(mr_text_is((struct mr_text){"ab\0", 3}, "ab"));
}

static void a_word_is_found_in_any_case(void **state)
{
    (void)state;
    assert_true(mr_text_is_any_case((struct mr_text){"StrINGs", 6}, "string"));
    assert_false(mr_text_is_any_case((struct mr_text){"StrINGs", 7}, "string"));
    assert_false(mr_text_is_any_case((struct mr_text){"strung", 6}, "string"));
    assert_true(mr_text_is_any_case((struct mr_text){NULL, 0}, ""));
}

static void white_space_at_the_ends_is_trimmed(void **state)
{
    (void)state;
    assert_true(mr_text_is(mr_text_trim((struct mr_text){" \t a b\n ", 8}), "a b"));
    assert_true(mr_text_is(mr_text_trim((struct mr_text){"ab", 2}), "ab"));
    assert_int_equal(mr_text_trim((struct mr_text){" \n", 2}).length, 0);
    assert_int_equal(mr_text_trim((struct mr_text){NULL, 0}).length, 0);
}

static void texts_are_equal_when_their_bytes_are(void **state)
{
    (void)state;
    struct mr_text text = {"function", 8};
    assert_true(mr_text_equal(text, (struct mr_text){"function-call", 8}));
    assert_false(mr_text_equal(text, (struct mr_text){"function-call", 9}));
    assert_false(mr_text_equal(text, (struct mr_text){"Function", 8}));
    assert_true(mr_text_equal((struct mr_text){NULL, 0}, (struct mr_text){"", 0}));
}

static void a_part_is_the_bytes_between_two_places(void **state)
{
    (void)state;
    struct mr_text text = {"function", 8};
    assert_true(mr_text_is(mr_text_part(text, 3, 7), "ctio"));
    assert_true(mr_text_is(mr_text_part(text, 8, 8), ""));
}

static void a_hexadecimal_digit_has_a_value(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        assert_int_equal(mr_text_hex_value("0123456789abcdef"[i]), i);
        assert_int_equal(mr_text_hex_value("0123456789ABCDEF"[i]), i);
    }
    for (const char *c = "/:@G`g \xff"; *c; c++)
        assert_int_equal(mr_text_hex_value(*c), -1);
    assert_int_equal(mr_text_hex_value('\0'), -1);
}

static void white_space_is_the_six_characters_of_ascii(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (int c = -128; c < 128; c++)
        count += mr_text_is_space((char)c);
    assert_int_equal(count, 6);
    for (const char *c = " \t\n\v\f\r"; *c; c++)
        assert_true(mr_text_is_space(*c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_equals_its_word_and_no_shorter_or_longer_one),
        cmocka_unit_test(a_word_is_found_in_any_case),
        cmocka_unit_test(white_space_at_the_ends_is_trimmed),
        cmocka_unit_test(texts_are_equal_when_their_bytes_are),
        cmocka_unit_test(a_part_is_the_bytes_between_two_places),
        cmocka_unit_test(a_hexadecimal_digit_has_a_value),
        cmocka_unit_test(white_space_is_the_six_characters_of_ascii),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
