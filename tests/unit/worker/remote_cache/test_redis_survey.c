#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/memory_redis.h"
#include "worker/remote_cache/redis_survey.h"

#define INFO_TEXT                                                                                  \
    "# Server\r\nredis_version:7.0.15\r\nserver_time_usec:1700000005000000\r\nrole:slave\r\n"      \
    "maxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n"

/* A server that answers each command at the next step: INFO with a text, the denied ones with
 * NOPERM, others with "+OK". One command gets no reply. */
struct server {
    const char *denied, *silent;
    struct mr_redis_command *waiting, *done;
    char seen[256];
};

static void first_word(const struct mr_redis_command *command, char *word, size_t bytes)
{
    const char *text = command->out[0].iov_base;
    struct memory_text words[MEMORY_WORDS];
    memory_words(text, words);
    snprintf(word, bytes, "%.*s", (int)words[0].length, words[0].bytes);
}

static void step(void *context, uint64_t now_ns)
{
    struct server *server = context;
    char word[16], reply[400];
    (void)now_ns;
    if (!server->waiting) return;
    first_word(server->waiting, word, sizeof word);
    if (server->silent && strcmp(word, server->silent) == 0) return;
    if (server->denied && strstr(server->denied, word))
        snprintf(reply, sizeof reply, "-NOPERM this user has no permissions\r\n");
    else if (strcmp(word, "INFO") == 0)
        snprintf(reply, sizeof reply, "$%zu\r\n%s\r\n", strlen(INFO_TEXT), INFO_TEXT);
    else
        snprintf(reply, sizeof reply, "+OK\r\n");
    memory_reply(server->waiting, reply);
    server->done = server->waiting;
    server->waiting = NULL;
}

static bool send_op(void *context, struct mr_redis_command *command)
{
    struct server *server = context;
    char word[16];
    first_word(command, word, sizeof word);
    size_t used = strlen(server->seen);
    snprintf(server->seen + used, sizeof server->seen - used, "%s ", word);
    server->waiting = command;
    return true;
}

static struct mr_redis_command *take(void *context)
{
    struct server *server = context;
    struct mr_redis_command *command = server->done;
    server->done = NULL;
    return command;
}

static void cancel(void *context, struct mr_redis_command *command, uint64_t now_ns)
{
    struct server *server = context;
    (void)now_ns;
    command->outcome = MR_REDIS_LOST;
    server->done = command;
    server->waiting = NULL;
}

static size_t sockets(const void *context, struct pollfd *fds, size_t max)
{
    (void)context, (void)fds, (void)max;
    return 0;
}

static void close_port(void *context)
{
    (void)context;
}

static enum mr_status survey_of(struct server *server, struct mr_redis_survey *survey,
                                struct mr_error *err)
{
    struct mr_redis_port port = {.context = server,
                                 .step = step,
                                 .send = send_op,
                                 .take = take,
                                 .cancel = cancel,
                                 .sockets = sockets,
                                 .close = close_port};
    return mr_redis_survey_run(survey, &port, 30, err);
}

static void every_command_but_rpush_is_tried_once(void **state)
{
    struct server server = {0};
    struct mr_redis_survey survey;
    (void)state;
    assert_int_equal(survey_of(&server, &survey, NULL), MR_OK);
    assert_string_equal(server.seen, "INFO PING ECHO STRLEN GET SET DEL EXPIRE RPUSHX LRANGE ");
    assert_string_equal(survey.denied, "");
    assert_string_equal(survey.version, "7.0.15");
    assert_true(survey.is_replica && survey.has_policy && survey.has_clock);
    assert_int_equal(survey.policy.maxmemory_bytes, 1048576);
}

static void denied_commands_are_named(void **state)
{
    struct server server = {.denied = "INFO SET LRANGE"};
    struct mr_redis_survey survey;
    (void)state;
    assert_int_equal(survey_of(&server, &survey, NULL), MR_OK);
    assert_string_equal(survey.denied, "info set lrange");
    assert_string_equal(survey.version, "");
    assert_false(survey.has_policy || survey.has_clock || survey.is_replica);
}

static void all_commands_denied_fit(void **state)
{
    struct server server = {.denied = "INFO PING ECHO STRLEN GET SET DEL EXPIRE RPUSHX LRANGE"};
    struct mr_redis_survey survey;
    (void)state;
    assert_int_equal(survey_of(&server, &survey, NULL), MR_OK);
    assert_string_equal(survey.denied, "info ping echo strlen get set del expire rpushx lrange");
}

static void a_server_that_does_not_answer_is_unreachable(void **state)
{
    struct server server = {.silent = "GET"};
    struct mr_redis_survey survey;
    struct mr_error err = {0};
    (void)state;
    assert_int_equal(survey_of(&server, &survey, &err), MR_UNREACHABLE);
    assert_string_equal(err.detail, "Redis did not answer GET");
}

static void the_clock_is_compared_with_ours(void **state)
{
    struct mr_redis_survey survey = {0};
    (void)state;
    mr_redis_survey_read(&survey, INFO_TEXT, strlen(INFO_TEXT), 1700000000000);
    assert_int_equal(survey.clock_ms, 5000);
    mr_redis_survey_read(&survey, INFO_TEXT, strlen(INFO_TEXT), 1700000007500);
    assert_int_equal(survey.clock_ms, -2500);
    mr_redis_survey_read(&survey, "role:master\r\n", 13, 1);
    assert_false(survey.has_clock || survey.is_replica);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_but_rpush_is_tried_once),
        cmocka_unit_test(denied_commands_are_named),
        cmocka_unit_test(all_commands_denied_fit),
        cmocka_unit_test(a_server_that_does_not_answer_is_unreachable),
        cmocka_unit_test(the_clock_is_compared_with_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
