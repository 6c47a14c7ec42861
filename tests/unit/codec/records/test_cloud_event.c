#include "codec/records/cloud_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static enum mr_status open_event(const char *record, struct mr_cloud_event *event)
{
    struct mr_error err = {0};
    enum mr_status status = mr_cloud_event_open(text_of(record), 4096, event, &err);
    assert_true(status == MR_OK || err.detail[0] != '\0');
    return status;
}

static void the_content_type_selects_structured_mode(void **state)
{
    (void)state;
    assert_true(mr_cloud_event_is_structured(text_of("application/cloudevents+json")));
    assert_true(
        mr_cloud_event_is_structured(text_of("Application/CloudEvents+json; charset=utf-8")));
    assert_false(mr_cloud_event_is_structured(text_of("application/json")));
    assert_false(mr_cloud_event_is_structured((struct mr_text){0}));
}

static void data_is_returned_byte_for_byte(void **state)
{
    (void)state;
    struct mr_cloud_event event;
    assert_int_equal(
        open_event("{\"specversion\":\"1.0\",\"id\":\"e-1\",\"type\":\"t\",\"source\":\"/s\","
                   "\"data\": {\"prompt\" : \"a\\u0062\"} }",
                   &event),
        MR_OK);
    assert_string_equal(event.id, "e-1");
    assert_int_equal(event.data.length, strlen("{\"prompt\" : \"a\\u0062\"}"));
    assert_memory_equal(event.data.bytes, "{\"prompt\" : \"a\\u0062\"}", event.data.length);
}

static void invalid_events_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        enum mr_status status;
    } cases[] = {
        {"{", MR_MALFORMED},
        {"{\"id\":\"a\",\"data\":{}}", MR_MALFORMED},
        {"{\"specversion\":\"0.3\",\"data\":{}}", MR_UNSUPPORTED_ENCODING},
        {"{\"specversion\":\"1.0\"}", MR_MALFORMED},
        {"{\"specversion\":\"1.0\",\"data\":\"text\"}", MR_MALFORMED},
        {"{\"specversion\":\"1.0\",\"data_base64\":\"e30=\"}", MR_UNSUPPORTED_ENCODING},
        {"[{\"specversion\":\"1.0\",\"data\":{}}]", MR_UNSUPPORTED_ENCODING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_cloud_event event;
        assert_int_equal(open_event(cases[i].record, &event), cases[i].status);
        assert_int_equal(event.data.length, 0);
    }
}

static void an_id_too_long_for_a_request_is_empty(void **state)
{
    (void)state;
    char record[512], id[MR_ID_BYTES_MAX + 2];
    struct mr_cloud_event event;
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    snprintf(record, sizeof record, "{\"specversion\":\"1.0\",\"id\":\"%s\",\"data\":{}}", id);
    assert_int_equal(open_event(record, &event), MR_OK);
    assert_string_equal(event.id, "");
}

static void a_record_above_the_limit_is_not_parsed(void **state)
{
    (void)state;
    struct mr_cloud_event event;
    assert_int_equal(mr_cloud_event_open(text_of("{\"specversion\":\"1.0\"}"), 5, &event, NULL),
                     MR_RECORD_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_content_type_selects_structured_mode),
        cmocka_unit_test(data_is_returned_byte_for_byte),
        cmocka_unit_test(invalid_events_are_rejected),
        cmocka_unit_test(an_id_too_long_for_a_request_is_empty),
        cmocka_unit_test(a_record_above_the_limit_is_not_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
