/* respond - writes the answer of a request into its exchange: from token records, from the result,
 * or an error of the gateway.
 *
 * An error before a stream has begun is a response with a status of its own; later it is an event
 * of the stream.
 *
 * Threads: the Kafka thread. Memory: link->scratch. Errors: when memory is out, the exchange ends
 *          with status 500 or its stream is cut. */
#ifndef MR_WORKER_GATEWAY_RESPOND_H
#define MR_WORKER_GATEWAY_RESPOND_H

#include "codec/openai/error.h"
#include "worker/gateway/kafka.h"

/* JSON of an error, malloc'ed; NULL: no memory. */
char *mr_respond_error_text(const struct mr_openai_error *error, size_t *length);

/* Each returns false if the exchange is complete now, or its client is gone: the caller removes it
 * from the table. */

/* record: root of a token record. *is_cut: the stream was ended because its reader is too slow, and
 * the request should be cancelled. */
bool mr_respond_tokens(struct mr_link *link, struct mr_exchange *exchange, struct mr_value record,
                       bool *is_cut);
/* result: root of the result record. */
bool mr_respond_result(struct mr_link *link, struct mr_exchange *exchange, struct mr_value result);
/* Ends the exchange with an error code of codec/openai/error.h. http_status: 0: that of the code.
 */
bool mr_respond_error(struct mr_link *link, struct mr_exchange *exchange, const char *code,
                      const char *message, int http_status);
/* Begins the stream, if it has not begun, and appends a comment. */
bool mr_respond_comment(struct mr_link *link, struct mr_exchange *exchange, bool *is_cut);

#endif
