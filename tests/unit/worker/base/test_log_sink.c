#include "worker/base/log_sink.h"

#include "worker/base/clock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LINE_BYTES 1000u

/* Writes a line "<number> xxx...\n". */
static void write_line(struct mr_log_sink *sink, unsigned number)
{
    char line[LINE_BYTES + 1];
    snprintf(line, sizeof line, "%06u ", number);
    memset(line + 7, 'x', LINE_BYTES - 8);
    line[LINE_BYTES - 1] = '\n';
    mr_log_sink_write(sink, line, LINE_BYTES);
}

/* Reads all that is there. */
static size_t read_all(int fd, char *text, size_t size)
{
    size_t length = 0;
    ssize_t got;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (length < size && (got = read(fd, text + length, size - length)) > 0)
        length += (size_t)got;
    return length;
}

/* All lines are whole; returns their number. */
static unsigned check_lines(const char *text, size_t length)
{
    unsigned count = 0;
    assert_int_equal(length % LINE_BYTES, 0);
    for (size_t at = 0; at < length; at += LINE_BYTES, count++) {
        assert_int_equal(text[at + LINE_BYTES - 1], '\n');
        assert_int_equal(strspn(text + at, "0123456789"), 6);
    }
    return count;
}

/* fds: [0] is read from, [1] is written to. */
static void check_full(const int fds[2])
{
    static char text[4 << 20];
    struct mr_log_sink sink;
    const unsigned written = 5000;
    mr_log_sink_open(&sink, fds[1]);
    const uint64_t begun_ns = mr_clock_ns();
    for (unsigned i = 0; i < written; i++)
        write_line(&sink, i);
    assert_true(mr_clock_ns() - begun_ns < 2000000000u);
    assert_true(sink.lost > 0);
    unsigned lost = (unsigned)sink.lost;
    size_t length = read_all(fds[0], text, sizeof text);
    write_line(&sink, 1); /* the rest of a line in part comes first */
    assert_int_equal(sink.lost, 0);
    length += read_all(fds[0], text + length, sizeof text - length);
    assert_int_equal(check_lines(text, length), written - lost + 1);
    mr_log_sink_close(&sink);
    assert_false(fcntl(fds[1], F_GETFL) & O_NONBLOCK); /* others write to it too */
    close(fds[0]);
    close(fds[1]);
}

static void a_full_pipe_delays_nobody_and_loses_whole_lines(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    check_full(fds);
}

static void a_full_socket_delays_nobody_and_loses_whole_lines(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    check_full(fds);
}

static void a_full_terminal_delays_nobody(void **state)
{
    (void)state;
    struct mr_log_sink sink;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    mr_log_sink_open(&sink, slave);
    const uint64_t begun_ns = mr_clock_ns();
    for (unsigned i = 0; i < 5000; i++)
        write_line(&sink, i);
    assert_true(mr_clock_ns() - begun_ns < 2000000000u);
    assert_true(sink.lost > 0);
    mr_log_sink_close(&sink);
    close(slave);
    close(master);
}

/* A log file that is full stays readable line by line. */
static void a_regular_file_is_written_as_usual(void **state)
{
    (void)state;
    static char text[1 << 16];
    struct mr_log_sink sink;
    FILE *file = tmpfile();
    assert_non_null(file);
    mr_log_sink_open(&sink, fileno(file));
    for (unsigned i = 0; i < 20; i++)
        write_line(&sink, i);
    ssize_t length = pread(fileno(file), text, sizeof text, 0);
    assert_int_equal(check_lines(text, (size_t)length), 20);
    mr_log_sink_close(&sink);
    fclose(file);
    int full = open("/dev/full", O_WRONLY);
    mr_log_sink_open(&sink, full);
    write_line(&sink, 1);
    write_line(&sink, 2);
    assert_int_equal(sink.lost, 2);
    mr_log_sink_close(&sink);
    close(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pipe_delays_nobody_and_loses_whole_lines),
        cmocka_unit_test(a_full_socket_delays_nobody_and_loses_whole_lines),
        cmocka_unit_test(a_full_terminal_delays_nobody),
        cmocka_unit_test(a_regular_file_is_written_as_usual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
