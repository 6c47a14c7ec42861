/* tier_redis - the tier of KV blocks (kvcache/tier.h) in Redis: one queue, and connection threads:
 * one for lookups, one or more for values, and one for small commands of others (calls).
 *
 * It starts without a reachable Redis, and works on when Redis is away, slow, full or faulty: then
 * lookups are refused or find nothing within the lookup timeout, and stores are dropped.
 *
 * Threads: the table's calls the engine thread; _call, _set_silent and _stats any; the rest the
 *          owner.
 * Memory:  the queue's bounds; item bytes are the engine's. Errors: _create MR_BAD_CONFIG for a
 * URL, file or key that cannot be used, MR_NOMEM. An unreachable server is no error. */
#ifndef MR_WORKER_REDIS_TIER_REDIS_H
#define MR_WORKER_REDIS_TIER_REDIS_H

#include "worker/redis/tier_thread.h"

struct mr_tier_redis;

struct mr_tier_redis_options {
    const char *url;           /* kvcache/redis/redis_url.h */
    const char *password_file; /* "" none; its first line replaces the URL's password */
    const char *key_file;      /* "" none; lines "ID 64-HEX-DIGITS", the first one seals */
    struct mr_redis_tls_files tls;
    uint32_t connections; /* for values: 1 .. MR_TIER_THREADS_MAX - 1 */
    uint64_t lookup_timeout_ns, transfer_timeout_ns, ttl_ns;
    uint64_t store_bytes_max, write_budget;
    enum mr_frame_codec codec; /* how the engine encodes KV */
    bool second_touch;
    struct mr_log *log;
};

struct mr_tier_redis_stats {
    struct mr_tier_queue_stats queue;
    struct mr_tier_rates rates;
    struct mr_redis_client_stats client; /* summed over threads; breaker: of the lookup thread */
    char reason[MR_ERROR_DETAIL_BYTES];  /* why the lookup connection closed last */
};

enum mr_status mr_tier_redis_create(struct mr_tier_redis **out,
                                    const struct mr_tier_redis_options *options,
                                    struct mr_error *err);
/* Ends all threads but that of calls. The engine is no longer woken, and its memory no longer
 * touched; requests in flight are answered as failed, later ones refused. Call it before the engine
 * ends. tier may be NULL. */
void mr_tier_redis_close(struct mr_tier_redis *tier);
/* Call it after the engine has ended. Calls without a reply end as MR_REDIS_LOST. tier may be NULL.
 */
void mr_tier_redis_destroy(struct mr_tier_redis *tier);

/* The engine's interface, valid as long as the tier. */
const struct mr_tier *mr_tier_redis_table(const struct mr_tier_redis *tier);
/* Sets what wakes the engine when poll has an answer; called on the tier's threads. Before the
 * first request. */
void mr_tier_redis_link(struct mr_tier_redis *tier, void (*notify)(void *context), void *context);
/* Small commands of others: see worker/redis/redis_call.h. */
bool mr_tier_redis_call(struct mr_tier_redis *tier, const struct mr_redis_call *calls,
                        size_t count);
/* Redis does not answer calls: while silent, lookups and loads are refused. */
void mr_tier_redis_set_silent(struct mr_tier_redis *tier, bool silent);
struct mr_tier_redis_stats mr_tier_redis_stats(struct mr_tier_redis *tier);
/* Reads a key file ("" none) into secrets [MR_FRAME_KEYS_MAX]; the caller wipes them. */
enum mr_status mr_tier_redis_secrets(const char *path, struct mr_frame_secret *secrets,
                                     size_t *count, struct mr_error *err);

#endif
