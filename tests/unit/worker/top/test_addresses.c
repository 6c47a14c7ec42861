#include "worker/top/addresses.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void workers_of_one_host_have_successive_ports(void **state)
{
    (void)state;
    char names[4][MR_KAFKA_HOST_BYTES] = {"10.0.0.7", "0:0:0:0:0:0:0:1", "10.0.0.3", "10.0.0.7"};
    char addresses[4][MR_ADDRESS_BYTES];
    struct mr_kafka_hosts hosts = {.names = names, .max = 4, .count = 4};
    mr_addresses_make(&hosts, 9464, addresses);
    assert_string_equal(addresses[0], "[0:0:0:0:0:0:0:1]:9464");
    assert_string_equal(addresses[1], "10.0.0.3:9464");
    assert_string_equal(addresses[2], "10.0.0.7:9464");
    assert_string_equal(addresses[3], "10.0.0.7:9465");
    hosts.count = 0;
    mr_addresses_make(&hosts, 9464, addresses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_of_one_host_have_successive_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
