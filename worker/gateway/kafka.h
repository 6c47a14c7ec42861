/* kafka - the state of a gateway's Kafka side, for link.c, which runs it, and respond.c, which
 * writes the answers.
 *
 * Owner: the Kafka thread, except the fields that are filled before it starts. */
#ifndef MR_WORKER_GATEWAY_KAFKA_H
#define MR_WORKER_GATEWAY_KAFKA_H

#include "worker/base/log.h"
#include "worker/gateway/counts.h"
#include "worker/gateway/exchange.h"
#include "worker/gateway/fleet.h"
#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_reader.h"

struct mr_link {
    const struct mr_kafka_options *kafka;
    const char *requests_topic, *cancel_topic, *reply_topic;
    uint32_t reply_partition;
    struct mr_log *log;
    struct mr_exchanges *exchanges;
    struct mr_fleet *fleet;
    struct mr_gateway_counts *counts;
    /* wakes the connection of an exchange that the HTTP thread has suspended */
    void (*resume)(struct MHD_Connection *connection);
    const struct mr_wake *wake; /* of this thread; the same as that of the exchanges */

    /* of the thread */
    struct mr_kafka_out *out;
    struct mr_kafka_reader *reader;
    int epoll_fd;
    struct mr_thread *thread;
    struct mr_buffer scratch; /* the text of one record's answer */
    struct mr_exchange_resumes resumes;
    int64_t next_offset;
    uint64_t scan_ns, probe_ns; /* when the timers are checked, a probe is sent next */
    char probe_id[40];
};

#endif
