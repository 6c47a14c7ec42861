#include "worker/client/print_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_json(struct mr_text value, enum mr_encoding encoding, const char *want)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(mr_print_json(value, encoding, out, NULL), MR_OK);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
}

static void both_encodings_are_printed_as_one_line_of_json(void **state)
{
    (void)state;
    static const char json[] = "{ \"a\" : [1, true],\n \"b\" : \"x\\ny\" }";
    static const char msgpack[] = "\x82\xa1"
                                  "a\x92\x01\xc3\xa1"
                                  "b\xa3"
                                  "x\ny";
    static const char want[] = "{\"a\":[1,true],\"b\":\"x\\ny\"}\n";
    assert_json((struct mr_text){json, sizeof json - 1}, MR_ENCODING_JSON, want);
    assert_json((struct mr_text){msgpack, sizeof msgpack - 1}, MR_ENCODING_MSGPACK, want);
}

static void a_member_is_printed_alone(void **state)
{
    (void)state;
    const struct mr_text value = {"{\"a\": [1, 2]}", 13};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(mr_print_member(value, MR_ENCODING_JSON, "a", out, NULL), MR_OK);
    assert_int_equal(mr_print_member(value, MR_ENCODING_JSON, "b", out, NULL), MR_MALFORMED);
    fclose(out);
    assert_string_equal(text, "[1,2]\n");
    free(text);
}

static void an_invalid_record_is_refused_and_nothing_is_printed(void **state)
{
    (void)state;
    static const char *const values[] = {"", "{", "{\"a\":}", "nonsense"};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct mr_error err = {0};
        assert_int_not_equal(mr_print_json((struct mr_text){values[i], strlen(values[i])},
                                           MR_ENCODING_JSON, out, &err),
                             MR_OK);
        assert_int_not_equal(err.detail[0], '\0');
    }
    fclose(out);
    assert_int_equal(length, 0);
    free(text);
}

static void assert_summary(const struct mr_result *result, const char *want)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    mr_print_summary(result, out);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
}

static void control_characters_of_a_record_are_escaped(void **state)
{
    (void)state;
    static const char value[] = "{\"a\":\"\xc2\x9b\"}";
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(
        mr_print_json((struct mr_text){value, sizeof value - 1}, MR_ENCODING_JSON, out, NULL),
        MR_OK);
    fclose(out);
    assert_string_equal(text, "{\"a\":\"\\u009b\"}\n");
    free(text);
    const struct mr_text warning = {"field \x1b[2J", 10};
    const struct mr_choice choice = {.finish = MR_FINISH_REJECTED};
    const struct mr_result result = {.choices = &choice,
                                     .choice_count = 1,
                                     .error = MR_INVALID_REQUEST,
                                     .error_message = "\x1b]0;x\x07",
                                     .warnings = &warning,
                                     .warning_count = 1};
    assert_summary(&result,
                   "finish_reason rejected (invalid_request: \\x1b]0;x\\x07), prompt 0 tokens, "
                   "output 0 tokens\nwarning: field \\x1b[2J\n");
}

static void a_summary_has_finish_reason_and_speed(void **state)
{
    (void)state;
    const struct mr_choice choices[] = {{.finish = MR_FINISH_LENGTH, .completion_tokens = 11},
                                        {.finish = MR_FINISH_EOS, .completion_tokens = 10}};
    struct mr_result result = {.choices = choices,
                               .choice_count = 2,
                               .prompt_tokens = 12,
                               .cached_tokens = 8,
                               .first_token_ms = 100,
                               .total_ms = 2100};
    assert_summary(&result, "finish_reason length, prompt 12 tokens (8 cached), output 21 tokens, "
                            "first token 100 ms, total 2100 ms, 10.0 tok/s\n");
    result.total_ms = result.first_token_ms; /* no time after the first token */
    result.cached_tokens = 0;
    assert_summary(&result, "finish_reason length, prompt 12 tokens, output 21 tokens, "
                            "first token 100 ms, total 100 ms, 0.0 tok/s\n");
}

static void a_summary_of_a_rejection_has_the_reason(void **state)
{
    (void)state;
    const struct mr_choice choice = {.finish = MR_FINISH_REJECTED};
    struct mr_result result = {.choices = &choice,
                               .choice_count = 1,
                               .error = MR_PROMPT_TOO_LONG,
                               .error_message = "9 tokens too many"};
    assert_summary(&result, "finish_reason rejected (prompt_too_long: 9 tokens too many), "
                            "prompt 0 tokens, output 0 tokens\n");
    result.choice_count = 0;
    result.error_message = NULL;
    assert_summary(&result,
                   "finish_reason none (prompt_too_long: ), prompt 0 tokens, output 0 tokens\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_encodings_are_printed_as_one_line_of_json),
        cmocka_unit_test(a_member_is_printed_alone),
        cmocka_unit_test(an_invalid_record_is_refused_and_nothing_is_printed),
        cmocka_unit_test(control_characters_of_a_record_are_escaped),
        cmocka_unit_test(a_summary_has_finish_reason_and_speed),
        cmocka_unit_test(a_summary_of_a_rejection_has_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
