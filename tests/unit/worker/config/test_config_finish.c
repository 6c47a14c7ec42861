#include "worker/config/config_finish.h"

#include "tests/unit/worker/config/fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The defaults, and the options that `serve` requires. */
static int create(void **state)
{
    create_fixture(state);
    struct fixture *fixture = *state;
    fixture->config.command = MR_COMMAND_SERVE;
    for (size_t i = 0; i < mr_option_count; i++)
        if (mr_options[i].kind != MR_OPTION_LIST)
            assert_int_equal(mr_option_apply(&fixture->config, &mr_options[i],
                                             mr_options[i].initial, (struct mr_option_source){0},
                                             &fixture->err),
                             MR_OK);
    fixture->config.model = "/models/SmolLM2.gguf";
    fixture->config.brokers = "b:9092";
    return 0;
}

static enum mr_status finish(struct fixture *fixture)
{
    return mr_config_finish(&fixture->config, &fixture->err);
}

static void the_model_is_named_after_its_file(void **state)
{
    static const char *const cases[][2] = {{"/models/SmolLM2.gguf", "SmolLM2"},
                                           {"a.b.gguf", "a.b"},
                                           {"/models/qwen/", "qwen"},
                                           {"folder", "folder"},
                                           {".gguf", ".gguf"}};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture->config.model = cases[i][0];
        fixture->config.model_name = "";
        assert_int_equal(finish(fixture), MR_OK);
        assert_string_equal(fixture->config.model_name, cases[i][1]);
    }
    fixture->config.model_name = "given";
    assert_int_equal(finish(fixture), MR_OK);
    assert_string_equal(fixture->config.model_name, "given");
}

static void topics_follow_the_prefix_unless_named(void **state)
{
    struct fixture *fixture = *state;
    fixture->config.prefix = "team.llm";
    fixture->config.dlq_topic = "graveyard";
    fixture->config.strict = true;
    assert_int_equal(finish(fixture), MR_OK);
    assert_string_equal(fixture->config.request_topics[0].name, "team.llm.requests");
    assert_true(fixture->config.request_topics[0].strict);
    assert_string_equal(fixture->config.cancel_topic, "team.llm.cancel");
    assert_string_equal(fixture->config.dlq_topic, "graveyard");
}

static void set_topics(struct fixture *fixture, size_t count, const char *const *topics)
{
    fixture->config.requests_topic.count = count;
    for (size_t i = 0; i < count; i++)
        fixture->config.requests_topic.values[i] = topics[i];
}

static void a_topic_has_tenant_weight_and_limits(void **state)
{
    struct fixture *fixture = *state;
    static const char *const topics[] = {"a,tenant=red,weight=5,queue=30s,run=2m,thinking=512", "b",
                                         "c,tenant=red,priority=-10", "d,tenant=blue"};
    set_topics(fixture, 4, topics);
    fixture->config.tenant_weight = (struct mr_text_list){{"red=3", "blue=2"}, 2};
    fixture->config.tenant_quota =
        (struct mr_text_list){{"red=500/minute", "blue=70000/day", "red=9/day"}, 3};
    assert_int_equal(finish(fixture), MR_OK);
    const struct mr_request_topic *topic = fixture->config.request_topics;
    assert_int_equal(topic[0].weight, 5);
    assert_int_equal(topic[0].queue_limit_ns, 30000000000u);
    assert_int_equal(topic[0].run_limit_ns, 120000000000u);
    assert_int_equal(topic[0].thinking_tokens, 512);
    assert_int_equal(topic[1].thinking_tokens, 0);
    assert_int_equal(topic[1].weight, 0);
    assert_int_equal(topic[1].queue_limit_ns, 0);
    assert_int_equal(topic[0].tenant_index, 0);
    assert_int_equal(topic[1].tenant_index, 1);
    assert_int_equal(topic[2].tenant_index, 0);
    assert_int_equal(topic[3].tenant_index, 2);
    assert_int_equal(fixture->config.tenant_count, 3);
    assert_int_equal(fixture->config.tenant_weights[0], 3);
    assert_int_equal(fixture->config.tenant_weights[1], 1);
    assert_int_equal(fixture->config.tenant_weights[2], 2);
    assert_int_equal(fixture->config.minute_quotas[0], 500);
    assert_int_equal(fixture->config.day_quotas[0], 9);
    assert_int_equal(fixture->config.minute_quotas[1], 0);
    assert_int_equal(fixture->config.minute_quotas[2], 0);
    assert_int_equal(fixture->config.day_quotas[2], 70000);
}

static void invalid_settings_of_a_topic_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const topics[] = {"a,weight=0", "a,weight=1001", "a,queue=soon",
                                         "a,run=",     "a,tenant=",     "a,thinking=0"};
    static const char *const weights[] = {"red", "default=0", "default=1001", "other=2",
                                          "defaul=2"};
    static const char *const quotas[] = {"default",          "default=5",       "default=0/day",
                                         "default=5/hour",   "default=/minute", "other=5/day",
                                         "default=5/day/day"};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        set_topics(fixture, 1, &topics[i]);
        assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    }
    set_topics(fixture, 0, NULL);
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        fixture->config.tenant_weight = (struct mr_text_list){{weights[i]}, 1};
        assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    }
    fixture->config.tenant_weight.count = 0;
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++) {
        fixture->config.tenant_quota = (struct mr_text_list){{quotas[i]}, 1};
        assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    }
}

static void names_that_kafka_refuses_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[] = {"a b", "a/b", "\xc3\xa4", ".", "..", "a\n"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fixture->config.tokens_topic = names[i];
        assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    }
    char name[251];
    memset(name, 'a', 250);
    name[250] = '\0';
    fixture->config.tokens_topic = name;
    assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    fixture->config.tokens_topic = name + 1;
    assert_int_equal(finish(fixture), MR_OK);
}

static void a_worker_has_a_name_in_any_case(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(finish(fixture), MR_OK);
    assert_non_null(strchr(fixture->config.worker_id, '-'));
}

static void printing_requires_no_option(void **state)
{
    struct fixture *fixture = *state;
    fixture->config.brokers = "";
    assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    fixture->config.print_config = true;
    assert_int_equal(finish(fixture), MR_OK);
}

static void deterministic_excludes_int8(void **state)
{
    struct fixture *fixture = *state;
    fixture->config.deterministic = true;
    fixture->config.redis_kv = MR_REDIS_KV_INT8;
    assert_int_equal(finish(fixture), MR_OK); /* without Redis the option has no effect */
    assert_int_equal(fixture->config.redis_kv, MR_REDIS_KV_EXACT);
    fixture->config.redis_kv = MR_REDIS_KV_INT8;
    fixture->config.redis = "redis://r:6379/0";
    assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    assert_non_null(strstr(fixture->err.detail, "redis-kv int8"));
    fixture->config.redis_kv = MR_REDIS_KV_EXACT;
    assert_int_equal(finish(fixture), MR_OK);
    fixture->config.redis_kv = MR_REDIS_KV_INT8;
    fixture->config.deterministic = false;
    assert_int_equal(finish(fixture), MR_OK);
    assert_int_equal(fixture->config.redis_kv, MR_REDIS_KV_INT8);
    fixture->config.deterministic = true; /* blocks of a pool in int8 need no conversion */
    fixture->config.kv_dtype = MR_KV_DTYPE_INT8;
    assert_int_equal(finish(fixture), MR_OK);
    assert_int_equal(fixture->config.redis_kv, MR_REDIS_KV_EXACT);
}

static void a_rebalance_waits_a_minute_or_as_long_as_other_options_need(void **state)
{
    struct fixture *fixture = *state;
    struct mr_config *config = &fixture->config;
    const uint64_t second = 1000000000;
    const struct {
        enum mr_on_revoke on_revoke;
        uint64_t session_s, revoke_s, given_s, used_s; /* used: 0 for a refusal */
    } cases[] = {{MR_ON_REVOKE_DROP, 45, 10, 0, 60},     {MR_ON_REVOKE_DROP, 90, 10, 0, 90},
                 {MR_ON_REVOKE_DROP, 45, 50, 0, 60},     {MR_ON_REVOKE_DRAIN, 45, 10, 0, 60},
                 {MR_ON_REVOKE_DRAIN, 45, 120, 0, 240},  {MR_ON_REVOKE_DROP, 6, 10, 7, 7},
                 {MR_ON_REVOKE_DRAIN, 45, 30, 300, 300}, {MR_ON_REVOKE_DRAIN, 45, 31, 61, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config->on_revoke = cases[i].on_revoke;
        config->session_timeout_ns = cases[i].session_s * second;
        config->revoke_timeout_ns = cases[i].revoke_s * second;
        config->poll_interval_max_ns = cases[i].given_s * second;
        assert_int_equal(finish(fixture), cases[i].used_s ? MR_OK : MR_BAD_CONFIG);
        if (cases[i].used_s)
            assert_int_equal(config->poll_interval_max_ns, cases[i].used_s * second);
        else
            assert_non_null(strstr(fixture->err.detail, "more than half of --poll-interval-max"));
    }
}

#define FINISH_TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy_fixture)

static void set_property(struct fixture *fixture, const char *property)
{
    fixture->config.kafka = (struct mr_text_list){{property}, 1};
}

static void secrets_come_from_files_and_the_environment(void **state)
{
    struct fixture *fixture = *state;
    char path[] = "secret-XXXXXX", property[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "two words\n", 10) == 10);
    close(fd);
    snprintf(property, sizeof property, "sasl.password=@%s", path);
    set_property(fixture, property);
    assert_int_equal(finish(fixture), MR_OK);
    assert_string_equal(fixture->config.kafka.values[0], "sasl.password=two words");
    unlink(path);
    set_property(fixture, property);
    assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    assert_non_null(strstr(fixture->err.detail, path));

    setenv("MR_TEST_SECRET", "flour", 1);
    set_property(fixture, "ssl.key.password=env:MR_TEST_SECRET");
    assert_int_equal(finish(fixture), MR_OK);
    assert_string_equal(fixture->config.kafka.values[0], "ssl.key.password=flour");
    unsetenv("MR_TEST_SECRET");
    set_property(fixture, "ssl.key.password=env:MR_TEST_SECRET");
    assert_int_equal(finish(fixture), MR_BAD_CONFIG);
    assert_non_null(strstr(fixture->err.detail, "MR_TEST_SECRET"));

    set_property(fixture, "sasl.password=@@home");
    assert_int_equal(finish(fixture), MR_OK);
    assert_string_equal(fixture->config.kafka.values[0], "sasl.password=@home");
}

static void secrets_are_not_printed(void **state)
{
    static const char *const properties[] = {
        "sasl.password=flour",    "consumer.sasl.password=flour",
        "ssl.key.password=flour", "ssl.keystore.password=flour",
        "ssl.key.pem=flour",      "sasl.oauthbearer.client.secret=flour"};
    struct fixture *fixture = *state;
    char text[128];
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        set_property(fixture, properties[i]);
        mr_option_value_text(&fixture->config, mr_option_find("kafka"), 0, text, sizeof text);
        assert_null(strstr(text, "flour"));
    }
    set_property(fixture, "sasl.username=miller");
    mr_option_value_text(&fixture->config, mr_option_find("kafka"), 0, text, sizeof text);
    assert_string_equal(text, "sasl.username=miller");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FINISH_TEST(the_model_is_named_after_its_file),
        FINISH_TEST(a_rebalance_waits_a_minute_or_as_long_as_other_options_need),
        FINISH_TEST(topics_follow_the_prefix_unless_named),
        FINISH_TEST(a_topic_has_tenant_weight_and_limits),
        FINISH_TEST(invalid_settings_of_a_topic_are_refused),
        FINISH_TEST(names_that_kafka_refuses_are_refused),
        FINISH_TEST(a_worker_has_a_name_in_any_case),
        FINISH_TEST(printing_requires_no_option),
        FINISH_TEST(secrets_come_from_files_and_the_environment),
        FINISH_TEST(secrets_are_not_printed),
        FINISH_TEST(deterministic_excludes_int8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
