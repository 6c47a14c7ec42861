#include "codec/tokenizer/added_tokens.h"

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

static const struct mr_added_token known[] = {
    {.content = {"<s>", 3}, .id = 1, .special = true},
    {.content = {"<sep>", 5}, .id = 2},
    {.content = {"<se", 3}, .id = 3},
    {.content = {"<m>", 3}, .id = 4, .lstrip = true},
    {.content = {"<r>", 3}, .id = 5, .rstrip = true},
    {.content = {"cat", 3}, .id = 6, .single_word = true},
    {.content = {"\xc3\xa9\xc3\xa9", 4}, .id = 7},
    {.content = {"", 0}, .id = 8},
    {.content = {"<|u|>", 5}, .id = 9},
};

/* Writes the spans of text as "text" or "id:text", separated by bars. barred: NULL, or one range.
 */
static void assert_spans_barred(const char *text, bool with_special,
                                const struct mr_text_range *barred, const char *want)
{
    struct mr_added_tokens *added;
    assert_int_equal(mr_added_tokens_create(&added, known, 9, NULL), MR_OK);
    assert_false(mr_added_tokens_is_empty(added));
    struct mr_added_cursor cursor = {.barred = barred, .barred_count = barred ? 1 : 0};
    struct mr_added_span span;
    char got[256] = "";
    while (mr_added_tokens_next(added, text_of(text), with_special, &cursor, &span)) {
        size_t used = strlen(got);
        char id[16] = "";
        if (span.id != MR_TOKEN_NONE) snprintf(id, sizeof id, "%u:", span.id);
        snprintf(got + used, sizeof got - used, "%s%.*s|", id, (int)(span.end - span.start),
                 text + span.start);
    }
    assert_string_equal(got, want);
    mr_added_tokens_destroy(added);
}

static void assert_spans(const char *text, bool with_special, const char *want)
{
    assert_spans_barred(text, with_special, NULL, want);
}

static void tokens_cut_the_text(void **state)
{
    (void)state;
    assert_spans("a<s>b", true, "a|1:<s>|b|");
    assert_spans("<s><s>", true, "1:<s>|1:<s>|");
    assert_spans("plain", true, "plain|");
    assert_spans("", true, "");
    assert_spans("\xc3\xa9\xc3\xa9\xc3\xa9", true, "7:\xc3\xa9\xc3\xa9|\xc3\xa9|");
}

static void the_longest_token_at_the_leftmost_place_is_found(void **state)
{
    (void)state;
    assert_spans("<sep>", true, "2:<sep>|");
    assert_spans("<sea>", true, "3:<se|a>|");
    assert_spans("<<s>", true, "<|1:<s>|");
    assert_spans("<s<sep", true, "<s|3:<se|p|");
}

static void special_tokens_can_stay_text(void **state)
{
    (void)state;
    assert_spans("a<s>b<sep>", false, "a<s>b|2:<sep>|");
    assert_spans("<s>", false, "<s>|");
}

static void barred_ranges_have_no_control_tokens(void **state)
{
    (void)state;
    const struct mr_text_range range = {3, 8};
    assert_spans_barred("<s><s>xx<s>", true, &range, "1:<s>|<s>xx|1:<s>|");
    /* one byte in the range is enough, at either end */
    assert_spans_barred("_<s>xxx<s>", true, &range, "_<s>xxx<s>|");
    assert_spans_barred("___<|u|><|u|>", true, &range, "___<|u|>|9:<|u|>|");
    /* other tokens are found, also in place of a longer one that is barred */
    assert_spans_barred("___<sep>", true, &range, "___|2:<sep>|");
}

static void tokens_include_white_space_with_lstrip_and_rstrip(void **state)
{
    (void)state;
    assert_spans("a \n<m> b", true, "a|4: \n<m>| b|");
    assert_spans("a <r> \xe3\x80\x80"
                 "b",
                 true, "a |5:<r> \xe3\x80\x80|b|");
    assert_spans("<r> <m>", true, "5:<r> |4:<m>|");
    assert_spans("  <m>", true, "4:  <m>|");
    assert_spans("<r>  ", true, "5:<r>  |");
}

static void single_word_tokens_need_word_borders(void **state)
{
    (void)state;
    assert_spans("cat", true, "6:cat|");
    assert_spans("a cat.", true, "a |6:cat|.|");
    assert_spans("cats", true, "cats|");
    assert_spans("bobcat", true, "bobcat|");
    assert_spans("\xc3\xa9"
                 "cat",
                 true,
                 "\xc3\xa9"
                 "cat|");
    assert_spans("_cat", true, "_cat|");
}

static void of_equal_contents_the_last_is_found(void **state)
{
    (void)state;
    const struct mr_added_token twice[] = {{.content = {"x", 1}, .id = 1},
                                           {.content = {"x", 1}, .id = 2}};
    struct mr_added_tokens *added;
    assert_int_equal(mr_added_tokens_create(&added, twice, 2, NULL), MR_OK);
    struct mr_added_cursor cursor = {0};
    struct mr_added_span span;
    assert_true(mr_added_tokens_next(added, text_of("x"), true, &cursor, &span));
    assert_int_equal(span.id, 2);
    mr_added_tokens_destroy(added);
}

static void a_list_without_tokens_is_empty(void **state)
{
    (void)state;
    struct mr_added_tokens *added;
    assert_int_equal(mr_added_tokens_create(&added, NULL, 0, NULL), MR_OK);
    assert_true(mr_added_tokens_is_empty(added));
    mr_added_tokens_destroy(added);
    mr_added_tokens_destroy(NULL);
}

static void white_space_tokens_that_strip_take_linear_time(void **state)
{
    (void)state;
    const struct mr_added_token line[] = {
        {.content = {"\n", 1}, .id = 1, .rstrip = true, .lstrip = true}};
    struct mr_added_tokens *added;
    assert_int_equal(mr_added_tokens_create(&added, line, 1, NULL), MR_OK);
    size_t length = 1 << 20; /* measuring the run again for each token would take 5e11 steps */
    char *text = malloc(length);
    memset(text, '\n', length);
    struct mr_added_cursor cursor = {0};
    struct mr_added_span span;
    size_t count = 0;
    while (mr_added_tokens_next(added, (struct mr_text){text, length}, true, &cursor, &span)) {
        assert_int_equal(span.end, length);
        count++;
    }
    assert_int_equal(count, length); /* as the reference does */
    free(text);
    mr_added_tokens_destroy(added);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_cut_the_text),
        cmocka_unit_test(the_longest_token_at_the_leftmost_place_is_found),
        cmocka_unit_test(special_tokens_can_stay_text),
        cmocka_unit_test(barred_ranges_have_no_control_tokens),
        cmocka_unit_test(tokens_include_white_space_with_lstrip_and_rstrip),
        cmocka_unit_test(single_word_tokens_need_word_borders),
        cmocka_unit_test(of_equal_contents_the_last_is_found),
        cmocka_unit_test(a_list_without_tokens_is_empty),
        cmocka_unit_test(white_space_tokens_that_strip_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
