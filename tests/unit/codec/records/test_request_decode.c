#include "records.h"

#include <math.h>
#include <stdio.h>

static void defaults_are_those_of_the_contract(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"prompt\":\"hi\"}"));
    const struct mr_request *request = got.request;
    assert_int_equal(got.status, MR_OK);
    assert_true(mr_text_is(request->id, "millrace.requests/3/41"));
    assert_false(got.address.id_readable);
    assert_true(mr_text_is(request->prompt, "hi"));
    assert_null(request->model.bytes);
    assert_int_equal(request->max_tokens, 256);
    assert_int_equal(request->min_tokens, 0);
    assert_true(isnan(request->sampling.temperature));
    assert_int_equal(request->sampling.top_k, MR_TOP_K_UNSET);
    assert_true(isnan(request->sampling.top_p) && isnan(request->sampling.min_p));
    assert_true(isnan(request->sampling.typical_p));
    assert_true(isnan(request->sampling.repetition_penalty));
    assert_true(isnan(request->sampling.presence_penalty));
    assert_true(isnan(request->sampling.frequency_penalty));
    assert_int_equal(request->sampling.logprobs, -1);
    assert_false(request->sampling.has_seed);
    assert_false(request->ignore_eos || request->include_stop || request->has_token_ids);
    assert_true(request->stream && request->cache_read && request->cache_write);
    assert_true(request->speculate);
    assert_int_equal(request->choice_count, 1);
    assert_int_equal(request->priority, 0);
    assert_int_equal(request->deadline_ms, 0);
    assert_int_equal(request->max_chars, 0);
    assert_true(request->min_confidence == 0.0f);
    assert_int_equal(request->metadata.length, 0);
    assert_int_equal(request->unknown_fields, 0);
    assert_int_equal(request->encoding, MR_ENCODING_JSON);
    mr_request_destroy(got.request);
}

static void the_id_is_the_field_or_else_the_key_or_else_the_fallback(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    struct decoded got = decode_with(text_of("{\"prompt\":\"x\",\"id\":\"mine\"}"), &context);
    assert_string_equal(got.address.id, "mine");
    assert_true(got.address.id_readable);
    mr_request_destroy(got.request);
    context.key = text_of("the key");
    got = decode_with(text_of("{\"prompt\":\"x\",\"id\":null}"), &context);
    assert_string_equal(got.address.id, "the key");
    assert_true(got.address.id_readable);
    assert_true(mr_text_is(got.request->id, "the key"));
    mr_request_destroy(got.request);
    context.key = (struct mr_text){"\x00\x01", 2};
    got = decode_with(text_of("{\"prompt\":\"x\"}"), &context);
    assert_string_equal(got.address.id, "millrace.requests/3/41");
    assert_false(got.address.id_readable);
    mr_request_destroy(got.request);
}

static void an_event_id_has_precedence_over_the_key(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    context.key = text_of("the key");
    context.event_id = text_of("event-7");
    struct decoded got = decode_with(text_of("{\"prompt\":\"x\"}"), &context);
    assert_string_equal(got.address.id, "event-7");
    assert_true(got.address.id_readable);
    mr_request_destroy(got.request);
    got = decode_with(text_of("{\"prompt\":\"x\",\"id\":\"mine\"}"), &context);
    assert_string_equal(got.address.id, "mine");
    mr_request_destroy(got.request);
}

static void the_address_is_found_without_reading_other_fields(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    struct mr_reply_address address;
    assert_int_equal(
        mr_request_address(text_of("{\"prompt\":7,\"id\":\"mine\"}"), &context, &address, NULL),
        MR_OK);
    assert_string_equal(address.id, "mine");
    assert_int_equal(address.encoding, MR_ENCODING_JSON);
    context.key = text_of("the key");
    assert_int_equal(mr_request_address(text_of("{\"id\":"), &context, &address, NULL),
                     MR_MALFORMED);
    assert_string_equal(address.id, "the key");
}

static void a_rejected_record_keeps_its_own_id(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"max_tokens\":0,\"prompt\":\"x\",\"id\":\"late\"}"));
    assert_int_equal(got.status, MR_INVALID_REQUEST);
    assert_string_equal(got.address.id, "late");
    assert_true(got.address.id_readable);
}

static void a_bad_id_is_rejected_and_answered_under_the_key(void **state)
{
    (void)state;
    char json[300];
    struct mr_request_context context = test_context();
    context.key = text_of("k-1");
    static const char *const bad[] = {"\"\"", "\"\\u00e4\"", "\"a\\n\"", "7", "[]", "true"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(json, sizeof json, "{\"prompt\":\"x\",\"id\":%s}", bad[i]);
        assert_int_equal(status_of_both(json, &context), MR_INVALID_REQUEST);
        struct decoded got = decode_with(text_of(json), &context);
        assert_string_equal(got.address.id, "k-1");
        assert_true(got.address.id_readable);
    }
    snprintf(json, sizeof json, "{\"prompt\":\"x\",\"id\":\"%0128d\"}", 1);
    assert_int_equal(status_of_both(json, &context), MR_OK);
    snprintf(json, sizeof json, "{\"prompt\":\"x\",\"id\":\"%0129d\"}", 1);
    assert_int_equal(status_of_both(json, &context), MR_INVALID_REQUEST);
}

static void a_long_fallback_keeps_partition_and_offset(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    char place[300];
    snprintf(place, sizeof place, "%0249d/12/3456", 0);
    context.fallback_id = text_of(place);
    struct decoded got = decode_with(text_of("nonsense"), &context);
    assert_int_equal(strlen(got.address.id), MR_ID_BYTES_MAX);
    assert_string_equal(got.address.id + MR_ID_BYTES_MAX - 8, "/12/3456");
}

/* The engine derives the seed of a request without one from its id, in one place. */
static void a_seed_is_kept_and_none_is_made_up(void **state)
{
    (void)state;
    struct decoded none = decode(text_of("{\"prompt\":\"x\",\"id\":\"a\"}"));
    struct decoded given = decode(text_of("{\"prompt\":\"x\",\"id\":\"a\",\"seed\":-5}"));
    assert_true(none.request->sampling.seed == 0 && !none.request->sampling.has_seed);
    assert_true(given.request->sampling.seed == (uint64_t)-5 && given.request->sampling.has_seed);
    mr_request_destroy(none.request);
    mr_request_destroy(given.request);
}

static void the_answer_is_in_the_encoding_of_the_request(void **state)
{
    (void)state;
    struct mr_text msgpack = msgpack_of("{\"prompt\":\"x\"}");
    struct decoded got = decode(msgpack);
    assert_int_equal(got.address.encoding, MR_ENCODING_MSGPACK);
    assert_int_equal(got.request->encoding, MR_ENCODING_MSGPACK);
    mr_request_destroy(got.request);
    free((char *)msgpack.bytes);
    struct mr_request_context context = test_context();
    context.content_type = text_of("text/plain");
    got = decode_with(text_of("{\"prompt\":\"x\"}"), &context);
    assert_int_equal(got.status, MR_UNSUPPORTED_ENCODING);
    context.content_type = text_of("application/msgpack");
    got = decode_with(text_of("{\"prompt\":\"x\"}"), &context);
    assert_int_equal(got.status, MR_MALFORMED);
    assert_int_equal(got.address.encoding, MR_ENCODING_MSGPACK);
}

static void the_record_limit_is_exact(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    struct mr_text record = text_of("{\"prompt\":\"hello\"}");
    context.record_bytes_max = record.length;
    struct decoded got = decode_with(record, &context);
    assert_int_equal(got.status, MR_OK);
    mr_request_destroy(got.request);
    context.record_bytes_max = record.length - 1;
    assert_int_equal(decode_with(record, &context).status, MR_RECORD_TOO_LARGE);
}

static void exactly_one_prompt_is_needed(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    assert_int_equal(status_of_both("{\"id\":\"a\"}", &context), MR_INVALID_REQUEST);
    assert_int_equal(status_of_both("{\"prompt\":null}", &context), MR_INVALID_REQUEST);
    assert_int_equal(status_of_both("{\"prompt\":\"x\",\"prompt_token_ids\":[1]}", &context),
                     MR_INVALID_REQUEST);
    assert_int_equal(status_of_both("{\"prompt\":\"x\",\"messages\":null}", &context), MR_OK);
    assert_int_equal(status_of_both("{\"prompt\":\"\"}", &context), MR_EMPTY_PROMPT);
    assert_int_equal(status_of_both("{\"prompt_token_ids\":[]}", &context), MR_EMPTY_PROMPT);
    assert_int_equal(status_of_both("{\"messages\":[]}", &context), MR_EMPTY_PROMPT);
}

static void a_deadline_is_a_time_or_a_timeout(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    struct decoded got = decode(text_of("{\"prompt\":\"x\",\"timeout_ms\":2000}"));
    assert_true(got.request->deadline_ms == TEST_NOW_MS - 500 + 2000);
    mr_request_destroy(got.request);
    got = decode(text_of("{\"prompt\":\"x\",\"deadline_ms\":1750000086400}"));
    assert_true(got.request->deadline_ms == TEST_NOW_MS + 86400);
    mr_request_destroy(got.request);
    context.timestamp_ms = -1;
    got = decode_with(text_of("{\"prompt\":\"x\",\"timeout_ms\":2000}"), &context);
    assert_true(got.request->deadline_ms == TEST_NOW_MS + 2000);
    mr_request_destroy(got.request);
    assert_int_equal(status_of_both("{\"prompt\":\"x\",\"deadline_ms\":1750086400000}", &context),
                     MR_OK);
    assert_int_equal(status_of_both("{\"prompt\":\"x\",\"deadline_ms\":1750086400001}", &context),
                     MR_INVALID_REQUEST);
    assert_int_equal(
        status_of_both("{\"prompt\":\"x\",\"deadline_ms\":1750000086400,\"timeout_ms\":5}",
                       &context),
        MR_INVALID_REQUEST);
}

static void fields_are_checked_together(void **state)
{
    (void)state;
    struct mr_request_context context = test_context();
    assert_int_equal(status_of_both("{\"prompt\":\"x\",\"min_tokens\":300}", &context),
                     MR_INVALID_REQUEST);
    assert_int_equal(
        status_of_both("{\"min_tokens\":300,\"prompt\":\"x\",\"max_tokens\":300}", &context),
        MR_OK);
    assert_int_equal(
        status_of_both("{\"prompt\":\"x\",\"chat_template_kwargs\":{\"a\":1}}", &context),
        MR_INVALID_REQUEST);
    assert_int_equal(
        status_of_both("{\"prompt\":\"x\",\"max_tokens\":5,\"max_new_tokens\":5}", &context),
        MR_INVALID_REQUEST);
}

static void numbers_outside_of_64_bits_are_kept(void **state)
{
    (void)state;
    struct decoded got =
        decode(text_of("{\"prompt\":\"x\",\"unknown\":[18446744073709551615,1e400],\"metadata\":"
                       "{\"parcel\":1234567890123456789012}}"));
    assert_int_equal(got.status, MR_OK);
    assert_true(mr_text_is(got.request->metadata, "{\"parcel\":1234567890123456789012}"));
    mr_request_destroy(got.request);
    got = decode(text_of("{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":"
                         "{\"name\":\"f\",\"arguments\":\"{\\\"n\\\":1234567890123456789012}\"}}"
                         "]}],\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":{"
                         "\"properties\":{\"n\":{\"maximum\":18446744073709551615}}}}}],"
                         "\"tool_choice\":\"required\"}"));
    assert_int_equal(got.status, MR_OK);
    assert_non_null(strstr(got.request->constraint.text.bytes, "18446744073709551615"));
    const struct mr_data *calls = mr_data_get(got.request->chat.messages, "tool_calls");
    const struct mr_data *function = mr_data_get(calls->list.items, "function");
    const struct mr_data *n = mr_data_get(mr_data_get(function, "arguments"), "n");
    assert_int_equal(n->kind, MR_DATA_BIG);
    assert_true(mr_text_is(n->text, "1234567890123456789012"));
    mr_request_destroy(got.request);
}

static void metadata_is_kept_byte_for_byte(void **state)
{
    (void)state;
    struct decoded got =
        decode(text_of("{\"prompt\":\"x\",\"metadata\": {\"b\": 1.50, \"a\" :[ ] } }"));
    assert_true(mr_text_is(got.request->metadata, "{\"b\": 1.50, \"a\" :[ ] }"));
    mr_request_destroy(got.request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(the_id_is_the_field_or_else_the_key_or_else_the_fallback),
        cmocka_unit_test(an_event_id_has_precedence_over_the_key),
        cmocka_unit_test(the_address_is_found_without_reading_other_fields),
        cmocka_unit_test(a_rejected_record_keeps_its_own_id),
        cmocka_unit_test(a_bad_id_is_rejected_and_answered_under_the_key),
        cmocka_unit_test(a_long_fallback_keeps_partition_and_offset),
        cmocka_unit_test(a_seed_is_kept_and_none_is_made_up),
        cmocka_unit_test(the_answer_is_in_the_encoding_of_the_request),
        cmocka_unit_test(the_record_limit_is_exact),
        cmocka_unit_test(exactly_one_prompt_is_needed),
        cmocka_unit_test(a_deadline_is_a_time_or_a_timeout),
        cmocka_unit_test(fields_are_checked_together),
        cmocka_unit_test(numbers_outside_of_64_bits_are_kept),
        cmocka_unit_test(metadata_is_kept_byte_for_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
