#include "records.h"

#include "codec/records/request_fields.h"

#include <stdio.h>

/* Decodes {"prompt":"x", <members>} in both encodings. */
static enum mr_status with(const char *members)
{
    static char json[1 << 17];
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json, "{\"prompt\":\"x\",%s}", members);
    return status_of_both(json, &context);
}

struct range {
    const char *name;
    const char *inside[2];  /* the first and last value allowed */
    const char *outside[3]; /* values just out of range, and one of another type */
};

static const struct range ranges[] = {
    {"max_tokens", {"1.0", "2147483647"}, {"0", "2147483648", "1.5"}},
    {"max_completion_tokens", {"1", "2147483647"}, {"0", "-1", "\"5\""}},
    {"max_new_tokens", {"1", "2147483647"}, {"0", "2147483648", "[5]"}},
    {"min_tokens", {"0", "256"}, {"-1", "257", "true"}},
    {"ignore_eos", {"true", "false"}, {"1", "0", "\"true\""}},
    {"include_stop_str_in_output", {"true", "false"}, {"1", "0", "{}"}},
    {"stream", {"true", "false"}, {"1", "0", "\"no\""}},
    {"speculate", {"true", "false"}, {"1", "0", "\"off\""}},
    {"temperature", {"0", "100.0"}, {"-0.001", "100.1", "\"1\""}},
    {"top_k", {"-1", "2147483647"}, {"-2", "2147483648", "2.5"}},
    {"top_p", {"0.000001", "1"}, {"0", "1.000001", "true"}},
    {"min_p", {"0", "1"}, {"-0.1", "1.1", "[]"}},
    {"typical_p", {"0.1", "1.0"}, {"0.0", "1.01", "{}"}},
    {"repetition_penalty", {"0.1", "100"}, {"0", "101", "\"a\""}},
    {"presence_penalty", {"-2", "2.0"}, {"-2.1", "2.1", "false"}},
    {"frequency_penalty", {"-2", "2.0"}, {"-2.1", "2.1", "false"}},
    {"seed", {"0", "-9223372036854775808"}, {"1.5", "\"7\"", "true"}},
    {"logprobs", {"0", "20"}, {"-1", "21", "1.5"}},
    {"logprobs", {"true", "false"}, {"\"5\"", "[]", "{}"}},
    {"max_chars", {"0", "2147483647"}, {"-1", "2147483648", "1.5"}},
    {"min_confidence", {"0", "1"}, {"-0.1", "1.1", "true"}},
    {"n", {"1", "8"}, {"0", "9", "2.5"}},
    {"priority", {"-100", "100"}, {"-101", "101", "1.5"}},
    {"priority", {"\"low\"", "\"urgent\""}, {"\"LOW\"", "\"\"", "[]"}},
    {"timeout_ms", {"1", "86400000"}, {"0", "86400001", "1.5"}},
    {"deadline_ms", {"1", "1750000000001"}, {"0", "1750086400001", "\"x\""}},
    {"model", {"\"m\"", "\"org/name\""}, {"\"\"", "5", "[]"}},
    {"session", {"\"s\"", "\"a b\""}, {"\"\"", "5", "{}"}},
    {"stop", {"\"a\"", "[]"}, {"\"\"", "[\"\"]", "[5]"}},
    {"bad_words", {"[\"a\"]", "[]"}, {"[\"\"]", "5", "[[]]"}},
    {"cache", {"{}", "{\"read\":false,\"write\":true}"}, {"true", "{\"read\":1}", "{\"write\":0}"}},
    {"logit_bias", {"{\"0\":-100}", "{\"7\":100.0}"}, {"{\"7\":100.1}", "{\"7\":\"1\"}", "[]"}},
    {"stop_token_ids", {"[]", "[0,4294967294]"}, {"5", "[1.5]", "[\"1\"]"}},
    {"allowed_token_ids", {"[1]", "[1,2]"}, {"[]", "[true]", "{}"}},
    {"response_format",
     {"{\"type\":\"text\"}", "{\"type\":\"text\",\"a\":1}"},
     {"{}", "{\"type\":\"xml\"}", "\"text\""}},
    {"truncate_prompt_tokens", {"-1", "1.0"}, {"0", "-2", "true"}},
    {"truncation_side", {"\"left\"", "\"right\""}, {"\"\"", "\"middle\"", "1"}},
    {"add_special_tokens", {"true", "false"}, {"1", "\"\"", "[]"}},
    {"skip_special_tokens", {"true", "false"}, {"1", "\"\"", "[]"}},
    {"echo", {"true", "false"}, {"1", "\"\"", "[]"}},
    {"thinking_token_budget", {"-1", "0"}, {"-2", "1.5", "true"}},
    {"top_logprobs", {"0", "0.0"}, {"-1", "21", "true"}},
    {"prompt_logprobs", {"0", "20.0"}, {"-1", "21", "true"}},
    {"best_of", {"1", "1.0"}, {"0", "1.5", "true"}},
    {"task", {"\"generate\"", "\"embed\""}, {"\"\"", "\"rank\"", "1"}},
    {"cache_salt", {"\"s\"", "\"a b\""}, {"\"\"", "5", "{}"}},
    {"session_id", {"\"s\"", "\"a b\""}, {"\"\"", "5", "{}"}},
    {"stream_options", {"{}", "{\"include_usage\":true}"}, {"true", "{\"include_usage\":1}", "[]"}},
    {"metadata", {"5", "{\"a\":[1,{\"b\":null}]}"}, {NULL, NULL, NULL}},
};

static void every_field_has_its_type_and_range(void **state)
{
    (void)state;
    char member[256];
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        for (size_t k = 0; k < 2; k++) {
            snprintf(member, sizeof member, "\"%s\":%s", ranges[i].name, ranges[i].inside[k]);
            if (with(member) != MR_OK) fail_msg("%s was refused", member);
        }
        for (size_t k = 0; k < 3 && ranges[i].outside[k]; k++) {
            snprintf(member, sizeof member, "\"%s\":%s", ranges[i].name, ranges[i].outside[k]);
            if (with(member) != MR_INVALID_REQUEST) fail_msg("%s was not refused", member);
        }
        snprintf(member, sizeof member, "\"%s\":null", ranges[i].name);
        assert_int_equal(with(member), MR_OK);
    }
}

static void a_request_replaces_the_limit_on_reasoning_of_its_topic(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        uint32_t of_topic, tokens;
        bool given;
    } cases[] = {
        {"{\"prompt\":\"a\"}", 0, 0, false},
        {"{\"prompt\":\"a\"}", 7, 7, true},
        {"{\"prompt\":\"a\",\"thinking_token_budget\":0}", 7, 0, true},
        {"{\"prompt\":\"a\",\"thinking_token_budget\":-1}", 7, 7, false},
        {"{\"prompt\":\"a\",\"thinking_token_budget\":9}", 0, 9, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_request_context context = test_context();
        context.default_thinking_tokens = cases[i].of_topic;
        struct decoded got = decode_with(text_of(cases[i].record), &context);
        assert_int_equal(got.status, MR_OK);
        assert_int_equal(got.request->thinking.given, cases[i].given);
        assert_int_equal(got.request->thinking.tokens, cases[i].tokens);
        mr_request_destroy(got.request);
    }
}

static void values_are_stored_in_the_right_fields(void **state)
{
    (void)state;
    struct decoded got = decode(text_of(
        "{\"prompt_token_ids\":[5,6,7],\"max_new_tokens\":9,\"min_tokens\":2,\"temperature\":0.5,"
        "\"top_k\":-1,\"top_p\":0.25,\"min_p\":0.125,\"typical_p\":0.75,\"repetition_penalty\":1.5,"
        "\"presence_penalty\":-1,\"frequency_penalty\":2,\"seed\":11,\"stop\":\"END\","
        "\"stop_token_ids\":[3],\"logit_bias\":{\"17\":-2.5,\"4\":1},\"allowed_token_ids\":[8,9],"
        "\"bad_words\":[\"no\",\"way\"],\"logprobs\":3,\"max_chars\":100,\"min_confidence\":0.5,"
        "\"n\":2,\"priority\":\"high\",\"stream\":false,\"session\":\"s-1\","
        "\"cache\":{\"write\":false},\"speculate\":false,\"ignore_eos\":true,\"include_stop_str_"
        "in_output\":true}"));
    assert_int_equal(got.status, MR_OK);
    const struct mr_request *request = got.request;
    const struct mr_sampling *sampling = &request->sampling;
    assert_true(request->has_token_ids && request->token_count == 3 && request->token_ids[2] == 7);
    assert_true(request->max_tokens == 9 && request->min_tokens == 2);
    assert_true(sampling->temperature == 0.5f && sampling->top_k == 0);
    assert_true(sampling->top_p == 0.25f && sampling->min_p == 0.125f);
    assert_true(sampling->typical_p == 0.75f && sampling->repetition_penalty == 1.5f);
    assert_true(sampling->presence_penalty == -1.0f && sampling->frequency_penalty == 2.0f);
    assert_true(sampling->has_seed && sampling->seed == 11);
    assert_true(request->stop_count == 1 && mr_text_is(request->stops[0], "END"));
    assert_true(request->stop_token_count == 1 && request->stop_token_ids[0] == 3);
    assert_int_equal(sampling->logit_bias_count, 2);
    assert_true(sampling->logit_bias[0].token_id == 17 && sampling->logit_bias[0].bias == -2.5f);
    assert_true(sampling->allowed_token_count == 2 && sampling->allowed_token_ids[1] == 9);
    assert_true(sampling->bad_word_count == 2 && mr_text_is(sampling->bad_words[1], "way"));
    assert_int_equal(sampling->logprobs, 3);
    assert_true(request->max_chars == 100 && request->min_confidence == 0.5f);
    assert_true(request->choice_count == 2 && request->priority == 10 && !request->stream);
    assert_true(mr_text_is(request->session, "s-1"));
    assert_true(request->cache_read && !request->cache_write && !request->speculate);
    assert_true(request->ignore_eos && request->include_stop);
    mr_request_destroy(got.request);
}

/* "name":"aaa..." */
static const char *long_text(const char *name, size_t length)
{
    static char text[1 << 13];
    int head = snprintf(text, sizeof text, "\"%s\":\"", name);
    memset(text + head, 'a', length);
    snprintf(text + head + length, sizeof text - (size_t)head - length, "\"");
    return text;
}

static void text_limits_are_exact(void **state)
{
    (void)state;
    assert_int_equal(with(long_text("stop", MR_STOP_BYTES_MAX)), MR_OK);
    assert_int_equal(with(long_text("stop", MR_STOP_BYTES_MAX + 1)), MR_INVALID_REQUEST);
    assert_int_equal(with(long_text("session", MR_SESSION_BYTES_MAX)), MR_OK);
    assert_int_equal(with(long_text("session", MR_SESSION_BYTES_MAX + 1)), MR_INVALID_REQUEST);
    assert_int_equal(with(long_text("model", MR_MODEL_NAME_BYTES_MAX)), MR_OK);
    assert_int_equal(with(long_text("model", MR_MODEL_NAME_BYTES_MAX + 1)), MR_INVALID_REQUEST);
    assert_int_equal(with(long_text("metadata", MR_METADATA_BYTES_MAX - 3)), MR_OK);
    assert_int_equal(with(long_text("metadata", MR_METADATA_BYTES_MAX)), MR_INVALID_REQUEST);
}

static void floats_must_be_finite(void **state)
{
    (void)state;
    static const char head[] = "\x82\xa6prompt\xa1x\xabtemperature\xcb";
    static const unsigned char values[3][8] = {{0x7f, 0xf8}, {0x7f, 0xf0}, {0xff, 0xf0}};
    for (size_t i = 0; i < 3; i++) {
        char record[sizeof head - 1 + 8];
        memcpy(record, head, sizeof head - 1);
        memcpy(record + sizeof head - 1, values[i], 8);
        struct decoded got = decode((struct mr_text){record, sizeof record});
        assert_int_equal(got.status, MR_INVALID_REQUEST);
    }
}

static void integers_above_63_bits_are_out_of_range(void **state)
{
    (void)state;
    static const char record[] = "\x82\xa6prompt\xa1x\xaamax_tokens\xcf\xff\xff\xff\xff\xff\xff"
                                 "\xff\xff";
    struct decoded got = decode((struct mr_text){record, sizeof record - 1});
    assert_int_equal(got.status, MR_INVALID_REQUEST);
}

static void top_logprobs_need_logprobs_true(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"prompt\":\"x\",\"logprobs\":true,\"top_logprobs\":4}"));
    assert_int_equal(got.request->sampling.logprobs, 4);
    mr_request_destroy(got.request);
    assert_int_equal(with("\"top_logprobs\":1"), MR_INVALID_REQUEST);
    assert_int_equal(with("\"top_logprobs\":1,\"logprobs\":false"), MR_INVALID_REQUEST);
    assert_int_equal(with("\"top_logprobs\":1,\"logprobs\":3"), MR_INVALID_REQUEST);
    assert_int_equal(with("\"top_logprobs\":0,\"logprobs\":false"), MR_OK);
}

static void prompt_logprobs_may_go_without_an_answer(void **state)
{
    (void)state;
    struct decoded got =
        decode(text_of("{\"prompt\":\"x\",\"prompt_logprobs\":3,\"max_tokens\":0}"));
    assert_int_equal(got.status, MR_OK);
    assert_true(got.request->scores_prompt && got.request->prompt_logprobs == 3);
    assert_int_equal(got.request->max_tokens, 0);
    mr_request_destroy(got.request);
    assert_int_equal(with("\"max_tokens\":0"), MR_INVALID_REQUEST);
    assert_int_equal(with("\"max_tokens\":0,\"prompt_logprobs\":0,\"n\":2"), MR_INVALID_REQUEST);
    assert_int_equal(with("\"max_tokens\":1,\"prompt_logprobs\":0,\"n\":2"), MR_OK);
}

static void echo_with_logprobs_asks_for_those_of_the_prompt(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        bool scores;
        uint32_t top;
    } cases[] = {{"\"echo\":true,\"logprobs\":4", true, 4},
                 {"\"echo\":true,\"logprobs\":true,\"max_tokens\":0", true, 0},
                 {"\"echo\":true,\"logprobs\":4,\"prompt_logprobs\":1", true, 1},
                 {"\"echo\":true", false, 0},
                 {"\"logprobs\":4", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[256];
        snprintf(json, sizeof json, "{\"prompt\":\"x\",%s}", cases[i].members);
        struct decoded got = decode(text_of(json));
        assert_int_equal(got.status, MR_OK);
        assert_int_equal(got.request->scores_prompt, cases[i].scores);
        assert_int_equal(got.request->prompt_logprobs, cases[i].top);
        mr_request_destroy(got.request);
    }
}

static void best_of_must_be_n(void **state)
{
    (void)state;
    assert_int_equal(with("\"best_of\":3,\"n\":3"), MR_OK);
    assert_int_equal(with("\"best_of\":3"), MR_UNSUPPORTED);
    assert_int_equal(with("\"best_of\":3,\"n\":2"), MR_UNSUPPORTED);
}

static void the_prompt_may_be_truncated_and_echoed(void **state)
{
    (void)state;
    struct decoded got = decode(
        text_of("{\"prompt\":\"x\",\"truncate_prompt_tokens\":-1,\"truncation_side\":\"right\","
                "\"add_special_tokens\":false,\"echo\":true,\"skip_special_tokens\":false,"
                "\"session_id\":\"s\"}"));
    assert_int_equal(got.status, MR_OK);
    const struct mr_prompt_rules *rules = &got.request->prompt_rules;
    assert_true(rules->tokens_max == UINT32_MAX && rules->keep_start);
    assert_true(rules->special_given && !rules->add_special);
    assert_true(got.request->echo && got.request->keep_special);
    assert_true(mr_text_is(got.request->session, "s"));
    mr_request_destroy(got.request);
    assert_int_equal(with("\"session\":\"a\",\"session_id\":\"a\""), MR_INVALID_REQUEST);
    assert_int_equal(with("\"reasoning_effort\":\"low\""), MR_INVALID_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_its_type_and_range),
        cmocka_unit_test(a_request_replaces_the_limit_on_reasoning_of_its_topic),
        cmocka_unit_test(values_are_stored_in_the_right_fields),
        cmocka_unit_test(text_limits_are_exact),
        cmocka_unit_test(floats_must_be_finite),
        cmocka_unit_test(integers_above_63_bits_are_out_of_range),
        cmocka_unit_test(top_logprobs_need_logprobs_true),
        cmocka_unit_test(prompt_logprobs_may_go_without_an_answer),
        cmocka_unit_test(echo_with_logprobs_asks_for_those_of_the_prompt),
        cmocka_unit_test(best_of_must_be_n),
        cmocka_unit_test(the_prompt_may_be_truncated_and_echoed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
