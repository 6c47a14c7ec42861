#include "codec/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_text_is_its_word_and_no_shorter_or_longer_one(void **state)
{
    (void)state;
    struct mr_text text = {"function-call", 8};
    assert_true(mr_text_is(text, "function"));
    assert_false(mr_text_is(text, "functio"));
    assert_false(mr_text_is(text, "function-"));
    assert_false(mr_text_is(text, "Function"));
    assert_true(mr_text_is((struct mr_text){"", 0}, ""));
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
        cmocka_unit_test(a_text_is_its_word_and_no_shorter_or_longer_one),
        cmocka_unit_test(white_space_is_the_six_characters_of_ascii),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
