#include "worker/client/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct mr_kafka_header letter_headers[] = {
    {"content-type", "application/json", 16},
    {"their-own", "kept", 4},
    {"millrace-deadline", "1000", 4},
    {"__connect.errors.topic", "millrace.red", 12},
    {"__connect.errors.exception.message", "no", 2},
    {"kafka_dlt-original-topic", "millrace.red", 12},
    {"millrace-worker", "w", 1},
    {"millrace-source", "millrace.red/0/1", 16},
};

static struct mr_kafka_record letter(void)
{
    return (struct mr_kafka_record){.topic = "millrace.dlq",
                                    .partition = 3,
                                    .timestamp_ms = 5000,
                                    .key = TEXT("k"),
                                    .value = TEXT("{}"),
                                    .headers = letter_headers,
                                    .header_count = 8};
}

static void a_dead_letter_goes_back_as_it_was(void **state)
{
    (void)state;
    struct mr_kafka_record record = letter();
    const struct mr_replay_options options = {.to = ""};
    struct mr_replay_plan plan;
    mr_replay_plan(&plan, &options, &record);
    assert_null(plan.refusal);
    assert_string_equal(plan.record.topic, "millrace.red");
    assert_int_equal(plan.record.partition, -1);
    assert_memory_equal(plan.record.value.bytes, "{}", 2);
    assert_int_equal(plan.record.header_count, 2);
    assert_string_equal(plan.record.headers[0].name, "content-type");
    assert_string_equal(plan.record.headers[1].name, "their-own");
}

static void a_given_topic_counts_and_else_the_record_s_own(void **state)
{
    (void)state;
    struct mr_kafka_record record = letter();
    struct mr_replay_options options = {.to = "elsewhere"};
    struct mr_replay_plan plan;
    mr_replay_plan(&plan, &options, &record);
    assert_string_equal(plan.record.topic, "elsewhere");
    options.to = "";
    record.header_count = 3;
    mr_replay_plan(&plan, &options, &record);
    assert_string_equal(plan.record.topic, "millrace.dlq");
}

static void a_record_without_its_value_is_refused(void **state)
{
    (void)state;
    static const struct mr_kafka_header cut[] = {{"millrace-value-bytes", "2000000", 7}};
    struct mr_kafka_record record = letter();
    const struct mr_replay_options options = {.to = ""};
    struct mr_replay_plan plan;
    record.value = (struct mr_text){0};
    mr_replay_plan(&plan, &options, &record);
    assert_string_equal(plan.refusal, "it has no value");
    record.headers = cut;
    record.header_count = 1;
    mr_replay_plan(&plan, &options, &record);
    assert_non_null(strstr(plan.refusal, "too large"));
}

static void ids_and_times_choose_records(void **state)
{
    (void)state;
    static const struct mr_kafka_header named[] = {{"millrace-id", "id-2", 4}};
    static const char *const ids[] = {"k", "id-2"};
    struct mr_kafka_record record = letter();
    struct mr_replay_options options = {.to = "", .ids = ids, .id_count = 2};
    assert_true(mr_replay_wants(&options, &record));
    record.key = (struct mr_text){0};
    assert_false(mr_replay_wants(&options, &record));
    record.headers = named;
    record.header_count = 1;
    assert_true(mr_replay_wants(&options, &record));
    options = (struct mr_replay_options){.to = "", .from_ms = 5000, .until_ms = 5001};
    assert_true(mr_replay_wants(&options, &record));
    options.from_ms = 5001;
    assert_false(mr_replay_wants(&options, &record));
    options = (struct mr_replay_options){.to = "", .until_ms = 5000};
    assert_false(mr_replay_wants(&options, &record));
}

static void the_pace_is_that_of_the_timestamps(void **state)
{
    (void)state;
    assert_int_equal(mr_replay_due_ns(1, 1000, 3000), 2000000000);
    assert_int_equal(mr_replay_due_ns(4, 1000, 3000), 500000000);
    assert_int_equal(mr_replay_due_ns(0, 1000, 3000), 0);
    assert_int_equal(mr_replay_due_ns(1, 3000, 1000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_letter_goes_back_as_it_was),
        cmocka_unit_test(a_given_topic_counts_and_else_the_record_s_own),
        cmocka_unit_test(a_record_without_its_value_is_refused),
        cmocka_unit_test(ids_and_times_choose_records),
        cmocka_unit_test(the_pace_is_that_of_the_timestamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
