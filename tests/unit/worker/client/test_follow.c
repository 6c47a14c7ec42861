#include "worker/client/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct reading {
    struct mr_follow follow;
    FILE *out;
    char *text;
    size_t length;
};

static void open_reading(struct reading *reading)
{
    reading->out = open_memstream(&reading->text, &reading->length);
    assert_non_null(reading->out);
    mr_follow_init(&reading->follow, reading->out);
}

static void assert_shown(struct reading *reading, const char *want)
{
    fflush(reading->out);
    assert_string_equal(reading->text, want);
}

static void close_reading(struct reading *reading, const char *want)
{
    assert_shown(reading, want);
    fclose(reading->out);
    free(reading->text);
    mr_follow_free(&reading->follow);
}

/* A token record with one token. */
static void tokens(struct reading *reading, uint32_t attempt, uint32_t index, const char *text)
{
    static const uint32_t id = 1;
    const struct mr_token_record record = {.attempt = attempt,
                                           .index = index,
                                           .token_ids = &id,
                                           .token_count = 1,
                                           .text = {text, strlen(text)}};
    mr_follow_tokens(&reading->follow, &record);
}

/* The first record of a resumed attempt; with count 0 its text has no token. */
static void resumed(struct reading *reading, uint32_t attempt, uint32_t index, const char *text,
                    size_t count)
{
    static const uint32_t ids[] = {1, 2, 3};
    const struct mr_token_record record = {.attempt = attempt,
                                           .index = index,
                                           .resumed_at = index,
                                           .token_ids = ids,
                                           .token_count = count,
                                           .text = {text, strlen(text)}};
    mr_follow_tokens(&reading->follow, &record);
}

static void result(struct reading *reading, const char *text)
{
    const struct mr_choice choice = {.text = {text, strlen(text)}};
    const struct mr_result record = {.choices = &choice, .choice_count = 1};
    mr_follow_result(&reading->follow, &record);
}

static void every_byte_is_printed_once(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    tokens(&reading, 1, 0, "one");
    tokens(&reading, 1, 0, "one");
    tokens(&reading, 1, 1, " two");
    assert_shown(&reading, "one two");
    result(&reading, "one two three");
    result(&reading, "one two three");
    close_reading(&reading, "one two three");
}

static void a_resumed_attempt_prints_only_new_text(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    tokens(&reading, 1, 0, "a");
    tokens(&reading, 1, 1, "b");
    tokens(&reading, 1, 2, "c");
    resumed(&reading, 2, 1, "b", 1); /* repeats token b */
    tokens(&reading, 1, 3, "late");
    tokens(&reading, 2, 2, "c");
    assert_shown(&reading, "abc");
    tokens(&reading, 2, 3, "d");
    resumed(&reading, 3, 4, "e", 1); /* continues behind token d */
    resumed(&reading, 4, 3, "d", 1);
    tokens(&reading, 4, 4, "e");
    tokens(&reading, 4, 5, "f");
    result(&reading, "abcdef");
    close_reading(&reading, "abcdef");
}

static void text_without_a_token_belongs_to_the_next_token(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    tokens(&reading, 1, 0, "a");
    resumed(&reading, 1, 1, "b", 0);
    resumed(&reading, 2, 1, "b", 0);
    tokens(&reading, 2, 1, "c");
    resumed(&reading, 3, 1, "bcd", 2);
    result(&reading, "abcd");
    close_reading(&reading, "abcd");
}

static void a_resumed_attempt_after_a_gap_waits_for_the_result(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    tokens(&reading, 1, 0, "a");
    resumed(&reading, 2, 2, "c", 1);
    tokens(&reading, 2, 3, "d");
    assert_shown(&reading, "a");
    resumed(&reading, 3, 3, "d", 1);
    assert_shown(&reading, "a");
    tokens(&reading, 4, 0, "a");
    tokens(&reading, 4, 1, "b");
    assert_shown(&reading, "ab");
    result(&reading, "abcd");
    close_reading(&reading, "abcd");
}

static void after_a_gap_the_result_brings_the_rest(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    tokens(&reading, 1, 0, "a");
    tokens(&reading, 1, 2, "c");
    tokens(&reading, 1, 3, "d");
    assert_shown(&reading, "a");
    assert_true(reading.follow.gap);
    result(&reading, "abcd");
    close_reading(&reading, "abcd");
}

static void a_later_attempt_prints_no_text_twice_and_an_earlier_one_is_ignored(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    tokens(&reading, 1, 0, "a");
    tokens(&reading, 1, 1, "b");
    tokens(&reading, 2, 0, "a");
    tokens(&reading, 1, 2, "old");
    tokens(&reading, 2, 1, "b");
    tokens(&reading, 2, 2, "c");
    assert_int_equal(reading.follow.attempt, 2);
    close_reading(&reading, "abc");
}

static void an_attempt_with_different_text_starts_on_a_new_line(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    tokens(&reading, 1, 0, "same ");
    tokens(&reading, 1, 1, "left");
    tokens(&reading, 2, 0, "same ");
    tokens(&reading, 2, 1, "right");
    result(&reading, "same right");
    close_reading(&reading, "same left\nright");
}

static void other_choices_and_empty_answers_print_nothing(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    const struct mr_token_record other = {.attempt = 1, .choice = 1, .text = {"x", 1}};
    mr_follow_tokens(&reading.follow, &other);
    mr_follow_result(&reading.follow, &(struct mr_result){.error = MR_INTERNAL});
    assert_int_equal(reading.follow.token_records, 0);
    close_reading(&reading, "");
}

static void an_answer_beyond_the_memory_limit_is_still_printed(void **state)
{
    (void)state;
    struct reading reading;
    char *chunk = calloc(1, (1u << 20) + 1);
    assert_non_null(chunk);
    memset(chunk, 'x', 1u << 20);
    open_reading(&reading);
    for (uint32_t i = 0; i < 17; i++)
        tokens(&reading, 1, i, chunk);
    fflush(reading.out);
    assert_int_equal(reading.length, (size_t)17 << 20);
    assert_true(reading.follow.shown_capacity <= MR_FOLLOW_BYTES_MAX);
    fclose(reading.out);
    free(reading.text);
    free(chunk);
    mr_follow_free(&reading.follow);
}

static void control_characters_are_escaped_on_a_terminal(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    reading.follow.escapes = true;
    tokens(&reading, 1, 0, "a\n\x1b[2J");
    tokens(&reading, 1, 1,
           "\xc2\x9b"
           "b");
    close_reading(&reading, "a\n\\x1b[2J\\u009bb");
}

static void the_text_after_a_restart_is_printed_anew(void **state)
{
    (void)state;
    struct reading reading;
    open_reading(&reading);
    tokens(&reading, 2, 0, "other");
    mr_follow_restart(&reading.follow);
    tokens(&reading, 1, 0, "own");
    close_reading(&reading, "other\nown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_escaped_on_a_terminal),
        cmocka_unit_test(the_text_after_a_restart_is_printed_anew),
        cmocka_unit_test(every_byte_is_printed_once),
        cmocka_unit_test(a_resumed_attempt_prints_only_new_text),
        cmocka_unit_test(text_without_a_token_belongs_to_the_next_token),
        cmocka_unit_test(a_resumed_attempt_after_a_gap_waits_for_the_result),
        cmocka_unit_test(after_a_gap_the_result_brings_the_rest),
        cmocka_unit_test(a_later_attempt_prints_no_text_twice_and_an_earlier_one_is_ignored),
        cmocka_unit_test(an_attempt_with_different_text_starts_on_a_new_line),
        cmocka_unit_test(other_choices_and_empty_answers_print_nothing),
        cmocka_unit_test(an_answer_beyond_the_memory_limit_is_still_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
