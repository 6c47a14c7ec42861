/* tier_redis - the tier of KV blocks (kvcache/tier.h) kept in Redis: one queue, one thread with a
 * connection for look-ups, one for small commands of others (calls), and one for each connection
 * that carries values.
 *
 * It starts without Redis and does without it whenever it is away, slow, full or wrong: then
 * look-ups are refused, or answered "nothing there" within the look-up timeout, and stores are
 * dropped.
 *
 * Threads: the table's calls the engine thread; _call and _stats any; the rest the owner's.
 * Memory:  the queue's bounds; the engine's buffers are its own. Errors: _create MR_BAD_CONFIG for
 * a URL, file or key that cannot be used, MR_NOMEM. A server that cannot be reached is none. */
#ifndef MR_WORKER_REDIS_TIER_REDIS_H
#define MR_WORKER_REDIS_TIER_REDIS_H

#include "kvcache/tier.h"
#include "worker/redis/tier_thread.h"

struct mr_tier_redis;

struct mr_tier_redis_options {
    const char *url;           /* kvcache/redis/redis_url.h */
    const char *password_file; /* "" none; its first line instead of the URL's password */
    const char *key_file;      /* "" none; lines "ID 64-HEX-DIGITS", the first one seals */
    struct mr_redis_tls_files tls;
    uint32_t connections; /* that carry values: 1 .. MR_TIER_THREADS_MAX - 1 */
    uint64_t look_timeout_ns, transfer_timeout_ns, ttl_ns;
    uint64_t store_bytes_max, write_budget;
    enum mr_frame_codec codec; /* how the engine writes KV down */
    bool second_touch;
    struct mr_log *log;
};

struct mr_tier_redis_stats {
    struct mr_tier_queue_stats queue;
    struct mr_tier_rates rates;
    struct mr_redis_client_stats client; /* summed over connections; breaker: the first one's */
    char reason[MR_ERROR_DETAIL_BYTES];  /* why the first connection ended last */
};

enum mr_status mr_tier_redis_create(struct mr_tier_redis **out,
                                    const struct mr_tier_redis_options *options,
                                    struct mr_error *err);
/* Ends the threads but that of calls: nobody is woken and nothing of the engine's is touched any
 * more; what was on its way is answered as not done, what is asked later is refused. Before the
 * engine ends. May be NULL. */
void mr_tier_redis_close(struct mr_tier_redis *tier);
/* After the engine. Calls that have no answer are told. May be NULL. */
void mr_tier_redis_destroy(struct mr_tier_redis *tier);

/* The engine's view, valid as long as the tier. */
const struct mr_tier *mr_tier_redis_table(const struct mr_tier_redis *tier);
/* Who is to be woken when poll has something; called on the tier's threads. Before the first
 * request.
 */
void mr_tier_redis_link(struct mr_tier_redis *tier, void (*notify)(void *context), void *context);
/* Small commands of somebody else: see worker/redis/tier_thread.h. */
bool mr_tier_redis_call(struct mr_tier_redis *tier, const struct mr_tier_call *calls, size_t count);
/* Somebody waits for an answer in vain: while that is so nothing is looked up or loaded. Threads:
 * any. */
void mr_tier_redis_set_silent(struct mr_tier_redis *tier, bool silent);
struct mr_tier_redis_stats mr_tier_redis_stats(struct mr_tier_redis *tier);
/* Reads a key file ("" none) into secrets [MR_FRAME_KEYS_MAX]; the caller wipes them. */
enum mr_status mr_tier_redis_secrets(const char *path, struct mr_tier_secret *secrets,
                                     size_t *count, struct mr_error *err);

#endif
