/* redis_call - calls: small Redis commands that other threads run on a connection thread. The other
 * thread posts the words of the command, and a callback on the connection thread gets the reply of
 * Redis.
 *
 * Threads: any thread may call _post; the connection thread makes all other calls.
 * Memory: copies of the commands' words, at most MR_REDIS_CALLS_MAX commands and 32 MiB until they
 * are sent.
 * Errors: _create MR_NOMEM; _post returns false; a later failure reaches the callback `done` as its
 * outcome. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_CALL_H
#define MR_WORKER_REMOTE_CACHE_REDIS_CALL_H

#include "kvcache/remote/redis_client.h"
#include "worker/base/mailbox.h"

/* most commands posted and not taken by the connection thread: four for each of 4,096 sequences */
#define MR_REDIS_CALLS_MAX ((size_t)16384)

struct mr_redis_call {
    const char *const *words; /* [count] words of the Redis command; the second word is the key */
    const size_t *lengths;
    int count;
    uint64_t timeout_ns;
    /* Called once, on the connection thread. reply: valid during the call, and only if outcome is
     * MR_REDIS_DONE. */
    void (*done)(void *context, enum mr_redis_outcome outcome, const struct mr_redis_reply *reply);
    void *context;
};

/* The words of a short Redis command that is being built; all borrowed. */
struct mr_redis_words {
    const char *words[4];
    size_t lengths[4];
    int count;
};

static inline void mr_redis_words_add(struct mr_redis_words *words, const void *bytes,
                                      size_t length)
{
    words->words[words->count] = bytes;
    words->lengths[words->count++] = length;
}

struct mr_redis_calls;

/* wake: wakes the connection thread; _post rings it. wake is borrowed. */
enum mr_status mr_redis_calls_create(struct mr_redis_calls **out, const struct mr_wake *wake,
                                     struct mr_error *err);
/* Call it after _close, when no Redis command is in flight. calls may be NULL. */
void mr_redis_calls_destroy(struct mr_redis_calls *calls);

/* Posts the commands list[count], to be sent to Redis in one burst, in order. Copies their words.
 * False: the limit of MR_REDIS_CALLS_MAX commands or 32 MiB is reached, memory is out, or _close
 * was called; then no `done` is called. */
bool mr_redis_calls_post(struct mr_redis_calls *calls, const struct mr_redis_call *list,
                         size_t count);

/* Sends the posted commands, as many as may be in flight; the others wait for the next call, until
 * their timeout. A command that the port refuses ends with the outcome MR_REDIS_LOST. */
void mr_redis_calls_send(struct mr_redis_calls *calls, const struct mr_redis_port *port,
                         uint64_t now_ns);
/* If the command is that of a call: ends the call (calls its `done`) and returns true. Otherwise
 * returns false. */
bool mr_redis_calls_finish(struct mr_redis_calls *calls, const struct mr_redis_port *port,
                           struct mr_redis_command *command);
/* From now on _post refuses every command. Call _send once more to end the commands posted
 * before. */
void mr_redis_calls_close(struct mr_redis_calls *calls);
uint32_t mr_redis_calls_in_flight(const struct mr_redis_calls *calls);

#endif
