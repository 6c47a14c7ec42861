#include "worker/remote_cache/redis_cache.h"

#include "codec/check.h"
#include "kvcache/remote/redis_policy.h"
#include "worker/base/clock.h"
#include "worker/remote_cache/redis_resolver.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CONNECT_TIMEOUT_NS ((uint64_t)1000000000)
#define PRESENT_NS         ((uint64_t)60 * 1000000000)
#define SECOND_NS          ((uint64_t)1000000000)
#define LINE_BYTES         ((size_t)600)
#define PROBE_POLL_MS      20

struct mr_redis_cache {
    struct mr_remote_cache table;
    struct mr_remote_queue *queue;
    struct mr_redis_tls_context *tls;
    struct mr_redis_resolver *resolver;
    struct mr_redis_thread *threads[MR_REMOTE_THREADS_MAX], *calls;
    uint32_t thread_count;
    bool closed;
    void (*notify)(void *context);
    _Atomic(void *) notify_context; /* NULL: mr_redis_cache_link was not called yet */
    struct mr_log *log;
    bool values_expire;
    /* last warning logged about Redis's memory policy; used by the lookup thread only */
    char logged_warning[MR_REDIS_POLICY_BYTES];
};

/* ---- the table ---- */

static bool lookup(void *context, const struct mr_remote_operation *posted)
{
    struct mr_redis_cache *cache = context;
    return mr_remote_queue_post(cache->queue, MR_REMOTE_LOOKUP, posted, mr_clock_ns()) > 0;
}

static bool load(void *context, const struct mr_remote_operation *posted)
{
    struct mr_redis_cache *cache = context;
    return mr_remote_queue_post(cache->queue, MR_REMOTE_LOAD, posted, mr_clock_ns()) > 0;
}

static uint32_t store(void *context, const struct mr_remote_operation *posted)
{
    struct mr_redis_cache *cache = context;
    return mr_remote_queue_post(cache->queue, MR_REMOTE_STORE, posted, mr_clock_ns());
}

static void skip(void *context, uint64_t id, uint32_t index)
{
    struct mr_redis_cache *cache = context;
    mr_remote_queue_skip(cache->queue, id, index);
}

static bool poll_answer(void *context, struct mr_remote_answer *answer)
{
    struct mr_redis_cache *cache = context;
    return mr_remote_queue_poll(cache->queue, answer);
}

static void cancel(void *context, uint64_t id)
{
    struct mr_redis_cache *cache = context;
    mr_remote_queue_cancel(cache->queue, id);
}

static struct mr_remote_rates rates(void *context)
{
    struct mr_redis_cache *cache = context;
    return mr_remote_queue_rates(cache->queue);
}

/* ---- files ---- */

/* Reads one line without its line end; returns false at the end of the file. *status is an error if
 * the line is too long. */
static bool read_line(FILE *file, char *line, enum mr_status *status, struct mr_error *err)
{
    if (!fgets(line, (int)LINE_BYTES, file)) return false;
    size_t length = strcspn(line, "\r\n");
    if (line[length] == '\0' && !feof(file))
        *status = mr_fail(err, MR_BAD_CONFIG, "a line of a Redis secrets file is too long");
    line[length] = '\0';
    return *status == MR_OK;
}

static FILE *open_file(const char *path, struct mr_error *err)
{
    FILE *file = fopen(path, "re");
    if (!file) mr_fail(err, MR_BAD_CONFIG, "%.120s: %s", path, strerror(errno));
    return file;
}

static enum mr_status read_password(const char *path, struct mr_redis_url *url,
                                    struct mr_error *err)
{
    char line[LINE_BYTES] = "";
    enum mr_status status = MR_OK;
    if (!path[0]) return MR_OK;
    FILE *file = open_file(path, err);
    if (!file) return MR_BAD_CONFIG;
    read_line(file, line, &status, err);
    fclose(file);
    if (status == MR_OK && strlen(line) >= sizeof url->password)
        status = mr_fail(err, MR_BAD_CONFIG, "the Redis password is too long");
    if (status == MR_OK) memcpy(url->password, line, strlen(line) + 1);
    explicit_bzero(line, sizeof line);
    return status;
}

/* Parses one line "ID 64-HEX-DIGITS" of the key file. */
static bool parse_secret(const char *line, struct mr_frame_secret *secret)
{
    char *rest;
    unsigned long id = strtoul(line, &rest, 10);
    size_t blanks = strspn(rest, " \t");
    if (rest == line || blanks == 0 || id == 0 || id > 255) return false;
    rest += blanks;
    if (strlen(rest) != 2 * MR_AES_KEY_BYTES) return false;
    secret->id = (uint32_t)id;
    for (size_t i = 0; i < MR_AES_KEY_BYTES; i++) {
        int high = mr_text_hex_value(rest[2 * i]), low = mr_text_hex_value(rest[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        secret->key[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

enum mr_status mr_redis_cache_secrets(const char *path, struct mr_frame_secret *secrets,
                                      size_t *count, struct mr_error *err)
{
    char line[LINE_BYTES];
    enum mr_status status = MR_OK;
    *count = 0;
    if (!path[0]) return MR_OK;
    FILE *file = open_file(path, err);
    if (!file) return MR_BAD_CONFIG;
    while (status == MR_OK && read_line(file, line, &status, err)) {
        if (line[0] == '\0' || line[0] == '#') continue;
        if (*count == MR_FRAME_KEYS_MAX || !parse_secret(line, &secrets[*count]))
            status = mr_fail(
                err, MR_BAD_CONFIG,
                "%.120s: each line is \"ID KEY\", 1 to 255 and 64 hex digits, at most %zu keys",
                path, MR_FRAME_KEYS_MAX);
        else
            ++*count;
    }
    fclose(file);
    explicit_bzero(line, sizeof line);
    if (status == MR_OK && *count == 0)
        status = mr_fail(err, MR_BAD_CONFIG, "%.120s contains no key", path);
    return status;
}

/* ---- life ---- */

static void notify(void *context)
{
    struct mr_redis_cache *cache = context;
    void *engine = atomic_load(&cache->notify_context);
    if (engine) cache->notify(engine);
}

/* The reply to INFO memory arrived: logs, once, why the server's memory policy does not suit a
 * cache. Nothing is logged here if Redis denies INFO; the first refused store is logged instead. */
static void on_memory(void *context, enum mr_redis_outcome outcome,
                      const struct mr_redis_reply *reply)
{
    struct mr_redis_cache *cache = context;
    struct mr_redis_policy policy;
    char text[MR_REDIS_POLICY_BYTES];
    size_t length = 0;
    if (outcome != MR_REDIS_DONE) return;
    const char *info = mr_redis_reply_text(reply, &length);
    if (!mr_redis_policy_read(&policy, info, length)) return;
    mr_redis_policy_judge(&policy, cache->values_expire, text);
    if (text[0] && strcmp(text, cache->logged_warning) != 0) mr_log_warn(cache->log, "%s", text);
    memcpy(cache->logged_warning, text, sizeof text);
}

static void on_ready(void *context, struct mr_redis_thread *thread)
{
    static const char *const words[] = {"INFO", "memory"};
    static const size_t lengths[] = {4, 6};
    struct mr_redis_call call = {.words = words,
                                 .lengths = lengths,
                                 .count = 2,
                                 .timeout_ns = SECOND_NS,
                                 .done = on_memory,
                                 .context = context};
    mr_redis_thread_call(thread, &call, 1);
}

/* ---- threads ---- */

/* Creates and starts a connection thread with its own Redis client; *out is set as soon as the
 * thread object exists, also when starting it fails. */
static enum mr_status open_thread(struct mr_redis_thread **out,
                                  struct mr_redis_thread_options *options,
                                  const struct mr_redis_conn_options *conn, const char *name,
                                  struct mr_error *err)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) < 0) seed = options->index;
    enum mr_status status = mr_redis_port_open(&options->port, conn, seed, err);
    if (status != MR_OK) return status;
    status = mr_redis_thread_create(out, options, err);
    return status == MR_OK ? mr_redis_thread_start(*out, name, err) : status;
}

static enum mr_status open_threads(struct mr_redis_cache *cache, uint32_t connections,
                                   struct mr_redis_thread_options *thread,
                                   const struct mr_redis_conn_options *conn, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; i <= connections && status == MR_OK; i++) {
        thread->index = i;
        thread->on_ready = i == 0 && cache->log ? on_ready : NULL;
        status = open_thread(&cache->threads[i], thread, conn,
                             i == 0 ? "redis-lookup" : "redis-values", err);
        if (cache->threads[i]) cache->thread_count++;
    }
    if (status != MR_OK) return status;
    thread->queue = NULL;
    return open_thread(&cache->calls, thread, conn, "redis-calls", err);
}

/* The settings of the connections, from the options and the files that they name. close_access
 * wipes them. */
struct access {
    struct mr_redis_conn_options conn;
    struct mr_redis_tls_context *tls; /* NULL without TLS */
    struct mr_redis_resolver *resolver;
    struct mr_frame_secret secrets[MR_FRAME_KEYS_MAX];
    size_t secret_count;
};

static void close_access(struct access *access)
{
    mr_redis_tls_context_destroy(access->tls);
    mr_redis_resolver_destroy(access->resolver);
    explicit_bzero(access, sizeof *access);
}

static enum mr_status open_access(struct access *access,
                                  const struct mr_redis_cache_options *options,
                                  struct mr_error *err)
{
    *access = (struct access){.conn = {.connect_timeout_ns = CONNECT_TIMEOUT_NS}};
    struct mr_redis_url *where = &access->conn.where;
    enum mr_status status = mr_redis_url_parse(where, options->url, err);
    if (status == MR_OK) status = read_password(options->password_file, where, err);
    if (status == MR_OK)
        status =
            mr_redis_cache_secrets(options->key_file, access->secrets, &access->secret_count, err);
    if (status == MR_OK && where->tls)
        status = mr_redis_tls_context_create(&access->tls, &options->tls, err);
    if (status == MR_OK) status = mr_redis_resolver_create(&access->resolver, getaddrinfo, err);
    access->conn.tls = access->tls;
    access->conn.resolver = access->resolver;
    return status;
}

static enum mr_status open_all(struct mr_redis_cache *cache,
                               const struct mr_redis_cache_options *options, struct mr_error *err)
{
    struct access access;
    struct mr_redis_thread_options thread = {.ttl_s = (options->ttl_ns + SECOND_NS - 1) / SECOND_NS,
                                             .secrets = access.secrets,
                                             .log = options->log,
                                             .heartbeats = options->heartbeats,
                                             .notify = notify,
                                             .context = cache};
    struct mr_remote_queue_options queue = {.thread_count = options->connections + 1,
                                            .lookup_timeout_ns = options->lookup_timeout_ns,
                                            .transfer_timeout_ns = options->transfer_timeout_ns,
                                            .store_bytes_max = options->store_bytes_max,
                                            .write_budget = options->write_budget,
                                            .codec = options->codec,
                                            .second_touch = options->second_touch,
                                            .present_ns = PRESENT_NS};
    cache->log = options->log;
    cache->values_expire = options->ttl_ns > 0;
    enum mr_status status = open_access(&access, options, err);
    thread.secret_count = access.secret_count;
    if (status == MR_OK) status = mr_remote_queue_create(&cache->queue, &queue, err);
    thread.queue = cache->queue;
    if (status == MR_OK)
        status = open_threads(cache, options->connections, &thread, &access.conn, err);
    cache->tls = access.tls; /* the connections use both */
    cache->resolver = access.resolver;
    access.tls = NULL;
    access.resolver = NULL;
    close_access(&access);
    return status;
}

enum mr_status mr_redis_cache_check(const struct mr_redis_cache_options *options,
                                    struct mr_error *err)
{
    struct access access;
    enum mr_status status = open_access(&access, options, err);
    close_access(&access);
    return status;
}

/* Appends a reason to the reasons [MR_ERROR_DETAIL_BYTES], unless it is one of them. */
static void add_reason(char *reasons, const char *reason)
{
    size_t used = strlen(reasons);
    if (used > 0 && strstr(reasons, reason)) return;
    snprintf(reasons + used, MR_ERROR_DETAIL_BYTES - used, "%s%s", used > 0 ? "; " : "", reason);
}

/* Steps the port until a connection is ready; false after the timeout, or when an attempt at each
 * address of the server has failed. reasons [MR_ERROR_DETAIL_BYTES]: why they failed. */
static bool await_ready(const struct mr_redis_port *port, uint32_t timeout_ms, char *reasons)
{
    struct pollfd fds[MR_REDIS_NODES_MAX];
    uint64_t failures = 0;
    uint64_t until_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    for (uint64_t now_ns; (now_ns = mr_clock_ns()) < until_ns;) {
        port->step(port->context, now_ns);
        if (port->is_ready(port->context)) return true;
        struct mr_redis_client_stats stats = port->stats(port->context);
        if (stats.failures > failures) add_reason(reasons, port->reason(port->context));
        failures = stats.failures;
        if (failures > 0 && failures >= stats.addresses) return false;
        size_t count = port->sockets(port->context, fds, MR_REDIS_NODES_MAX);
        poll(fds, count, PROBE_POLL_MS);
    }
    return false;
}

enum mr_status mr_redis_cache_probe(const struct mr_redis_cache_options *options,
                                    uint32_t timeout_ms, mr_redis_cache_visit *visit, void *context,
                                    struct mr_error *err)
{
    struct access access;
    struct mr_redis_port port;
    char reasons[MR_ERROR_DETAIL_BYTES] = "";
    enum mr_status status = open_access(&access, options, err);
    if (status != MR_OK) goto close;
    access.conn.connect_timeout_ns = timeout_ms * UINT64_C(1000000);
    status = mr_redis_port_open(&port, &access.conn, 0, err);
    if (status != MR_OK) goto close;
    if (await_ready(&port, timeout_ms, reasons))
        status = visit(context, &port, err);
    else
        status = mr_fail(err, MR_UNREACHABLE, "%s", reasons[0] ? reasons : "Redis: no answer");
    port.close(port.context);
    port.destroy(port.context);
close:
    close_access(&access);
    return status;
}

enum mr_status mr_redis_cache_create(struct mr_redis_cache **out,
                                     const struct mr_redis_cache_options *options,
                                     struct mr_error *err)
{
    MR_ASSERT(options->connections >= 1 && options->connections < MR_REMOTE_THREADS_MAX);
    *out = NULL;
    struct mr_redis_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return mr_fail(err, MR_NOMEM, "no memory for the remote cache");
    cache->table = (struct mr_remote_cache){.context = cache,
                                            .lookup = lookup,
                                            .load = load,
                                            .skip = skip,
                                            .store = store,
                                            .poll = poll_answer,
                                            .cancel = cancel,
                                            .rates = rates};
    enum mr_status status = open_all(cache, options, err);
    if (status != MR_OK) {
        mr_redis_cache_destroy(cache);
        return status;
    }
    *out = cache;
    return MR_OK;
}

enum mr_status mr_redis_cache_reread(struct mr_redis_cache *cache, const char *password_file,
                                     struct mr_error *err)
{
    struct mr_redis_url url = {.password = ""};
    enum mr_status status = read_password(password_file, &url, err);
    for (uint32_t i = 0; status == MR_OK && i < cache->thread_count; i++)
        mr_redis_thread_set_password(cache->threads[i], url.password);
    if (status == MR_OK && cache->calls) mr_redis_thread_set_password(cache->calls, url.password);
    explicit_bzero(&url, sizeof url);
    return status;
}

bool mr_redis_cache_close(struct mr_redis_cache *cache, uint32_t timeout_ms)
{
    if (!cache || cache->closed) return true;
    uint64_t until_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    bool ended = true;
    cache->closed = true;
    for (uint32_t i = 0; i < cache->thread_count; i++)
        ended &= mr_redis_thread_stop(cache->threads[i], mr_clock_left_ms(mr_clock_ns(), until_ns));
    if (cache->queue) mr_remote_queue_expire(cache->queue, UINT64_MAX);
    return ended;
}

void mr_redis_cache_destroy(struct mr_redis_cache *cache)
{
    if (!cache) return;
    mr_redis_cache_close(cache, UINT32_MAX);
    if (cache->calls) mr_redis_thread_stop(cache->calls, UINT32_MAX);
    mr_redis_thread_destroy(cache->calls);
    for (uint32_t i = 0; i < cache->thread_count; i++)
        mr_redis_thread_destroy(cache->threads[i]);
    mr_remote_queue_destroy(cache->queue);
    mr_redis_tls_context_destroy(cache->tls);
    mr_redis_resolver_destroy(cache->resolver);
    free(cache);
}

const struct mr_remote_cache *mr_redis_cache_table(const struct mr_redis_cache *cache)
{
    return &cache->table;
}

void mr_redis_cache_link(struct mr_redis_cache *cache, void (*wake)(void *context), void *context)
{
    cache->notify = wake;
    atomic_store(&cache->notify_context, context);
}

bool mr_redis_cache_call(struct mr_redis_cache *cache, const struct mr_redis_call *calls,
                         size_t count)
{
    return mr_redis_thread_call(cache->calls, calls, count);
}

void mr_redis_cache_set_silent(struct mr_redis_cache *cache, bool silent)
{
    mr_remote_queue_set_silent(cache->queue, silent);
}

static void add(struct mr_redis_client_stats *sum, const struct mr_redis_client_stats *one)
{
    sum->connects += one->connects;
    sum->failures += one->failures;
    sum->moved += one->moved;
    sum->asked += one->asked;
    sum->breaker_openings += one->breaker_openings;
    mr_redis_conn_stats_add(&sum->bytes, &one->bytes);
    if (one->nodes > sum->nodes) sum->nodes = one->nodes;
}

struct mr_redis_cache_stats mr_redis_cache_stats(struct mr_redis_cache *cache)
{
    struct mr_redis_cache_stats stats = {.queue = mr_remote_queue_stats(cache->queue),
                                         .rates = mr_remote_queue_rates(cache->queue)};
    char unused[MR_ERROR_DETAIL_BYTES];
    stats.client = mr_redis_thread_stats(cache->threads[0], stats.reason, sizeof stats.reason);
    for (uint32_t i = 1; i < cache->thread_count; i++) {
        struct mr_redis_client_stats one =
            mr_redis_thread_stats(cache->threads[i], unused, sizeof unused);
        add(&stats.client, &one);
    }
    struct mr_redis_client_stats calls = mr_redis_thread_stats(cache->calls, unused, sizeof unused);
    add(&stats.client, &calls);
    return stats;
}
