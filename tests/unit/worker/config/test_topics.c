#include "worker/config/topics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void request_topics_come_first_and_every_topic_once(void **state)
{
    (void)state;
    const struct mr_config config = {.request_topics = {{.name = "r1"}, {.name = "r2"}},
                                     .request_topic_count = 2,
                                     .tokens_topic = "t",
                                     .results_topic = "s",
                                     .cancel_topic = "c",
                                     .dlq_topic = "d"};
    static const struct mr_topic want[] = {{"r1", MR_TOPIC_REQUESTS}, {"r2", MR_TOPIC_REQUESTS},
                                           {"t", MR_TOPIC_TOKENS},    {"s", MR_TOPIC_RESULTS},
                                           {"c", MR_TOPIC_CANCEL},    {"d", MR_TOPIC_DLQ}};
    struct mr_topic topic;
    size_t count = sizeof want / sizeof *want;
    for (size_t i = 0; i < count; i++) {
        assert_true(mr_topics_at(&config, i, &topic));
        assert_string_equal(topic.name, want[i].name);
        assert_int_equal(topic.role, want[i].role);
    }
    assert_false(mr_topics_at(&config, count, &topic));
    assert_false(mr_topics_at(&config, SIZE_MAX, &topic));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_topics_come_first_and_every_topic_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
