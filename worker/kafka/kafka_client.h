/* kafka_client - operations on a librdkafka handle (rd_kafka_t) that consumers, producers and
 * readers share. Only for worker/kafka/kafka_*.c.
 *
 * Threads: the owner of the handle. Memory: none. Errors: MR_UNREACHABLE. */
#ifndef MR_WORKER_KAFKA_KAFKA_CLIENT_H
#define MR_WORKER_KAFKA_KAFKA_CLIENT_H

#include "codec/status.h"
#include "worker/kafka/kafka_record.h"

struct rd_kafka_s;
struct rd_kafka_message_s;
struct rd_kafka_topic_partition_list_s;

/* Fills record from a librdkafka message. The record borrows from message and headers, which must
 * both outlive the record. */
void mr_kafka_client_describe(struct rd_kafka_message_s *message,
                              struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX],
                              struct mr_kafka_record *record);
/* Calls visit for every topic of the cluster; does not create topics. */
enum mr_status mr_kafka_client_topics(struct rd_kafka_s *rk, uint32_t timeout_ms,
                                      void (*visit)(void *context, const char *topic,
                                                    int32_t partition_count),
                                      void *context, struct mr_error *err);
/* *count: number of partitions of the topic; 0: the topic does not exist. The call does not create
 * the topic. */
enum mr_status mr_kafka_client_partitions(struct rd_kafka_s *rk, const char *topic,
                                          uint32_t timeout_ms, uint32_t *count,
                                          struct mr_error *err);

/* The same with a request for this topic alone. rk must be a consumer: for a producer the broker
 * may create the topic, and the embedded test broker creates it in any case. MR_UNREACHABLE: no
 * answer, or the broker does not have the information yet. */
enum mr_status mr_kafka_client_ask(struct rd_kafka_s *rk, const char *topic, uint32_t timeout_ms,
                                   uint32_t *count, struct mr_error *err);

/* Requests the first and the end offset of a partition from the partition's leader. For a newly
 * assigned partition this is faster than RD_KAFKA_OFFSET_BEGINNING and RD_KAFKA_OFFSET_END, which
 * librdkafka resolves half a second later if it does not know the leader yet. While the partition
 * has no leader, as in the first seconds after a broker's start, the request is repeated until
 * timeout_ms. */
enum mr_status mr_kafka_client_ends(struct rd_kafka_s *rk, const char *topic, int32_t partition,
                                    uint32_t timeout_ms, struct mr_kafka_ends *ends,
                                    struct mr_error *err);

/* Returns the error code of the first partition in list that has one, or 0. librdkafka reports a
 * request as successful although single partitions failed. list may be NULL. */
int mr_kafka_client_list_error(const struct rd_kafka_topic_partition_list_s *list);

/* Returns how many partitions the next commit request may have, after one with `count` partitions
 * was answered with the librdkafka error `code`. most: the limit so far; 0: none. The limit becomes
 * 64 if the metadata of the whole request was too large, and 1 if that request had no more or if
 * the metadata of one of its partitions was too large. */
uint32_t mr_kafka_client_request_max(uint32_t most, int code, int count);

/* Appends the offset and the metadata of one commit to list; the texts are copied. */
void mr_kafka_client_add_offset(struct rd_kafka_topic_partition_list_s *list, const char *topic,
                                const struct mr_kafka_commit *commit);

#endif
