#include "worker/intake/envelope.h"

#include "codec/text.h"
#include "worker/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_envelope envelope_of(const struct mr_kafka_header *headers, size_t count,
                                      const struct mr_text_list *allowed)
{
    const struct mr_kafka_record record = {.headers = headers, .header_count = count};
    struct mr_envelope envelope;
    mr_envelope_read(&envelope, &record, allowed);
    return envelope;
}

static const struct mr_text_list allowed = {{"replies", "team.*", ""}, 3};

static void headers_to_echo_are_found_and_others_are_not(void **state)
{
    (void)state;
    const struct mr_kafka_header headers[] = {{"kafka_correlationId", "corr\0elation", 12},
                                              {"content-type", "x", 1},
                                              {"tracestate", NULL, 0},
                                              {"baggage", "a=0", 3},
                                              {"baggage", "a=1", 3}};
    const struct mr_envelope envelope = envelope_of(headers, 5, NULL);
    assert_int_equal(envelope.echo_count, 3);
    assert_string_equal(envelope.echo[0].name, "kafka_correlationId");
    assert_int_equal(envelope.echo[0].length, 12);
    assert_memory_equal(envelope.echo[0].value, "corr\0elation", 12);
    assert_null(envelope.echo[1].value);
    assert_memory_equal(envelope.echo[2].value, "a=1", 3); /* the last header of a name is used */
    assert_null(envelope.oversized);
    assert_true(mr_text_is(envelope.content_type, "x"));
    assert_int_equal(envelope.reply_topic.length, 0);
    assert_false(envelope.reply_allowed);
    assert_int_equal(envelope.reply_partition, -1);
}

static void a_cloud_event_s_trace_goes_back_under_the_common_names(void **state)
{
    (void)state;
    const struct mr_kafka_header headers[] = {
        {"ce_traceparent", "00-a", 4}, {"ce_tracestate", "x=1", 3}, {"tracestate", "y=2", 3}};
    const struct mr_envelope envelope = envelope_of(headers, 3, NULL);
    assert_int_equal(envelope.echo_count, 2);
    assert_string_equal(envelope.echo[0].name, "traceparent");
    assert_memory_equal(envelope.echo[0].value, "00-a", 4);
    assert_string_equal(envelope.echo[1].name, "tracestate");
    assert_memory_equal(envelope.echo[1].value, "y=2", 3); /* the plain header counts */
}

static void an_event_s_id_counts_only_with_its_version(void **state)
{
    (void)state;
    const struct mr_kafka_header headers[] = {{"ce_id", "e-1", 3}, {"ce_specversion", "1.0", 3}};
    struct mr_envelope envelope = envelope_of(headers, 2, NULL);
    assert_true(envelope.is_event);
    assert_true(mr_text_is(envelope.event_id, "e-1"));
    envelope = envelope_of(headers, 1, NULL);
    assert_false(envelope.is_event);
    assert_int_equal(envelope.event_id.length, 0);
}

/* Three headers of these lengths; the names take 7, 10 and 11 bytes. */
static struct mr_envelope echo_lengths(size_t baggage, size_t state, size_t parent)
{
    static const char bytes[8192];
    const struct mr_kafka_header headers[] = {
        {"baggage", bytes, baggage}, {"tracestate", bytes, state}, {"traceparent", bytes, parent}};
    return envelope_of(headers, 3, NULL);
}

static void headers_to_echo_are_bounded_together(void **state)
{
    (void)state;
    struct mr_envelope envelope = echo_lengths(2000, 1000, 1068);
    assert_int_equal(envelope.echo_count, 3);
    assert_null(envelope.oversized);
    envelope = echo_lengths(2001, 1000, 1068);
    assert_string_equal(envelope.oversized, "baggage");
    assert_int_equal(envelope.echo_count, 2);
    envelope = echo_lengths(2000, 8192, 55);
    assert_string_equal(envelope.oversized, "tracestate");
    assert_int_equal(envelope.echo_count, 2);
    assert_string_equal(envelope.echo[1].name, "baggage");
}

static void a_deadline_is_a_positive_decimal_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {{"1000", 1000}, {"9223372036854775807", INT64_MAX},
                 {"", 0},        {"9223372036854775808", 0},
                 {"-5", 0},      {"12x", 0},
                 {"x", 0},       {"0", 0},
                 {"1e3", 0},     {"123456789012345678901234", 0},
                 {" 1", 0},      {"+1", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mr_kafka_header header = {"millrace-deadline", cases[i].text,
                                               strlen(cases[i].text)};
        struct mr_envelope envelope = envelope_of(&header, 1, NULL);
        assert_int_equal(envelope.deadline_ms, cases[i].want);
        if (cases[i].want > 0)
            assert_null(envelope.bad);
        else
            assert_string_equal(envelope.bad, "millrace-deadline");
    }
    const struct mr_kafka_header null = {"millrace-deadline", NULL, 0};
    assert_null(envelope_of(&null, 1, NULL).bad); /* as if it was absent */
}

static void assert_reply(const char *asked, size_t length, bool want)
{
    const struct mr_kafka_header header = {"kafka_replyTopic", asked, length};
    const struct mr_envelope envelope = envelope_of(&header, 1, &allowed);
    assert_int_equal(envelope.reply_allowed, want);
    assert_int_equal(envelope.reply_topic.length, asked ? length : 0);
}

static void assert_no_topic(const char *asked, size_t length)
{
    const struct mr_kafka_header header = {"kafka_replyTopic", asked, length};
    assert_reply(asked, length, false);
    assert_string_equal(envelope_of(&header, 1, &allowed).bad, "kafka_replyTopic");
}

static void a_reply_goes_only_where_the_operator_allows(void **state)
{
    (void)state;
    char longest[260] = "team.";
    memset(longest + 5, 'x', 250);
    assert_reply("replies", 7, true);
    assert_reply("team.blue", 9, true);
    assert_reply("replies2", 8, false);
    assert_reply("reply", 5, false);
    assert_reply("team", 4, false);
    assert_reply(longest, 249, true);
    assert_reply(NULL, 0, false);
    assert_no_topic("", 0);
    assert_no_topic("team.\0x", 7);
    assert_no_topic(longest, 250);
}

static void a_reply_partition_is_four_bytes_and_not_negative(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        int32_t want;
    } cases[] = {{"\0\0\1\2", 4, 258},
                 {"\xff\xff\xff\xff", 4, -1},
                 {"\x7f\xff\xff\xff", 4, INT32_MAX},
                 {"7", 1, -1},
                 {NULL, 0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mr_kafka_header header = {"kafka_replyPartition", cases[i].bytes,
                                               cases[i].length};
        const struct mr_envelope envelope = envelope_of(&header, 1, &allowed);
        assert_int_equal(envelope.reply_partition, cases[i].want);
        assert_int_equal(envelope.bad != NULL, cases[i].bytes && cases[i].want < 0);
    }
}

static void token_records_go_to_a_reply_topic_only_if_there_is_one(void **state)
{
    (void)state;
    const struct mr_kafka_header both[] = {{"kafka_replyTopic", "replies", 7},
                                           {"millrace-reply", "tokens", 6}};
    const struct mr_kafka_header other[] = {{"kafka_replyTopic", "replies", 7},
                                            {"millrace-reply", "token", 5}};
    assert_true(envelope_of(both, 2, &allowed).reply_tokens);
    assert_null(envelope_of(both, 2, &allowed).bad);
    assert_false(envelope_of(both, 1, &allowed).reply_tokens);
    assert_string_equal(envelope_of(both + 1, 1, &allowed).bad, "millrace-reply");
    assert_string_equal(envelope_of(other, 2, &allowed).bad, "millrace-reply");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_to_echo_are_found_and_others_are_not),
        cmocka_unit_test(a_cloud_event_s_trace_goes_back_under_the_common_names),
        cmocka_unit_test(an_event_s_id_counts_only_with_its_version),
        cmocka_unit_test(headers_to_echo_are_bounded_together),
        cmocka_unit_test(a_deadline_is_a_positive_decimal_number),
        cmocka_unit_test(a_reply_goes_only_where_the_operator_allows),
        cmocka_unit_test(a_reply_partition_is_four_bytes_and_not_negative),
        cmocka_unit_test(token_records_go_to_a_reply_topic_only_if_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
