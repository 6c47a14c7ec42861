/* output - builds one record that the worker writes, with its headers: a token record, a result or
 * a dead letter. docker/asyncapi.yaml describes their fields and headers.
 *
 * Each call builds a record and frees the previous one.
 *
 * Owner:  one thread. Memory: the encoded value, freed by _clear or the next call; topic, key and
 *         some headers are borrowed from the ticket and the message. Errors: MR_NOMEM,
 *         MR_RECORD_TOO_LARGE from the encoder. */
#ifndef MR_WORKER_PUBLISH_OUTPUT_H
#define MR_WORKER_PUBLISH_OUTPUT_H

#include "worker/ticket/messages.h"
#include "worker/ticket/ticket.h"

/* Settings for all records of a worker; borrowed. */
struct mr_output_options {
    const char *tokens_topic, *results_topic, *dlq_topic;
    const char *worker, *model, *group;
};

#define MR_OUTPUT_HEADERS_MAX (MR_KAFKA_HEADERS_MAX)

struct mr_output {
    struct mr_kafka_record record; /* the record to produce; filled by the calls below */
    struct mr_kafka_header headers[MR_OUTPUT_HEADERS_MAX];
    size_t header_count;
    unsigned char *value; /* the encoded value; owned */
    char numbers[512];    /* values of numeric headers, as text or bytes */
    char trace[640];      /* text of the header for a stack trace */
    size_t numbers_used;
};

enum mr_status mr_output_tokens(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_tokens_mail *mail, struct mr_error *err);
/* terminal: the message with a result or a refusal. The broker may have refused a larger record.
 * part->bare: a warning in place of the log-probabilities. part->shrunk: the error record_too_large
 * in place of text, tokens and metadata. */
enum mr_status mr_output_result(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_mail *terminal, const struct mr_ticket_part *part,
                                struct mr_error *err);
/* Builds the dead letter: the consumed record with the error headers of Kafka Connect and Spring.
 * part->shrunk: with a null value, because the broker refused the record as too large. part->keyed:
 * with the request id as key, because the topic refused a record without a key. */
void mr_output_dead_letter(struct mr_output *output, const struct mr_output_options *options,
                           const struct mr_refusal_mail *mail, const struct mr_ticket_part *part);
void mr_output_clear(struct mr_output *output);

#endif
