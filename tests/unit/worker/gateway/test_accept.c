/* Which calls a gateway takes, and the request that it makes of each. */
#include "worker/base/clock.h"
#include "worker/gateway/accept.h"
#include "worker/gateway/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS ((uint64_t)1000000000)
#define HOUR_NS   (3600 * SECOND_NS)
/* printf secret | sha256sum */
#define SECRET "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
#define PROMPT "\"prompt\":\"a\""

struct fixture {
    struct mr_wake wake;
    struct mr_exchanges exchanges;
    struct mr_fleet fleet; /* without its thread */
    struct mr_accept_rules rules;
    struct mr_accept_headers headers;
    struct mr_accept_refusal refusal;
    struct mr_keys *keys; /* NULL: there are none */
    struct mr_exchange *exchange;
};

static int start(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    if (!fixture) return -1;
    assert_int_equal(mr_wake_open(&fixture->wake, NULL), MR_OK);
    assert_int_equal(
        mr_exchanges_open(&fixture->exchanges, &fixture->wake, 8, (size_t)1 << 20, NULL), MR_OK);
    pthread_mutex_init(&fixture->fleet.lock, NULL);
    atomic_store(&fixture->fleet.has_broker, true);
    atomic_store(&fixture->fleet.is_known, true);
    atomic_store(&fixture->fleet.has_members, true);
    mr_fleet_note(&fixture->fleet, (struct mr_text){"m", 1}, 1);
    fixture->rules = (struct mr_accept_rules){.fleet = &fixture->fleet,
                                              .topic = "requests",
                                              .timeout_ns = HOUR_NS,
                                              .record_bytes_max = 4096};
    *state = fixture;
    return 0;
}

static void drop(struct fixture *fixture)
{
    if (fixture->exchange) mr_exchange_drop(&fixture->exchanges, fixture->exchange);
    fixture->exchange = NULL;
}

static int stop(void **state)
{
    struct fixture *fixture = *state;
    drop(fixture);
    mr_keys_close(fixture->keys);
    mr_exchanges_close(&fixture->exchanges);
    mr_wake_close(&fixture->wake);
    pthread_mutex_destroy(&fixture->fleet.lock);
    free(fixture);
    return 0;
}

/* A call with this body, and with the key if there is one, in place of the call before. */
static bool take_at(struct fixture *fixture, enum mr_openai_endpoint endpoint, const char *body)
{
    drop(fixture);
    fixture->exchange = mr_exchange_create(&fixture->exchanges, NULL);
    assert_non_null(fixture->exchange);
    fixture->exchange->endpoint = endpoint;
    if (fixture->keys)
        fixture->exchange->key = mr_keys_find(fixture->keys, (struct mr_text){"secret", 6});
    assert_true(mr_exchange_add_body(&fixture->exchanges, fixture->exchange,
                                     (struct mr_text){body, strlen(body)}));
    return mr_accept(&fixture->rules, fixture->exchange, &fixture->headers, &fixture->refusal);
}

static bool take(struct fixture *fixture, const char *body)
{
    return take_at(fixture, MR_OPENAI_COMPLETIONS, body);
}

static void expect_refusal(const struct fixture *fixture, int http_status, const char *code)
{
    assert_int_equal(fixture->refusal.error.http_status, http_status);
    assert_true(mr_text_is(fixture->refusal.error.code, code));
    assert_true(fixture->refusal.error.message.length > 0);
}

static bool record_has(const struct fixture *fixture, const char *part)
{
    const struct mr_exchange *exchange = fixture->exchange;
    return memmem(exchange->record, exchange->record_length, part, strlen(part)) != NULL;
}

/* Makes a key the only one. */
static void use_key(struct fixture *fixture, const char *name, const char *settings)
{
    char path[] = "/tmp/millrace-keys-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(dprintf(fd, "%s %s %s\n", name, SECRET, settings) > 0);
    assert_int_equal(close(fd), 0);
    drop(fixture);
    mr_keys_close(fixture->keys);
    assert_int_equal(mr_keys_open(&fixture->keys, path, mr_clock_ns(), NULL), MR_OK);
    assert_int_equal(unlink(path), 0);
}

static void a_call_becomes_a_record_with_a_random_id_and_a_deadline(void **state)
{
    struct fixture *fixture = *state;
    char first[MR_EXCHANGE_ID_BYTES], member[160];
    const struct mr_time before = mr_clock_now();
    fixture->headers.trace_parent = "00-trace";
    assert_true(take(fixture, "{" PROMPT ",\"model\":\"x\"}"));
    const struct mr_exchange *exchange = fixture->exchange;
    const int64_t hour_ms = 3600000;
    assert_in_range(exchange->deadline_ms, before.unix_ms + hour_ms, mr_clock_unix_ms() + hour_ms);
    assert_in_range(exchange->deadline_ns, before.ns + HOUR_NS + SECOND_NS,
                    mr_clock_ns() + HOUR_NS + SECOND_NS);
    assert_string_equal(exchange->model, "x");
    assert_string_equal(exchange->topic, "requests");
    assert_string_equal(exchange->trace_parent, "00-trace");
    assert_string_equal(exchange->record_key, exchange->id);
    assert_int_equal(strspn(exchange->id, "0123456789abcdef"), 32);
    assert_false(exchange->is_stream || exchange->has_usage_chunk || exchange->is_idempotent);
    assert_int_equal(exchange->choice_count, 1);
    snprintf(member, sizeof member, "\"id\":\"%s\"", exchange->id);
    assert_true(record_has(fixture, member));
    assert_false(record_has(fixture, "timeout_ms")); /* a header has the deadline */
    snprintf(first, sizeof first, "%s", exchange->id);
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_string_not_equal(fixture->exchange->id, first);
    assert_string_equal(fixture->exchange->model, "m"); /* the fleet's */
}

static void members_of_the_body_shape_the_answer(void **state)
{
    struct fixture *fixture = *state;
    assert_true(take(fixture, "{" PROMPT ",\"stream\":true,\"n\":3,\"session\":\"s\","
                              "\"stream_options\":{\"include_usage\":true}}"));
    assert_true(fixture->exchange->is_stream && fixture->exchange->has_usage_chunk);
    assert_int_equal(fixture->exchange->choice_count, 3);
    assert_string_equal(fixture->exchange->record_key, "s");
    assert_true(take(fixture, "{" PROMPT ",\"stream\":\"yes\",\"n\":1000000,"
                              "\"stream_options\":{\"include_usage\":true}}"));
    assert_false(fixture->exchange->is_stream || fixture->exchange->has_usage_chunk);
    assert_int_equal(fixture->exchange->choice_count, 1); /* the worker rejects the request */
    assert_true(take_at(fixture, MR_OPENAI_EMBEDDINGS, "{\"input\":\"a\",\"stream\":true}"));
    assert_false(fixture->exchange->is_stream); /* embeddings have no stream */
}

static void the_same_idempotency_key_makes_the_same_record(void **state)
{
    struct fixture *fixture = *state;
    fixture->headers = (struct mr_accept_headers){.idempotency_key = "k", .timeout_ms = "5000"};
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_string_equal(fixture->exchange->id, "k");
    assert_true(fixture->exchange->is_idempotent);
    assert_int_equal(fixture->exchange->deadline_ms, 0);
    assert_true(record_has(fixture, "\"timeout_ms\":5000"));
    char *first = fixture->exchange->record;
    const size_t length = fixture->exchange->record_length;
    fixture->exchange->record = NULL;
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_int_equal(fixture->exchange->record_length, length);
    assert_memory_equal(fixture->exchange->record, first, length);
    free(first);
}

static void a_client_cannot_name_the_request_of_another(void **state)
{
    struct fixture *fixture = *state;
    char id[MR_EXCHANGE_ID_BYTES];
    use_key(fixture, "alice", "topic=slow");
    fixture->headers.idempotency_key = "b.x";
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_string_equal(fixture->exchange->topic, "slow");
    snprintf(id, sizeof id, "%s", fixture->exchange->id);
    use_key(fixture, "alice.b", "");
    fixture->headers.idempotency_key = "x";
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_string_not_equal(fixture->exchange->id, id);
}

static void an_idempotency_key_has_64_printable_characters_at_most(void **state)
{
    struct fixture *fixture = *state;
    static const char *const wrong[] = {"a b", "a\n", "\xc3\xa4"};
    char longest[66], name[MR_KEY_NAME_BYTES];
    memset(longest, 'k', sizeof longest);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    longest[65] = '\0';
    fixture->headers.idempotency_key = longest;
    assert_false(take(fixture, "{" PROMPT "}"));
    expect_refusal(fixture, 400, "invalid_request");
    longest[64] = '\0';
    assert_true(take(fixture, "{" PROMPT "}"));
    use_key(fixture, name, "");
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_int_equal(strlen(fixture->exchange->id), MR_EXCHANGE_ID_BYTES - 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fixture->headers.idempotency_key = wrong[i];
        assert_false(take(fixture, "{" PROMPT "}"));
        expect_refusal(fixture, 400, "invalid_request");
    }
    fixture->headers.idempotency_key = ""; /* like none */
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_int_equal(strlen(fixture->exchange->id), 32);
}

static void a_timeout_shortens_the_deadline_only(void **state)
{
    struct fixture *fixture = *state;
    static const char *const wrong[] = {"", "0", "-1", "1s", "86400001"};
    fixture->headers.timeout_ms = "1";
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_true(fixture->exchange->deadline_ns <= mr_clock_ns() + 2 * SECOND_NS);
    fixture->headers.timeout_ms = "86400000"; /* longer than the gateway's */
    assert_true(take(fixture, "{" PROMPT "}"));
    assert_true(fixture->exchange->deadline_ns <= mr_clock_ns() + HOUR_NS + SECOND_NS);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fixture->headers.timeout_ms = wrong[i];
        assert_false(take(fixture, "{" PROMPT "}"));
        expect_refusal(fixture, 400, "invalid_request");
    }
}

static void bodies_that_no_record_expresses_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const wrong[] = {"", "{", "[]", "3", "{\"a\":1,\"a\":2}", "\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(take(fixture, wrong[i]));
        expect_refusal(fixture, 400, "invalid_request");
    }
    assert_false(take(fixture, "{\"prompt\":[\"a\",\"b\"]}"));
    expect_refusal(fixture, 400, "unsupported_parameter");
    assert_true(mr_text_is(fixture->refusal.error.param, "prompt"));
    fixture->rules.record_bytes_max = 20;
    assert_false(take(fixture, "{" PROMPT "}"));
    expect_refusal(fixture, 413, "record_too_large");
}

static void without_a_broker_or_a_worker_the_client_is_to_try_later(void **state)
{
    struct fixture *fixture = *state;
    atomic_store(&fixture->fleet.has_members, false);
    assert_false(take(fixture, "{" PROMPT "}"));
    expect_refusal(fixture, 503, "internal");
    assert_int_equal(fixture->refusal.retry_after_s, 10);
    fixture->rules.waits_for_workers = true;
    assert_true(take(fixture, "{" PROMPT "}"));
    atomic_store(&fixture->fleet.has_broker, false);
    assert_false(take(fixture, "{" PROMPT "}"));
    expect_refusal(fixture, 503, "internal");
}

static void a_key_limits_models_and_requests(void **state)
{
    struct fixture *fixture = *state;
    use_key(fixture, "alice", "models=a,b requests=1");
    assert_false(take(fixture, "{" PROMPT ",\"model\":\"c\"}"));
    expect_refusal(fixture, 404, "model_not_found");
    assert_false(take(fixture, "{" PROMPT "}"));
    expect_refusal(fixture, 404, "model_not_found");
    assert_true(take(fixture, "{" PROMPT ",\"model\":\"b\"}"));
    assert_false(take(fixture, "{" PROMPT ",\"model\":\"b\"}"));
    expect_refusal(fixture, 429, "rate_limit_exceeded");
    assert_in_range(fixture->refusal.retry_after_s, 1, 60);
}

static void a_long_sentence_of_a_refusal_is_cut(void **state)
{
    struct fixture *fixture = *state;
    char message[MR_ACCEPT_MESSAGE_BYTES + 10];
    memset(message, 'a', sizeof message);
    message[sizeof message - 1] = '\0';
    mr_accept_refuse(&fixture->refusal, "overloaded", message, 503);
    expect_refusal(fixture, 503, "overloaded");
    assert_int_equal(fixture->refusal.error.message.length, MR_ACCEPT_MESSAGE_BYTES - 1);
    mr_accept_refuse(&fixture->refusal, "overloaded", "full", 0);
    expect_refusal(fixture, 429, "overloaded");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_becomes_a_record_with_a_random_id_and_a_deadline),
        TEST(members_of_the_body_shape_the_answer),
        TEST(the_same_idempotency_key_makes_the_same_record),
        TEST(a_client_cannot_name_the_request_of_another),
        TEST(an_idempotency_key_has_64_printable_characters_at_most),
        TEST(a_timeout_shortens_the_deadline_only),
        TEST(bodies_that_no_record_expresses_are_refused),
        TEST(without_a_broker_or_a_worker_the_client_is_to_try_later),
        TEST(a_key_limits_models_and_requests),
        TEST(a_long_sentence_of_a_refusal_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
