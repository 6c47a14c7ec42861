/* tier_redis - the cache of KV blocks in Redis, behind the interface of kvcache/tier.h: one queue,
 * and connection threads: one for lookups, one or more for values, and one for the small Redis
 * commands of other modules (calls).
 *
 * The cache starts even if Redis is unreachable, and keeps working when Redis is down, slow, full
 * or faulty: then lookups are refused or find nothing within the lookup timeout, and stores are
 * dropped.
 *
 * Threads: the functions of the table: the engine thread; _call, _set_silent and _stats: any; all
 * others: the owner.
 * Memory: as worker/remote_cache/tier_queue.h; the bytes to load to or store from belong to the
 * engine. Errors: _create MR_BAD_CONFIG for a URL, file or key that cannot be used, MR_NOMEM. An
 * unreachable server is no error. */
#ifndef MR_WORKER_REMOTE_CACHE_TIER_REDIS_H
#define MR_WORKER_REMOTE_CACHE_TIER_REDIS_H

#include "worker/remote_cache/tier_thread.h"

struct mr_tier_redis;

struct mr_tier_redis_options {
    const char *url;           /* redis:// URL as in kvcache/remote/redis_url.h */
    const char *password_file; /* its first line replaces the URL's password; "": no file */
    /* lines "ID 64-HEX-DIGITS"; the first line's key encrypts; "": no file, no encryption */
    const char *key_file;
    struct mr_redis_tls_files tls;
    uint32_t connections; /* number of connections for values: 1 .. MR_TIER_THREADS_MAX - 1 */
    uint64_t lookup_timeout_ns, transfer_timeout_ns, ttl_ns;
    uint64_t store_bytes_max, write_budget;
    enum mr_frame_codec codec; /* how the engine encodes KV in a value */
    bool second_touch;
    struct mr_log *log;
    struct mr_heartbeats *heartbeats; /* watches the threads; NULL: none */
};

struct mr_tier_redis_stats {
    struct mr_tier_queue_stats queue;
    struct mr_tier_rates rates;
    /* sums over all connection threads; the breaker's state is that of the lookup thread */
    struct mr_redis_client_stats client;
    char reason[MR_ERROR_DETAIL_BYTES]; /* why the lookup connection was closed most recently */
};

enum mr_status mr_tier_redis_create(struct mr_tier_redis **out,
                                    const struct mr_tier_redis_options *options,
                                    struct mr_error *err);
/* Checks the URL and reads the password, key and TLS files as _create does, without a connection.
 * MR_BAD_CONFIG. */
enum mr_status mr_tier_redis_check(const struct mr_tier_redis_options *options,
                                   struct mr_error *err);
/* Uses a port that is connected and logged in. */
typedef enum mr_status mr_tier_redis_visit(void *context, const struct mr_redis_port *port,
                                           struct mr_error *err);
/* Connects to Redis, logs in, calls visit and closes the connection. MR_UNREACHABLE with the reason
 * if there is no connection within timeout_ms, or each address of the server has failed once; else
 * the errors of _check and of visit. Threads: any. */
enum mr_status mr_tier_redis_probe(const struct mr_tier_redis_options *options, uint32_t timeout_ms,
                                   mr_tier_redis_visit *visit, void *context, struct mr_error *err);
/* Reads the password file again: every later login uses its password; connections stay. Threads:
 * any, one at a time. MR_BAD_CONFIG: the file cannot be read, and the password stays. */
enum mr_status mr_tier_redis_reread(struct mr_tier_redis *tier, const char *password_file,
                                    struct mr_error *err);
/* Ends all connection threads except the one of mr_tier_redis_call. From now on the engine is not
 * woken and its memory is not touched; requests in flight are answered as failed, later ones are
 * refused. Call it before the engine ends. tier may be NULL. False: a thread has not ended within
 * timeout_ms, so the tier must not be destroyed, and the process should end soon. */
bool mr_tier_redis_close(struct mr_tier_redis *tier, uint32_t timeout_ms);
/* Call it after the engine has ended. Commands of mr_tier_redis_call without a reply end with the
 * outcome MR_REDIS_LOST. tier may be NULL. */
void mr_tier_redis_destroy(struct mr_tier_redis *tier);

/* The table of functions that the engine calls; valid until mr_tier_redis_destroy. */
const struct mr_tier *mr_tier_redis_table(const struct mr_tier_redis *tier);
/* Sets the function that wakes the engine when an answer is ready to be polled; it runs on the
 * connection threads. Call it before the engine's first request. */
void mr_tier_redis_link(struct mr_tier_redis *tier, void (*notify)(void *context), void *context);
/* Sends small Redis commands of other modules: like mr_redis_calls_post
 * (worker/remote_cache/redis_call.h). */
bool mr_tier_redis_call(struct mr_tier_redis *tier, const struct mr_redis_call *calls,
                        size_t count);
/* silent true: Redis does not answer the commands of mr_tier_redis_call in time; lookups and loads
 * are refused until it is called with false. */
void mr_tier_redis_set_silent(struct mr_tier_redis *tier, bool silent);
struct mr_tier_redis_stats mr_tier_redis_stats(struct mr_tier_redis *tier);
/* Reads the encryption keys from a key file ("": no file) into secrets [MR_FRAME_KEYS_MAX]; the
 * caller wipes them after use. */
enum mr_status mr_tier_redis_secrets(const char *path, struct mr_frame_secret *secrets,
                                     size_t *count, struct mr_error *err);

#endif
