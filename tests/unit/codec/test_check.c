/* The function that a failed MR_ASSERT calls in the programs; unit tests link another version
 * (tests/unit/check_cmocka.c), so this test renames it. */
#define mr_check_failed check_failed
#include "codec/check.c"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

/* The line that a child writes to standard error, a pipe, before it aborts; an emulator then adds
 * another. */
static void fail_in_child(const char *expression, char *out, size_t size)
{
    int pipes[2], status;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(pipes[1], STDERR_FILENO);
        check_failed(expression, "room/file.c", 12);
    }
    close(pipes[1]);
    ssize_t length = read(pipes[0], out, size - 1);
    assert_true(length > 0);
    out[length] = '\0';
    char *end = strchr(out, '\n');
    if (end) end[1] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void a_failed_assertion_is_a_json_line_and_aborts(void **state)
{
    (void)state;
    char out[2 * LINE_BYTES];
    fail_in_child("strcmp(text, \"a\\\\b\") == 0", out, sizeof out);
    assert_string_equal(
        out, "{\"level\":\"error\",\"msg\":\"assertion failed: strcmp(text, \\\"a\\\\\\\\b\\\") == "
             "0\",\"file\":\"room/file.c\",\"line\":12}\n");
}

static void a_long_expression_is_cut(void **state)
{
    (void)state;
    static char longer[4 * LINE_BYTES];
    char out[2 * LINE_BYTES];
    memset(longer, '"', sizeof longer - 1);
    fail_in_child(longer, out, sizeof out);
    assert_true(strlen(out) < LINE_BYTES);
    assert_non_null(strstr(out, "\\\"\",\"file\":\"room/file.c\",\"line\":12}\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_assertion_is_a_json_line_and_aborts),
        cmocka_unit_test(a_long_expression_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
