#include "codec/unicode/regex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

/* All matches of pattern in text as "0-2 2-3". */
static void assert_matches(const char *pattern, const char *string, const char *want)
{
    struct mr_regex *regex;
    struct mr_regex_scratch *scratch = mr_regex_scratch_create();
    struct mr_error err;
    assert_int_equal(mr_regex_create(&regex, text_of(pattern), &err), MR_OK);
    struct mr_regex_cursor cursor = {0};
    struct mr_regex_match match;
    char got[256] = "";
    for (;;) {
        assert_int_equal(mr_regex_next(regex, scratch, text_of(string), &cursor, &match, &err),
                         MR_OK);
        if (!match.found) break;
        size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%s%zu-%zu", used ? " " : "", match.start,
                 match.end);
    }
    assert_string_equal(got, want);
    mr_regex_scratch_destroy(scratch);
    mr_regex_destroy(regex);
}

static void all_matches_are_found_in_order(void **state)
{
    (void)state;
    assert_matches("\\p{L}+", "ab 12 \xc3\xa9!", "0-2 6-8");
    assert_matches(" ?\\p{L}+|\\s+(?!\\S)|\\s+", "a  b ", "0-1 1-2 2-4 4-5");
    assert_matches("x", "aaa", "");
    assert_matches("x", "", "");
}

static void an_empty_match_advances_the_search(void **state)
{
    (void)state;
    assert_matches("x*", "axb", "0-0 1-2 3-3");
    assert_matches("x*", "\xc3\xa9", "0-0 2-2");
    assert_matches("$", "a\nb", "1-1 3-3");
}

static void folding_and_new_letters_are_those_of_the_reference(void **state)
{
    (void)state;
    assert_matches("(?i:'s)", "'\xc5\xbf 'S", "0-3 4-6");
    assert_matches("\\s", "\xe1\xa0\x8e \xe3\x80\x80", "3-4 4-7");
    assert_matches("\\p{L}", "\xf0\x9e\x97\x90", "0-4"); /* U+1E5D0, Unicode 16 */
}

static void lines_end_at_line_feeds(void **state)
{
    (void)state;
    assert_matches("^b", "a\nb\rb", "2-3");
    assert_matches(".+", "a\rb\nc", "0-3 4-5");
}

static void a_pattern_that_does_not_compile_is_a_bad_file(void **state)
{
    (void)state;
    struct mr_regex *regex;
    struct mr_error err;
    assert_int_equal(mr_regex_create(&regex, text_of("(a"), &err), MR_BAD_FILE);
    assert_null(regex);
    assert_int_equal(mr_regex_create(&regex, text_of("[\\S]"), &err), MR_BAD_FILE);
    assert_null(regex);
    mr_regex_destroy(NULL);
    mr_regex_scratch_destroy(NULL);
}

static void an_exponential_pattern_ends_in_an_error(void **state)
{
    (void)state;
    struct mr_regex *regex;
    struct mr_regex_scratch *scratch = mr_regex_scratch_create();
    struct mr_error err;
    char text[61];
    memset(text, 'a', 60);
    text[60] = '\0';
    assert_int_equal(mr_regex_create(&regex, text_of("(a|aa)+\\z!|((a+)+)+b"), &err), MR_OK);
    struct mr_regex_cursor cursor = {0};
    struct mr_regex_match match;
    assert_int_equal(mr_regex_next(regex, scratch, text_of(text), &cursor, &match, &err),
                     MR_INVALID_REQUEST);
    assert_false(match.found);
    mr_regex_scratch_destroy(scratch);
    mr_regex_destroy(regex);
}

static void a_long_text_is_one_match(void **state)
{
    (void)state;
    struct mr_regex *regex;
    struct mr_regex_scratch *scratch = mr_regex_scratch_create();
    size_t length = 1 << 20;
    char *text = malloc(length);
    memset(text, ' ', length);
    assert_int_equal(mr_regex_create(&regex, text_of("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), NULL),
                     MR_OK);
    struct mr_regex_cursor cursor = {0};
    struct mr_regex_match match;
    assert_int_equal(
        mr_regex_next(regex, scratch, (struct mr_text){text, length}, &cursor, &match, NULL),
        MR_OK);
    assert_true(match.found && match.start == 0 && match.end == length);
    free(text);
    mr_regex_scratch_destroy(scratch);
    mr_regex_destroy(regex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_matches_are_found_in_order),
        cmocka_unit_test(an_empty_match_advances_the_search),
        cmocka_unit_test(folding_and_new_letters_are_those_of_the_reference),
        cmocka_unit_test(lines_end_at_line_feeds),
        cmocka_unit_test(a_pattern_that_does_not_compile_is_a_bad_file),
        cmocka_unit_test(an_exponential_pattern_ends_in_an_error),
        cmocka_unit_test(a_long_text_is_one_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
