#include "worker/http/http.h"

#include "worker/http/http_client.h"

#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* One open connection in the list of all, oldest first. */
struct place {
    struct MHD_Connection *connection; /* NULL: the place is free */
    uint64_t number;                   /* connections are numbered in the order of their start */
    bool leaving;                      /* has the short timeout */
};

struct mr_http {
    struct MHD_Daemon *daemon;
    struct place places[MR_HTTP_CONNECTIONS_MAX]; /* of the HTTP library's thread */
    uint64_t connections;                         /* started so far */
    mr_http_answer *answer;
    void *context;
    uint16_t port;
};

#define LEAVING_SECONDS 1u

static const char *const page_paths[MR_HTTP_PAGE_COUNT] = {"/livez", "/readyz", "/metrics",
                                                           "/requests", "/lag"};
static const char list_of_pages[] =
    "/livez     200 while this worker works, 503 when it is stuck or has failed\n"
    "/readyz 200 while it takes requests; as JSON, with the reason if it does not\n"
    "/metrics   counters and histograms for Prometheus\n"
    "/requests  the requests that have been in this worker longest, as JSON\n"
    "/lag       of millrace lag: requests that wait in Kafka, as JSON\n";

/* Sends the reply to the HTTP client and frees the reply's body. */
static enum MHD_Result send_reply(struct MHD_Connection *connection, struct mr_http_reply *reply)
{
    size_t length = reply->body ? reply->length : 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        length, reply->body ? reply->body : (void *)page_paths, MHD_RESPMEM_MUST_COPY);
    free(reply->body);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (reply->code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, reply->code, response);
    MHD_destroy_response(response);
    return result;
}

static void list_pages(struct mr_http_reply *reply)
{
    reply->body = strdup(list_of_pages);
    reply->length = reply->body ? sizeof list_of_pages - 1 : 0;
}

/* The HTTP library calls this with the head of a request, and again when the request body is
 * complete. We reply in the first call, so that no request body is read. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_length, void **state)
{
    struct mr_http *http = context;
    struct mr_http_reply reply = {.code = MHD_HTTP_OK, .content_type = "text/plain; charset=utf-8"};
    (void)version;
    (void)upload;
    (void)upload_length;
    (void)state;
    bool reads =
        strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    unsigned page = 0;
    while (page < MR_HTTP_PAGE_COUNT && strcmp(path, page_paths[page]) != 0)
        page++;
    bool lists = strcmp(path, "/") == 0;
    if (page == MR_HTTP_PAGE_COUNT && !lists)
        reply.code = MHD_HTTP_NOT_FOUND;
    else if (!reads)
        reply.code = MHD_HTTP_METHOD_NOT_ALLOWED;
    else if (lists)
        list_pages(&reply);
    else
        http->answer(http->context, (enum mr_http_page)page, &reply);
    return send_reply(connection, &reply);
}

static enum mr_status resolve(const char *address, struct addrinfo **out, struct mr_error *err)
{
    struct mr_http_address parts;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    enum mr_status status = mr_http_address_read(&parts, address, err);
    if (status != MR_OK) return status;
    int rc = getaddrinfo(parts.host, parts.port, &hints, out);
    if (rc != 0) return mr_fail(err, MR_BAD_CONFIG, "address %.64s: %s", address, gai_strerror(rc));
    return MR_OK;
}

/* If half of the places are taken, shortens the timeout of the oldest connection that still has the
 * long one. */
static void end_oldest(struct mr_http *http)
{
    struct place *oldest = NULL;
    unsigned count = 0;
    for (unsigned i = 0; i < MR_HTTP_CONNECTIONS_MAX; i++) {
        struct place *place = &http->places[i];
        count += place->connection != NULL;
        if (place->connection && !place->leaving && (!oldest || place->number < oldest->number))
            oldest = place;
    }
    if (!oldest || count < MR_HTTP_CONNECTIONS_MAX / 2) return;
    oldest->leaving = true;
    MHD_set_connection_option(oldest->connection, MHD_CONNECTION_OPTION_TIMEOUT, LEAVING_SECONDS);
}

/* Threads: the HTTP library's thread. */
static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct mr_http *http = context;
    (void)state;
    bool starts = code == MHD_CONNECTION_NOTIFY_STARTED;
    if (starts) end_oldest(http);
    for (unsigned i = 0; i < MR_HTTP_CONNECTIONS_MAX; i++) {
        struct place *place = &http->places[i];
        if (place->connection != (starts ? NULL : connection)) continue;
        *place =
            (struct place){.connection = starts ? connection : NULL, .number = http->connections++};
        return;
    }
}

static struct MHD_Daemon *listen_on(struct mr_http *http, const struct addrinfo *address)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL;
    if (address->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_SOCK_ADDR,
                            address->ai_addr, MHD_OPTION_CONNECTION_LIMIT, MR_HTTP_CONNECTIONS_MAX,
                            MHD_OPTION_CONNECTION_TIMEOUT, MR_HTTP_IDLE_SECONDS,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, MR_HTTP_CONNECTION_BYTES,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
}

enum mr_status mr_http_start(struct mr_http **out, const char *address, mr_http_answer *answer,
                             void *context, struct mr_error *err)
{
    *out = NULL;
    struct addrinfo *resolved = NULL;
    enum mr_status status = resolve(address, &resolved, err);
    if (status != MR_OK) return status;
    struct mr_http *http = calloc(1, sizeof *http);
    if (!http) {
        status = mr_fail(err, MR_NOMEM, "no memory for the HTTP server");
        goto free_resolved;
    }
    http->answer = answer;
    http->context = context;
    for (const struct addrinfo *each = resolved; each && !http->daemon; each = each->ai_next)
        http->daemon = listen_on(http, each);
    if (!http->daemon) {
        status =
            mr_fail(err, MR_UNREACHABLE, "cannot listen on %.64s: is the port in use?", address);
        free(http);
        goto free_resolved;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    http->port = info ? info->port : 0;
    *out = http;
free_resolved:
    freeaddrinfo(resolved);
    return status;
}

void mr_http_stop(struct mr_http *http)
{
    if (!http) return;
    MHD_stop_daemon(http->daemon);
    free(http);
}

uint16_t mr_http_port(const struct mr_http *http)
{
    return http->port;
}
