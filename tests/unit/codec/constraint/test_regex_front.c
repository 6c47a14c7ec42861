#include "constraints.h"

#define REGEX(source, yes, no) assert_language(MR_CONSTRAINT_REGEX, source, yes, no)
#define PATTERN(source, yes, no)                                                                   \
    assert_language(MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"" source "\"}", \
                    yes, no)

static void a_regex_matches_the_whole_text(void **state)
{
    (void)state;
    REGEX("abc", LIST("abc"), LIST("", "ab", "abcd", "xabc"));
    REGEX("^abc$", LIST("abc"), LIST("^abc$"));
    REGEX("a|bc|", LIST("a", "bc", ""), LIST("abc", "b"));
}

static void quantifiers_count(void **state)
{
    (void)state;
    REGEX("a*b+c?", LIST("b", "aabbc"), LIST("", "ac", "bcc"));
    REGEX("a{2}", LIST("aa"), LIST("a", "aaa"));
    REGEX("(ab){1,3}?", LIST("ab", "ababab"), LIST("", "abababab"));
    REGEX("a{2,}", LIST("aa", "aaaaa"), LIST("a"));
    REGEX("a{x}", LIST("a{x}"), LIST("a"));
    REGEX("a{,x}", LIST("a{,x}"), LIST("a"));
    REGEX("(a{3000}b){2}", NONE, LIST("ab", "aab"));
}

static void classes_and_escapes_name_characters(void **state)
{
    (void)state;
    REGEX("[a-c\\]\\-x]+", LIST("abc]-x"), LIST("d", "\\"));
    REGEX("[^a\\n]", LIST("b", "\u00e9", "\U0001f600"), LIST("a", "\n", ""));
    REGEX("\\d\\w\\s\\S", LIST("1_ x"), LIST("a_ x", "1- x", "1__x", "1_  "));
    REGEX("\\x41\\u00e9\\u{1F600}\\ud83d\\ude00\\.", LIST("A\u00e9\U0001f600\U0001f600."),
          LIST("A"));
    REGEX(".", LIST("a", "\u20ac"), LIST("\n", "\r", "ab"));
    REGEX("[\u00e9-\u00ff]", LIST("\u00e9", "\u00f0"), LIST("\u00e8", "e"));
}

/* Where ECMAScript and Python differ, both must match. */
static void doubtful_characters_are_left_out(void **state)
{
    (void)state;
    REGEX("\\d", LIST("7"), LIST("\u0667"));
    REGEX("\\D", LIST("x"), LIST("\u0667", "7"));
    REGEX("[^\\d]", LIST("x"), LIST("\u0667"));
    REGEX("[^\\W]", LIST("x"), LIST("\u00e9", "-", "\u2192"));
    REGEX("\\W", LIST("-"), LIST("\u00e9", "a"));
}

static void categories_of_unicode_are_sets(void **state)
{
    (void)state;
    REGEX("\\p{L}", LIST("a", "\u00e9", "\u4e2d"), LIST("1", "-", "\u0667"));
    REGEX("\\p{Letter}+[\\p{Nd}_]", LIST("a7", "\u00e9_", "b\u0667"), LIST("77", "a-"));
    REGEX("\\P{gc=Lu}", LIST("a", "1"), LIST("A", "\u00c9", "\u0378"));
    REGEX("\\p{digit}\\cC", LIST("7\003"), LIST("7c", "7C"));
}

/* The patterns of pydantic's Decimal and of zod's e-mail, and the usual one of passwords. */
static void look_ahead_restricts_the_rest(void **state)
{
    (void)state;
    assert_language(MR_CONSTRAINT_JSON_SCHEMA,
                    "{\"type\":\"string\",\"pattern\":\"^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$\"}",
                    LIST("\"1.5\"", "\"+0\"", "\".5\""), LIST("\"\"", "\".\"", "\"-.\"", "\"x\""));
    assert_language(MR_CONSTRAINT_REGEX,
                    "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@"
                    "([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
                    LIST("a.b@example.org", "a@b.co"), LIST(".a@b.co", "a..b@c.de", "a@b"));
    assert_language(MR_CONSTRAINT_REGEX, "^(?=.*[A-Z])(?=.*\\d).{4,6}$|^no$",
                    LIST("aB3d", "A1bcde", "no"), LIST("abcd", "ABCD", "A1", "A1bcdef"));
    assert_language(MR_CONSTRAINT_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"b(?!c)\"}",
                    LIST("\"b\"", "\"xbd\"", "\"bcb\""), LIST("\"bc\"", "\"xbc\""));
}

static void what_is_no_language_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *source, *why;
        enum mr_status status;
    } cases[] = {
        {"(a", "not closed", MR_INVALID_REQUEST},
        {"a)", "unmatched closing parenthesis", MR_INVALID_REQUEST},
        {"*a", "a quantifier without anything", MR_INVALID_REQUEST},
        {"[a", "bracket", MR_INVALID_REQUEST},
        {"[z-a]", "range", MR_INVALID_REQUEST},
        {"a{3,2}", "below its minimum", MR_INVALID_REQUEST},
        {"(?<=a)b", "look-behind", MR_UNSUPPORTED},
        {"((?=a)b)c", "look-ahead inside a group", MR_UNSUPPORTED},
        {"(a)\\1", "escape", MR_UNSUPPORTED},
        {"\\bword", "escape", MR_UNSUPPORTED},
        {"(^a)", "outer", MR_UNSUPPORTED},
        {"a**", "quantifier", MR_UNSUPPORTED},
        {"a{,3}b", "{0,n}", MR_UNSUPPORTED},
        {"a{,}", "{0,n}", MR_UNSUPPORTED},
        {"a{2}{,3}", "{0,n}", MR_UNSUPPORTED},
        {"{,3}", "{0,n}", MR_UNSUPPORTED},
        {"(a|{2}b)", "a quantifier without anything", MR_INVALID_REQUEST},
        {"(?i)a", "flags", MR_UNSUPPORTED},
        {"[]a]", "bracket", MR_UNSUPPORTED},
        {"\\", "escape", MR_UNSUPPORTED},
        {"[^\\u{0}-\\u{10ffff}]", "no text", MR_INVALID_REQUEST},
        {"abc(d\\Be)", "at byte 6", MR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(MR_CONSTRAINT_REGEX, cases[i].source, cases[i].status, cases[i].why);
}

static void a_pattern_is_searched_in_json_spelling(void **state)
{
    (void)state;
    PATTERN("b", LIST("\"b\"", "\"abc\"", "\"a\\nb\""), LIST("\"a\"", "b"));
    PATTERN("^b", LIST("\"b\"", "\"bc\""), LIST("\"ab\""));
    PATTERN("b$|^c", LIST("\"ab\"", "\"cd\""), LIST("\"bd\""));
    PATTERN("^\\\\\\\\\\\"$", LIST("\"\\\\\\\"\""), LIST("\"\\\\\"", "\"\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_regex_matches_the_whole_text),
        cmocka_unit_test(quantifiers_count),
        cmocka_unit_test(classes_and_escapes_name_characters),
        cmocka_unit_test(doubtful_characters_are_left_out),
        cmocka_unit_test(categories_of_unicode_are_sets),
        cmocka_unit_test(look_ahead_restricts_the_rest),
        cmocka_unit_test(what_is_no_language_is_refused),
        cmocka_unit_test(a_pattern_is_searched_in_json_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
