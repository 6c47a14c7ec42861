/* http_client - one HTTP exchange: connects to a server, sends a request, and reads the reply until
 * the server closes the connection, so a request must contain "Connection: close".
 *
 * If the host has several addresses, each gets an equal share of the remaining time, so that an
 * address that drops packets leaves time for the next. Plain HTTP only.
 *
 * Threads: a call blocks until its deadline; the lookup of the host's name is not bounded by it.
 * Memory: the reply. Errors: MR_UNREACHABLE names the server and the reason. */
#ifndef MR_WORKER_HTTP_HTTP_CLIENT_H
#define MR_WORKER_HTTP_HTTP_CLIENT_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct mr_http_address {
    char host[256], port[8]; /* an IPv6 address without its brackets */
};

/* Takes HOST:PORT or [HOST]:PORT apart; PORT is 0 to 65535. MR_BAD_CONFIG: text has another form.
 */
enum mr_status mr_http_address_read(struct mr_http_address *out, const char *text,
                                    struct mr_error *err);

struct mr_http_call {
    const char *host, *port;
    const char *name;          /* of the server, in errors */
    struct mr_text head, body; /* of the request; body may be empty */
    /* monotonic time; another thread may bring it forward during the call */
    const atomic_uint_least64_t *deadline_ns;
    size_t reply_bytes_max; /* the rest of a longer reply is not read */
};

/* *reply: the server's reply, head and body, NUL-terminated; the caller frees it. */
enum mr_status mr_http_exchange(const struct mr_http_call *call, char **reply,
                                struct mr_error *err);
/* The status code of a reply; 0: the reply is not HTTP/1.x. */
int mr_http_reply_code(const char *reply);
/* The body of a reply; NULL: the reply ends before it. */
const char *mr_http_reply_body(const char *reply);

#endif
