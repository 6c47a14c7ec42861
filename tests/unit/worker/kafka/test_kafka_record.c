#include "worker/kafka/kafka_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_kafka_header headers[] = {
    {"a", "first", 5}, {"b", NULL, 0}, {"a", "last", 4}, {"", "unnamed", 7}};

static void the_last_header_of_a_name_counts(void **state)
{
    (void)state;
    struct mr_kafka_record record = {.headers = headers, .header_count = 4};
    assert_ptr_equal(mr_kafka_record_header(&record, "a"), &headers[2]);
    record.header_count = 2;
    assert_ptr_equal(mr_kafka_record_header(&record, "a"), &headers[0]);
}

static void a_header_with_a_null_value_is_found(void **state)
{
    (void)state;
    const struct mr_kafka_record record = {.headers = headers, .header_count = 4};
    assert_ptr_equal(mr_kafka_record_header(&record, "b"), &headers[1]);
    assert_ptr_equal(mr_kafka_record_header(&record, ""), &headers[3]);
}

static void a_name_must_match_whole_and_in_case(void **state)
{
    (void)state;
    const struct mr_kafka_record record = {.headers = headers, .header_count = 4};
    assert_null(mr_kafka_record_header(&record, "A"));
    assert_null(mr_kafka_record_header(&record, "aa"));
    assert_null(mr_kafka_record_header(&(struct mr_kafka_record){0}, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_header_of_a_name_counts),
        cmocka_unit_test(a_header_with_a_null_value_is_found),
        cmocka_unit_test(a_name_must_match_whole_and_in_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
