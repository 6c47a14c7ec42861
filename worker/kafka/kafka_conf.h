/* kafka_conf - librdkafka properties: those of every client, those of its role, and those that the
 * operator sets with --kafka. Callers fill struct mr_kafka_options; only worker/kafka/kafka_*.c
 * call the functions.
 *
 * --kafka takes NAME=VALUE, or consumer.NAME=VALUE and producer.NAME=VALUE for one kind of client.
 * Properties that the delivery guarantees depend on are refused; the error names the option to use
 * instead.
 *
 * Threads: any. Memory: options are borrowed for the life of the client created from them.
 * Errors:  MR_BAD_CONFIG with the property. */
#ifndef MR_WORKER_KAFKA_KAFKA_CONF_H
#define MR_WORKER_KAFKA_KAFKA_CONF_H

#include "codec/status.h"
#include "worker/config/config.h"

struct rd_kafka_conf_s;
struct rd_kafka_s;
struct rd_kafka_error_s;

struct mr_kafka_options {
    const char *brokers, *group, *client_id;
    const char *group_instance;            /* NULL or "": no static membership */
    const struct mr_text_list *properties; /* NAME=VALUE; may be NULL */
    uint64_t session_timeout_ns, poll_interval_max_ns, linger_ns;
    uint64_t transaction_timeout_ns; /* 0: no transactions */
    uint64_t max_record_bytes;
    bool embedded; /* the broker is librdkafka's mock: short timeouts, short fetch waits */
    /* Fetch wait with the embedded broker, which answers an empty fetch only after the whole wait.
     * A record waits half of this time on average; each fetch costs client and broker about 0.1 ms
     * of CPU time. 0: 10 ms. */
    uint32_t mock_wait_ms;
    /* Runs on any thread of librdkafka. May be NULL. */
    void (*log)(void *context, enum mr_log_level level, const char *text);
    void *log_context;
};

enum mr_kafka_role {
    MR_KAFKA_PRODUCER,
    MR_KAFKA_TRANSACTOR,         /* producer with transactions */
    MR_KAFKA_CONSUMER,           /* member of the group */
    MR_KAFKA_READER,             /* reads without a group */
    MR_KAFKA_SCANNER,            /* a reader that reports the end of each partition */
    MR_KAFKA_SCANNER_UNCOMMITTED /* a scanner that also reads uncommitted and aborted records */
};

/* MR_BAD_CONFIG for librdkafka 2.10.0, which reconnects in a loop. */
enum mr_status mr_kafka_conf_check_version(int version, struct mr_error *err);
/* MR_OK if librdkafka knows every property in options->properties and none is refused. */
enum mr_status mr_kafka_conf_check(const struct mr_kafka_options *options, struct mr_error *err);

/* Creates the configuration of a client; pass it to _open or rd_kafka_new, or destroy it. opaque is
 * passed to callbacks; it points to a struct whose first field is a const struct mr_kafka_options
 * *. */
enum mr_status mr_kafka_conf_create(struct rd_kafka_conf_s **out, enum mr_kafka_role role,
                                    const struct mr_kafka_options *options, void *opaque,
                                    struct mr_error *err);
/* Creates the client; takes ownership of conf, also on failure. */
enum mr_status mr_kafka_conf_open(struct rd_kafka_s **out, struct rd_kafka_conf_s *conf,
                                  enum mr_kafka_role role, struct mr_error *err);

/* The status for a librdkafka error code. */
enum mr_status mr_kafka_status(int code);

#endif
