/* A Redis in memory behind the port of a connection thread (kvcache/remote/redis_client.h):
 * strings only, no socket and no thread. The step functions receive the time. A reply arrives
 * latency_ns after its command; a silent server never replies. */
#ifndef MR_TESTS_MEMORY_REDIS_H
#define MR_TESTS_MEMORY_REDIS_H

#include "kvcache/remote/redis_client.h"
#include "kvcache/remote/redis_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_KEYS  64
#define MEMORY_WORDS 5

struct memory_text {
    const char *bytes;
    size_t length;
};

struct memory_redis {
    struct {
        char key[MR_REDIS_KEY_BYTES];
        size_t key_length, length;
        char *bytes; /* NULL: no value */
        bool list;   /* the key has a list; only DEL and SET work on it */
    } values[MEMORY_KEYS];
    size_t count;
    uint64_t latency_ns;
    bool silent;
    bool read_only; /* the server has become a replica and refuses writes */
    unsigned commands;
};

/* One connection of it. */
struct memory_conn {
    struct memory_redis *redis;
    struct mr_redis_command_list in_flight, done;
    uint64_t now_ns, retry_ns; /* retry_ns: when to connect again */
    bool ready;
    struct mr_redis_client_stats stats;
};

static inline void memory_reply(struct mr_redis_command *command, const char *text)
{
    struct mr_redis_parser *parser = mr_redis_parser_create();
    bool is_error = false;
    mr_redis_parser_feed(parser, text, strlen(text), &command->reply, &is_error);
    command->outcome = MR_REDIS_DONE;
    if (is_error) {
        size_t length;
        const char *words = mr_redis_reply_text(command->reply, &length);
        snprintf(command->error, sizeof command->error, "%s", words);
        command->outcome = mr_redis_outcome_of(command->error, length);
        mr_redis_reply_free(command->reply);
        command->reply = NULL;
    }
    mr_redis_parser_destroy(parser);
}

static inline void memory_reply_value(struct memory_conn *conn, struct mr_redis_command *command,
                                      const char *bytes, size_t length)
{
    command->outcome = MR_REDIS_WRONG_SIZE;
    if (length != mr_redis_command_value_length(command)) return;
    command->outcome = MR_REDIS_DONE;
    for (size_t i = 0; i < 2 && command->into[i].iov_len > 0; i++) {
        memcpy(command->into[i].iov_base, bytes, command->into[i].iov_len);
        if (command->on_bytes)
            command->on_bytes(command, command->into[i].iov_base, command->into[i].iov_len);
        bytes += command->into[i].iov_len;
    }
    conn->stats.bytes.received_bytes += length;
    conn->stats.bytes.value_bytes += length;
}

/* The words of a command "*COUNT\r\n$LENGTH\r\nWORD\r\n..."; returns how many. */
static inline size_t memory_words(const char *text, struct memory_text *words)
{
    char *at;
    size_t count = strtoul(text + 1, &at, 10);
    at += 2;
    for (size_t i = 0; i < count; i++) {
        words[i].length = strtoul(at + 1, &at, 10);
        words[i].bytes = at + 2;
        at += 2 + words[i].length + 2;
    }
    return count;
}

/* Index of a key; made if it is new. */
static inline size_t memory_find(struct memory_redis *redis, struct memory_text key)
{
    for (size_t i = 0; i < redis->count; i++)
        if (redis->values[i].key_length == key.length &&
            memcmp(redis->values[i].key, key.bytes, key.length) == 0)
            return i;
    if (redis->count == MEMORY_KEYS) abort();
    memcpy(redis->values[redis->count].key, key.bytes, key.length);
    redis->values[redis->count].key_length = key.length;
    return redis->count++;
}

static inline bool memory_is(struct memory_text word, const char *name)
{
    return word.length == strlen(name) && memcmp(word.bytes, name, word.length) == 0;
}

static inline void memory_run(struct memory_conn *conn, struct mr_redis_command *command,
                              const char *text)
{
    struct memory_redis *redis = conn->redis;
    struct memory_text words[MEMORY_WORDS];
    char line[32];
    memory_words(text, words);
    if (memory_is(words[0], "ECHO")) {
        memory_reply_value(conn, command, words[1].bytes, words[1].length);
        return;
    }
    bool reads = memory_is(words[0], "GET") || memory_is(words[0], "STRLEN");
    if (redis->read_only && !reads) {
        memory_reply(command, "-READONLY You can't write against a read only replica.\r\n");
        return;
    }
    size_t at = memory_find(redis, words[1]);
    char *bytes = redis->values[at].bytes;
    if (bytes && redis->values[at].list && reads) {
        memory_reply(command, "-WRONGTYPE Operation against a key of another type\r\n");
    } else if (memory_is(words[0], "GET") && bytes) {
        memory_reply_value(conn, command, bytes, redis->values[at].length);
    } else if (memory_is(words[0], "GET")) {
        command->outcome = MR_REDIS_MISS;
    } else if (memory_is(words[0], "SET")) {
        redis->values[at].bytes = realloc(bytes, words[2].length + 1);
        memcpy(redis->values[at].bytes, words[2].bytes, words[2].length);
        redis->values[at].length = words[2].length;
        redis->values[at].list = false;
        memory_reply(command, "+OK\r\n");
    } else if (memory_is(words[0], "STRLEN")) {
        snprintf(line, sizeof line, ":%zu\r\n", bytes ? redis->values[at].length : 0);
        memory_reply(command, line);
    } else if (memory_is(words[0], "DEL") || memory_is(words[0], "EXPIRE")) {
        if (words[0].length == 3) {
            free(bytes);
            redis->values[at].bytes = NULL;
        }
        memory_reply(command, bytes ? ":1\r\n" : ":0\r\n");
    } else {
        memory_reply(command, "-ERR unknown command\r\n");
    }
}

static inline void memory_execute(struct memory_conn *conn, struct mr_redis_command *command)
{
    size_t length = 0;
    char *text = malloc(mr_redis_command_length(command) + 1);
    for (int i = 0; i < command->out_count; i++) {
        memcpy(text + length, command->out[i].iov_base, command->out[i].iov_len);
        length += command->out[i].iov_len;
    }
    text[length] = '\0';
    conn->redis->commands++;
    memory_run(conn, command, text);
    free(text);
}

/* ---- the port ---- */

static inline void memory_fail(struct memory_conn *conn)
{
    for (struct mr_redis_command *command;
         (command = mr_redis_command_list_pop(&conn->in_flight)) != NULL;) {
        command->outcome = command->deadline_ns <= conn->now_ns ? MR_REDIS_TIMEOUT : MR_REDIS_LOST;
        mr_redis_command_list_push(&conn->done, command);
    }
    conn->ready = false;
    conn->stats.failures++;
    conn->retry_ns = conn->now_ns + 50000000;
}

static inline void memory_step(void *context, uint64_t now_ns)
{
    struct memory_conn *conn = context;
    conn->now_ns = now_ns;
    if (!conn->ready && !conn->redis->silent && now_ns >= conn->retry_ns) {
        conn->ready = true;
        conn->stats.connects++;
    }
    for (struct mr_redis_command *command = conn->in_flight.first; command; command = command->next)
        if (command->sent == 0)
            command->sent = now_ns + conn->redis->latency_ns; /* when its reply is there */
    while (conn->in_flight.first && !conn->redis->silent && conn->in_flight.first->sent <= now_ns) {
        struct mr_redis_command *command = mr_redis_command_list_pop(&conn->in_flight);
        memory_execute(conn, command);
        mr_redis_command_list_push(&conn->done, command);
    }
    bool late = false;
    for (struct mr_redis_command *command = conn->in_flight.first; command; command = command->next)
        late |= command->deadline_ns <= now_ns;
    if (late) memory_fail(conn);
}

static inline bool memory_is_ready(const void *context)
{
    return ((const struct memory_conn *)context)->ready;
}

static inline bool memory_send(void *context, struct mr_redis_command *command)
{
    struct memory_conn *conn = context;
    if (!conn->ready) return false;
    command->outcome = MR_REDIS_IN_FLIGHT;
    command->sent = 0;
    mr_redis_command_list_push(&conn->in_flight, command);
    return true;
}

static inline void memory_cancel(void *context, struct mr_redis_command *command, uint64_t now_ns)
{
    struct memory_conn *conn = context;
    (void)now_ns;
    command->cancelled = true;
    if (!mr_redis_command_list_remove(&conn->in_flight, command)) return;
    command->outcome = MR_REDIS_LOST;
    mr_redis_command_list_push(&conn->done, command);
}

static inline struct mr_redis_command *memory_take(void *context)
{
    return mr_redis_command_list_pop(&((struct memory_conn *)context)->done);
}

static inline uint64_t memory_deadline_ns(const void *context)
{
    const struct memory_conn *conn = context;
    uint64_t least = conn->ready || conn->redis->silent ? UINT64_MAX : conn->retry_ns;
    for (const struct mr_redis_command *command = conn->in_flight.first; command;
         command = command->next) {
        uint64_t due_ns = conn->redis->silent ? command->deadline_ns : command->sent;
        if (due_ns < least) least = due_ns;
    }
    return conn->done.first ? 0 : least;
}

static inline size_t memory_sockets(const void *context, struct pollfd *fds, size_t max)
{
    (void)context, (void)fds, (void)max;
    return 0;
}

static inline struct mr_redis_client_stats memory_stats(const void *context)
{
    return ((const struct memory_conn *)context)->stats;
}

static inline const char *memory_reason(const void *context)
{
    return ((const struct memory_conn *)context)->stats.failures ? "no answer in time" : "";
}

static inline void memory_close(void *context)
{
    memory_fail(context);
}

/* A port over one more connection; freed by its destroy. */
static inline struct mr_redis_port memory_port(struct memory_redis *redis)
{
    struct memory_conn *conn = calloc(1, sizeof *conn);
    conn->redis = redis;
    return (struct mr_redis_port){.context = conn,
                                  .step = memory_step,
                                  .is_ready = memory_is_ready,
                                  .send = memory_send,
                                  .cancel = memory_cancel,
                                  .take = memory_take,
                                  .deadline_ns = memory_deadline_ns,
                                  .sockets = memory_sockets,
                                  .stats = memory_stats,
                                  .reason = memory_reason,
                                  .close = memory_close,
                                  .destroy = free};
}

static inline void memory_redis_end(struct memory_redis *redis)
{
    for (size_t i = 0; i < redis->count; i++)
        free(redis->values[i].bytes);
}

#endif
