/* kafka_reader - reads all partitions of some Kafka topics, or one partition, without a consumer
 * group and without commits: the cancel topic in every worker, answers in the client commands.
 * Fills the table of worker/kafka/kafka_reader_port.h with librdkafka.
 *
 * Owner: one thread. A record that arrives rings the wake. Memory: about 8 MiB of fetched records.
 * Errors: MR_UNREACHABLE, MR_BAD_CONFIG at creation. */
#ifndef MR_WORKER_KAFKA_KAFKA_READER_H
#define MR_WORKER_KAFKA_KAFKA_READER_H

#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_reader_port.h"

struct mr_kafka_reader;

enum mr_status mr_kafka_reader_create(struct mr_kafka_reader **out,
                                      const struct mr_kafka_reader_options *options,
                                      struct mr_error *err);
/* After a _failure because a topic is gone, the reader's memory is freed only at the end of the
 * process. */
void mr_kafka_reader_destroy(void *self);
/* True until _take has returned every record after the start position that existed at _create. */
bool mr_kafka_reader_is_behind(void *self);
/* Waits up to timeout_ms for the next record, which is borrowed until the next call; false: no
 * record came. */
bool mr_kafka_reader_take(struct mr_kafka_reader *reader, uint32_t timeout_ms,
                          struct mr_kafka_record *record);

/* MR_BACKEND if a topic can no longer be read: it is gone, or reading it is not allowed. If a topic
 * was reported as unknown, this queries the broker for up to timeout_ms, because shortly after its
 * start a broker does not know all topics. */
enum mr_status mr_kafka_reader_failure(struct mr_kafka_reader *reader, uint32_t timeout_ms,
                                       struct mr_error *err);

/* Creates a reader and fills the port (the type of this function is mr_kafka_reader_open). context
 * is not used. */
enum mr_status mr_kafka_reader_open_port(void *context,
                                         const struct mr_kafka_reader_options *options,
                                         struct mr_kafka_reader_port *out, struct mr_error *err);

#endif
