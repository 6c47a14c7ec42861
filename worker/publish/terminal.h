/* terminal - the terminal records of a request, the last ones written for it: which are written,
 * how each is made, and how many there were.
 *
 * A result is written if the request's id was readable; a reply, if the producer asked for a reply;
 * a dead letter, for a record that is not a valid request. The publish thread writes these records,
 * or with exactly-once delivery the transactions thread.
 *
 * Owner:  the thread that owns the ticket's publish fields. Memory: none of its own.
 * Errors: those of worker/publish/output.h. */
#ifndef MR_WORKER_PUBLISH_TERMINAL_H
#define MR_WORKER_PUBLISH_TERMINAL_H

#include "worker/base/log.h"
#include "worker/kafka/kafka_producer_port.h"
#include "worker/metrics/metrics.h"
#include "worker/publish/output.h"

struct mr_terminal_stats {
    uint64_t results, replies, dead_letters;
};

/* True when the ticket's terminal message (result or refusal) asks for a record of this kind. */
bool mr_terminal_wants(const struct mr_ticket *ticket, enum mr_part kind);
/* Looks up whether the reply's topic and partition exist: a reply topic is never created, and
 * librdkafka before 2.12 frees headers twice when the partition does not exist. Sets
 * part->topic_exists, or clears part->pending if there is no such topic or partition. While the
 * broker has not answered, neither field changes: call again when the producer's wake is
 * notified. */
void mr_terminal_find_reply_topic(struct mr_ticket_part *part,
                                  const struct mr_producer_port *producer, struct mr_log *log);
/* Encodes the record into `output`, ready to produce. part->shrunk: leave out text, tokens and
 * metadata (of a dead letter: the value), so that the record is small enough for the broker. */
enum mr_status mr_terminal_make(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_ticket_part *part, struct mr_error *err);
/* Counts one terminal record that the broker has acknowledged. */
void mr_terminal_count(struct mr_terminal_stats *stats, struct mr_metrics *metrics,
                       enum mr_part kind);

#endif
