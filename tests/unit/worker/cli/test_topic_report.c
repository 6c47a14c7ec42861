#include "worker/cli/topic_report.h"

#include "tests/unit/worker/broker.h"

#include <string.h>

static void reply_topics_that_are_whole_names_follow_the_others(void **state)
{
    struct mr_topic topic;
    (void)state;
    struct mr_config config = {.request_topics = {{.name = "q"}},
                               .request_topic_count = 1,
                               .tokens_topic = "t",
                               .results_topic = "r",
                               .cancel_topic = "c",
                               .dlq_topic = "d",
                               .reply_topics = {{"one", "many.*", "two"}, 3}};
    static const char *const names[] = {"q", "t", "r", "c", "d", "one", "two"};
    for (size_t i = 0; i < 7; i++) {
        assert_true(mr_topic_reporter_at(&config, i, &topic));
        assert_string_equal(topic.name, names[i]);
    }
    assert_int_equal(topic.role, MR_TOPIC_REPLIES);
    assert_false(mr_topic_reporter_at(&config, 7, &topic));
}

static void looking_at_topics_creates_none_and_creating_does(void **state)
{
    struct broker broker;
    struct mr_report report = {.json = true};
    struct mr_config config = {.requests_partitions = 3};
    bool embedded, created;
    uint32_t count = 1;
    (void)state;
    open_broker(&broker);
    struct mr_topic_reporter reporter = {.report = &report, .config = &config, .timeout_ms = 5000};
    assert_int_equal(mr_kafka_admin_open(&reporter.admin, &broker.kafka, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_probe(reporter.admin, 5000, &embedded, NULL), MR_OK);
    const struct mr_topic topic = {"new.topic", MR_TOPIC_REQUESTS};
    mr_topic_report(&reporter, &topic);
    assert_int_equal(mr_kafka_admin_partitions(reporter.admin, topic.name, 5000, &count, NULL),
                     MR_OK);
    assert_int_equal(count, 0);
    const struct mr_kafka_topic_plan plan = {.partitions = 3};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            mr_kafka_admin_create(reporter.admin, topic.name, &plan, 5000, &created, NULL), MR_OK);
        assert_int_equal(created, i == 0);
    }
    mr_topic_report(&reporter, &topic);
    assert_int_equal(report.code, MR_EXIT_DONE);
    mr_kafka_admin_close(reporter.admin);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reply_topics_that_are_whole_names_follow_the_others),
        cmocka_unit_test(looking_at_topics_creates_none_and_creating_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
