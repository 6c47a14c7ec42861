/* output - the records a worker writes: token records, results, dead letters, with their headers
 * (CONTRACT sections 4 to 6).
 *
 * Owner:  publish thread; one struct mr_output is used again for each record. Memory: the encoded
 *         value, freed by _clear. Errors: MR_NOMEM, MR_RECORD_TOO_LARGE from the encoder. */
#ifndef MR_WORKER_PUBLISH_OUTPUT_H
#define MR_WORKER_PUBLISH_OUTPUT_H

#include "worker/ticket/messages.h"

/* The record that ends a request says whose: topic/partition/offset of the request, and the group
 * that consumed it. A dead letter has them only when there is no result. */
#define MR_HEADER_SOURCE "millrace-source"
#define MR_HEADER_GROUP  "millrace-group"

/* What is the same in all records of a worker; borrowed. */
struct mr_output_options {
    const char *tokens_topic, *results_topic, *dlq_topic;
    const char *worker, *model, *group;
};

#define MR_OUTPUT_HEADERS_MAX (MR_KAFKA_HEADERS_MAX)

struct mr_output {
    struct mr_kafka_record record; /* ready to produce */
    struct mr_kafka_header headers[MR_OUTPUT_HEADERS_MAX];
    size_t header_count;
    unsigned char *value; /* owned */
    char numbers[512];    /* texts of numeric headers */
    char trace[640];      /* what stands for a stack trace */
    size_t numbers_used;
};

enum mr_status mr_output_tokens(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_tokens_mail *mail, struct mr_error *err);
/* ending: a result or a refusal. shrunk: without text, tokens and metadata, as an error
 * record_too_large, for a result that the broker does not take whole. */
enum mr_status mr_output_result(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_mail *ending, bool shrunk, struct mr_error *err);
/* The consumed record with Connect's and Spring's headers. shrunk: with a null value. */
void mr_output_dead_letter(struct mr_output *output, const struct mr_output_options *options,
                           const struct mr_refusal_mail *mail, bool shrunk);
void mr_output_clear(struct mr_output *output);

#endif
