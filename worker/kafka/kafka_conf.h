/* kafka_conf - librdkafka properties: what every client of this program needs, what its role needs,
 * and what the operator passes through (SPEC K11). Only the worker/kafka_*.c files use the
 * functions here; everybody fills struct mr_kafka_options.
 *
 * Pass-through: NAME=VALUE, or consumer.NAME=VALUE and producer.NAME=VALUE for one side only. The
 * properties that this program's guarantees rest on are refused, with the option to use instead.
 *
 * Threads: any. Memory: options are borrowed for the life of the client made from them.
 * Errors:  MR_BAD_CONFIG naming the property; MR_UNREACHABLE where a broker is asked. */
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
    uint64_t transaction_timeout_ns; /* 0: this worker makes none */
    uint64_t max_record_bytes;
    bool embedded; /* the broker is librdkafka's mock: short timeouts, short fetch waits */
    /* Of a consumer or reader of the mock, which answers an empty fetch only after the whole wait:
     * a record waits half of it on average, and each turn costs the one who waits and the mock some
     * 0.1 ms of CPU. 0: 10. */
    uint32_t mock_wait_ms;
    /* Threads: any of librdkafka's. May be NULL. */
    void (*log)(void *context, enum mr_log_level level, const char *text);
    void *log_context;
};

enum mr_kafka_role {
    MR_KAFKA_PRODUCER,
    MR_KAFKA_TRANSACTOR,         /* a producer with transactions */
    MR_KAFKA_CONSUMER,           /* in the group */
    MR_KAFKA_READER,             /* of all partitions, without a group */
    MR_KAFKA_SCANNER,            /* the same, to the end of what is there and no further */
    MR_KAFKA_SCANNER_UNCOMMITTED /* and whatever became of their transactions */
};

/* MR_BAD_CONFIG for a library version that is known to break us (2.10.0: reconnect loop). */
enum mr_status mr_kafka_conf_check_version(int version, struct mr_error *err);
/* Every NAME=VALUE of the list is known to librdkafka, well-formed and not ours. */
enum mr_status mr_kafka_conf_check(const struct mr_kafka_options *options, struct mr_error *err);

/* The caller gives the result to rd_kafka_new or destroys it. opaque comes back in callbacks and
 * must begin with a const struct mr_kafka_options *. */
enum mr_status mr_kafka_conf_create(struct rd_kafka_conf_s **out, enum mr_kafka_role role,
                                    const struct mr_kafka_options *options, void *opaque,
                                    struct mr_error *err);
/* Makes the handle; takes conf in every case. */
enum mr_status mr_kafka_conf_open(struct rd_kafka_s **out, struct rd_kafka_conf_s *conf,
                                  enum mr_kafka_role role, struct mr_error *err);

/* librdkafka's error code as ours: what it means for the record or the process. */
enum mr_status mr_kafka_status(int code);

#endif
