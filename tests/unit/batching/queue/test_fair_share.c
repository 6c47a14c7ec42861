#include "batching/queue/fair_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void nobody_waits_at_first(void **state)
{
    (void)state;
    struct mr_fair_share share;
    mr_fair_share_init(&share, 0, NULL);
    assert_int_equal(share.tenant_count, 1);
    assert_int_equal(mr_fair_share_next(&share), MR_TENANT_NONE);
}

static void the_tenant_furthest_behind_goes_next(void **state)
{
    (void)state;
    struct mr_fair_share share;
    mr_fair_share_init(&share, 3, NULL);
    for (uint32_t i = 0; i < 3; i++)
        mr_fair_share_enter(&share, i);
    mr_fair_share_charge(&share, 0, 20);
    mr_fair_share_charge(&share, 1, 10);
    mr_fair_share_charge(&share, 2, 15);
    assert_int_equal(mr_fair_share_next(&share), 1);
    mr_fair_share_charge(&share, 1, 6);
    assert_int_equal(mr_fair_share_next(&share), 2);
    mr_fair_share_leave(&share, 2);
    assert_int_equal(mr_fair_share_next(&share), 1);
}

/* 1,000 requests, each charged the cost of its tenant's requests. */
static void shares_follow_the_weights_whatever_a_request_costs(void **state)
{
    (void)state;
    const uint32_t weights[] = {1, 3};
    const uint64_t costs[] = {700, 50};
    uint64_t served[2] = {0};
    struct mr_fair_share share;
    mr_fair_share_init(&share, 2, weights);
    mr_fair_share_enter(&share, 0);
    mr_fair_share_enter(&share, 1);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t next = mr_fair_share_next(&share);
        mr_fair_share_charge(&share, next, costs[next]);
        served[next] += costs[next];
    }
    assert_in_range(3 * served[0], served[1] - 3 * 700, served[1] + 3 * 700);
}

static void idling_earns_no_credit(void **state)
{
    (void)state;
    struct mr_fair_share share;
    mr_fair_share_init(&share, 2, NULL);
    mr_fair_share_enter(&share, 0);
    mr_fair_share_charge(&share, 0, 1000);
    mr_fair_share_enter(&share, 1);
    assert_int_equal(share.virtual_time[1], share.virtual_time[0]);
    mr_fair_share_charge(&share, 0, 1);
    assert_int_equal(mr_fair_share_next(&share), 1);
}

static void a_refund_takes_back_a_part_of_the_cost(void **state)
{
    (void)state;
    struct mr_fair_share share;
    const uint32_t weights[] = {3, 1};
    mr_fair_share_init(&share, 2, weights);
    mr_fair_share_charge(&share, 0, 1000);
    for (uint32_t i = 0; i < 10; i++)
        mr_fair_share_refund(&share, 0, 70);
    assert_in_range(share.virtual_time[0], 100 * MR_FAIR_SHARE_SCALE,
                    100 * MR_FAIR_SHARE_SCALE + 10);
    mr_fair_share_refund(&share, 0, 301);
    assert_int_equal(share.virtual_time[0], 0);
}

static void idling_does_not_reset_the_cost(void **state)
{
    (void)state;
    struct mr_fair_share share;
    mr_fair_share_init(&share, 2, NULL);
    mr_fair_share_enter(&share, 0);
    mr_fair_share_enter(&share, 1);
    mr_fair_share_charge(&share, 0, 1000);
    mr_fair_share_leave(&share, 0);
    mr_fair_share_enter(&share, 0);
    assert_true(mr_fair_share_is_behind(&share, 1, 0, 0));
}

static void into_an_empty_queue_a_tenant_is_raised_to_the_last_one(void **state)
{
    (void)state;
    struct mr_fair_share share;
    mr_fair_share_init(&share, 2, NULL);
    mr_fair_share_enter(&share, 0);
    mr_fair_share_charge(&share, 0, 500);
    mr_fair_share_leave(&share, 0);
    mr_fair_share_enter(&share, 1);
    assert_int_equal(share.virtual_time[1], share.virtual_time[0]);
}

static void a_returned_request_keeps_its_tenants_credit(void **state)
{
    (void)state;
    struct mr_fair_share share;
    mr_fair_share_init(&share, 2, NULL);
    mr_fair_share_enter(&share, 0);
    mr_fair_share_enter(&share, 1);
    mr_fair_share_charge(&share, 0, 500);
    mr_fair_share_leave(&share, 1);
    mr_fair_share_return(&share, 1);
    assert_true(mr_fair_share_is_behind(&share, 1, 0, 0));
}

static void places_are_divided_among_active_tenants(void **state)
{
    (void)state;
    struct mr_fair_share share;
    const uint32_t weights[] = {1, 2, 1, 100}, taken[] = {0, 3, 0, 0};
    uint32_t parts[4];
    mr_fair_share_init(&share, 4, weights);
    mr_fair_share_enter(&share, 0);
    mr_fair_share_divide(&share, 8, taken, parts);
    assert_int_equal(parts[0], 2);
    assert_int_equal(parts[1], 5);
    assert_int_equal(parts[2], 0);
    mr_fair_share_enter(&share, 3);
    mr_fair_share_divide(&share, 8, taken, parts);
    assert_int_equal(parts[0], 1); /* at least 1 */
    assert_int_equal(parts[3], 7);
}

static void an_unknown_tenant_asserts(void **state)
{
    (void)state;
    struct mr_fair_share share;
    const uint32_t weightless[] = {0};
    mr_fair_share_init(&share, 2, NULL);
    expect_assert_failure(mr_fair_share_enter(&share, 2));
    expect_assert_failure(mr_fair_share_leave(&share, 0));
    expect_assert_failure(mr_fair_share_init(&share, MR_TENANTS_MAX + 1, NULL));
    expect_assert_failure(mr_fair_share_init(&share, 1, weightless));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_at_first),
        cmocka_unit_test(the_tenant_furthest_behind_goes_next),
        cmocka_unit_test(shares_follow_the_weights_whatever_a_request_costs),
        cmocka_unit_test(idling_earns_no_credit),
        cmocka_unit_test(a_refund_takes_back_a_part_of_the_cost),
        cmocka_unit_test(idling_does_not_reset_the_cost),
        cmocka_unit_test(into_an_empty_queue_a_tenant_is_raised_to_the_last_one),
        cmocka_unit_test(a_returned_request_keeps_its_tenants_credit),
        cmocka_unit_test(places_are_divided_among_active_tenants),
        cmocka_unit_test(an_unknown_tenant_asserts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
