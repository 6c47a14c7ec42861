/* addresses - addresses of the HTTP servers of a fleet, from the hosts of a consumer group's
 * members.
 *
 * Kafka knows a member's host but not the port of its HTTP server. So all workers are expected on
 * the same port; if several run on one host, the second has the next port, and so on.
 *
 * Threads: any (pure function). Memory: the caller's. Errors: none. */
#ifndef MR_WORKER_TOP_ADDRESSES_H
#define MR_WORKER_TOP_ADDRESSES_H

#include "worker/kafka/kafka_admin.h"

#define MR_ADDRESS_BYTES (MR_KAFKA_HOST_BYTES + 10) /* [HOST]:PORT */

/* Sorts the hosts and writes hosts->count addresses, HOST:PORT or [HOST]:PORT. */
void mr_addresses_make(struct mr_kafka_hosts *hosts, uint32_t port,
                       char (*addresses)[MR_ADDRESS_BYTES]);

#endif
