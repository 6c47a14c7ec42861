/* redis_cache - the remote cache in Redis, through the interface of kvcache/remote_cache.h: the
 * queue (kvcache/remote/remote_queue.h) and its connection threads, one for lookups, one or more
 * for loads and stores, and one for the small Redis commands of other modules (calls).
 *
 * The cache starts even if Redis is unreachable, and keeps working when Redis is down, slow, full
 * or faulty: then lookups are refused or find nothing within the lookup timeout, and stores are
 * dropped.
 *
 * Threads: the functions of the table: the engine thread; _call, _set_silent and _stats: any; all
 * others: the owner.
 * Memory: that of the queue; the engine owns the bytes of loads and stores. Errors: _create
 * MR_BAD_CONFIG for a URL, file or key that cannot be used, MR_NOMEM. An unreachable server is not
 * an error. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_CACHE_H
#define MR_WORKER_REMOTE_CACHE_REDIS_CACHE_H

#include "worker/remote_cache/redis_thread.h"

struct mr_redis_cache;

struct mr_redis_cache_options {
    const char *url;           /* redis:// URL as in kvcache/remote/redis_url.h */
    const char *password_file; /* its first line replaces the URL's password; "": no file */
    /* lines "ID 64-HEX-DIGITS"; the first line's key encrypts; "": no file, no encryption */
    const char *key_file;
    struct mr_redis_tls_files tls;
    uint32_t connections; /* connections for loads and stores: 1 .. MR_REMOTE_THREADS_MAX - 1 */
    uint64_t lookup_timeout_ns, transfer_timeout_ns, ttl_ns;
    uint64_t store_bytes_max, write_budget;
    enum mr_frame_codec codec; /* how the engine encodes KV in a slice */
    bool second_touch;
    struct mr_log *log;
    struct mr_heartbeats *heartbeats; /* watches the threads; NULL: none */
};

struct mr_redis_cache_stats {
    struct mr_remote_queue_stats queue;
    struct mr_remote_rates rates;
    /* sums over all connection threads; the breaker's state is that of the lookup thread */
    struct mr_redis_client_stats client;
    char reason[MR_ERROR_DETAIL_BYTES]; /* why the lookup connection was closed most recently */
};

enum mr_status mr_redis_cache_create(struct mr_redis_cache **out,
                                     const struct mr_redis_cache_options *options,
                                     struct mr_error *err);
/* Checks the URL and reads the password, key and TLS files as _create does, without a connection.
 * MR_BAD_CONFIG. */
enum mr_status mr_redis_cache_check(const struct mr_redis_cache_options *options,
                                    struct mr_error *err);
/* Uses a port that is connected and logged in. */
typedef enum mr_status mr_redis_cache_visit(void *context, const struct mr_redis_port *port,
                                            struct mr_error *err);
/* Connects to Redis, logs in, calls visit and closes the connection. MR_UNREACHABLE with the
 * reason: no connection within timeout_ms, or an attempt at each address of the server has failed.
 * Other errors: those of _check and of visit. Threads: any. */
enum mr_status mr_redis_cache_probe(const struct mr_redis_cache_options *options,
                                    uint32_t timeout_ms, mr_redis_cache_visit *visit, void *context,
                                    struct mr_error *err);
/* Reads the password file again. Every later login uses its password; open connections stay open.
 * Threads: any, one at a time. MR_BAD_CONFIG: the file cannot be read, and the password stays. */
enum mr_status mr_redis_cache_reread(struct mr_redis_cache *cache, const char *password_file,
                                     struct mr_error *err);
/* Ends all connection threads except the one of mr_redis_cache_call. From now on the engine is not
 * woken and its memory is not touched. Operations in flight are answered as failed, later ones are
 * refused. Call it before the engine ends. cache may be NULL. False: a thread has not ended within
 * timeout_ms, so the cache must not be destroyed, and the process should end soon. */
bool mr_redis_cache_close(struct mr_redis_cache *cache, uint32_t timeout_ms);
/* Call it after the engine has ended. Commands of mr_redis_cache_call without a reply end with the
 * outcome MR_REDIS_LOST. cache may be NULL. */
void mr_redis_cache_destroy(struct mr_redis_cache *cache);

/* The table of functions that the engine calls; valid until mr_redis_cache_destroy. */
const struct mr_remote_cache *mr_redis_cache_table(const struct mr_redis_cache *cache);
/* Sets the function that wakes the engine when an answer is ready to be polled; it runs on the
 * connection threads. Call it before the engine's first operation. */
void mr_redis_cache_link(struct mr_redis_cache *cache, void (*notify)(void *context),
                         void *context);
/* Sends small Redis commands of other modules: like mr_redis_calls_post
 * (worker/remote_cache/redis_call.h). */
bool mr_redis_cache_call(struct mr_redis_cache *cache, const struct mr_redis_call *calls,
                         size_t count);
/* silent true: Redis does not answer the commands of mr_redis_cache_call in time; lookups and loads
 * are refused until it is called with false. */
void mr_redis_cache_set_silent(struct mr_redis_cache *cache, bool silent);
struct mr_redis_cache_stats mr_redis_cache_stats(struct mr_redis_cache *cache);
/* Reads the encryption keys from a key file ("": no file) into secrets [MR_FRAME_KEYS_MAX]; the
 * caller wipes them after use. */
enum mr_status mr_redis_cache_secrets(const char *path, struct mr_frame_secret *secrets,
                                      size_t *count, struct mr_error *err);

#endif
