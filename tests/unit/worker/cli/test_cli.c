#include "worker/cli/cli.h"

#include "tests/unit/worker/broker.h"

/* Runs `millrace ...` in this process; the arguments end with a NULL. */
static int run(const char *const *arguments)
{
    struct mr_config *config = NULL;
    struct mr_error err = {0};
    int count = 0;
    char *none[] = {NULL};
    while (arguments[count])
        count++;
    if (mr_config_create(&config, count, (char *const *)(uintptr_t)arguments, none, &err) != MR_OK)
        fail_msg("%s", err.detail);
    int code = mr_cli_run(config);
    mr_config_destroy(config);
    return code;
}

static void commands_end_with_the_code_of_what_happened(void **state)
{
    (void)state;
    assert_int_equal(run((const char *const[]){"millrace", "version", NULL}), MR_EXIT_DONE);
    assert_int_equal(run((const char *const[]){"millrace", "help", "send", NULL}), MR_EXIT_DONE);
    assert_int_equal(run((const char *const[]){"millrace", "help", "sand", NULL}), MR_EXIT_USAGE);
    assert_int_equal(
        run((const char *const[]){"millrace", "tokenize", "--model", "none.gguf", "x", NULL}),
        MR_EXIT_MODEL);
}

static void a_client_command_talks_to_the_broker_it_is_given(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    const char *const cancel[] = {"millrace",           "cancel", "--brokers",
                                  broker.kafka.brokers, "id",     NULL};
    const char *const send[] = {"millrace",     "send",  "--brokers", broker.kafka.brokers,
                                "--wait=false", "hello", NULL};
    assert_int_equal(run(cancel), MR_EXIT_DONE);
    assert_int_equal(run(send), MR_EXIT_DONE);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_end_with_the_code_of_what_happened),
        cmocka_unit_test(a_client_command_talks_to_the_broker_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
