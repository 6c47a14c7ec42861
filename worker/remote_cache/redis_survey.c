#include "worker/remote_cache/redis_survey.h"

#include "codec/check.h"
#include "kvcache/remote/redis_command.h"
#include "worker/base/clock.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLL_MS   20
#define WORDS_MAX 4

/* Keys that match the patterns of slices and of trails, and that no worker uses. */
#define BLOCK "mr1:check"
#define TRAIL "mr:p:check"

static const char *const trials[][WORDS_MAX] = {
    {"INFO"},
    {"PING"},
    {"ECHO", "check"},
    {"STRLEN", BLOCK},
    {"GET", BLOCK},
    {"SET", BLOCK, "", "XX"},
    {"DEL", BLOCK},
    {"EXPIRE", TRAIL, "1"},
    {"RPUSHX", TRAIL, ""},
    {"LRANGE", TRAIL, "0", "0"},
};
#define TRIALS (sizeof trials / sizeof *trials)

void mr_redis_survey_read(struct mr_redis_survey *survey, const char *info, size_t length,
                          int64_t unix_ms)
{
    char text[32];
    if (!mr_redis_policy_field(info, length, "redis_version", survey->version,
                               sizeof survey->version))
        survey->version[0] = '\0';
    survey->is_replica = mr_redis_policy_field(info, length, "role", text, sizeof text) &&
                         strcmp(text, "master") != 0;
    survey->has_policy = mr_redis_policy_read(&survey->policy, info, length);
    survey->has_clock = mr_redis_policy_field(info, length, "server_time_usec", text, sizeof text);
    if (survey->has_clock) survey->clock_ms = strtoll(text, NULL, 10) / 1000 - unix_ms;
}

/* Waits until the command has ended. False: it was cancelled at the timeout. */
static bool await(const struct mr_redis_port *port, struct mr_redis_command *command,
                  uint32_t timeout_ms)
{
    struct pollfd fds[MR_REDIS_NODES_MAX];
    uint64_t until_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    for (uint64_t now_ns; (now_ns = mr_clock_ns()) < until_ns;) {
        port->step(port->context, now_ns);
        if (port->take(port->context) == command) return true;
        size_t count = port->sockets(port->context, fds, MR_REDIS_NODES_MAX);
        poll(fds, count, POLL_MS);
    }
    port->cancel(port->context, command, until_ns);
    port->close(port->context);
    while (port->take(port->context))
        ;
    return false;
}

static void add_denied(struct mr_redis_survey *survey, const char *word)
{
    size_t used = strlen(survey->denied);
    if (used > 0) survey->denied[used++] = ' ';
    for (size_t i = 0; word[i]; i++)
        survey->denied[used++] = (char)tolower((unsigned char)word[i]);
    survey->denied[used] = '\0';
}

static enum mr_status run(struct mr_redis_survey *survey, const struct mr_redis_port *port,
                          const char *const words[WORDS_MAX], uint32_t timeout_ms,
                          struct mr_error *err)
{
    struct mr_redis_command command = {0};
    size_t lengths[WORDS_MAX], length = 0;
    int count = 0;
    for (; count < WORDS_MAX && words[count]; count++)
        lengths[count] = strlen(words[count]);
    if (!mr_redis_command_make(&command, count, words, lengths, count > 1 && strchr(words[1], ':')))
        return mr_fail(err, MR_NOMEM, "no memory for a Redis command");
    command.deadline_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    enum mr_status status = MR_OK;
    if (!port->send(port->context, &command) || !await(port, &command, timeout_ms) ||
        command.outcome == MR_REDIS_LOST || command.outcome == MR_REDIS_TIMEOUT)
        status = mr_fail(err, MR_UNREACHABLE, "Redis did not answer %s", words[0]);
    else if (command.outcome == MR_REDIS_DENIED)
        add_denied(survey, words[0]);
    else if (command.outcome == MR_REDIS_DONE && words == trials[0]) {
        const char *info = mr_redis_reply_text(command.reply, &length);
        mr_redis_survey_read(survey, info, length, mr_clock_unix_ms());
    }
    mr_redis_command_end(&command);
    return status;
}

enum mr_status mr_redis_survey_run(struct mr_redis_survey *out, const struct mr_redis_port *port,
                                   uint32_t timeout_ms, struct mr_error *err)
{
    *out = (struct mr_redis_survey){0};
    enum mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < TRIALS; i++)
        status = run(out, port, trials[i], timeout_ms, err);
    return status;
}
