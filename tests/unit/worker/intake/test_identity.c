#include "worker/intake/identity.h"

#include "worker/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HEADERS_MAX 3

/* The digest of a record with this value and these headers; a header without a name ends them. */
static struct mr_identity of(const char *value, const struct mr_kafka_header headers[HEADERS_MAX])
{
    struct mr_sha256 *hash = mr_sha256_create();
    struct mr_envelope envelope;
    struct mr_identity identity;
    struct mr_kafka_record record = {.value = {value, strlen(value)}, .headers = headers};
    while (record.header_count < HEADERS_MAX && headers[record.header_count].name)
        record.header_count++;
    mr_envelope_read(&envelope, &record, NULL);
    mr_identity_of(&identity, hash, &record, &envelope);
    mr_sha256_destroy(hash);
    return identity;
}

static const struct mr_kafka_header none[HEADERS_MAX];

static void the_same_record_has_the_same_digest(void **state)
{
    (void)state;
    struct mr_identity a = of("x", none), b = of("x", none), c = of("y", none);
    assert_true(mr_identity_equal(&a, &b));
    assert_false(mr_identity_equal(&a, &c));
}

static void headers_that_change_request_or_address_count_and_others_do_not(void **state)
{
    (void)state;
    static const struct {
        struct mr_kafka_header header;
        bool counts;
    } cases[] = {
        {{"content-type", "application/json", 16}, true},
        {{"millrace-deadline", "1763740000000", 13}, true},
        {{"kafka_replyTopic", "mine", 4}, true},
        {{"kafka_replyPartition", "\0\0\0\1", 4}, true},
        {{"kafka_correlationId", "7", 1}, true},
        {{"millrace-reply", "tokens", 6}, true},
        {{"traceparent", "00-1", 4}, false},
        {{"other", "1", 1}, false},
    };
    struct mr_identity plain = of("x", none);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mr_kafka_header headers[HEADERS_MAX] = {cases[i].header};
        struct mr_identity with = of("x", headers);
        assert_int_equal(mr_identity_equal(&plain, &with), !cases[i].counts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_record_has_the_same_digest),
        cmocka_unit_test(headers_that_change_request_or_address_count_and_others_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
