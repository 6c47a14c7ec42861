#include "worker/cli/cli_common.h"

#include "worker/serve/parts.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

int mr_cli_fail(const struct mr_error *err)
{
    fprintf(stderr, "millrace: %s\n", err->detail);
    return (int)mr_worker_exit_code(err->status);
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
