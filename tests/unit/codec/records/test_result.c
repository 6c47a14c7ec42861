#include "answers.h"

#include <math.h>

/* Asserts the JSON text of a record. */
static void result_is(const struct mr_result *result, const char *expected)
{
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    assert_int_equal(mr_result_encode(result, MR_ENCODING_JSON, &bytes, &length, &err), MR_OK);
    assert_string_equal((char *)bytes, expected);
    assert_int_equal(length, strlen(expected));
    free(bytes);
}

#define FIGURES                                                                                    \
    "\"timings_ms\":{\"queue\":1.25,\"prefill\":10,\"first_token\":12.5,\"total\":99.063,"         \
    "\"itl_mean\":9.5,\"itl_max\":20},\"prefill_chunks\":2,\"preemptions\":1,"                     \
    "\"recomputed_tokens\":7,"
#define PLACE                                                                                      \
    "\"worker\":\"w-1\",\"source\":{\"topic\":\"millrace.requests\",\"partition\":3,\"offset\":"   \
    "41}"

static void a_plain_result_has_exactly_the_documented_fields(void **state)
{
    (void)state;
    struct mr_choice choice = answer_choice();
    struct mr_result result = answer_result(&choice, 1);
    result_is(
        &result,
        "{\"id\":\"id-1\",\"attempt\":1,\"model\":\"m\",\"finish_reason\":\"eos\","
        "\"stopped_by\":\"eos\",\"stop_reason\":null,\"text\":\"hello\",\"token_ids\":[10,11,12],"
        "\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":4,"
        "\"total_tokens\":24,\"cached_tokens\":5,\"cached_tokens_redis\":2,\"accepted_draft_"
        "tokens\":3}," FIGURES PLACE "}");
}

static void two_or_more_choices_are_listed_and_usage_sums_them(void **state)
{
    (void)state;
    struct mr_choice choices[2] = {answer_choice(), answer_choice()};
    choices[0].finish = MR_FINISH_STOP_STRING;
    choices[0].stop_text = text_of("END");
    choices[1].finish = MR_FINISH_STOP_TOKEN;
    choices[1].stop_token = 7;
    choices[1].token_count = 0;
    choices[1].text = text_of("");
    struct mr_result result = answer_result(choices, 2);
    result_is(
        &result,
        "{\"id\":\"id-1\",\"attempt\":1,\"model\":\"m\",\"finish_reason\":\"stop_string\","
        "\"stopped_by\":\"eos\",\"stop_reason\":\"END\",\"text\":\"hello\",\"token_ids\":[10,"
        "11,12],"
        "\"choices\":[{\"choice\":0,\"finish_reason\":\"stop_string\",\"stopped_by\":\"eos\","
        "\"stop_reason\":\"END\","
        "\"text\":\"hello\",\"token_ids\":[10,11,12],\"completion_tokens\":4},"
        "{\"choice\":1,\"finish_reason\":\"stop_token\",\"stopped_by\":\"eos\",\"stop_"
        "reason\":7,\"text\":\"\","
        "\"token_ids\":[],\"completion_tokens\":4}],"
        "\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":8,\"total_tokens\":28,"
        "\"cached_tokens\":5,\"cached_tokens_redis\":2,\"accepted_draft_tokens\":3}," FIGURES PLACE
        "}");
}

static void error_warnings_and_metadata_are_written_only_when_set(void **state)
{
    (void)state;
    struct mr_choice choice = {.finish = MR_FINISH_REJECTED, .stop_token = MR_TOKEN_NONE};
    struct mr_result result = answer_result(&choice, 1);
    result.error = MR_PROMPT_TOO_LONG;
    result.error_message = "9000 tokens";
    result.metadata = text_of("{\"k\": 1.50}");
    const struct mr_text warning = text_of("user is not supported");
    result.warnings = &warning;
    result.warning_count = 1;
    result_is(
        &result,
        "{\"id\":\"id-1\",\"attempt\":1,\"model\":\"m\","
        "\"finish_reason\":\"rejected\",\"stopped_by\":null,\"stop_reason\":null,\"text\":\"\","
        "\"token_ids\":[],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":0,"
        "\"total_tokens\":20,\"cached_tokens\":5,\"cached_tokens_redis\":2,\"accepted_draft_"
        "tokens\":3}," FIGURES
        "\"error\":{\"code\":\"prompt_too_long\",\"message\":\"9000 tokens\","
        "\"retryable\":false}," PLACE
        ",\"warnings\":[\"user is not supported\"],\"metadata\":{\"k\": 1.50}}");
}

static void the_first_token_of_a_prompt_has_no_log_probability(void **state)
{
    (void)state;
    struct mr_choice choice = answer_choice();
    struct mr_result result = answer_result(&choice, 1);
    result.prompt_logprobs = answer_logprobs;
    result.prompt_logprob_count = 3;
    result_is(
        &result,
        "{\"id\":\"id-1\",\"attempt\":1,\"model\":\"m\",\"finish_reason\":\"eos\","
        "\"stopped_by\":\"eos\",\"stop_reason\":null,\"text\":\"hello\",\"token_ids\":[10,11,12],"
        "\"prompt_logprobs\":[null,{\"token_id\":11,\"text\":\"b\",\"logprob\":-1.5,\"bytes\":[98],"
        "\"top\":["
        "{\"token_id\":10,\"text\":\" a\",\"logprob\":-0.25,\"bytes\":[32,97]}]},"
        "{\"token_id\":12,\"text\":\"\",\"logprob\":-2,\"bytes\":[],\"top\":[]}],"
        "\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":4,"
        "\"total_tokens\":24,\"cached_tokens\":5,\"cached_tokens_redis\":2,\"accepted_draft_"
        "tokens\":3}," FIGURES PLACE "}");
}

static void a_continuation_has_the_sum_of_its_tokens(void **state)
{
    (void)state;
    const struct mr_logprobs impossible = {{5, -INFINITY, {"x", 1}, {NULL, 0}}, NULL, 0};
    const struct mr_score scores[2] = {{answer_logprobs + 1, 2}, {&impossible, 1}};
    struct mr_choice choice = {.finish = MR_FINISH_LENGTH, .stop_token = MR_TOKEN_NONE};
    struct mr_result result = answer_result(&choice, 1);
    result.scores = scores;
    result.score_count = 2;
    result_is(&result,
              "{\"id\":\"id-1\",\"attempt\":1,\"model\":\"m\",\"finish_reason\":\"length\","
              "\"stopped_by\":null,\"stop_reason\":null,\"text\":\"\",\"token_ids\":[],"
              "\"scores\":[{\"logprob\":-3.5,\"logprobs\":[{\"token_id\":11,\"text\":\"b\","
              "\"logprob\":-1.5,\"bytes\":[98],"
              "\"top\":[{\"token_id\":10,\"text\":\" a\",\"logprob\":-0.25,\"bytes\":[32,97]}]},"
              "{\"token_id\":12,\"text\":\"\",\"logprob\":-2,\"bytes\":[],\"top\":[]}]},"
              "{\"logprob\":-9999,\"logprobs\":[{\"token_id\":5,\"text\":\"x\",\"logprob\":-9999,"
              "\"bytes\":[120],"
              "\"top\":[]}]}],"
              "\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":0,"
              "\"total_tokens\":20,\"cached_tokens\":5,\"cached_tokens_redis\":2,\"accepted_draft_"
              "tokens\":3}," FIGURES PLACE "}");
}

static void a_vector_is_an_array_or_base64(void **state)
{
    (void)state;
    static const float vector[3] = {0.5f, -1, 2};
    static const char *const expected[] = {"\"embedding\":[0.5,-1,2],",
                                           "\"embedding\":\"AAAAPwAAgL8AAABA\","};
    struct mr_choice choice = {.finish = MR_FINISH_LENGTH, .stop_token = MR_TOKEN_NONE};
    struct mr_result result = answer_result(&choice, 1);
    result.embedding = vector;
    result.embedding_size = 3;
    for (int base64 = 0; base64 < 2; base64++) {
        unsigned char *bytes;
        size_t length;
        result.embedding_base64 = base64;
        assert_int_equal(mr_result_encode(&result, MR_ENCODING_JSON, &bytes, &length, NULL), MR_OK);
        assert_non_null(strstr((char *)bytes, expected[base64]));
        free(bytes);
    }
}

static void times_that_no_number_can_express_are_written_as_zero(void **state)
{
    (void)state;
    static const double times[] = {INFINITY, -INFINITY, NAN, 1e308, -1e308};
    struct mr_choice choice = answer_choice();
    struct mr_result result = answer_result(&choice, 1);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        unsigned char *bytes;
        size_t length;
        result.first_token_ms = times[i];
        assert_int_equal(mr_result_encode(&result, MR_ENCODING_JSON, &bytes, &length, NULL), MR_OK);
        assert_non_null(strstr((char *)bytes, "\"first_token\":0,"));
        free(bytes);
    }
}

static void token_records_have_the_fields_of_the_contract(void **state)
{
    (void)state;
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    struct mr_token_record record = {.id = {"i", 1},
                                     .attempt = 2,
                                     .index = 5,
                                     .resumed_at = -1,
                                     .token_ids = answer_ids,
                                     .token_count = 2,
                                     .text = {" a\n", 3}};
    assert_int_equal(mr_token_record_encode(&record, MR_ENCODING_JSON, &bytes, &length, &err),
                     MR_OK);
    assert_string_equal((char *)bytes, "{\"id\":\"i\",\"attempt\":2,\"choice\":0,\"index\":5,"
                                       "\"token_ids\":[10,11],\"text\":\" a\\n\"}");
    free(bytes);
    record.resumed_at = 5;
    record.logprobs = answer_logprobs;
    assert_int_equal(mr_token_record_encode(&record, MR_ENCODING_JSON, &bytes, &length, &err),
                     MR_OK);
    assert_string_equal(
        (char *)bytes,
        "{\"id\":\"i\",\"attempt\":2,\"resumed_at\":5,\"choice\":0,\"index\":5,"
        "\"token_ids\":[10,11],\"text\":\" a\\n\",\"logprobs\":[{\"token_id\":10,\"text\":\" a\","
        "\"logprob\":-0.25,\"bytes\":[32,97],\"top\":[{\"token_id\":10,\"text\":\" "
        "a\",\"logprob\":-0.25,\"bytes\":[32,97]},"
        "{\"token_id\":99,\"text\":\" "
        "b\",\"logprob\":-3.5,\"bytes\":[226,130]}]},{\"token_id\":11,\"text\":\"b\","
        "\"logprob\":-1.5,\"bytes\":[98],\"top\":[{\"token_id\":10,\"text\":\" "
        "a\",\"logprob\":-0.25,\"bytes\":[32,97]}]}]}");
    free(bytes);
}

static void a_logprob_of_minus_infinity_is_written_as_a_finite_number(void **state)
{
    (void)state;
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    struct mr_logprobs logprobs = {{1, -INFINITY, {"x", 1}, {NULL, 0}}, NULL, 0};
    struct mr_token_record record = {
        .resumed_at = -1, .token_ids = answer_ids, .token_count = 1, .logprobs = &logprobs};
    assert_int_equal(mr_token_record_encode(&record, MR_ENCODING_JSON, &bytes, &length, &err),
                     MR_OK);
    assert_non_null(strstr((char *)bytes, "\"logprob\":-9999,"));
    free(bytes);
}

static void every_finish_has_its_text(void **state)
{
    (void)state;
    assert_string_equal(mr_finish_text(MR_FINISH_CONTEXT_FULL), "context_full");
    assert_string_equal(mr_finish_text(MR_FINISH_ERROR), "error");
    expect_assert_failure(mr_finish_text(MR_FINISH_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_result_has_exactly_the_documented_fields),
        cmocka_unit_test(two_or_more_choices_are_listed_and_usage_sums_them),
        cmocka_unit_test(error_warnings_and_metadata_are_written_only_when_set),
        cmocka_unit_test(the_first_token_of_a_prompt_has_no_log_probability),
        cmocka_unit_test(a_continuation_has_the_sum_of_its_tokens),
        cmocka_unit_test(a_vector_is_an_array_or_base64),
        cmocka_unit_test(times_that_no_number_can_express_are_written_as_zero),
        cmocka_unit_test(token_records_have_the_fields_of_the_contract),
        cmocka_unit_test(a_logprob_of_minus_infinity_is_written_as_a_finite_number),
        cmocka_unit_test(every_finish_has_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
