#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/byte_budget.h"

#include <stdio.h>

#define SECOND ((uint64_t)1000000000)

static void each_tenant_has_its_own_budget(void **state)
{
    struct mr_byte_budget budget;
    (void)state;
    mr_byte_budget_init(&budget, 100);
    assert_true(mr_byte_budget_take(&budget, "a", 200, SECOND));
    assert_false(mr_byte_budget_take(&budget, "a", 1, SECOND));
    assert_true(mr_byte_budget_take(&budget, "b", 200, SECOND));
    assert_true(mr_byte_budget_take(&budget, "a", 50, SECOND + SECOND / 2));
    assert_false(mr_byte_budget_take(&budget, "a", 1, SECOND + SECOND / 2));
    assert_true(mr_byte_budget_take(&budget, "a", 200, 100 * SECOND));
    assert_false(mr_byte_budget_take(&budget, "a", 201, 200 * SECOND));
}

static void zero_means_no_limit(void **state)
{
    struct mr_byte_budget budget;
    (void)state;
    mr_byte_budget_init(&budget, 0);
    assert_true(mr_byte_budget_take(&budget, "a", UINT64_MAX, 0));
}

static void a_further_tenant_replaces_the_one_seen_longest_ago(void **state)
{
    struct mr_byte_budget budget;
    char name[16];
    (void)state;
    mr_byte_budget_init(&budget, 10);
    for (uint32_t i = 0; i < 3 * MR_BUDGET_TENANTS_MAX; i++) {
        snprintf(name, sizeof name, "t%u", i);
        assert_true(mr_byte_budget_take(&budget, name, 20, i + 1));
        assert_false(mr_byte_budget_take(&budget, name, 20, i + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tenant_has_its_own_budget),
        cmocka_unit_test(zero_means_no_limit),
        cmocka_unit_test(a_further_tenant_replaces_the_one_seen_longest_ago),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
