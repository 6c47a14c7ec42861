#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_policy.h"

#include <string.h>

#define HEAD "# Memory\r\nused_memory:1\r\nmaxmemory_human:2.00M\r\n"

static bool read_info(struct mr_redis_policy *policy, const char *info)
{
    return mr_redis_policy_read(policy, info, strlen(info));
}

static const char *judge(const char *info, bool values_expire)
{
    static char text[MR_REDIS_POLICY_BYTES];
    struct mr_redis_policy policy;
    assert_true(read_info(&policy, info));
    mr_redis_policy_judge(&policy, values_expire, text);
    return text;
}

static void limit_and_policy_are_found(void **state)
{
    struct mr_redis_policy policy;
    (void)state;
    assert_true(read_info(&policy, HEAD "maxmemory:2097152\r\nmaxmemory_policy:allkeys-lru\r\n"));
    assert_int_equal(policy.maxmemory_bytes, 2097152);
    assert_string_equal(policy.eviction, "allkeys-lru");
    assert_true(read_info(&policy, "maxmemory_policy:noeviction\nmaxmemory:0"));
    assert_string_equal(policy.eviction, "noeviction");
}

static void a_reply_without_limit_or_policy_is_refused(void **state)
{
    static const char *const others[] = {
        "",
        "\r\n\n",
        HEAD,
        "maxmemory:5\r\n",
        "maxmemory_policy:noeviction\r\n",
        "maxmemory:\r\nmaxmemory_policy:noeviction\r\n",
        "maxmemory:5x\r\nmaxmemory_policy:noeviction\r\n",
        "maxmemory:-5\r\nmaxmemory_policy:noeviction\r\n",
        "maxmemory:111111111111111111111111111\r\nmaxmemory_policy:noeviction\r\n",
        "maxmemory:5\r\nmaxmemory_policy:a-name-longer-than-every-policy-there-is\r\n"};
    struct mr_redis_policy policy;
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(read_info(&policy, others[i]));
}

static void only_a_policy_unsuitable_for_a_cache_is_reported(void **state)
{
    (void)state;
    assert_string_equal(judge("maxmemory:9\r\nmaxmemory_policy:allkeys-lfu\r\n", false), "");
    assert_string_equal(judge("maxmemory:9\r\nmaxmemory_policy:volatile-ttl\r\n", true), "");
    assert_non_null(strstr(judge("maxmemory:9\r\nmaxmemory_policy:volatile-ttl\r\n", false),
                           "does not evict old blocks when its memory is full"));
    assert_non_null(
        strstr(judge("maxmemory:9\r\nmaxmemory_policy:noeviction\r\n", true), "noeviction"));
    assert_non_null(
        strstr(judge("maxmemory:0\r\nmaxmemory_policy:noeviction\r\n", true), "no memory limit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limit_and_policy_are_found),
        cmocka_unit_test(a_reply_without_limit_or_policy_is_refused),
        cmocka_unit_test(only_a_policy_unsuitable_for_a_cache_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
