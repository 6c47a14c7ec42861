/* terminal - the terminal records of a request, which are the last ones written for it. The module
 * decides which ones a request needs, encodes each, and decides what to do when the broker refuses
 * one.
 *
 * A result is written if the request's id is readable, a reply if the producer wants one, and a
 * dead letter for a record that is not a valid request. The publish thread writes these records, or
 * with exactly-once delivery the transactions thread.
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

/* Whether the ticket's terminal message (result or refusal) needs a record of this kind. */
bool mr_terminal_wants(const struct mr_ticket *ticket, enum mr_part kind);
/* Time after which a reply that could not be written is abandoned, so that the result can be
 * written. Equal to the time for which Kafka's client tries a record. */
#define MR_TERMINAL_REPLY_NS ((uint64_t)300000000000)

/* Checks whether the reply's topic and partition exist, because reply topics are never created and
 * librdkafka before 2.12 frees headers twice when the partition does not exist. Sets
 * part->topic_exists, or abandons the reply (mr_terminal_lose) if the topic or partition does not
 * exist. While the broker has not answered, nothing changes: call again when the producer's wake
 * rings. After MR_TERMINAL_REPLY_NS without an answer the reply is abandoned. */
void mr_terminal_check_reply_topic(struct mr_ticket_part *part,
                                   const struct mr_producer_port *producer, struct mr_log *log,
                                   struct mr_metrics *metrics, uint64_t now_ns);
/* Encodes the record into `output`, ready to produce. part->bare: without log-probabilities;
 * part->shrunk: without text, tokens and metadata (a dead letter: without its value), so that the
 * record is small enough for the broker. */
enum mr_status mr_terminal_make(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_ticket_part *part, struct mr_error *err);
/* The caller's next action for a terminal record that was not accepted. */
enum mr_terminal_next {
    MR_TERMINAL_RETRY,   /* produce the record again after a pause */
    MR_TERMINAL_CHANGED, /* produce it again: the refused part was removed from the record (`part`
                            was changed) */
    MR_TERMINAL_LOST,    /* abandon the record with mr_terminal_lose; the request ends without it */
    MR_TERMINAL_FAILED   /* the worker must end */
};

/* Time after which a temporary error (MR_AGAIN) of the broker is treated as a permanent refusal. */
#define MR_TERMINAL_REFUSED_NS ((uint64_t)300000000000)

/* Decides about a record that was not accepted for the reason `status` (not MR_OK;
 * worker/kafka/kafka_errors.h). A record that is too large is produced without its text. A dead
 * letter without a key, which a compacted topic refuses, is produced with the request id as key.
 * After that, a permanently refused reply or dead letter is lost, so that the request's offset can
 * be committed. A permanently refused result fails the worker. While the broker does not answer,
 * records are tried again without a time limit, except replies (MR_TERMINAL_REPLY_NS). */
enum mr_terminal_next mr_terminal_refused(struct mr_ticket_part *part, enum mr_status status,
                                          uint64_t now_ns);
/* Abandons a reply or a dead letter: clears part->pending, sets part->lost, counts and logs the
 * loss. The result's error message mentions a lost dead letter. */
void mr_terminal_lose(struct mr_ticket_part *part, const char *reason, struct mr_log *log,
                      struct mr_metrics *metrics);
/* As mr_terminal_lose, without a log line. */
void mr_terminal_drop(struct mr_ticket_part *part, struct mr_metrics *metrics);
/* Counts one terminal record that the broker has acknowledged. */
void mr_terminal_acknowledged(struct mr_terminal_stats *stats, struct mr_metrics *metrics,
                              enum mr_part kind);

#endif
