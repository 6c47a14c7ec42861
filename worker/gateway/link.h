/* link - the Kafka side of a gateway: one thread that publishes request and cancel records, reads
 * the gateway's partition of the reply topic, and writes answers into the exchanges.
 *
 * Several gateways may share a partition: records whose id belongs to no call here are counted and
 * skipped. The start offset is the end of the partition at _open, before the first call is taken,
 * so no answer is missed. Nothing is committed.
 *
 * A stream begins with the first record of its answer, so that a request that is rejected gets an
 * HTTP status of its own. If there is none after three seconds, the stream begins with a comment.
 * While nothing comes, it gets a comment every ten seconds, which keeps proxies from closing it.
 *
 * A client that closes its connection is noticed at once: the sockets of waiting calls are watched
 * in an epoll set, because the HTTP library does not look at suspended connections. The request is
 * then cancelled, unless the client chose its id. A client that only closes its sending side counts
 * as gone.
 *
 * Threads: its own. _watch and _unwatch: the HTTP thread. Memory: librdkafka's queues, about 20
 * MiB, and the text of one record's answer. Errors: MR_UNREACHABLE, MR_BAD_CONFIG from _open. */
#ifndef MR_WORKER_GATEWAY_LINK_H
#define MR_WORKER_GATEWAY_LINK_H

#include "worker/gateway/kafka.h"

/* Fields above `of the thread` are filled. Starts the thread. */
enum mr_status mr_link_open(struct mr_link *link, struct mr_error *err);
/* Ends the thread. Calls in flight stay in the table, without an answer. */
void mr_link_stop(struct mr_link *link);
/* After _stop: ends every call in flight with an error, cancels its request, and resumes its
 * connection. */
void mr_link_fail_all(struct mr_link *link);
/* After _stop: drops the exchanges that are posted. */
void mr_link_drop_posted(struct mr_link *link);
/* Writes what was published, for at most two seconds, and closes the Kafka clients. */
void mr_link_close(struct mr_link *link);
/* Notices when the client of the exchange, which is in the table, closes the socket. */
void mr_link_watch(struct mr_link *link, struct mr_exchange *exchange, int fd);
void mr_link_unwatch(struct mr_link *link, struct mr_exchange *exchange);

#endif
