#include "worker/config/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static enum mr_variable_kind kind_of(const char *text)
{
    struct mr_variable variable;
    mr_variable_read(&variable, text);
    return variable.kind;
}

static void variables_become_names_of_options(void **state)
{
    (void)state;
    struct mr_variable variable;
    char name[MR_VARIABLE_NAME_BYTES_MAX];
    mr_variable_read(&variable, "MILLRACE_KV_MEMORY=2GiB=x");
    assert_int_equal(variable.kind, MR_VARIABLE_OPTION);
    assert_string_equal(variable.name, "MILLRACE_KV_MEMORY");
    assert_string_equal(variable.option, "kv-memory");
    assert_string_equal(variable.value, "2GiB=x");
    mr_variable_name_of(variable.option, name);
    assert_string_equal(name, variable.name);
    assert_int_equal(kind_of("MILLRACE=1"), MR_VARIABLE_OTHER);
    assert_int_equal(kind_of("PATH=/bin"), MR_VARIABLE_OTHER);
    assert_int_equal(kind_of("MILLRACER_X=1"), MR_VARIABLE_OTHER);
    assert_int_equal(kind_of("MILLRACE_"), MR_VARIABLE_OPTION);
    char longest[400] = "MILLRACE_";
    memset(longest + 9, 'A', 300);
    mr_variable_read(&variable, longest);
    assert_int_equal(variable.kind, MR_VARIABLE_OPTION);
    assert_int_equal(strlen(variable.name), MR_VARIABLE_NAME_BYTES_MAX - 1);
}

static void variables_of_kubernetes_services_are_told_apart_from_options(void **state)
{
    (void)state;
    static const char *const services[] = {
        "MILLRACE_SERVICE_HOST=10.0.0.1",
        "MILLRACE_SERVICE_PORT=9464",
        "MILLRACE_SERVICE_PORT_HTTP=9464",
        "MILLRACE_PORT=tcp://10.0.0.1:9464",
        "MILLRACE_PORT=udp://10.0.0.1:9464",
        "MILLRACE_PORT_9464_TCP=tcp://10.0.0.1:9464",
        "MILLRACE_PORT_9464_TCP_PROTO=tcp",
        "MILLRACE_PORT_9464_TCP_PORT=9464",
        "MILLRACE_PORT_9464_TCP_ADDR=10.0.0.1",
        "MILLRACE_REDIS_SERVICE_HOST=10.0.0.2",
        "MILLRACE_REDIS_PORT=tcp://10.0.0.2:6379",
        "MILLRACE_REDIS_PORT_6379_TCP_ADDR=10.0.0.2",
        "MILLRACE_DNS_PORT_53_UDP=udp://10.0.0.3:53",
    };
    static const char *const options[] = {
        "MILLRACE_HTTP_PORT=9464", "MILLRACE_PORT=9464",    "MILLRACE_PORT_TCP=1",
        "MILLRACE_PORT_9464=1",    "MILLRACE_PORT_9464_X=", "MILLRACE_PORT_9464_TCP_X=1",
        "MILLRACE_SERVICE=1",
    };
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        if (kind_of(services[i]) != MR_VARIABLE_SERVICE) fail_msg("%s", services[i]);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (kind_of(options[i]) != MR_VARIABLE_OPTION) fail_msg("%s", options[i]);
    assert_int_equal(kind_of("MILLRACE_DEPS=/x"), MR_VARIABLE_SCRIPT);
    assert_int_equal(kind_of("MILLRACE_TOOLS="), MR_VARIABLE_SCRIPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_become_names_of_options),
        cmocka_unit_test(variables_of_kubernetes_services_are_told_apart_from_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
