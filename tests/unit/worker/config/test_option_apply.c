#include "worker/config/option_apply.h"

#include "tests/unit/worker/config/fixture.h"

#include <string.h>

static enum mr_status set(struct fixture *fixture, const char *name, const char *text,
                          enum mr_option_origin origin)
{
    return mr_option_apply(&fixture->config, mr_option_find(name), text,
                           (struct mr_option_source){origin, 3}, &fixture->err);
}

static void every_kind_of_option_sets_its_field(void **state)
{
    struct fixture *fixture = *state;
    struct mr_config *config = &fixture->config;
    assert_int_equal(set(fixture, "deterministic", "yes", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "threads", "12", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "chunk-tokens", "-1", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "seed", "12345678901234567890", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "rate", "2.5", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "kv-memory", "1GiB", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "drain-timeout", "3s", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "model", "m", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "log-level", "DEBUG", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "kafka", "a=1", MR_ORIGIN_FLAG), MR_OK);
    assert_true(config->deterministic && config->threads == 12 && config->chunk_tokens == -1);
    assert_true(config->seed == 12345678901234567890u && config->rate == 2.5);
    assert_true(config->kv_memory_bytes == 1u << 30 && config->drain_timeout_ns == 3000000000u);
    assert_string_equal(config->model, "m");
    assert_int_equal(config->log_level, MR_LOG_DEBUG);
    assert_string_equal(config->kafka.values[0], "a=1");
}

static void a_weaker_origin_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(set(fixture, "threads", "7", MR_ORIGIN_ENVIRONMENT), MR_OK);
    assert_int_equal(set(fixture, "threads", "3", MR_ORIGIN_FILE), MR_OK);
    assert_int_equal(fixture->config.threads, 7);
    assert_int_equal(set(fixture, "threads", "9", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(fixture->config.threads, 9);
    assert_int_equal(mr_option_origin(&fixture->config, mr_option_find("threads")), MR_ORIGIN_FLAG);
}

static void values_come_back_as_text(void **state)
{
    struct fixture *fixture = *state;
    static const char *const cases[][2] = {{"deterministic", "true"},
                                           {"threads", "12"},
                                           {"chunk-tokens", "-1"},
                                           {"seed", "99"},
                                           {"rate", "2.5"},
                                           {"kv-memory", "1GiB"},
                                           {"drain-timeout", "3s"},
                                           {"delivery", "exactly-once"},
                                           {"step-target-ms", "auto"},
                                           {"step-target-ms", "0"},
                                           {"model", "a b"}};
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(set(fixture, cases[i][0], cases[i][1], MR_ORIGIN_FLAG), MR_OK);
        mr_option_value_text(&fixture->config, mr_option_find(cases[i][0]), 0, text, sizeof text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void secrets_are_masked(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *name, *value, *shown;
    } cases[] = {
        {"redis", "redis://u:secret@h:1/0", "redis://u:***@h:1/0"},
        {"redis", "redis://:p@ss@h:1/0", "redis://:***@h:1/0"},
        {"redis", "redis://token@h:1", "redis://***@h:1"},
        {"redis", "redis://h:1/0", "redis://h:1/0"},
    };
    static const struct {
        const char *value, *shown;
    } properties[] = {
        {"ssl.key.password=x", "ssl.key.password=***"},
        {"SASL.PASSWORD=x=y", "SASL.PASSWORD=***"},
        {"sasl.oauthbearer.client.secret=x", "sasl.oauthbearer.client.secret=***"},
        {"client.id=password", "client.id=password"},
    };
    char text[128];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(set(fixture, cases[i].name, cases[i].value, MR_ORIGIN_FLAG), MR_OK);
        mr_option_value_text(&fixture->config, mr_option_find(cases[i].name), 0, text, sizeof text);
        assert_string_equal(text, cases[i].shown);
    }
    const struct mr_option *kafka = mr_option_find("kafka");
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        assert_int_equal(set(fixture, "kafka", properties[i].value, MR_ORIGIN_FLAG), MR_OK);
        mr_option_value_text(&fixture->config, kafka, i, text, sizeof text);
        assert_string_equal(text, properties[i].shown);
    }
}

/* The error names where the value was given, the value, and what is accepted. */
static void an_error_names_place_and_value(void **state)
{
    struct fixture *fixture = *state;
    fixture->config.config = "/etc/m.yaml";
    static const struct {
        const char *name, *value;
        enum mr_option_origin origin;
        const char *sentence;
    } cases[] = {
        {"threads", "many", MR_ORIGIN_FLAG, "--threads many: is not a whole number"},
        {"threads", "-1", MR_ORIGIN_FLAG, "--threads -1: must not be below 0"},
        {"threads", "257", MR_ORIGIN_ENVIRONMENT, "MILLRACE_THREADS=257: must not be above 256"},
        {"kv-memory", "1k", MR_ORIGIN_FILE,
         "/etc/m.yaml, line 3: kv-memory: 1k: must not be below 1MiB"},
        {"kv-memory", "2Gx", MR_ORIGIN_FLAG, "--kv-memory 2Gx: is not a size such as 512MiB"},
        {"drain-timeout", "25", MR_ORIGIN_FLAG, "--drain-timeout 25: is not a time such as 25s"},
        {"rate", "fast", MR_ORIGIN_FLAG, "--rate fast: is not a number"},
        {"deterministic", "perhaps", MR_ORIGIN_FLAG, "--deterministic perhaps: is neither true"},
        {"delivery", "maybe", MR_ORIGIN_FLAG,
         "--delivery maybe: is none of at-least-once|exactly-once"},
        {"step-target-ms", "soon", MR_ORIGIN_FLAG,
         "--step-target-ms soon: is neither a whole number nor auto"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(fixture->store.origins, 0, sizeof fixture->store.origins);
        assert_int_equal(set(fixture, cases[i].name, cases[i].value, cases[i].origin),
                         MR_BAD_CONFIG);
        assert_memory_equal(fixture->err.detail, cases[i].sentence, strlen(cases[i].sentence));
    }
    assert_int_equal(set(fixture, "redis", "redis://u:secret@h:1", MR_ORIGIN_FLAG), MR_OK);
    mr_option_refuse(&fixture->config, "redis", 0, &fixture->err, "is away");
    assert_string_equal(fixture->err.detail, "--redis redis://u:***@h:1: is away");
}

static void a_list_has_a_limit(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < MR_LIST_MAX; i++)
        assert_int_equal(set(fixture, "reply-topic", "t", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "reply-topic", "t", MR_ORIGIN_FLAG), MR_BAD_CONFIG);
    const struct mr_option *option = mr_option_find("reply-topic");
    assert_int_equal(mr_option_value_count(&fixture->config, option), MR_LIST_MAX);
    char text[8];
    expect_assert_failure(
        mr_option_value_text(&fixture->config, option, MR_LIST_MAX, text, sizeof text));
}

static void a_number_may_have_a_word(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(set(fixture, "step-target-ms", "60", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(fixture->config.step_target_ms, 60);
    assert_int_equal(set(fixture, "step-target-ms", "auto", MR_ORIGIN_FLAG), MR_OK);
    assert_true(fixture->config.step_target_ms == MR_OPTION_AUTO);
    assert_int_equal(set(fixture, "step-target-ms", "aut", MR_ORIGIN_FLAG), MR_BAD_CONFIG);
    assert_int_equal(set(fixture, "step-target-ms", "4294967295", MR_ORIGIN_FLAG), MR_BAD_CONFIG);
    assert_int_equal(set(fixture, "threads", "auto", MR_ORIGIN_FLAG), MR_BAD_CONFIG);
}

static void ranges_are_exact(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(set(fixture, "threads", "256", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "threads", "257", MR_ORIGIN_FLAG), MR_BAD_CONFIG);
    assert_int_equal(set(fixture, "chunk-tokens", "-2", MR_ORIGIN_FLAG), MR_BAD_CONFIG);
    assert_int_equal(set(fixture, "max-record-bytes", "63", MR_ORIGIN_FLAG), MR_BAD_CONFIG);
    assert_int_equal(set(fixture, "max-record-bytes", "64", MR_ORIGIN_FLAG), MR_OK);
    assert_int_equal(set(fixture, "commit-interval", "61s", MR_ORIGIN_FLAG), MR_BAD_CONFIG);
    assert_non_null(strstr(fixture->err.detail, "--commit-interval 61s: must not be above 1m"));
}

#define APPLY_TEST(name) cmocka_unit_test_setup_teardown(name, create_fixture, destroy_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        APPLY_TEST(every_kind_of_option_sets_its_field),
        APPLY_TEST(a_weaker_origin_changes_nothing),
        APPLY_TEST(values_come_back_as_text),
        APPLY_TEST(secrets_are_masked),
        APPLY_TEST(an_error_names_place_and_value),
        APPLY_TEST(a_list_has_a_limit),
        APPLY_TEST(a_number_may_have_a_word),
        APPLY_TEST(ranges_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
