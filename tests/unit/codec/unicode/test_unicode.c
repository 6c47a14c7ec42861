#include "codec/unicode/unicode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_form(const char *text, enum mr_normal_form form, const char *want)
{
    struct mr_buffer out;
    mr_buffer_init(&out, 4096);
    assert_int_equal(mr_unicode_normalize((struct mr_text){text, strlen(text)}, form, &out, NULL),
                     MR_OK);
    assert_int_equal(out.length, strlen(want));
    assert_memory_equal(out.bytes, want, out.length);
    mr_buffer_drop(&out);
}

static void the_four_normal_forms_are_those_of_the_standard(void **state)
{
    (void)state;
    assert_form("e\u0301", MR_NFC, "\u00e9");
    assert_form("\u00e9", MR_NFD, "e\u0301");
    assert_form("\ufb01", MR_NFC, "\ufb01");
    assert_form("\ufb01", MR_NFKC, "fi");
    assert_form("\u1e9b\u0323", MR_NFC, "\u1e9b\u0323");
    assert_form("\u1e9b\u0323", MR_NFD, "\u017f\u0323\u0307");
    assert_form("\u1e9b\u0323", MR_NFKC, "\u1e69");
    assert_form("\u1e9b\u0323", MR_NFKD, "s\u0323\u0307");
    assert_form("\u1100\u1161\u11a8", MR_NFC, "\uac01");
    assert_form("\uac01", MR_NFD, "\u1100\u1161\u11a8");
    assert_form("\u212b", MR_NFC, "\u00c5");
}

static void marks_are_ordered_and_composed_as_in_the_standard(void **state)
{
    (void)state;
    assert_form("a\u0301\u0316", MR_NFD, "a\u0316\u0301");
    assert_form("a\u0301\u0316", MR_NFC, "\u00e1\u0316");
    assert_form("a\u0302\u0301", MR_NFC, "\u1ea5");
    assert_form("a\u0316\u0327\u0301", MR_NFD, "a\u0327\u0316\u0301");
    assert_form("\u0301a", MR_NFC, "\u0301a");
    assert_form("\u0958", MR_NFC, "\u0915\u093c"); /* excluded from composition */
}

static void characters_unknown_to_the_reference_do_not_change(void **state)
{
    (void)state;
    assert_form("a\u1df8\u0301", MR_NFC, "a\u1df8\u0301");
    assert_form("\U0001fbf0", MR_NFKC, "\U0001fbf0");
    assert_true(mr_unicode_is_mark(0x1df8));
    assert_false(mr_unicode_is_stripped_mark(0x1df8));
    assert_true(mr_unicode_is_stripped_mark(0x301));
}

static void a_long_run_of_marks_takes_linear_time(void **state)
{
    (void)state;
    size_t pairs = 200000; /* an insertion sort would take 4e10 steps */
    char *text = malloc(pairs * 4);
    for (size_t i = 0; i < pairs; i++)
        memcpy(text + i * 4, "\u0301\u0316", 4);
    struct mr_buffer out;
    mr_buffer_init(&out, pairs * 8);
    assert_int_equal(mr_unicode_normalize((struct mr_text){text, pairs * 4}, MR_NFC, &out, NULL),
                     MR_OK);
    assert_int_equal(out.length, pairs * 4);
    assert_memory_equal(out.bytes, "\u0316\u0316", 4);
    assert_memory_equal(out.bytes + out.length - 4, "\u0301\u0301", 4);
    mr_buffer_drop(&out);
    free(text);
}

static void properties_are_those_of_the_reference(void **state)
{
    (void)state;
    assert_true(mr_unicode_is_numeric('7') && mr_unicode_is_numeric(0xbd));
    assert_true(mr_unicode_is_numeric(0x2165) && mr_unicode_is_numeric(0x11de0));
    assert_false(mr_unicode_is_numeric('a') || mr_unicode_is_numeric(0x4e00));
    assert_true(mr_unicode_is_space(0x3000) && mr_unicode_is_space(0x85));
    assert_false(mr_unicode_is_space(0x180e) || mr_unicode_is_space(0x200b));
    assert_true(mr_unicode_is_punctuation('$') && mr_unicode_is_punctuation(0x3002));
    assert_false(mr_unicode_is_punctuation('a') || mr_unicode_is_punctuation(0x20ac));
    assert_true(mr_unicode_is_word('_') && mr_unicode_is_word(0x301) && mr_unicode_is_word(0x200d));
    assert_false(mr_unicode_is_word('-') || mr_unicode_is_word(0xbd) || mr_unicode_is_word(' '));
}

static void lower_case_has_no_context(void **state)
{
    (void)state;
    uint32_t out[2];
    assert_int_equal(mr_unicode_lower('A', out), 1);
    assert_int_equal(out[0], 'a');
    assert_int_equal(mr_unicode_lower(0x3a3, out), 1);
    assert_int_equal(out[0], 0x3c3);
    assert_int_equal(mr_unicode_lower(0x130, out), 2);
    assert_int_equal(out[1], 0x307);
}

static void a_full_buffer_is_an_error(void **state)
{
    (void)state;
    struct mr_buffer out;
    struct mr_error err;
    mr_buffer_init(&out, 3);
    assert_int_equal(mr_unicode_normalize((struct mr_text){"\u00e9\u00e9", 4}, MR_NFC, &out, &err),
                     MR_NOMEM);
    mr_buffer_drop(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_four_normal_forms_are_those_of_the_standard),
        cmocka_unit_test(marks_are_ordered_and_composed_as_in_the_standard),
        cmocka_unit_test(characters_unknown_to_the_reference_do_not_change),
        cmocka_unit_test(a_long_run_of_marks_takes_linear_time),
        cmocka_unit_test(properties_are_those_of_the_reference),
        cmocka_unit_test(lower_case_has_no_context),
        cmocka_unit_test(a_full_buffer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
