/* kafka_client - what every kind of client does with a librdkafka handle. For worker/kafka_*.c
 * only.
 *
 * Threads: the handle's owner. Memory: none. */
#ifndef MR_WORKER_KAFKA_KAFKA_CLIENT_H
#define MR_WORKER_KAFKA_KAFKA_CLIENT_H

#include "codec/status.h"
#include "worker/kafka/kafka_record.h"

struct rd_kafka_s;
struct rd_kafka_message_s;

/* The message as a record; both it and the headers array must outlive the record. */
void mr_kafka_client_describe(struct rd_kafka_message_s *message,
                              struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX],
                              struct mr_kafka_record *record);
/* Calls visit for every topic of the cluster, without creating any. MR_UNREACHABLE. */
enum mr_status mr_kafka_client_topics(struct rd_kafka_s *rk, uint32_t timeout_ms,
                                      void (*visit)(void *context, const char *topic,
                                                    int32_t partition_count),
                                      void *context, struct mr_error *err);
/* Partitions of one topic, 0 when there is none. */
enum mr_status mr_kafka_client_partitions(struct rd_kafka_s *rk, const char *topic,
                                          uint32_t timeout_ms, uint32_t *count,
                                          struct mr_error *err);

/* Offsets of the first record that a partition still has and of the next one to come. */
struct mr_kafka_ends {
    int64_t begin, end;
};

/* Where a partition's records begin and end now. The library resolves its names for these places
 * by itself too, but waits half a second first where it does not know the partition's leader yet,
 * as of every partition that has just been assigned. MR_UNREACHABLE. */
enum mr_status mr_kafka_client_ends(struct rd_kafka_s *rk, const char *topic, int32_t partition,
                                    uint32_t timeout_ms, struct mr_kafka_ends *ends,
                                    struct mr_error *err);

#endif
