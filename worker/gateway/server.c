#include "worker/gateway/server.h"

#include "codec/openai/copy.h"
#include "worker/base/clock.h"
#include "worker/gateway/page.h"
#include "worker/gateway/respond.h"
#include "worker/http/http_client.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAM_BLOCK_BYTES 16384
#define ACCEPT_QUEUE       1024u
#define SPARE_CONNECTIONS  64u

struct mr_server {
    struct mr_server_options options;
    struct MHD_Daemon *daemon;
    atomic_uint waiting; /* exchanges whose response is not complete */
    uint16_t port;
};

static const char json_type[] = "application/json";

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* ---- responses ---- */

static void add_cors(const struct mr_server *server, struct MHD_Response *response)
{
    if (!server->options.cors_origin[0]) return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", server->options.cors_origin);
    MHD_add_response_header(response, "Access-Control-Expose-Headers", "x-request-id, retry-after");
    MHD_add_response_header(response, "Vary", "Origin");
}

/* Sends a response and counts the call. Takes ownership of text, which is malloc'ed; NULL: memory
 * is out. */
static enum MHD_Result reply(struct mr_server *server, struct mr_exchange *exchange,
                             unsigned status, char *text, size_t length)
{
    char seconds[16];
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE)
             : MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, json_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (exchange->id[0]) MHD_add_response_header(response, "x-request-id", exchange->id);
    if (exchange->no_retry) MHD_add_response_header(response, "x-should-retry", "false");
    snprintf(seconds, sizeof seconds, "%u", exchange->retry_after_s);
    if (exchange->retry_after_s > 0) MHD_add_response_header(response, "retry-after", seconds);
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    add_cors(server, response);
    const enum MHD_Result result = MHD_queue_response(exchange->connection, status, response);
    MHD_destroy_response(response);
    exchange->is_answered = true;
    mr_gateway_count_call(server->options.counts, exchange->endpoint, status);
    return result;
}

static enum MHD_Result reply_error(struct mr_server *server, struct mr_exchange *exchange,
                                   const struct mr_accept_refusal *refusal)
{
    size_t length;
    char *text = mr_respond_error_text(&refusal->error, &length);
    exchange->retry_after_s = refusal->retry_after_s;
    exchange->no_retry = refusal->no_retry;
    return reply(server, exchange, (unsigned)refusal->error.http_status, text, length);
}

static enum MHD_Result refuse(struct mr_server *server, struct mr_exchange *exchange,
                              const char *code, const char *message, int status)
{
    struct mr_accept_refusal refusal = {0};
    mr_accept_refuse(&refusal, code, message, status);
    return reply_error(server, exchange, &refusal);
}

/* Sends a page that is not an answer of a worker. text is malloc'ed, or static if not `owned`. */
static enum MHD_Result send_page(struct mr_server *server, struct mr_exchange *exchange,
                                 const char *type, char *text, size_t length, bool owned)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        length, text, owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    add_cors(server, response);
    const enum MHD_Result result = MHD_queue_response(exchange->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    exchange->is_answered = true;
    mr_gateway_count_call(server->options.counts, MR_OPENAI_ENDPOINTS, MHD_HTTP_OK);
    return result;
}

/* ---- streams ---- */

/* The HTTP library calls this when the connection can send. */
static ssize_t read_stream(void *context, uint64_t position, char *bytes, size_t most)
{
    struct mr_exchange *exchange = context;
    struct mr_exchanges *exchanges = exchange->exchanges;
    ssize_t count = 0;
    (void)position;
    pthread_mutex_lock(&exchanges->lock);
    const size_t left = exchange->out.length - exchange->out_read;
    if (left > 0) {
        count = (ssize_t)(left < most ? left : most);
        memcpy(bytes, exchange->out.bytes + exchange->out_read, (size_t)count);
        exchange->out_read += (size_t)count;
    } else if (exchange->is_left) {
        count = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (exchange->is_done) {
        count = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        exchange->suspended = true;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&exchanges->lock);
    return count;
}

static enum MHD_Result send_stream(struct mr_server *server, struct mr_exchange *exchange)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, exchange, NULL);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            "text/event-stream; charset=utf-8");
    /* proxies must neither keep nor collect the stream */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
    MHD_add_response_header(response, "x-request-id", exchange->id);
    add_cors(server, response);
    const enum MHD_Result result = MHD_queue_response(exchange->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    exchange->is_answered = true;
    mr_gateway_count_call(server->options.counts, exchange->endpoint, MHD_HTTP_OK);
    return result;
}

/* The call was resumed: sends its answer or begins its stream, or suspends it again. */
static enum MHD_Result go_on(struct mr_server *server, struct mr_exchange *exchange)
{
    struct mr_exchanges *exchanges = server->options.exchanges;
    char *text = NULL;
    size_t length = 0;
    pthread_mutex_lock(&exchanges->lock);
    const bool streams = exchange->is_begun, done = exchange->is_done;
    const bool left = exchange->is_left;
    const unsigned status = exchange->status;
    if (!left && !streams && done) {
        text = exchange->out.bytes;
        length = exchange->out.length;
        exchanges->bytes -= length;
        mr_buffer_init(&exchange->out, 0);
    } else if (!left && !streams) {
        exchange->suspended = true;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&exchanges->lock);
    if (left) return MHD_NO;
    if (streams) return send_stream(server, exchange);
    return done ? reply(server, exchange, status, text, length) : MHD_YES;
}

/* ---- calls ---- */

static enum MHD_Result dispatch(struct mr_server *server, struct mr_exchange *exchange)
{
    struct MHD_Connection *connection = exchange->connection;
    const struct mr_server_options *options = &server->options;
    const struct mr_accept_headers headers = {.idempotency_key =
                                                  header(connection, "Idempotency-Key"),
                                              .timeout_ms = header(connection, "x-timeout-ms"),
                                              .trace_parent = header(connection, "traceparent")};
    struct mr_accept_refusal refusal;
    if (exchange->is_too_large)
        return refuse(server, exchange, "record_too_large",
                      "the body is larger than this gateway takes", 0);
    if (!mr_accept(&options->rules, exchange, &headers, &refusal))
        return reply_error(server, exchange, &refusal);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    switch (mr_exchanges_add(options->exchanges, exchange)) {
    case MR_EXCHANGE_SAME_ID:
        exchange->no_retry = true;
        mr_accept_refuse(&refusal, "duplicate_id",
                         "another call with this Idempotency-Key is in flight", 0);
        refusal.no_retry = true;
        return reply_error(server, exchange, &refusal);
    case MR_EXCHANGE_FULL:
        mr_accept_refuse(&refusal, "overloaded", "too many calls are in flight", 503);
        refusal.retry_after_s = 1;
        return reply_error(server, exchange, &refusal);
    case MR_EXCHANGE_ADDED:
        break;
    }
    exchange->is_dispatched = true;
    if (info) mr_link_watch(options->link, exchange, info->connect_fd);
    return go_on(server, exchange);
}

static enum MHD_Result read_body(struct mr_server *server, struct mr_exchange *exchange,
                                 const char *bytes, size_t *length)
{
    const size_t part = *length;
    *length = 0;
    if (!exchange->is_too_large && exchange->body.length + part <= server->options.body_bytes_max &&
        mr_exchange_add_body(server->options.exchanges, exchange, (struct mr_text){bytes, part}))
        return MHD_YES;
    exchange->is_too_large = true;
    exchange->discarded_bytes += part;
    return exchange->discarded_bytes <= MR_SERVER_DISCARD_BYTES ? MHD_YES : MHD_NO;
}

/* Finds the key of the call. False: there are keys and the call has none of them. */
static bool authorize(struct mr_server *server, struct mr_exchange *exchange)
{
    static const char bearer[] = "Bearer ";
    const char *value = header(exchange->connection, "Authorization");
    if (!server->options.keys || exchange->key) return true;
    if (!value) value = header(exchange->connection, "api-key");
    if (!value) return false;
    if (strncasecmp(value, bearer, sizeof bearer - 1) == 0) value += sizeof bearer - 1;
    exchange->key = mr_keys_find(server->options.keys, (struct mr_text){value, strlen(value)});
    return exchange->key != NULL;
}

/* ---- other pages ---- */

static void put_model(struct mr_json_writer *writer, const char *name)
{
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "id", name);
    mr_openai_put_string(writer, "object", "model");
    mr_openai_put_int(writer, "created", 0);
    mr_openai_put_string(writer, "owned_by", "millrace");
    mr_json_end(writer);
}

static bool may_use(const struct mr_exchange *exchange, const char *model)
{
    return !exchange->key || mr_key_allows(exchange->key, (struct mr_text){model, strlen(model)});
}

/* wanted: the name of one model; NULL: all. */
static enum MHD_Result send_models(struct mr_server *server, struct mr_exchange *exchange,
                                   const char *wanted)
{
    char name[MR_FLEET_MODEL_BYTES], *text = NULL;
    size_t length = 0;
    bool found = false;
    struct mr_json_writer writer;
    mr_json_writer_init(&writer, (size_t)1 << 20);
    if (!wanted) {
        mr_json_begin_object(&writer);
        mr_openai_put_string(&writer, "object", "list");
        mr_json_name(&writer, "data");
        mr_json_begin_array(&writer);
    }
    for (uint32_t i = 0; mr_fleet_model(server->options.fleet, i, name); i++) {
        if (!may_use(exchange, name) || (wanted && strcmp(name, wanted) != 0)) continue;
        put_model(&writer, name);
        found = true;
    }
    if (wanted && !found) {
        mr_json_writer_drop(&writer);
        return refuse(server, exchange, "model_not_found", "the model does not exist", 0);
    }
    if (!wanted) {
        mr_json_end(&writer);
        mr_json_end(&writer);
    }
    if (mr_json_writer_take(&writer, &text, &length, NULL) != MR_OK) return MHD_NO;
    return send_page(server, exchange, json_type, text, length, true);
}

static enum MHD_Result send_health(struct mr_server *server, struct mr_exchange *exchange)
{
    static const char ready[] = "{\"status\":\"ok\"}";
    const enum mr_fleet_state state = mr_fleet_state(server->options.fleet, mr_clock_ns());
    if (state == MR_FLEET_READY)
        return send_page(server, exchange, json_type, (char *)(uintptr_t)ready, sizeof ready - 1,
                         false);
    return refuse(server, exchange, "internal",
                  state == MR_FLEET_NO_BROKER ? "no broker can be reached" : "no worker is running",
                  503);
}

static enum MHD_Result send_metrics(struct mr_server *server, struct mr_exchange *exchange)
{
    char *text = NULL;
    size_t length = 0;
    struct mr_exchanges *exchanges = server->options.exchanges;
    const enum mr_fleet_state state = mr_fleet_state(server->options.fleet, mr_clock_ns());
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    pthread_mutex_lock(&exchanges->lock);
    const struct mr_gateway_gauges gauges = {.in_flight = exchanges->table.count,
                                             .connections = info ? info->num_connections : 0,
                                             .buffered_bytes = exchanges->bytes,
                                             .broker = state != MR_FLEET_NO_BROKER,
                                             .workers = state == MR_FLEET_READY};
    pthread_mutex_unlock(&exchanges->lock);
    if (mr_gateway_page(server->options.counts, &gauges, &text, &length, NULL) != MR_OK)
        return MHD_NO;
    return send_page(server, exchange, "text/plain; version=0.0.4; charset=utf-8", text, length,
                     true);
}

/* Answers the preflight of a browser, which has no key. */
static enum MHD_Result send_options(struct mr_server *server, struct mr_exchange *exchange)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    const char *asked = header(exchange->connection, "Access-Control-Request-Headers");
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Allow", "GET, POST, OPTIONS");
    add_cors(server, response);
    if (server->options.cors_origin[0]) {
        MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                asked ? asked : "authorization, content-type");
        MHD_add_response_header(response, "Access-Control-Max-Age", "3600");
    }
    const enum MHD_Result result =
        MHD_queue_response(exchange->connection, MHD_HTTP_NO_CONTENT, response);
    MHD_destroy_response(response);
    exchange->is_answered = true;
    return result;
}

static enum MHD_Result send_get(struct mr_server *server, struct mr_exchange *exchange,
                                const char *path)
{
    static const char models[] = "/v1/models";
    const size_t length = sizeof models - 1;
    if (strcmp(path, "/") == 0)
        return send_page(server, exchange, "text/html; charset=utf-8",
                         (char *)(uintptr_t)mr_gateway_html, mr_gateway_html_length, false);
    if (strcmp(path, "/health") == 0) return send_health(server, exchange);
    if (strcmp(path, "/metrics") == 0) return send_metrics(server, exchange);
    const bool is_models =
        strncmp(path, models, length) == 0 && (path[length] == '\0' || path[length] == '/');
    if (!is_models)
        return refuse(server, exchange, "invalid_request", "there is no such path", 404);
    if (!authorize(server, exchange))
        return refuse(server, exchange, "invalid_request", "the API key is missing or unknown",
                      401);
    return send_models(server, exchange, path[length] ? path + length + 1 : NULL);
}

/* ---- callbacks of the HTTP library ---- */

/* Finds the endpoint of a path, with or without /v1 for rerank. */
static bool find_endpoint(const char *path, enum mr_openai_endpoint *endpoint)
{
    if (strcmp(path, "/rerank") == 0 || strcmp(path, "/v2/rerank") == 0) path = "/v1/rerank";
    return mr_openai_find((struct mr_text){path, strlen(path)}, endpoint);
}

/* The whole call is there: its head and its body. */
static enum MHD_Result answer_call(struct mr_server *server, struct mr_exchange *exchange,
                                   const char *path, const char *method)
{
    const bool gets =
        strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    const bool is_call = find_endpoint(path, &exchange->endpoint);
    if (!is_call) exchange->endpoint = MR_OPENAI_ENDPOINTS;
    if (strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0) return send_options(server, exchange);
    if (gets && !is_call) return send_get(server, exchange, path);
    if (!is_call) return refuse(server, exchange, "invalid_request", "there is no such path", 404);
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        return refuse(server, exchange, "invalid_request", "this path takes POST only", 405);
    if (!authorize(server, exchange))
        return refuse(server, exchange, "invalid_request", "the API key is missing or unknown",
                      401);
    return dispatch(server, exchange);
}

/* Called with the head of a call, then with parts of its body, then when the body is complete, and
 * again whenever the connection was resumed before it has a response. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_length, void **state)
{
    struct mr_server *server = context;
    struct mr_exchange *exchange = *state;
    (void)version;
    if (!exchange) {
        *state = exchange = mr_exchange_create(server->options.exchanges, connection);
        if (!exchange) return MHD_NO;
        atomic_fetch_add(&server->waiting, 1);
        return MHD_YES;
    }
    if (*upload_length > 0) return read_body(server, exchange, upload, upload_length);
    if (exchange->is_dispatched) return go_on(server, exchange);
    return answer_call(server, exchange, path, method);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct mr_server *server = context;
    struct mr_exchange *exchange = *state;
    struct mr_exchanges *exchanges = server->options.exchanges;
    (void)connection;
    (void)code;
    if (!exchange) return;
    *state = NULL;
    if (exchange->is_dispatched) {
        mr_link_unwatch(server->options.link, exchange);
        pthread_mutex_lock(&exchanges->lock);
        if (!exchange->is_done) {
            exchange->is_left = true;
            mr_exchanges_post(exchanges, exchange);
        }
        pthread_mutex_unlock(&exchanges->lock);
    }
    mr_exchange_drop(exchanges, exchange);
    atomic_fetch_sub(&server->waiting, 1);
}

/* ---- start and stop ---- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    const struct sockaddr_in *ipv4 = (const void *)address;
    return address->sa_family == AF_INET && ntohl(ipv4->sin_addr.s_addr) >> 24 == 127;
}

static struct MHD_Daemon *listen_on(struct mr_server *server, const struct addrinfo *address)
{
    const struct mr_server_options *options = &server->options;
    const struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, options->certificate},
                                         {MHD_OPTION_HTTPS_MEM_KEY, 0, options->private_key},
                                         {MHD_OPTION_END, 0, NULL}};
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    if (address->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    if (options->certificate) flags |= MHD_USE_TLS;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, handle, server, MHD_OPTION_SOCK_ADDR, address->ai_addr,
        MHD_OPTION_CONNECTION_LIMIT, options->connections_max + SPARE_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, MR_SERVER_IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        MR_SERVER_CONNECTION_BYTES, MHD_OPTION_LISTEN_BACKLOG_SIZE, ACCEPT_QUEUE,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_ARRAY,
        options->certificate ? tls : tls + 2, MHD_OPTION_END);
}

static enum mr_status resolve(const char *address, struct addrinfo **out, struct mr_error *err)
{
    struct mr_http_address parts;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    enum mr_status status = mr_http_address_read(&parts, address, err);
    if (status != MR_OK) return status;
    const int rc = getaddrinfo(parts.host, parts.port, &hints, out);
    if (rc == 0) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "address %.64s: %s", address, gai_strerror(rc));
}

enum mr_status mr_server_start(struct mr_server **out, const struct mr_server_options *options,
                               struct mr_error *err)
{
    struct addrinfo *resolved = NULL;
    *out = NULL;
    enum mr_status status = resolve(options->address, &resolved, err);
    if (status != MR_OK) return status;
    struct mr_server *server = calloc(1, sizeof *server);
    if (!server) {
        freeaddrinfo(resolved);
        return mr_fail(err, MR_NOMEM, "no memory for the HTTP server");
    }
    server->options = *options;
    for (const struct addrinfo *each = resolved; each && status == MR_OK && !server->daemon;
         each = each->ai_next) {
        if (!options->keys && !is_loopback(each->ai_addr))
            status = mr_fail(err, MR_BAD_CONFIG,
                             "--listen %.64s: without --key-file only an address of this machine, "
                             "such as 127.0.0.1:8000, can be listened on",
                             options->address);
        else
            server->daemon = listen_on(server, each);
    }
    freeaddrinfo(resolved);
    if (status == MR_OK && !server->daemon)
        status = mr_fail(err, MR_UNREACHABLE, "cannot listen on %.64s: is the port in use?",
                         options->address);
    if (status != MR_OK) {
        free(server);
        return status;
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    server->port = info ? info->port : 0;
    *out = server;
    return MR_OK;
}

void mr_server_resume(struct MHD_Connection *connection)
{
    MHD_resume_connection(connection);
}

uint16_t mr_server_port(const struct mr_server *server)
{
    return server->port;
}

void mr_server_drain(struct mr_server *server, uint32_t timeout_ms)
{
    const uint64_t end_ns = mr_clock_ns() + (uint64_t)timeout_ms * 1000000;
    const MHD_socket listener = MHD_quiesce_daemon(server->daemon);
    if (listener != MHD_INVALID_SOCKET) close(listener);
    while (atomic_load(&server->waiting) > 0 && mr_clock_ns() < end_ns)
        mr_clock_sleep_ms(20);
}

void mr_server_stop(struct mr_server *server)
{
    if (!server) return;
    MHD_stop_daemon(server->daemon);
    free(server);
}
