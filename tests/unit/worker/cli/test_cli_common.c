#include "worker/cli/cli_common.h"

#include "worker/serve/parts.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

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
    assert_false(mr_cli_signals_wait(&signals, ends[0], -1)); /* woken by the pipe */
    raise(SIGTERM);
    assert_true(mr_cli_signals_wait(&signals, -1, -1));
    raise(SIGINT);
    assert_true(mr_cli_signals_wait(&signals, -1, -1));
    assert_int_equal(signals.count, 2);
    assert_true(mr_cli_signals_wait(&signals, -1, 0)); /* also without a new signal */
    mr_cli_signals_watch_hangups(&signals);
    raise(SIGHUP);
    mr_cli_signals_wait(&signals, -1, -1);
    assert_int_equal(signals.hangups, 1);
    assert_int_equal(signals.count, 2);
    mr_cli_signals_close(&signals);
    close(ends[0]);
    close(ends[1]);
}

static void the_timeout_option_shortens_the_usual_time(void **state)
{
    (void)state;
    struct mr_config config = {.timeout_ns = 0};
    assert_int_equal(mr_cli_timeout_ms(&config, 10000), 10000);
    config.timeout_ns = 250000000;
    assert_int_equal(mr_cli_timeout_ms(&config, 10000), 250);
    config.timeout_ns = UINT64_C(60000000000);
    assert_int_equal(mr_cli_timeout_ms(&config, 10000), 10000);
    config.timeout_ns = 1;
    assert_int_equal(mr_cli_timeout_ms(&config, 10000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timeout_option_shortens_the_usual_time),
        cmocka_unit_test(words_are_joined_by_single_spaces),
        cmocka_unit_test(a_failure_has_the_exit_code_of_its_kind),
        cmocka_unit_test(signals_are_waited_for_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
