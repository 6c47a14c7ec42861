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
/* A reply that could not be written for this long is given up, so that the result can be written:
 * nobody but its requester is interested in the reply. As long as Kafka's client tries a record. */
#define MR_TERMINAL_REPLY_NS ((uint64_t)300000000000)

/* Looks up whether the reply's topic and partition exist: a reply topic is never created, and
 * librdkafka before 2.12 frees headers twice when the partition does not exist. Sets
 * part->topic_exists, or gives the reply up (mr_terminal_lose) if there is no such topic or
 * partition. While the broker has not answered, neither field changes: call again when the
 * producer's wake is notified; after MR_TERMINAL_REPLY_NS that gives the reply up. */
void mr_terminal_check_reply_topic(struct mr_ticket_part *part,
                                   const struct mr_producer_port *producer, struct mr_log *log,
                                   struct mr_metrics *metrics, uint64_t now_ns);
/* Encodes the record into `output`, ready to produce. part->shrunk: leave out text, tokens and
 * metadata (of a dead letter: the value), so that the record is small enough for the broker. */
enum mr_status mr_terminal_make(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_ticket_part *part, struct mr_error *err);
/* What is to be done about a terminal record that was not accepted. */
enum mr_terminal_next {
    MR_TERMINAL_RETRY,   /* produce the record again, after a pause */
    MR_TERMINAL_CHANGED, /* the same, but `part` was changed: without what the topic refused */
    MR_TERMINAL_LOST,    /* give the record up with mr_terminal_lose; the request ends without it */
    MR_TERMINAL_FAILED   /* the worker cannot go on */
};

/* A broker that answers with a passing error (MR_AGAIN) for this long refuses the record for
 * good. */
#define MR_TERMINAL_REFUSED_NS ((uint64_t)300000000000)

/* status: why the record was not accepted, not MR_OK (worker/kafka/kafka_errors.h). A record that
 * is too large is produced without its text; a dead letter without a key, which a compacted topic
 * refuses, with the request id as key. What is refused for good after that is lost if it is a reply
 * or a dead letter: nobody is served better by a worker that ends, and the request's offset must
 * not stay uncommitted for ever. A worker that cannot write results has failed. While the broker
 * does not answer, records are tried again without a limit, but a reply for MR_TERMINAL_REPLY_NS.
 */
enum mr_terminal_next mr_terminal_refused(struct mr_ticket_part *part, enum mr_status status,
                                          uint64_t now_ns);
/* Gives up a reply or a dead letter: clears part->pending, sets part->lost, counts and logs it. The
 * result's error message says so if the dead letter is lost. */
void mr_terminal_lose(struct mr_ticket_part *part, const char *reason, struct mr_log *log,
                      struct mr_metrics *metrics);
/* The same without a log line, for one of many. */
void mr_terminal_drop(struct mr_ticket_part *part, struct mr_metrics *metrics);
/* Counts one terminal record that the broker has acknowledged. */
void mr_terminal_acknowledged(struct mr_terminal_stats *stats, struct mr_metrics *metrics,
                              enum mr_part kind);

#endif
