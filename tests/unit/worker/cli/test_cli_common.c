#include "worker/cli/cli_common.h"

#include "worker/serve/parts.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

static void a_request_id_has_1_to_128_printable_ascii_characters(void **state)
{
    (void)state;
    char longest[130] = {0};
    struct mr_error err = {0};
    memset(longest, 'a', 128);
    assert_int_equal(mr_cli_check_id("a ~", &err), MR_OK);
    assert_int_equal(mr_cli_check_id(longest, &err), MR_OK);
    longest[128] = 'a';
    const char *const wrong[] = {"", "a\tb", "\xc3\xa9", longest};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mr_cli_check_id(wrong[i], &err), MR_BAD_CONFIG);
}

/* Writes to this descriptor as stdout and then closes it. *closed: stdout had failed before. */
static void write_to(int fd, bool *closed, bool *failed, int *code)
{
    int old = dup(STDOUT_FILENO);
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    close(fd);
    *closed = mr_cli_output_failed();
    printf("x");
    fflush(stdout);
    *failed = mr_cli_output_failed();
    *code = mr_cli_output_code(MR_EXIT_DONE);
    dup2(old, STDOUT_FILENO);
    close(old);
    clearerr(stdout);
}

static void output_that_cannot_be_written_is_a_failure_but_a_closed_reader_is_not(void **state)
{
    (void)state;
    bool closed, failed;
    int code, ends[2];
    signal(SIGPIPE, SIG_IGN);
    write_to(open("/dev/null", O_WRONLY), &closed, &failed, &code);
    assert_false(closed || failed);
    assert_int_equal(code, MR_EXIT_DONE);
    write_to(open("/dev/full", O_WRONLY), &closed, &failed, &code);
    assert_false(closed);
    assert_true(failed);
    assert_int_equal(code, MR_EXIT_FAILED);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    write_to(ends[1], &closed, &failed, &code);
    assert_true(closed && failed);
    assert_int_equal(code, MR_EXIT_DONE);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[0]);
    write_to(ends[1], &closed, &failed, &code);
    assert_true(closed && failed);
    assert_int_equal(code, MR_EXIT_DONE);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    shutdown(ends[0], SHUT_WR); /* it still reads */
    write_to(ends[1], &closed, &failed, &code);
    assert_false(closed || failed);
    assert_int_equal(code, MR_EXIT_DONE);
    close(ends[0]);
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
        cmocka_unit_test(a_request_id_has_1_to_128_printable_ascii_characters),
        cmocka_unit_test(output_that_cannot_be_written_is_a_failure_but_a_closed_reader_is_not),
        cmocka_unit_test(a_failure_has_the_exit_code_of_its_kind),
        cmocka_unit_test(signals_are_waited_for_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
