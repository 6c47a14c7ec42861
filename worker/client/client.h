/* client - the other side of the contract: publishes requests and cancels, reads token and result
 * records. For the commands send, tail, cancel, demo and bench.
 *
 * Owner:  one thread. Memory: the clients behind it; a record is borrowed until the next call.
 * Errors: MR_UNREACHABLE, MR_BAD_CONFIG. */
#ifndef MR_WORKER_CLIENT_CLIENT_H
#define MR_WORKER_CLIENT_CLIENT_H

#include "codec/records/reply.h"
#include "worker/config/config.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_record.h"

struct mr_client;

struct mr_client_options {
    const struct mr_config *config;
    const char *brokers; /* instead of the configuration's; NULL: that one */
    bool reads;          /* tokens and results too, from now on */
    bool from_beginning; /* ... from the oldest record on */
    uint32_t timeout_ms; /* of each question asked while opening */
};

enum mr_status mr_client_open(struct mr_client **out, const struct mr_client_options *options,
                              struct mr_error *err);
void mr_client_close(struct mr_client *client);

/* Publishes and waits for the broker's acknowledgement. topic: of the configuration. */
enum mr_status mr_client_request(struct mr_client *client, const char *topic, struct mr_text id,
                                 struct mr_text value, enum mr_encoding encoding,
                                 struct mr_error *err);
/* The same without waiting; _flush waits for all. */
enum mr_status mr_client_request_async(struct mr_client *client, const char *topic,
                                       struct mr_text id, struct mr_text value,
                                       enum mr_encoding encoding, struct mr_error *err);
/* Any record, to any topic. */
enum mr_status mr_client_publish(struct mr_client *client, const struct mr_kafka_record *record,
                                 struct mr_error *err);
enum mr_status mr_client_flush(struct mr_client *client, uint32_t timeout_ms, struct mr_error *err);
enum mr_status mr_client_cancel(struct mr_client *client, struct mr_text id, struct mr_error *err);

enum mr_client_kind { MR_CLIENT_TOKENS, MR_CLIENT_RESULT, MR_CLIENT_OTHER };

struct mr_client_event {
    enum mr_client_kind kind; /* OTHER: a record that is not ours */
    struct mr_text id;        /* the record's key */
    enum mr_encoding encoding;
    struct mr_token_record tokens;
    struct mr_result result;
    struct mr_kafka_record record;
};

/* The next record of the tokens or results topic, waiting up to timeout_ms. */
bool mr_client_take(struct mr_client *client, uint32_t timeout_ms, struct mr_client_event *event);

#endif
