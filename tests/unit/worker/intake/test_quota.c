#include "worker/intake/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND_NS UINT64_C(1000000000)

/* Tenant 0 may have 600 tokens a minute, tenant 1 1,000 a day, tenant 2 everything. */
static void open_quota(struct mr_quota *quota)
{
    static const struct mr_config config = {
        .tenant_count = 3, .minute_quotas = {600, 0, 0}, .day_quotas = {0, 1000, 0}};
    mr_quota_open(quota, &config);
    assert_int_equal(mr_quota_room(quota, SECOND_NS) & 7, 7);
}

static void run(struct mr_quota *quota, uint32_t tenant, uint64_t reserved, uint64_t used)
{
    mr_quota_reserve(quota, tenant, reserved);
    mr_quota_charge(quota, tenant, reserved, used);
}

static void a_tenant_above_its_minute_waits_until_it_is_refilled(void **state)
{
    (void)state;
    struct mr_quota quota;
    open_quota(&quota);
    run(&quota, 0, 700, 610); /* the last request may exceed the rest */
    assert_int_equal(mr_quota_room(&quota, SECOND_NS) & 7, 6);
    assert_int_equal(mr_quota_room(&quota, 2 * SECOND_NS) & 7, 6); /* 10 tokens a second: 0 left */
    assert_int_equal(mr_quota_room(&quota, 3 * SECOND_NS) & 7, 7);
    /* no more is saved than a minute's worth */
    assert_int_equal(mr_quota_room(&quota, 10000 * SECOND_NS) & 7, 7);
    run(&quota, 0, 600, 600);
    assert_int_equal(mr_quota_room(&quota, 10000 * SECOND_NS) & 7, 6);
}

static void a_day_is_another_limit(void **state)
{
    (void)state;
    struct mr_quota quota;
    open_quota(&quota);
    run(&quota, 1, 1000, 1100);
    assert_int_equal(mr_quota_room(&quota, 61 * SECOND_NS) & 7, 5);
    assert_int_equal(mr_quota_room(&quota, 3600 * SECOND_NS) & 7, 5);
    assert_int_equal(mr_quota_room(&quota, 3 * 3600 * SECOND_NS) & 7, 7);
}

static void what_requests_in_flight_may_compute_is_reserved(void **state)
{
    (void)state;
    struct mr_quota quota;
    open_quota(&quota);
    mr_quota_reserve(&quota, 0, 300);
    assert_int_equal(mr_quota_room(&quota, SECOND_NS) & 1, 1);
    mr_quota_reserve(&quota, 0, 300);
    assert_int_equal(mr_quota_room(&quota, SECOND_NS) & 1, 0);
    /* a short answer returns what it did not need */
    mr_quota_charge(&quota, 0, 300, 20);
    assert_int_equal(mr_quota_room(&quota, SECOND_NS) & 1, 1);
    mr_quota_charge(&quota, 0, 300, 0);
    expect_assert_failure(mr_quota_charge(&quota, 0, 1, 0));
}

static void without_limits_everybody_has_room(void **state)
{
    (void)state;
    struct mr_quota quota = {.now_ns = 0};
    run(&quota, 5, 1, UINT32_MAX);
    assert_true(mr_quota_room(&quota, SECOND_NS) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_above_its_minute_waits_until_it_is_refilled),
        cmocka_unit_test(a_day_is_another_limit),
        cmocka_unit_test(what_requests_in_flight_may_compute_is_reserved),
        cmocka_unit_test(without_limits_everybody_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
