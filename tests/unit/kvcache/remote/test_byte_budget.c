#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/byte_budget.h"

#include <stdio.h>

#define SECOND ((uint64_t)1000000000)

static bool take(struct mr_byte_budget *budget, const char *tenant, uint64_t bytes, uint64_t now_ns)
{
    return mr_byte_budget_take(budget, mr_byte_budget_tenant(tenant), bytes, now_ns);
}

static void each_tenant_has_its_own_budget(void **state)
{
    struct mr_byte_budget budget;
    (void)state;
    mr_byte_budget_init(&budget, 100);
    assert_true(take(&budget, "a", 200, SECOND));
    assert_false(take(&budget, "a", 1, SECOND));
    assert_true(take(&budget, "b", 200, SECOND));
    assert_true(take(&budget, "a", 50, SECOND + SECOND / 2));
    assert_false(take(&budget, "a", 1, SECOND + SECOND / 2));
    assert_true(take(&budget, "a", 200, 100 * SECOND));
}

/* A value larger than the bucket is granted when the bucket is full. Later values wait until the
 * debt is paid. */
static void a_full_bucket_covers_what_is_larger(void **state)
{
    struct mr_byte_budget budget;
    (void)state;
    mr_byte_budget_init(&budget, 100);
    assert_true(take(&budget, "a", 1000, SECOND));
    assert_false(take(&budget, "a", 1, 9 * SECOND)); /* 800 of 800 bytes paid */
    assert_true(take(&budget, "a", 50, 10 * SECOND));
    assert_false(take(&budget, "a", 1000, 11 * SECOND));
    assert_true(take(&budget, "a", 1000, 12 * SECOND));
}

static void bytes_that_are_not_written_are_refunded(void **state)
{
    struct mr_byte_budget budget;
    (void)state;
    mr_byte_budget_init(&budget, 100);
    assert_true(take(&budget, "a", 200, SECOND));
    mr_byte_budget_give(&budget, mr_byte_budget_tenant("a"), 30);
    mr_byte_budget_give(&budget, mr_byte_budget_tenant("b"), 30); /* has no bucket */
    assert_false(take(&budget, "a", 31, SECOND));
    assert_true(take(&budget, "a", 30, SECOND));
    mr_byte_budget_give(&budget, mr_byte_budget_tenant("a"), 1000); /* never more than full */
    assert_true(take(&budget, "a", 200, SECOND));
    assert_false(take(&budget, "a", 1, SECOND));
}

static void zero_means_no_limit(void **state)
{
    struct mr_byte_budget budget;
    (void)state;
    mr_byte_budget_init(&budget, 0);
    assert_true(take(&budget, "a", UINT64_MAX, 0));
}

static void a_further_tenant_replaces_the_one_seen_longest_ago(void **state)
{
    struct mr_byte_budget budget;
    char name[16];
    (void)state;
    mr_byte_budget_init(&budget, 10);
    for (uint32_t i = 0; i < 3 * MR_BUDGET_TENANTS_MAX; i++) {
        snprintf(name, sizeof name, "t%u", i);
        assert_true(take(&budget, name, 20, i + 1));
        assert_false(take(&budget, name, 20, i + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tenant_has_its_own_budget),
        cmocka_unit_test(a_full_bucket_covers_what_is_larger),
        cmocka_unit_test(bytes_that_are_not_written_are_refunded),
        cmocka_unit_test(zero_means_no_limit),
        cmocka_unit_test(a_further_tenant_replaces_the_one_seen_longest_ago),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
