#include "codec/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

static void every_scalar_value_decodes_to_itself(void **state)
{
    (void)state;
    for (uint32_t c = 1; c < 0x110000; c++) {
        if (c >= 0xd800 && c <= 0xdfff) continue;
        char bytes[4];
        size_t length = mr_utf8_put(bytes, c);
        struct mr_utf8_step step = mr_utf8_next((struct mr_text){bytes, length}, 0);
        assert_true(step.valid && step.length == length && step.code_point == c);
        for (size_t cut = 1; cut < length; cut++) {
            struct mr_text part = {bytes, cut};
            assert_true(mr_utf8_is_unfinished(part, 0));
            assert_false(mr_utf8_is_valid(part));
            assert_int_equal(mr_utf8_next(part, 0).length, cut);
        }
    }
}

static void ill_formed_bytes_are_split_at_maximal_subparts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint8_t length;
    } cases[] = {
        {"\x80", 1},         {"\xc0\x80", 1},      {"\xc1\xbf", 1},     {"\xe0\x80\x80", 1},
        {"\xed\xa0\x80", 1}, {"\xf0\x8f\xbf", 1},  {"\xf4\x90\x80", 1}, {"\xf5\x80", 1},
        {"\xe2\x82z", 2},    {"\xf1\x80\x80z", 3}, {"\xf1\x80\xe1", 2}, {"\xc3(", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_utf8_step step = mr_utf8_next(text_of(cases[i].text), 0);
        assert_false(step.valid);
        assert_int_equal(step.length, cases[i].length);
        assert_int_equal(step.code_point, 0xfffd);
    }
}

static void only_the_beginning_of_a_character_is_unfinished(void **state)
{
    (void)state;
    assert_true(mr_utf8_is_unfinished(text_of("\xf0\x9f\x98"), 0));
    assert_true(mr_utf8_is_unfinished(text_of("ab\xe2"), 2));
    assert_false(mr_utf8_is_unfinished(text_of("\xed\xa0"), 0));
    assert_false(mr_utf8_is_unfinished(text_of("\x80"), 0));
    assert_false(mr_utf8_is_unfinished(text_of("\xff"), 0));
    assert_false(mr_utf8_is_unfinished(text_of("\xc3\xa9"), 0));
    assert_false(mr_utf8_is_unfinished(text_of("a"), 0));
}

static void validity_is_of_the_whole_text(void **state)
{
    (void)state;
    assert_true(mr_utf8_is_valid((struct mr_text){NULL, 0}));
    assert_true(mr_utf8_is_valid(text_of("a\xc3\xa9\xf0\x9f\x98\x80")));
    assert_false(mr_utf8_is_valid(text_of("a\xc3\xa9\xf0\x9f\x98")));
    assert_true(mr_utf8_is_valid((struct mr_text){"\0", 1}));
}

static void code_points_that_are_no_characters_are_asserted(void **state)
{
    (void)state;
    char bytes[4];
    expect_assert_failure(mr_utf8_put(bytes, 0xd800));
    expect_assert_failure(mr_utf8_put(bytes, 0x110000));
    expect_assert_failure(mr_utf8_next(text_of("a"), 1));
}

static void a_text_is_walked_backwards_by_characters(void **state)
{
    (void)state;
    struct mr_text text = text_of("a\xc3\xa9\xf0\x9f\x98\x80");
    assert_int_equal(mr_utf8_previous(text, 7), 3);
    assert_int_equal(mr_utf8_previous(text, 3), 1);
    assert_int_equal(mr_utf8_previous(text, 1), 0);
    assert_true(mr_utf8_is_start('a') && mr_utf8_is_start('\xc3'));
    assert_false(mr_utf8_is_start('\xa9'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_value_decodes_to_itself),
        cmocka_unit_test(ill_formed_bytes_are_split_at_maximal_subparts),
        cmocka_unit_test(only_the_beginning_of_a_character_is_unfinished),
        cmocka_unit_test(validity_is_of_the_whole_text),
        cmocka_unit_test(a_text_is_walked_backwards_by_characters),
        cmocka_unit_test(code_points_that_are_no_characters_are_asserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
