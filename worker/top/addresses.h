/* addresses - where the HTTP servers of a fleet are, from the hosts of a consumer group's members.
 *
 * Kafka knows a member's host and not the port of its HTTP server, so all workers have the same
 * port; of several workers on one host the second has the next port, and so on.
 *
 * Pure. Memory: of the caller. Errors: none. */
#ifndef MR_WORKER_TOP_ADDRESSES_H
#define MR_WORKER_TOP_ADDRESSES_H

#include "worker/kafka/kafka_admin.h"

#define MR_ADDRESS_BYTES (MR_KAFKA_HOST_BYTES + 10) /* [HOST]:PORT */

/* Sorts the hosts and writes hosts->count addresses, HOST:PORT or [HOST]:PORT. */
void mr_addresses_make(struct mr_kafka_hosts *hosts, uint32_t port,
                       char (*addresses)[MR_ADDRESS_BYTES]);

#endif
