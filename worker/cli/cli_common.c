#include "worker/cli/cli_common.h"

#include "codec/limits.h"
#include "worker/base/printable.h"
#include "worker/serve/parts.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

int mr_cli_fail(const struct mr_error *err)
{
    fputs("millrace: ", stderr);
    mr_print_escaped(stderr, (struct mr_text){err->detail, strlen(err->detail)}, "");
    fputc('\n', stderr);
    return (int)mr_worker_exit_code(err->status);
}

/* Stdout is a pipe or socket whose reader is gone, or a terminal that was closed. */
static bool output_is_closed(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    return poll(&output, 1, 0) > 0 && output.revents & (POLLERR | POLLHUP);
}

bool mr_cli_output_failed(void)
{
    return ferror(stdout) || output_is_closed();
}

int mr_cli_output_code(int code)
{
    errno = 0;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || output_is_closed()) return code;
    fprintf(stderr, "millrace: cannot write to standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return code == MR_EXIT_DONE ? MR_EXIT_FAILED : code;
}

enum mr_status mr_cli_check_id(const char *id, struct mr_error *err)
{
    size_t length = strlen(id);
    bool valid = length > 0 && length <= MR_ID_BYTES_MAX;
    for (size_t i = 0; i < length; i++)
        valid = valid && id[i] >= ' ' && id[i] <= '~';
    if (valid) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "a request id has 1 to %zu printable ASCII characters",
                   MR_ID_BYTES_MAX);
}

static int watch(int fd, bool hangups)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (hangups) sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(fd, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

void mr_cli_signals_open(struct mr_cli_signals *signals)
{
    *signals = (struct mr_cli_signals){.fd = watch(-1, false)};
}

void mr_cli_signals_watch_hangups(struct mr_cli_signals *signals)
{
    if (signals->fd >= 0) watch(signals->fd, true);
}

void mr_cli_signals_close(struct mr_cli_signals *signals)
{
    if (signals->fd >= 0) close(signals->fd);
    signals->fd = -1;
}

bool mr_cli_signals_wait(struct mr_cli_signals *signals, int other_fd, int timeout_ms)
{
    struct pollfd sources[2] = {{.fd = signals->fd, .events = POLLIN},
                                {.fd = other_fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    poll(sources, other_fd >= 0 ? 2 : 1, timeout_ms);
    while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info)
        (*(info.ssi_signo == SIGHUP ? &signals->hangups : &signals->count))++;
    return signals->count > 0;
}

uint32_t mr_cli_timeout_ms(const struct mr_config *config, uint32_t usual_ms)
{
    uint64_t ms = config->timeout_ns / 1000000;
    if (config->timeout_ns == 0 || ms > usual_ms) return usual_ms;
    return ms > 0 ? (uint32_t)ms : 1;
}

char *mr_cli_join(const char *const *words, size_t count)
{
    size_t length = 1;
    for (size_t i = 0; i < count; i++)
        length += strlen(words[i]) + 1;
    char *text = calloc(1, length), *at = text;
    for (size_t i = 0; text && i < count; i++) {
        size_t bytes = strlen(words[i]);
        if (i > 0) *at++ = ' ';
        memcpy(at, words[i], bytes);
        at += bytes;
    }
    return text;
}

static bool is_field(const char *argument)
{
    size_t length = 0;
    while (islower((unsigned char)argument[length]) || argument[length] == '_')
        length++;
    return length > 0 && argument[length] == '=';
}

size_t mr_cli_count_fields(const struct mr_config *config)
{
    size_t count = 0, most = config->argument_count - config->plain_count;
    while (count < most && is_field(config->arguments[count]))
        count++;
    return count;
}
