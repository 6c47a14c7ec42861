#include "records.h"

#include "codec/records/foreign_fields.h"

#include <stdio.h>

/* The outcome of {"prompt":"x","<field>":<value>}; strict: on a strict topic. */
static struct decoded with(const char *field, const char *value, bool strict)
{
    char json[256];
    struct mr_request_context context = test_context();
    context.strict = strict;
    snprintf(json, sizeof json, "{\"prompt\":\"x\",\"%s\":%s}", field, value);
    status_of_both(json, &context);
    return decode_with(text_of(json), &context);
}

static void assert_outcome(const char *field, const char *value, enum mr_status status,
                           size_t warnings)
{
    struct decoded got = with(field, value, false);
    if (got.status != status) fail_msg("%s %s: %s", field, value, mr_status_name(got.status));
    if (status != MR_OK) assert_non_null(strstr(got.err.detail, field));
    if (got.request && got.request->warning_count != warnings)
        fail_msg("%s %s: %zu warnings", field, value, got.request->warning_count);
    if (warnings > 0) {
        struct mr_text warning = got.request->warnings[0];
        assert_true(warning.length > strlen(field));
        assert_memory_equal(warning.bytes, field, strlen(field));
    }
    mr_request_destroy(got.request);
}

static void a_field_without_effect_is_named_in_the_warnings(void **state)
{
    (void)state;
    assert_outcome("user", "\"u-1\"", MR_OK, 1);
    assert_outcome("service_tier", "\"flex\"", MR_OK, 1);
    assert_outcome("store", "true", MR_OK, 1);
    assert_outcome("length_penalty", "1.5", MR_OK, 1);
    assert_outcome("mm_processor_kwargs", "{\"a\":1}", MR_OK, 1);
    assert_outcome("stream_options", "{\"continuous_usage_stats\":true}", MR_OK, 1);
}

static void a_strict_topic_rejects_what_others_warn_of(void **state)
{
    (void)state;
    struct decoded got = with("user", "\"u-1\"", true);
    assert_int_equal(got.status, MR_UNSUPPORTED);
    assert_non_null(strstr(got.err.detail, "user"));
    got = with("stream_options", "{\"continuous_usage_stats\":true}", true);
    assert_int_equal(got.status, MR_UNSUPPORTED);
    got = with("never_heard_of", "1", true);
    assert_int_equal(got.status, MR_UNKNOWN_FIELD);
    got = with("store", "false", true);
    assert_int_equal(got.status, MR_OK);
    mr_request_destroy(got.request);
}

static void neutral_values_are_accepted(void **state)
{
    (void)state;
    static const char *const neutral[][2] = {
        {"store", "false"},
        {"service_tier", "\"default\""},
        {"length_penalty", "1.0"},
        {"length_penalty", "1"},
        {"suffix", "\"\""},
        {"modalities", "[\"text\"]"},
        {"functions", "[]"},
        {"vllm_xargs", "{}"},
        {"return_token_ids", "true"},
        {"return_token_ids", "false"},
        {"use_beam_search", "false"},
        {"thinking_token_budget", "-1"},
        {"user", "null"},
        {"spaces_between_special_tokens", "true"},
    };
    for (size_t i = 0; i < sizeof neutral / sizeof neutral[0]; i++)
        assert_outcome(neutral[i][0], neutral[i][1], MR_OK, 0);
}

static void a_field_that_would_change_the_answer_is_refused_by_name(void **state)
{
    (void)state;
    assert_outcome("suffix", "\"end\"", MR_UNSUPPORTED, 0);
    assert_outcome("spaces_between_special_tokens", "false", MR_UNSUPPORTED, 0);
    assert_outcome("modalities", "[\"text\",\"audio\"]", MR_UNSUPPORTED, 0);
    assert_outcome("modalities", "[\"audio\"]", MR_UNSUPPORTED, 0);
    assert_outcome("logprob_token_ids", "[5]", MR_UNSUPPORTED, 0);
    assert_outcome("use_beam_search", "true", MR_UNSUPPORTED, 0);
}

static void an_unknown_field_is_counted_and_warned_of(void **state)
{
    (void)state;
    struct decoded got = with("never_heard_of", "1", false);
    assert_int_equal(got.request->unknown_fields, 1);
    assert_int_equal(got.request->warning_count, 1);
    assert_true(mr_text_is(got.request->warnings[0], "unknown field never_heard_of has no effect"));
    mr_request_destroy(got.request);
    assert_null(mr_foreign_field_find(text_of("never_heard_of")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_without_effect_is_named_in_the_warnings),
        cmocka_unit_test(a_strict_topic_rejects_what_others_warn_of),
        cmocka_unit_test(neutral_values_are_accepted),
        cmocka_unit_test(a_field_that_would_change_the_answer_is_refused_by_name),
        cmocka_unit_test(an_unknown_field_is_counted_and_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
