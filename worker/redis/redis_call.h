/* redis_call - small commands that other threads run on a connection thread: they post a command,
 * and a callback on the connection thread gets the reply.
 *
 * Threads: _post any; everything else the connection thread.
 * Memory:  copies of the words, at most MR_REDIS_CALLS_MAX commands and 16 MiB until they are sent.
 * Errors:  _create MR_NOMEM; _post false; later ones are outcomes. */
#ifndef MR_WORKER_REDIS_REDIS_CALL_H
#define MR_WORKER_REDIS_REDIS_CALL_H

#include "worker/base/mailbox.h"
#include "worker/redis/redis_port.h"

#define MR_REDIS_CALLS_MAX ((size_t)4096) /* posted and not sent */

struct mr_redis_call {
    const char *const *words; /* [count]; the second one is the key */
    const size_t *lengths;
    int count;
    uint64_t timeout_ns;
    /* Called once, on the connection thread. reply: valid during the call, with MR_REDIS_DONE. */
    void (*done)(void *context, enum mr_redis_outcome outcome, const struct mr_redis_reply *reply);
    void *context;
};

struct mr_redis_calls;

/* wake: the connection thread's, rung by _post; borrowed. */
enum mr_status mr_redis_calls_create(struct mr_redis_calls **out, const struct mr_wake *wake,
                                     struct mr_error *err);
/* After _close, with nothing in flight. calls may be NULL. */
void mr_redis_calls_destroy(struct mr_redis_calls *calls);

/* Posts list[count] to be sent in one burst, in order. Copies the words. False: no room, no memory
 * or closed; then no `done` is called. */
bool mr_redis_calls_post(struct mr_redis_calls *calls, const struct mr_redis_call *list,
                         size_t count);

/* Sends what was posted. A call that the port does not take ends as MR_REDIS_LOST. */
void mr_redis_calls_send(struct mr_redis_calls *calls, const struct mr_redis_port *port,
                         uint64_t now_ns);
/* Ends a call if op belongs to one; else false. */
bool mr_redis_calls_finish(struct mr_redis_calls *calls, struct mr_redis_op *op);
/* Later posts are refused. Call _send once more to end what was posted. */
void mr_redis_calls_close(struct mr_redis_calls *calls);
uint32_t mr_redis_calls_in_flight(const struct mr_redis_calls *calls);

#endif
