#include "worker/cli/cli.h"

#include "tests/unit/worker/broker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void words_are_joined_by_single_spaces(void **state)
{
    (void)state;
    static const char *const words[] = {"a", "", "b c"};
    char *text = mr_cli_join(words, 3);
    assert_string_equal(text, "a  b c");
    free(text);
    text = mr_cli_join(words, 0);
    assert_string_equal(text, "");
    free(text);
}

static void a_failure_has_the_exit_code_of_its_kind(void **state)
{
    (void)state;
    static const struct {
        enum mr_status status;
        int code;
    } cases[] = {{MR_UNREACHABLE, MR_EXIT_UNREACHABLE}, {MR_BAD_CONFIG, MR_EXIT_USAGE},
                 {MR_INVALID_REQUEST, MR_EXIT_USAGE},   {MR_BAD_FILE, MR_EXIT_MODEL},
                 {MR_TIMEOUT, MR_EXIT_FAILED},          {MR_NOMEM, MR_EXIT_FAILED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct mr_error err = {cases[i].status, "a test fails on purpose"};
        assert_int_equal(mr_cli_fail(&err), cases[i].code);
    }
}

static void signals_are_waited_for_and_counted(void **state)
{
    (void)state;
    struct mr_cli_signals signals;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    mr_cli_signals_open(&signals);
    assert_false(mr_cli_signals_wait(&signals, -1, 0));
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_false(mr_cli_signals_wait(&signals, ends[0], -1)); /* the other door */
    raise(SIGTERM);
    assert_true(mr_cli_signals_wait(&signals, -1, -1));
    raise(SIGINT);
    assert_true(mr_cli_signals_wait(&signals, -1, -1));
    assert_int_equal(signals.count, 2);
    assert_true(mr_cli_signals_wait(&signals, -1, 0)); /* it has come, ever */
    mr_cli_signals_close(&signals);
    close(ends[0]);
    close(ends[1]);
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
        cmocka_unit_test(words_are_joined_by_single_spaces),
        cmocka_unit_test(a_failure_has_the_exit_code_of_its_kind),
        cmocka_unit_test(signals_are_waited_for_and_counted),
        cmocka_unit_test(commands_end_with_the_code_of_what_happened),
        cmocka_unit_test(a_client_command_talks_to_the_broker_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
