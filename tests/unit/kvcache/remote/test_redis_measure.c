#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_measure.h"
#include "tests/unit/worker/memory_redis.h"

#define MS ((uint64_t)1000000)

static void the_best_of_four_rounds_counts(void **state)
{
    struct memory_redis redis = {.latency_ns = 4 * MS};
    struct mr_redis_port port = memory_port(&redis);
    struct mr_redis_measure measure = {0};
    uint64_t now_ns = MS;
    unsigned rounds = 0;
    bool complete = false;
    (void)state;
    port.step(port.context, now_ns);
    mr_redis_measure_begin(&measure, &port, now_ns);
    assert_true(measure.active);
    while (!complete) {
        port.step(port.context, now_ns);
        struct mr_redis_command *command = port.take(port.context);
        now_ns += MS;
        if (!command) continue;
        assert_ptr_equal(command, &measure.command);
        redis.latency_ns = ++rounds == 1 ? MS : 3 * MS;
        complete = mr_redis_measure_finish(&measure, &port, now_ns);
    }
    assert_int_equal(rounds, 4);
    assert_true(measure.bytes_per_second > 1e9 * (double)MR_REDIS_MEASURE_BYTES / (double)(4 * MS));
    mr_redis_measure_begin(&measure, &port, now_ns); /* too early */
    assert_false(measure.active);
    mr_redis_measure_end(&measure);
    port.destroy(port.context);
    memory_redis_end(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_four_rounds_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
