#include "codec/unicode/regex_translate.h"

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

static void assert_same(const char *pattern)
{
    struct mr_buffer out;
    mr_buffer_init(&out, 65536);
    assert_int_equal(mr_regex_translate(text_of(pattern), &out, NULL), MR_OK);
    assert_int_equal(out.length, strlen(pattern));
    assert_memory_equal(out.bytes, pattern, out.length);
    mr_buffer_drop(&out);
}

static void assert_contains(const char *pattern, const char *want)
{
    struct mr_buffer out;
    mr_buffer_init(&out, 65536);
    assert_int_equal(mr_regex_translate(text_of(pattern), &out, NULL), MR_OK);
    assert_non_null(memmem(out.bytes, out.length, want, strlen(want)));
    mr_buffer_drop(&out);
}

static void assert_refused(const char *pattern, const char *why)
{
    struct mr_buffer out;
    struct mr_error err;
    mr_buffer_init(&out, 65536);
    assert_int_equal(mr_regex_translate(text_of(pattern), &out, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, why));
    mr_buffer_drop(&out);
}

static void syntax_with_the_same_meaning_is_copied(void **state)
{
    (void)state;
    assert_same("");
    assert_same("'s|'t| ?[^a-z\\r\\n]+(?!x)(?i:'s)|a{1,3}|b*+\\.\\x{41}");
    assert_same("(?i)abc");
    assert_same("\xe4\xb8\x80-[\xe4\xb8\x80-\xe9\xbe\xa5]+");
    assert_same("\\\xe4\xb8\x80");
}

static void white_space_excludes_the_mongolian_separator(void **state)
{
    (void)state;
    assert_contains("\\s+", "[\\x{9}-\\x{d}\\x{20}");
    assert_contains("[^\\s]", "[^\\x{9}-\\x{d}");
    assert_contains("\\S", "[^\\x{9}-\\x{d}");
}

static void properties_include_newer_characters(void **state)
{
    (void)state;
    assert_contains("\\p{L}+", "[\\p{L}\\x{");
    assert_contains("\\P{N}", "[^\\p{N}\\x{");
    assert_contains("[\\p{Lu}x]", "[\\p{Lu}\\x{");
    assert_contains("\\p{Han}", "[\\p{sc:Han}]");
    assert_contains("\\w", "\\p{Alphabetic}");
    assert_contains("\\u4e00", "\\x{4e00}");
    assert_contains("\\v", "\\x0b");
}

static void syntax_that_the_engines_read_differently_is_rejected(void **state)
{
    (void)state;
    assert_refused("a\\", "lone backslash");
    assert_refused("\\bword\\b", "unknown escape");
    assert_refused("\\h", "unknown escape");
    assert_refused("(a)\\1", "unknown escape");
    assert_refused("[a&&b]", "intersection");
    assert_refused("[a[b]]", "inside a class");
    assert_refused("[]a]", "starts with ]");
    assert_refused("[abc", "unclosed class");
    assert_refused("[\\S]", "inside a class");
    assert_refused("[\\P{L}]", "inside a class");
    assert_refused("a{2,3}+", "plus after");
    assert_refused("a{,3}", "malformed interval");
    assert_refused("{", "malformed interval");
    assert_refused("a(?i)b|c", "unknown group");
    assert_refused("(?<name>a)", "unknown group");
    assert_refused("(*ACCEPT)", "unknown group");
    assert_refused("\\p{Klingon}", "unknown property");
    assert_refused("\\p{L", "unclosed property");
    assert_refused("\\pL", "without braces");
    assert_refused("\\p", "without braces");
    assert_refused("\\u12", "short");
    assert_refused("\\u12g4", "bad");
    assert_refused("\xff", "UTF-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syntax_with_the_same_meaning_is_copied),
        cmocka_unit_test(white_space_excludes_the_mongolian_separator),
        cmocka_unit_test(properties_include_newer_characters),
        cmocka_unit_test(syntax_that_the_engines_read_differently_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
