/* accept - decides whether a call is taken, and makes its request record: reads the body, checks
 * the key's models and limits, chooses the id, and translates the body (codec/openai/call.h).
 *
 * Without Idempotency-Key the id is 128 random bits. With it the id is that text; if there are API
 * keys, the key's name and a colon, which no name contains, come before it, so that no client can
 * name the request of another. The deadline of such a request is in the body, because a retry must
 * be the same record.
 *
 * Threads: the HTTP thread. Memory: the exchange's. Errors: in *refusal, as the client gets it. */
#ifndef MR_WORKER_GATEWAY_ACCEPT_H
#define MR_WORKER_GATEWAY_ACCEPT_H

#include "codec/openai/error.h"
#include "worker/gateway/exchange.h"
#include "worker/gateway/fleet.h"

#define MR_ACCEPT_MESSAGE_BYTES ((size_t)256)

/* The headers of a call that matter here; NULL: the call has none. */
struct mr_accept_headers {
    const char *idempotency_key, *timeout_ms, *trace_parent;
};

struct mr_accept_rules {
    struct mr_fleet *fleet;
    const char *topic; /* of calls whose key names none */
    uint64_t timeout_ns;
    size_t record_bytes_max;
    bool waits_for_workers; /* calls are taken while there is no worker */
};

struct mr_accept_refusal {
    struct mr_openai_error error;
    uint32_t retry_after_s; /* 0: none */
    bool no_retry;
    char message[MR_ACCEPT_MESSAGE_BYTES]; /* of the error */
};

/* Fills the exchange from its body and the headers. False: refused. */
bool mr_accept(const struct mr_accept_rules *rules, struct mr_exchange *exchange,
               const struct mr_accept_headers *headers, struct mr_accept_refusal *refusal);
/* Fills a refusal with an error code, such as invalid_request, and a sentence. http_status: 0: that
 * of the code. */
void mr_accept_refuse(struct mr_accept_refusal *refusal, const char *code, const char *message,
                      int http_status);

#endif
