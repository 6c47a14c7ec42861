/* kafka_conf - librdkafka configuration properties: those of every client, those of the client's
 * role (enum mr_kafka_role), and those that the operator sets with the option --kafka. Callers fill
 * struct mr_kafka_options; only worker/kafka/kafka_*.c call the functions.
 *
 * --kafka takes NAME=VALUE for all clients, or consumer.NAME=VALUE or producer.NAME=VALUE for one
 * kind of client. Properties that the delivery guarantees depend on are refused, and the error
 * names the option to use instead.
 *
 * Threads: any. Memory: options are borrowed for the life of the client created from them. Errors:
 * MR_BAD_CONFIG, with the property in err. */
#ifndef MR_WORKER_KAFKA_KAFKA_CONF_H
#define MR_WORKER_KAFKA_KAFKA_CONF_H

#include "codec/status.h"
#include "worker/base/heartbeat.h"
#include "worker/config/config.h"
#include "worker/kafka/kafka_login.h"
#include "worker/kafka/kafka_stats.h"

#include <stdatomic.h>

struct rd_kafka_conf_s;
struct rd_kafka_s;
struct rd_kafka_error_s;

struct mr_kafka_options {
    const char *brokers, *group, *client_id;
    const char *assignor; /* partition.assignment.strategy; NULL: by the version of librdkafka */
    const char *group_instance;            /* group.instance.id; NULL or "": no static membership */
    const struct mr_text_list *properties; /* NAME=VALUE texts of the option --kafka; may be NULL */
    uint64_t session_timeout_ns, poll_interval_max_ns, linger_ns;
    uint64_t transaction_timeout_ns; /* 0: the producer does not use transactions */
    uint64_t max_record_bytes;
    /* consumer: most bytes of fetched records that wait in the worker, shared by this number of
     * partitions; 0: 8 MiB for each partition */
    uint64_t prefetch_bytes;
    uint32_t partition_count;
    /* the broker is librdkafka's mock broker: use short timeouts and short fetch waits */
    bool embedded;
    /* Fetch wait with the embedded test broker, which answers an empty fetch only when this time is
     * over. A record waits half of it on average, and each fetch costs about 0.1 ms of CPU time in
     * client and broker. 0: 10 ms. */
    uint32_t mock_wait_ms;
    /* Called with librdkafka's log lines, on any thread of librdkafka. May be NULL. */
    void (*log)(void *context, enum mr_log_level level, const char *text);
    /* Called with an error of a client, by the calls that poll it. unreachable: no broker has a
     * connection. May be NULL. */
    void (*failed)(void *context, bool unreachable, const char *reason);
    void *log_context; /* of log and failed */
    /* true: the worker is stopping, so calls that wait for a broker return soon. May be NULL. */
    const atomic_bool *ending;
    struct mr_heartbeats *heartbeats; /* watches the threads that use the clients; NULL: none */
    struct mr_kafka_login *login;     /* changes the password of the clients; may be NULL */
    struct mr_kafka_stats *stats; /* gets the statistics of consumer and producers; NULL: none */
};

enum mr_kafka_role {
    MR_KAFKA_PRODUCER,
    MR_KAFKA_TRANSACTOR, /* a producer that uses transactions */
    MR_KAFKA_CONSUMER,   /* a member of the consumer group */
    MR_KAFKA_READER,     /* a consumer that joins no group */
    MR_KAFKA_SCANNER,    /* a consumer without a group that reports the end of each partition */
    /* like SCANNER, and also reads records of open and aborted transactions */
    MR_KAFKA_SCANNER_UNCOMMITTED,
    MR_KAFKA_OBSERVER /* like SCANNER, and reads the commits of the group, which it does not join */
};

/* The version of librdkafka, such as 2.8.0. Static string. */
const char *mr_kafka_conf_version(void);
/* Returns MR_BAD_CONFIG for librdkafka 2.10.0, which reconnects in an endless loop. */
enum mr_status mr_kafka_conf_check_version(int version, struct mr_error *err);
/* MR_OK if librdkafka knows every property in options->properties and --kafka may set all of
 * them. */
enum mr_status mr_kafka_conf_check(const struct mr_kafka_options *options, struct mr_error *err);

/* Limits on the bytes that each partition may fetch ahead. */
struct mr_kafka_prefetch {
    uint32_t queue_kbytes; /* kbytes in the partition's queue, before another fetch */
    uint32_t fetch_bytes;  /* bytes of one fetch; a larger record comes alone */
};

/* Divides the bytes among the partitions. The sum of both limits over all partitions is at most
 * `bytes`, but each partition gets at least 16 KiB. */
struct mr_kafka_prefetch mr_kafka_conf_prefetch(uint64_t bytes, uint32_t partition_count);

/* Creates the librdkafka configuration of a client; the caller passes it to mr_kafka_conf_open or
 * rd_kafka_new, or destroys it. opaque is passed to librdkafka's callbacks; it must point to a
 * struct whose first field has the type `const struct mr_kafka_options *`, a pointer. */
enum mr_status mr_kafka_conf_create(struct rd_kafka_conf_s **out, enum mr_kafka_role role,
                                    const struct mr_kafka_options *options, void *opaque,
                                    struct mr_error *err);
/* The error callback of every client: passes the error to the options' log and failed. For a client
 * with its own callback. */
void mr_kafka_conf_report(struct rd_kafka_s *rk, int code, const char *reason, void *opaque);
/* Creates a librdkafka client. Takes ownership of conf, also when the creation fails. */
enum mr_status mr_kafka_conf_open(struct rd_kafka_s **out, struct rd_kafka_conf_s *conf,
                                  enum mr_kafka_role role, struct mr_error *err);
/* Destroys a client that _open has created. leave_group: a consumer that is still in its group
 * leaves the group first, which can take long; false for the others. */
void mr_kafka_conf_close(struct rd_kafka_s *rk, bool leave_group);

#endif
