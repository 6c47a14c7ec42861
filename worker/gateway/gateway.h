/* gateway - OpenAI's HTTP API in front of the Kafka topics.
 *
 * The way of a call:
 *   HTTP thread    server.h    reads head and body, finds the key
 *                  accept.h    makes the request record, or refuses the call
 *                  exchange.h  adds the call to the table and suspends its connection
 *   Kafka thread   link.h      publishes the record; reads the reply partition
 *                  respond.h   writes tokens and result into the call, by codec/openai
 *   HTTP thread    server.h    sends what was written
 * A third thread, fleet.h, watches brokers and workers.
 *
 * The reply topic is created if it is missing. Its partition is chosen by an option or at random.
 * Gateways may share a partition, since each skips the answers of the others' calls; with a
 * partition each they read less. A gateway keeps calls in memory only: when it dies, their clients
 * lose the connection, and the requests run to their end or deadline.
 *
 * Threads: all calls: one thread, the owner. Memory: see the parts. Errors: MR_BAD_CONFIG,
 *          MR_UNREACHABLE, MR_NOMEM. */
#ifndef MR_WORKER_GATEWAY_GATEWAY_H
#define MR_WORKER_GATEWAY_GATEWAY_H

#include "worker/base/log.h"
#include "worker/config/config.h"

struct mr_gateway;

/* config and log must outlive the gateway. log may be NULL. */
enum mr_status mr_gateway_start(struct mr_gateway **out, const struct mr_config *config,
                                struct mr_log *log, struct mr_error *err);
/* The port of the HTTP server. */
uint16_t mr_gateway_port(const struct mr_gateway *gateway);
uint32_t mr_gateway_reply_partition(const struct mr_gateway *gateway);
/* Reads the key file again and logs the outcome. */
void mr_gateway_reload(struct mr_gateway *gateway);
/* Takes no further connections, waits up to drain_ms for answers, and cancels the requests of the
 * calls that are left, which get status 503. gateway may be NULL. */
void mr_gateway_stop(struct mr_gateway *gateway, uint32_t drain_ms);

#endif
