#include "codec/status.h"

#include "codec/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The error codes, whose names producers rely on. */
static const char *const wire_codes[] = {"malformed",
                                         "unsupported_encoding",
                                         "record_too_large",
                                         "invalid_request",
                                         "unknown_field",
                                         "empty_prompt",
                                         "prompt_too_long",
                                         "invalid_token_id",
                                         "model_not_found",
                                         "unsupported",
                                         "unsupported_content",
                                         "deadline_exceeded",
                                         "cancelled",
                                         "poison",
                                         "duplicate_id",
                                         "overloaded",
                                         "internal"};
#define CODE_COUNT (sizeof wire_codes / sizeof *wire_codes)

static void only_success_is_fine_and_has_no_code(void **state)
{
    (void)state;
    for (enum mr_status status = MR_OK; status < MR_STATUS_COUNT; status++) {
        assert_int_equal(status == MR_OK, mr_status_class(status) == MR_CLASS_FINE);
        assert_int_equal(status == MR_OK, mr_status_code(status)[0] == '\0');
    }
}

static void every_code_of_the_contract_is_used_and_no_other(void **state)
{
    (void)state;
    int uses[CODE_COUNT] = {0};
    for (enum mr_status status = MR_OK + 1; status < MR_STATUS_COUNT; status++) {
        size_t i = 0;
        while (i < CODE_COUNT && strcmp(mr_status_code(status), wire_codes[i]) != 0)
            i++;
        assert_in_range(i, 0, CODE_COUNT - 1);
        uses[i]++;
    }
    for (size_t i = 0; i < CODE_COUNT; i++)
        assert_int_not_equal(uses[i], 0);
}

/* Clients use the code to decide whether to send a request again. */
static void each_code_says_whether_sending_again_can_help(void **state)
{
    (void)state;
    static const char *const retryable[] = {"overloaded", "internal", "deadline_exceeded"};
    for (enum mr_status status = MR_OK + 1; status < MR_STATUS_COUNT; status++) {
        bool expected = false;
        for (size_t i = 0; i < sizeof retryable / sizeof *retryable; i++)
            expected |= strcmp(mr_status_code(status), retryable[i]) == 0;
        assert_int_equal(mr_status_is_retryable(status), expected);
    }
}

static void names_are_unique(void **state)
{
    (void)state;
    assert_string_equal(mr_status_name(MR_PROMPT_TOO_LONG), "PROMPT_TOO_LONG");
    for (enum mr_status a = MR_OK; a < MR_STATUS_COUNT; a++)
        for (enum mr_status b = MR_OK; b < a; b++)
            assert_string_not_equal(mr_status_name(a), mr_status_name(b));
}

static void statuses_have_their_documented_class(void **state)
{
    (void)state;
    assert_int_equal(mr_status_class(MR_FULL), MR_CLASS_RETRY);
    assert_int_equal(mr_status_class(MR_MALFORMED), MR_CLASS_REJECT);
    assert_int_equal(mr_status_class(MR_BACKEND), MR_CLASS_FATAL);
}

static void a_failure_keeps_its_sentence_and_returns_its_status(void **state)
{
    (void)state;
    struct mr_error err;
    assert_int_equal(mr_fail(&err, MR_MALFORMED, "byte %d of %s", 7, "header"), MR_MALFORMED);
    assert_int_equal(err.status, MR_MALFORMED);
    assert_string_equal(err.detail, "byte 7 of header");
    assert_int_equal(mr_fail(NULL, MR_FULL, "nobody asks"), MR_FULL);
}

static void a_long_sentence_is_cut_and_ended(void **state)
{
    (void)state;
    struct mr_error err;
    memset(&err, 'x', sizeof err);
    mr_fail(&err, MR_INTERNAL, "%0*d", 2 * MR_ERROR_DETAIL_BYTES, 1);
    assert_int_equal(strlen(err.detail), MR_ERROR_DETAIL_BYTES - 1);
}

static void a_value_outside_the_list_is_asserted(void **state)
{
    (void)state;
    expect_assert_failure(mr_status_name(MR_STATUS_COUNT));
    expect_assert_failure(mr_status_class(MR_STATUS_COUNT));
    expect_assert_failure(mr_status_code(MR_STATUS_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_success_is_fine_and_has_no_code),
        cmocka_unit_test(every_code_of_the_contract_is_used_and_no_other),
        cmocka_unit_test(each_code_says_whether_sending_again_can_help),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(statuses_have_their_documented_class),
        cmocka_unit_test(a_failure_keeps_its_sentence_and_returns_its_status),
        cmocka_unit_test(a_long_sentence_is_cut_and_ended),
        cmocka_unit_test(a_value_outside_the_list_is_asserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
