#include "worker/intake/decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW_MS ((int64_t)1763740000000)

static const struct mr_decode_options options = {
    .default_max_tokens = 16, .record_bytes_max = 4096, .now_ms = NOW_MS};

static enum mr_status decode(struct mr_decoded *decoded, const struct mr_envelope *envelope,
                             const char *value, struct mr_error *err)
{
    const struct mr_kafka_record record = {.topic = "r",
                                           .partition = 2,
                                           .offset = 7,
                                           .timestamp_ms = NOW_MS,
                                           .value = {value, strlen(value)}};
    return mr_decode_record(decoded, envelope, &record, &options, err);
}

static void the_earlier_deadline_of_header_and_field_counts(void **state)
{
    (void)state;
    static const struct {
        int64_t header_ms;
        const char *value;
        int64_t want_ms;
    } cases[] = {{0, "{\"prompt\":\"x\"}", 0},
                 {NOW_MS + 5, "{\"prompt\":\"x\"}", NOW_MS + 5},
                 {0, "{\"prompt\":\"x\",\"timeout_ms\":9}", NOW_MS + 9},
                 {NOW_MS + 5, "{\"prompt\":\"x\",\"timeout_ms\":9}", NOW_MS + 5},
                 {NOW_MS + 9, "{\"prompt\":\"x\",\"timeout_ms\":5}", NOW_MS + 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mr_envelope envelope = {.deadline_ms = cases[i].header_ms};
        struct mr_decoded decoded;
        assert_int_equal(decode(&decoded, &envelope, cases[i].value, NULL), MR_OK);
        assert_int_equal(decoded.deadline_ms, cases[i].want_ms);
        mr_request_destroy(decoded.request);
    }
}

static void a_request_without_an_id_gets_one_from_its_place(void **state)
{
    (void)state;
    struct mr_decoded decoded;
    assert_int_equal(decode(&decoded, &(struct mr_envelope){0}, "{\"prompt\":\"x\"}", NULL), MR_OK);
    assert_string_equal(decoded.address.id, "r/2/7");
    mr_request_destroy(decoded.request);
}

static void too_much_to_echo_is_rejected_with_the_header_s_name(void **state)
{
    (void)state;
    const struct mr_envelope envelope = {.oversized = "baggage"};
    struct mr_decoded decoded;
    struct mr_error err = {0};
    assert_int_equal(decode(&decoded, &envelope, "{\"id\":\"a\",\"prompt\":\"x\"}", &err),
                     MR_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "baggage"));
    assert_null(decoded.request);
    assert_string_equal(decoded.address.id, "a"); /* it can be answered */
    assert_true(decoded.address.id_readable);
    assert_int_equal(decode(&decoded, &envelope, "{", &err), MR_MALFORMED);
    assert_null(strstr(err.detail, "baggage"));
}

static void a_header_that_cannot_be_read_is_refused_like_a_field(void **state)
{
    (void)state;
    const struct mr_envelope envelope = {.bad = "millrace-deadline", .wanted = "a number"};
    struct mr_decoded decoded;
    struct mr_error err = {0};
    assert_int_equal(decode(&decoded, &envelope, "{\"id\":\"a\",\"prompt\":\"x\"}", &err),
                     MR_INVALID_REQUEST);
    assert_string_equal(err.detail, "header millrace-deadline: must be a number");
    assert_null(decoded.request);
    assert_string_equal(decoded.address.id, "a");
}

static void a_deadline_header_is_limited_like_the_field(void **state)
{
    (void)state;
    static const int64_t day_ms = 86400000;
    struct mr_decoded decoded;
    struct mr_error err = {0};
    struct mr_envelope envelope = {.deadline_ms = NOW_MS + day_ms};
    assert_int_equal(decode(&decoded, &envelope, "{\"prompt\":\"x\"}", &err), MR_OK);
    mr_request_destroy(decoded.request);
    for (int i = 0; i < 2; i++) {
        envelope.deadline_ms = i == 0 ? NOW_MS + day_ms + 1 : INT64_MAX;
        assert_int_equal(decode(&decoded, &envelope, "{\"prompt\":\"x\"}", &err),
                         MR_INVALID_REQUEST);
        assert_non_null(strstr(err.detail, "millrace-deadline"));
    }
}

/* The id used in the answer to a record that cannot be decoded. */
static void assert_answered_as(const char *content_type, const char *value, enum mr_status why,
                               const char *id)
{
    struct mr_envelope envelope = {0};
    struct mr_decoded decoded;
    if (content_type) envelope.content_type = (struct mr_text){content_type, strlen(content_type)};
    assert_int_equal(decode(&decoded, &envelope, value, NULL), why);
    assert_string_equal(decoded.address.id, id);
    assert_true(decoded.address.id_readable);
}

static void an_id_in_front_of_an_error_is_read(void **state)
{
    (void)state;
    static const char event[] = "application/cloudevents+json";
    static char large[5000];
    memset(large, 'x', sizeof large - 1);
    memcpy(large, "{\"id\":\"a\",\"prompt\":\"", 20);
    assert_answered_as(NULL, "{\"id\":\"a\",\"prompt\":\"x\",\"seed\":}", MR_MALFORMED, "a");
    assert_answered_as("text/plain", "{\"id\":\"a\"}", MR_UNSUPPORTED_ENCODING, "a");
    assert_answered_as("text/plain",
                       "\x81\xa2id\xa1"
                       "a",
                       MR_UNSUPPORTED_ENCODING, "a");
    assert_answered_as(NULL, large, MR_RECORD_TOO_LARGE, "a");
    assert_answered_as(event,
                       "{\"specversion\":\"1.0\",\"id\":\"e\",\"data\":{\"id\":\"a\",\"seed\":}}",
                       MR_MALFORMED, "a");
    assert_answered_as(event, "{\"specversion\":\"1.0\",\"id\":\"e\",\"data\":{\"prompt\":\"x",
                       MR_MALFORMED, "e");
}

static void a_passed_deadline_header_leaves_the_value_undecoded(void **state)
{
    (void)state;
    const struct mr_envelope envelope = {.deadline_ms = NOW_MS};
    struct mr_decoded decoded;
    assert_int_equal(decode(&decoded, &envelope, "{\"id\":\"a\",\"prompt\":7}", NULL),
                     MR_DEADLINE_EXCEEDED);
    assert_string_equal(decoded.address.id, "a");
    assert_null(decoded.request);
}

static void records_that_are_no_requests_are_dead_letters(void **state)
{
    (void)state;
    static const enum mr_status dead[] = {MR_MALFORMED,        MR_UNSUPPORTED_ENCODING,
                                          MR_RECORD_TOO_LARGE, MR_INVALID_REQUEST,
                                          MR_UNKNOWN_FIELD,    MR_POISON};
    for (size_t i = 0; i < sizeof dead / sizeof dead[0]; i++)
        assert_true(mr_decode_is_dead_letter(dead[i]));
    assert_false(mr_decode_is_dead_letter(MR_EMPTY_PROMPT));
    assert_false(mr_decode_is_dead_letter(MR_DEADLINE_EXCEEDED));
    assert_false(mr_decode_is_dead_letter(MR_NOMEM));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earlier_deadline_of_header_and_field_counts),
        cmocka_unit_test(a_request_without_an_id_gets_one_from_its_place),
        cmocka_unit_test(too_much_to_echo_is_rejected_with_the_header_s_name),
        cmocka_unit_test(a_header_that_cannot_be_read_is_refused_like_a_field),
        cmocka_unit_test(a_deadline_header_is_limited_like_the_field),
        cmocka_unit_test(an_id_in_front_of_an_error_is_read),
        cmocka_unit_test(a_passed_deadline_header_leaves_the_value_undecoded),
        cmocka_unit_test(records_that_are_no_requests_are_dead_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
