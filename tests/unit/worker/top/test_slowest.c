#include "worker/top/slowest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_slowest_of_all_workers_come_first(void **state)
{
    (void)state;
    struct mr_slowest slowest = {.count = 0};
    char page[64];
    for (unsigned i = 0; i < 50; i++) {
        snprintf(page, sizeof page, "[{\"id\":\"r\",\"seconds\":%u}]", i * 7 % 50);
        assert_int_equal(mr_slowest_add(&slowest, i % 2 ? "b:1" : "a:1", "", page, NULL), MR_OK);
    }
    assert_int_equal(slowest.count, MR_SLOWEST_MAX);
    for (unsigned i = 0; i < MR_SLOWEST_MAX; i++)
        assert_true(slowest.requests[i].seconds == 49.0 - i);
    assert_string_equal(slowest.requests[0].worker, "b:1"); /* 7 * 7 */
}

static void a_hostile_page_cannot_write_to_the_terminal(void **state)
{
    (void)state;
    struct mr_slowest slowest = {.count = 0};
    struct mr_error err = {0};
    assert_int_equal(mr_slowest_add(&slowest, "a:1", "",
                                    "[{\"id\":\"\\u001b[2J\\u009b\",\"tenant\":null,\"seconds\":1},"
                                    "7,{\"id\":\"no age\"},{\"seconds\":\"9\"}]",
                                    &err),
                     MR_OK);
    assert_int_equal(slowest.count, 1);
    assert_string_equal(slowest.requests[0].id, "?[2J??");
    assert_string_equal(slowest.requests[0].tenant, "default");
    assert_int_equal(mr_slowest_add(&slowest, "a:1", "", "<html>", &err), MR_MALFORMED);
    assert_string_equal(err.detail, "a:1: /requests is not JSON");
}

static void requests_of_one_tenant_are_chosen(void **state)
{
    (void)state;
    static const char page[] = "[{\"id\":\"a\",\"tenant\":\"red\",\"seconds\":9},"
                               "{\"id\":\"b\",\"tenant\":\"blue\",\"seconds\":8},"
                               "{\"id\":\"c\",\"tenant\":null,\"seconds\":7}]";
    struct mr_slowest slowest = {.count = 0};
    assert_int_equal(mr_slowest_add(&slowest, "a:1", "blue", page, NULL), MR_OK);
    assert_int_equal(slowest.count, 1);
    assert_string_equal(slowest.requests[0].id, "b");
    assert_int_equal(mr_slowest_add(&slowest, "a:1", "default", page, NULL), MR_OK);
    assert_int_equal(slowest.count, 2);
    assert_string_equal(slowest.requests[1].id, "c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slowest_of_all_workers_come_first),
        cmocka_unit_test(requests_of_one_tenant_are_chosen),
        cmocka_unit_test(a_hostile_page_cannot_write_to_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
