/* client - a Kafka client for requests: publishes requests and cancel records, reads token and
 * result records. For the commands send, tail, cancel, demo, replay and bench.
 *
 * Owner:  one thread. Memory: a producer and, with options.reads, a consumer. Errors:
 *         MR_UNREACHABLE, MR_BAD_CONFIG. */
#ifndef MR_WORKER_CLIENT_CLIENT_H
#define MR_WORKER_CLIENT_CLIENT_H

#include "codec/records/reply.h"
#include "worker/config/config.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_record.h"

#include <stdio.h>

struct mr_client;

struct mr_client_options {
    const struct mr_config *config;
    const char *brokers; /* replaces config->brokers; NULL: use config->brokers */
    bool reads;          /* read token and result records, starting at the end of the topics */
    bool from_beginning; /* with reads: start with the oldest record instead of the end */
    const char *needs;   /* a topic that must exist, instead of the cancel topic; NULL: none */
    /* false: no topic is created, because a mistyped name must not become a topic with the broker's
     * defaults. _open then returns MR_BACKEND if a topic that the client uses is missing: the
     * topics that it reads; the first requests topic if `requests`; the cancel topic if it does
     * neither. true: missing topics are created, for a demo and for a benchmark. */
    bool creates;
    bool requests;            /* the client publishes requests */
    uint32_t timeout_ms;      /* time limit for each query to the broker in mr_client_open */
    uint32_t send_timeout_ms; /* time limit of _request and _cancel; 0: 30 s */
    FILE *notices; /* gets a line when no broker can be reached, a line when one answers again, and
                    * with `--kafka debug` librdkafka's log; NULL: none */
};

enum mr_status mr_client_open(struct mr_client **out, const struct mr_client_options *options,
                              struct mr_error *err);
void mr_client_close(struct mr_client *client);
/* The client's Kafka options, for other clients with the same connection; valid until _close. */
const struct mr_kafka_options *mr_client_kafka(const struct mr_client *client);
/* Call this about as often as _take. While no broker can be reached, this queries one each second,
 * for at most half a second. MR_BACKEND: a topic that the client reads is gone, or reading it is
 * not allowed. */
enum mr_status mr_client_health(struct mr_client *client, struct mr_error *err);

/* Publishes a request and waits until the broker has acknowledged it. */
enum mr_status mr_client_request(struct mr_client *client, const char *topic, struct mr_text id,
                                 struct mr_text value, enum mr_encoding encoding,
                                 struct mr_error *err);
/* Publishes a request without waiting. */
enum mr_status mr_client_request_async(struct mr_client *client, const char *topic,
                                       struct mr_text id, struct mr_text value,
                                       enum mr_encoding encoding, struct mr_error *err);
/* Place of the record that the broker acknowledged last; offset -1: unknown. */
struct mr_client_place {
    int32_t partition;
    int64_t offset;
};
struct mr_client_place mr_client_last_place(const struct mr_client *client);
/* Publishes any record without waiting for the acknowledgement. */
enum mr_status mr_client_publish(struct mr_client *client, const struct mr_kafka_record *record,
                                 struct mr_error *err);
/* Waits until the broker has acknowledged every record. Returns the first failure of all records
 * published so far. */
enum mr_status mr_client_flush(struct mr_client *client, uint32_t timeout_ms, struct mr_error *err);
/* Publishes a cancel record for the request and waits for its acknowledgement. */
enum mr_status mr_client_cancel(struct mr_client *client, struct mr_text id, struct mr_error *err);

enum mr_client_kind { MR_CLIENT_TOKENS, MR_CLIENT_RESULT, MR_CLIENT_OTHER };

struct mr_client_event {
    enum mr_client_kind kind; /* OTHER: not a valid token or result record */
    struct mr_text id;        /* key of the record: the request id */
    enum mr_encoding encoding;
    struct mr_token_record tokens; /* filled if kind is TOKENS */
    struct mr_result result;       /* filled if kind is RESULT */
    struct mr_kafka_record record;
};

/* Waits up to timeout_ms for the next record of the tokens or results topic; false: none. The event
 * is borrowed until the next call. */
bool mr_client_take(struct mr_client *client, uint32_t timeout_ms, struct mr_client_event *event);

#endif
