#include "worker/kafka/kafka_errors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>

#define UNLISTED 12345

/* Fails when librdkafka has an unclassified code, or uses a number for a different code. */
static void every_code_of_librdkafka_is_in_the_table(void **state)
{
    const struct rd_kafka_err_desc *codes;
    size_t count, named = 0;
    (void)state;
    rd_kafka_get_err_descs(&codes, &count);
    for (size_t i = 0; i < count; i++) {
        if (!codes[i].name || !codes[i].desc) continue; /* a gap, or the end of a range */
        const char *name = mr_kafka_error_name(codes[i].code);
        if (!name) fail_msg("%s (%d) is not classified", codes[i].name, codes[i].code);
        assert_string_equal(name, codes[i].name);
        named++;
    }
    assert_true(named > 100);
}

static bool is_of(enum mr_kafka_verdict verdict, enum mr_status status)
{
    switch (verdict) {
    case MR_KAFKA_DONE:
        return status == MR_OK;
    case MR_KAFKA_RETRY:
        return mr_status_class(status) == MR_CLASS_RETRY || status == MR_UNREACHABLE;
    case MR_KAFKA_REFUSED:
        return status == MR_RECORD_TOO_LARGE || status == MR_BAD_CONFIG || status == MR_MALFORMED;
    default:
        return status == MR_BACKEND;
    }
}

static void the_status_of_a_code_is_one_of_its_verdict(void **state)
{
    unsigned verdicts = 0;
    (void)state;
    for (int code = -300; code < 300; code++) {
        if (!is_of(mr_kafka_verdict(code), mr_kafka_status(code))) fail_msg("code %d", code);
        verdicts |= 1u << mr_kafka_verdict(code);
    }
    assert_int_equal(verdicts, 31);
}

static void what_passes_is_retried_and_what_stays_is_not(void **state)
{
    (void)state;
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR_NO_ERROR), MR_OK);
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT), MR_TIMEOUT);
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR__QUEUE_FULL), MR_FULL);
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR__TRANSPORT), MR_UNREACHABLE);
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS), MR_AGAIN);
    /* a producer refuses records while its transaction has to be aborted */
    assert_int_equal(mr_kafka_verdict(RD_KAFKA_RESP_ERR__STATE), MR_KAFKA_RETRY);
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE), MR_RECORD_TOO_LARGE);
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED), MR_BAD_CONFIG);
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR_INVALID_RECORD), MR_MALFORMED);
    assert_int_equal(mr_kafka_status(RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP), MR_MALFORMED);
    assert_int_equal(mr_kafka_verdict(RD_KAFKA_RESP_ERR__FATAL), MR_KAFKA_FATAL);
    assert_int_equal(mr_kafka_verdict(RD_KAFKA_RESP_ERR__FENCED), MR_KAFKA_FENCED);
    assert_null(mr_kafka_error_name(UNLISTED));
    assert_int_equal(mr_kafka_verdict(UNLISTED), MR_KAFKA_RETRY);
    assert_int_equal(mr_kafka_status(UNLISTED), MR_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_of_librdkafka_is_in_the_table),
        cmocka_unit_test(the_status_of_a_code_is_one_of_its_verdict),
        cmocka_unit_test(what_passes_is_retried_and_what_stays_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
