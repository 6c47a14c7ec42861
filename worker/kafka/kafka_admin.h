/* kafka_admin - prepares and inspects a Kafka cluster: connects to it, looks up topics and their
 * settings, creates missing topics, finds the members of a group. For the start of a worker and for
 * the commands topics, check, replay and top.
 *
 * Owner: the thread that opened it. Memory: one librdkafka client. Every call blocks for at most
 * its timeout. Errors: MR_UNREACHABLE, MR_BAD_CONFIG. */
#ifndef MR_WORKER_KAFKA_KAFKA_ADMIN_H
#define MR_WORKER_KAFKA_KAFKA_ADMIN_H

#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_record.h"

struct mr_kafka_admin;

enum mr_status mr_kafka_admin_open(struct mr_kafka_admin **out,
                                   const struct mr_kafka_options *options, struct mr_error *err);
void mr_kafka_admin_close(struct mr_kafka_admin *admin);

/* Connects to the broker and requests the cluster id. Error MR_UNREACHABLE, with the reason in err:
 * after timeout_ms if no broker answers; at once if the broker rejects the login or a TLS
 * certificate is rejected. librdkafka's own log lines about the connection are logged at level
 * debug. *embedded: whether the broker is librdkafka's mock broker (worker/kafka/kafka_mock.h), of
 * this process or of another one. */
enum mr_status mr_kafka_admin_probe(struct mr_kafka_admin *admin, uint32_t timeout_ms,
                                    bool *embedded, struct mr_error *err);
/* Whether the broker rejected the last probe's login or certificate, so that a retry cannot
 * succeed. */
bool mr_kafka_admin_refused(const struct mr_kafka_admin *admin);
/* *count: number of partitions of the topic; 0: the topic does not exist. The call does not create
 * the topic. */
enum mr_status mr_kafka_admin_partitions(struct mr_kafka_admin *admin, const char *topic,
                                         uint32_t timeout_ms, uint32_t *count,
                                         struct mr_error *err);
/* Looks up the first and the end offset of a partition. */
enum mr_status mr_kafka_admin_ends(struct mr_kafka_admin *admin, const char *topic,
                                   int32_t partition, uint32_t timeout_ms,
                                   struct mr_kafka_ends *ends, struct mr_error *err);
/* If the topic does not exist, creates it with the broker's default settings (on the embedded test
 * broker with 4 partitions) and waits until it is visible in the metadata. *count: number of its
 * partitions. MR_BAD_CONFIG: the broker refused to create the topic. */
enum mr_status mr_kafka_admin_ensure(struct mr_kafka_admin *admin, const char *topic,
                                     uint32_t timeout_ms, uint32_t *count, struct mr_error *err);

/* One setting of a topic, such as retention.ms. */
struct mr_kafka_setting {
    const char *name, *value;
};

/* How a topic is created. */
struct mr_kafka_topic_plan {
    uint32_t partitions, replicas; /* 0: the broker's default */
    const struct mr_kafka_setting *settings;
    size_t setting_count;
};

/* Creates the topic and waits until it is visible. The embedded test broker has no settings and
 * creates every topic with the same number of partitions. *created: false if the topic existed,
 * which is then left as it is. MR_BAD_CONFIG: the broker refused to create it. */
enum mr_status mr_kafka_admin_create(struct mr_kafka_admin *admin, const char *topic,
                                     const struct mr_kafka_topic_plan *plan, uint32_t timeout_ms,
                                     bool *created, struct mr_error *err);

#define MR_KAFKA_SETTING_BYTES ((size_t)64)

/* Settings to read. values[i] becomes the value of names[i], cut at its size, or "" if the broker
 * does not return it, as the embedded test broker does. Borrowed. */
struct mr_kafka_settings {
    const char *const *names;
    char (*values)[MR_KAFKA_SETTING_BYTES];
    size_t count;
};

/* Reads settings of a topic that exists. */
enum mr_status mr_kafka_admin_settings(struct mr_kafka_admin *admin, const char *topic,
                                       const struct mr_kafka_settings *settings,
                                       uint32_t timeout_ms, struct mr_error *err);

#define MR_KAFKA_HOST_BYTES ((size_t)256)

/* Hosts of the members of a consumer group. */
struct mr_kafka_hosts {
    char (*names)[MR_KAFKA_HOST_BYTES]; /* borrowed; addresses as the broker saw them */
    size_t max, count;                  /* entries of names; found, at most max */
};

/* Fills hosts with one entry for each member of the group, none if the group does not exist. The
 * embedded test broker cannot describe groups: MR_UNREACHABLE. */
enum mr_status mr_kafka_admin_members(struct mr_kafka_admin *admin, const char *group,
                                      uint32_t timeout_ms, struct mr_kafka_hosts *hosts,
                                      struct mr_error *err);

/* A consumer group as its coordinator describes it. */
struct mr_kafka_group {
    bool is_known;  /* false: the embedded test broker cannot describe groups */
    char state[24]; /* such as "Stable"; "": the group does not exist, or describing it is not
                       allowed */
    uint32_t members;
    bool has_instance; /* one of the members is the static member `instance` */
};

/* *members: how many members of consumer groups read the topic. *is_known: false if the brokers do
 * not describe their groups, as the embedded test broker. */
enum mr_status mr_kafka_admin_readers(struct mr_kafka_admin *admin, const char *topic,
                                      uint32_t timeout_ms, bool *is_known, uint32_t *members,
                                      struct mr_error *err);
/* Describes a group. instance: "" for none. */
enum mr_status mr_kafka_admin_group(struct mr_kafka_admin *admin, const char *name,
                                    const char *instance, uint32_t timeout_ms,
                                    struct mr_kafka_group *out, struct mr_error *err);
/* *found: a partition of the topic has a record with the timestamp unix_ms or later. The embedded
 * test broker cannot look records up by time: false. */
struct mr_kafka_since {
    const char *topic;
    uint32_t partitions;
    int64_t unix_ms;
};
enum mr_status mr_kafka_admin_has_since(struct mr_kafka_admin *admin,
                                        const struct mr_kafka_since *since, uint32_t timeout_ms,
                                        bool *found, struct mr_error *err);

#endif
