#include "worker/kafka/kafka_conf.h"

#include "codec/check.h"
#include "worker/base/version.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

#define VERSION_2_2_0  0x020200ff
#define VERSION_2_10_0 0x020a00ff
#define VERSION_2_10_1 0x020a01ff
#define FETCH_WAIT_MS  500u
#define MOCK_WAIT_MS   10u
/* limits of one partition in bytes: most of its queue and a fetch together, and least of each */
#define QUEUE_MOST_BYTES      ((uint32_t)8 << 20)
#define FETCH_MOST_BYTES      ((uint32_t)1 << 20)
#define PARTITION_MOST_BYTES  ((uint64_t)QUEUE_MOST_BYTES + FETCH_MOST_BYTES)
#define PARTITION_LEAST_BYTES ((uint32_t)8 << 10)

struct property {
    const char *name, *value;
};

/* librdkafka properties that a guarantee of the worker or its threads depend on. The option --kafka
 * must not set them, not even to the worker's own value. Each has the option that sets it, or
 * "nothing: " with the reason why it is fixed. Aliases have rows of their own. */
static const struct property owned[] = {
    /* properties with an own option */
    {"bootstrap.servers", "--brokers"},
    {"metadata.broker.list", "--brokers"},
    {"group.id", "--group"},
    {"group.instance.id", "--group-instance"},
    {"max.poll.interval.ms", "--poll-interval-max"},
    {"session.timeout.ms", "--session-timeout"},
    {"heartbeat.interval.ms", "--session-timeout; the interval is a tenth of it"},
    {"linger.ms", "--token-linger"},
    {"queue.buffering.max.ms", "--token-linger"},
    {"transactional.id", "--delivery, --group and --worker-id"},
    {"transaction.timeout.ms", "--session-timeout, which bounds it"},
    {"test.mock.num.brokers", "millrace broker"},
    {"test.mock.broker.rtt", "millrace broker"},
    /* offsets: committed when results are acknowledged, never earlier */
    {"enable.auto.commit", "nothing: offsets are committed when results are acknowledged"},
    {"auto.commit.enable", "nothing: offsets are committed when results are acknowledged"},
    {"auto.commit.interval.ms", "--commit-interval"},
    {"enable.auto.offset.store", "nothing: offsets are committed when results are acknowledged"},
    {"offset.store.method", "nothing: offsets are kept by the group, where the next owner reads"},
    {"offset.store.path", "nothing: offsets are kept by the group, where the next owner reads"},
    {"offset.store.sync.interval.ms", "--commit-interval"},
    {"auto.offset.reset", "nothing: a group without commits begins with the oldest request"},
    {"isolation.level", "nothing: --delivery decides how requests and results are read"},
    {"enable.partition.eof", "nothing: intake does not expect end-of-partition events"},
    /* the group */
    {"partition.assignment.strategy", "nothing: all workers of a group must use the same one"},
    {"group.protocol", "nothing: the worker handles rebalances of the classic protocol"},
    {"group.protocol.type", "nothing: all workers of a group must use the same one"},
    {"group.remote.assignor", "nothing: the worker handles rebalances of the classic protocol"},
    {"allow.auto.create.topics", "nothing: a request must not create the topic that it names"},
    /* written once, in order, on all in-sync replicas */
    {"enable.idempotence", "nothing: the producer is always idempotent"},
    {"acks", "nothing: a result counts when all in-sync replicas have it"},
    {"request.required.acks", "nothing: a result counts when all in-sync replicas have it"},
    {"max.in.flight", "nothing: more than 5 would write records twice or out of order"},
    {"max.in.flight.requests.per.connection",
     "nothing: more than 5 would write records twice or out of order"},
    {"retries", "nothing: a record is sent until it is acknowledged or times out"},
    {"message.send.max.retries", "nothing: a record is sent until it is acknowledged or times out"},
    {"delivery.timeout.ms", "nothing: the worker itself repeats a result that timed out"},
    {"message.timeout.ms", "nothing: the worker itself repeats a result that timed out"},
    {"enable.gapless.guarantee", "nothing: the worker itself repeats a record that timed out"},
    {"queuing.strategy", "nothing: token records must stay in order"},
    {"partitioner", "nothing: all records of a request must go to one partition"},
    {"delivery.report.only.error", "nothing: the worker needs the report of every record"},
    /* queues and events that the threads of the worker serve */
    {"enabled_events", "nothing: the worker serves callbacks, not events"},
    {"enable_sasl_queue", "nothing: no thread serves that queue"},
    {"log.queue", "nothing: no thread serves that queue"},
    {"statistics.interval.ms", "nothing: the statistics show when a broker last answered"},
};

static const struct property common[] = {
    {"socket.nagle.disable",
     /* before librdkafka 2.10 this was off by default, which delays tokens by 40 to 200 ms */
     "true"},
    {"client.software.name", "millrace"},
    {"client.software.version", mr_version},
    {"socket.keepalive.enable", "true"},
    {"reconnect.backoff.max.ms", "5000"},
    {"topic.metadata.refresh.interval.ms", "60000"},
    {"log.connection.close", "false"},
};

static const struct property producer[] = {
    {"enable.idempotence", "true"},
    /* chooses the same partition for a key as Kafka's Java clients */
    {"partitioner", "murmur2_random"},
    {"queue.buffering.max.messages", "100000"},
    {"queue.buffering.max.kbytes", "65536"},
    /* larger than the broker's own limit, so that the broker's limit decides */
    {"message.max.bytes", "4194304"},
};

/* of every client that reads */
static const struct property reading[] = {
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"allow.auto.create.topics", "false"},
    {"fetch.error.backoff.ms", "100"},
};

static const struct property consumer[] = {
    {"auto.offset.reset", "earliest"},
    {"statistics.interval.ms", "5000"}, /* they show when a broker last answered: kafka_in.c */
};

static const struct property reader[] = {
    /* librdkafka requires a group id; the reader never joins that group */
    {"group.id", "millrace-reader"},
    {"auto.offset.reset", "latest"},
    /* before librdkafka 2.2: most records read in a second */
    {"queued.min.messages", "10000"},
    {"queued.max.messages.kbytes", "8192"},
    {"fetch.message.max.bytes", "1048576"},
};

static const struct property scanner[] = {
    {"enable.partition.eof", "true"},
    {"queued.min.messages", "100000"},
    /* the broker answers an empty fetch after this time, and only then the end of a partition is
     * reported */
    {"fetch.wait.max.ms", "10"},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

const char *mr_kafka_conf_version(void)
{
    return rd_kafka_version_str();
}

enum mr_status mr_kafka_conf_check_version(int version, struct mr_error *err)
{
    if (version == VERSION_2_10_0)
        return mr_fail(
            err, MR_BAD_CONFIG,
            "librdkafka 2.10.0 reconnects in a loop; use any other version from 2.0.2 on");
    return MR_OK;
}

static enum mr_status set(rd_kafka_conf_t *conf, const char *name, const char *value,
                          struct mr_error *err)
{
    char reason[256];
    if (rd_kafka_conf_set(conf, name, value, reason, sizeof reason) == RD_KAFKA_CONF_OK)
        return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "Kafka property %s: %s", name, reason);
}

static enum mr_status set_ns(rd_kafka_conf_t *conf, const char *name, uint64_t ns,
                             struct mr_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)(ns / 1000000u));
    return set(conf, name, text, err);
}

static enum mr_status set_all(rd_kafka_conf_t *conf, const struct property *properties,
                              size_t count, struct mr_error *err)
{
    for (size_t i = 0; i < count; i++) {
        enum mr_status status = set(conf, properties[i].name, properties[i].value, err);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

/* The partition.assignment.strategy. librdkafka before 2.10.1 loses its assignment when a commit
 * coincides with a cooperative rebalance. */
static const char *best_assignor(void)
{
    return rd_kafka_version() < VERSION_2_10_1 ? "range,roundrobin" : "cooperative-sticky";
}

static enum mr_status set_reader(rd_kafka_conf_t *conf, enum mr_kafka_role role, const char *group,
                                 struct mr_error *err)
{
    enum mr_status status = set_all(conf, reader, COUNT(reader), err);
    if (status != MR_OK || role == MR_KAFKA_READER) return status;
    status = set_all(conf, scanner, COUNT(scanner), err);
    if (status != MR_OK || role == MR_KAFKA_SCANNER) return status;
    if (role == MR_KAFKA_OBSERVER) return set(conf, "group.id", group, err);
    return set(conf, "isolation.level", "read_uncommitted", err);
}

static bool is_producer(enum mr_kafka_role role)
{
    return role == MR_KAFKA_PRODUCER || role == MR_KAFKA_TRANSACTOR;
}

static enum mr_status set_producer(rd_kafka_conf_t *conf, enum mr_kafka_role role,
                                   const struct mr_kafka_options *options, struct mr_error *err)
{
    enum mr_status status = set_all(conf, producer, COUNT(producer), err);
    if (status == MR_OK) status = set_ns(conf, "linger.ms", options->linger_ns, err);
    if (status != MR_OK) return status;
    if (role == MR_KAFKA_PRODUCER) return set(conf, "delivery.timeout.ms", "300000", err);
    /* Set no delivery timeout for a transactional producer: transaction.timeout.ms bounds its
     * records. */
    return set_ns(conf, "transaction.timeout.ms", options->transaction_timeout_ns, err);
}

static uint32_t clamp(uint64_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : (uint32_t)value;
}

struct mr_kafka_prefetch mr_kafka_conf_prefetch(uint64_t bytes, uint32_t partition_count)
{
    uint64_t part = bytes / (partition_count > 0 ? partition_count : 1);
    if (bytes == 0) part = PARTITION_MOST_BYTES;
    uint32_t fetch_bytes = clamp(part / 2, PARTITION_LEAST_BYTES, FETCH_MOST_BYTES);
    uint64_t left = part > fetch_bytes ? part - fetch_bytes : 0;
    uint32_t queue_bytes = clamp(left, PARTITION_LEAST_BYTES, QUEUE_MOST_BYTES);
    return (struct mr_kafka_prefetch){queue_bytes / 1024, fetch_bytes};
}

/* Every partition has its own librdkafka queue, so these limits apply to each partition. */
static enum mr_status set_prefetch(rd_kafka_conf_t *conf, const struct mr_kafka_options *options,
                                   struct mr_error *err)
{
    char queue[16], fetch[16];
    struct mr_kafka_prefetch prefetch =
        mr_kafka_conf_prefetch(options->prefetch_bytes, options->partition_count);
    snprintf(queue, sizeof queue, "%u", prefetch.queue_kbytes);
    snprintf(fetch, sizeof fetch, "%u", prefetch.fetch_bytes);
    enum mr_status status = set(conf, "queued.max.messages.kbytes", queue, err);
    if (status == MR_OK) status = set(conf, "fetch.message.max.bytes", fetch, err);
    return status;
}

/* When a queue holds queued.min.messages records, or queued.max.messages.kbytes of their values,
 * librdkafka stops fetching for fetch.queue.backoff.ms, and before 2.2 for a second. A worker has a
 * queue for each partition, a reader one for all. */
static enum mr_status set_queue_pause(rd_kafka_conf_t *conf, struct mr_error *err)
{
    if (rd_kafka_version() < VERSION_2_2_0) return MR_OK;
    return set(conf, "fetch.queue.backoff.ms", "10", err);
}

/* Most requests that wait in the queue of a partition. It is low because librdkafka does not count
 * keys and headers, which can be as large as the limit on a record. Before 2.2, with the pause of a
 * second, the limit is also the most that can be taken in a second: with 256, a worker that can run
 * 1,300 requests of 2 KiB a second ran 450. */
static enum mr_status set_request_limit(rd_kafka_conf_t *conf, struct mr_error *err)
{
    const char *limit = rd_kafka_version() < VERSION_2_2_0 ? "2000" : "256";
    return set(conf, "queued.min.messages", limit, err);
}

static enum mr_status set_role(rd_kafka_conf_t *conf, enum mr_kafka_role role,
                               const struct mr_kafka_options *options, struct mr_error *err)
{
    if (is_producer(role)) return set_producer(conf, role, options, err);
    enum mr_status status = set_all(conf, reading, COUNT(reading), err);
    if (status == MR_OK) status = set_queue_pause(conf, err);
    if (status != MR_OK) return status;
    /* Apache Kafka answers a fetch as soon as a record arrives; the embedded test broker waits the
     * whole time, so its fetch wait must be short. */
    uint32_t mock_wait_ms = options->mock_wait_ms ? options->mock_wait_ms : MOCK_WAIT_MS;
    status = set_ns(conf, "fetch.wait.max.ms",
                    (options->embedded ? mock_wait_ms : FETCH_WAIT_MS) * UINT64_C(1000000), err);
    if (status != MR_OK) return status;
    if (role != MR_KAFKA_CONSUMER) return set_reader(conf, role, options->group, err);
    status = set_all(conf, consumer, COUNT(consumer), err);
    if (status == MR_OK) status = set_request_limit(conf, err);
    if (status == MR_OK) status = set_prefetch(conf, options, err);
    if (status == MR_OK) status = set(conf, "group.id", options->group, err);
    if (status == MR_OK && options->group_instance && *options->group_instance)
        status = set(conf, "group.instance.id", options->group_instance, err);
    if (status == MR_OK)
        status = set(conf, "partition.assignment.strategy",
                     options->assignor ? options->assignor : best_assignor(), err);
    if (status == MR_OK)
        status = set_ns(conf, "max.poll.interval.ms", options->poll_interval_max_ns, err);
    if (status == MR_OK)
        status = set_ns(conf, "session.timeout.ms", options->session_timeout_ns, err);
    if (status == MR_OK)
        status = set_ns(conf, "heartbeat.interval.ms", options->session_timeout_ns / 10, err);
    return status;
}

/* MR_BAD_CONFIG for a property that --kafka must not set: it is in the table, or is a callback. */
static enum mr_status check_owned(const char *name, struct mr_error *err)
{
    size_t length = strlen(name);
    if (length > 3 && strcmp(name + length - 3, "_cb") == 0)
        return mr_fail(err, MR_BAD_CONFIG,
                       "--kafka: %s cannot be set: it is a callback in the program", name);
    for (size_t i = 0; i < COUNT(owned); i++)
        if (strcmp(owned[i].name, name) == 0)
            return mr_fail(err, MR_BAD_CONFIG, "--kafka: %s cannot be set; use %s", name,
                           owned[i].value);
    return MR_OK;
}

/* Applies one NAME=VALUE of the option --kafka. A NAME that begins with "consumer." or "producer."
 * is skipped if the client is of the other kind. */
static enum mr_status apply_property(rd_kafka_conf_t *conf, enum mr_kafka_role role,
                                     const char *text, struct mr_error *err)
{
    static const char for_consumer[] = "consumer.", for_producer[] = "producer.";
    char name[128];
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof name)
        return mr_fail(err, MR_BAD_CONFIG, "--kafka takes NAME=VALUE");
    bool consumer_only = strncmp(text, for_consumer, sizeof for_consumer - 1) == 0;
    bool producer_only = strncmp(text, for_producer, sizeof for_producer - 1) == 0;
    if (consumer_only || producer_only) text += sizeof for_consumer - 1;
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    enum mr_status status = check_owned(name, err);
    if (status != MR_OK) return status;
    if (consumer_only && is_producer(role)) return MR_OK;
    if (producer_only && !is_producer(role)) return MR_OK;
    return set(conf, name, equals + 1, err);
}

static enum mr_status apply_properties(rd_kafka_conf_t *conf, enum mr_kafka_role role,
                                       const struct mr_text_list *list, struct mr_error *err)
{
    for (size_t i = 0; list && i < list->count; i++) {
        enum mr_status status = apply_property(conf, role, list->values[i], err);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

enum mr_status mr_kafka_conf_check(const struct mr_kafka_options *options, struct mr_error *err)
{
    enum mr_status status = mr_kafka_conf_check_version(rd_kafka_version(), err);
    for (int role = MR_KAFKA_PRODUCER; status == MR_OK && role <= MR_KAFKA_CONSUMER; role++) {
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        status = apply_properties(conf, (enum mr_kafka_role)role, options->properties, err);
        rd_kafka_conf_destroy(conf);
    }
    return status;
}

/* ---- callbacks ---- */

static const struct mr_kafka_options *options_of(const rd_kafka_t *rk)
{
    const struct mr_kafka_options *const *opaque = rd_kafka_opaque(rk);
    return opaque ? *opaque : NULL;
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    const struct mr_kafka_options *options = options_of(rk);
    if (!options || !options->log) return;
    char line[512];
    snprintf(line, sizeof line, "kafka %s: %s", facility, text);
    /* The worker itself logs the events that matter to its operator, such as an outage, in plain
     * words. Level 3 and below are faults that librdkafka cannot handle. */
    options->log(options->log_context, level < 3 ? MR_LOG_WARN : MR_LOG_DEBUG, line);
}

/* Errors of a single connection. When no connection is left, kafka_outage.h announces it. A refused
 * login or certificate is not one of these errors: the announcement may name an earlier reason, and
 * only the operator can repair the cause. */
static bool is_connection_error(int code)
{
    return code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__RESOLVE ||
           code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || code == RD_KAFKA_RESP_ERR__TIMED_OUT;
}

/* Only reports the error: librdkafka recovers from errors by itself, except from a fatal one, which
 * polling returns. */
void mr_kafka_conf_report(struct rd_kafka_s *rk, int code, const char *reason, void *opaque)
{
    (void)opaque;
    const struct mr_kafka_options *options = options_of(rk);
    if (options && options->failed)
        options->failed(options->log_context, code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, reason);
    if (!options || !options->log) return;
    char line[512];
    snprintf(line, sizeof line, "kafka: %s (%s)", reason,
             rd_kafka_err2name((rd_kafka_resp_err_t)code));
    enum mr_log_level level = code == RD_KAFKA_RESP_ERR__FATAL ? MR_LOG_ERROR
                              : is_connection_error(code)      ? MR_LOG_DEBUG
                                                               : MR_LOG_WARN;
    options->log(options->log_context, level, line);
}

enum mr_status mr_kafka_conf_create(struct rd_kafka_conf_s **out, enum mr_kafka_role role,
                                    const struct mr_kafka_options *options, void *opaque,
                                    struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = mr_kafka_conf_check_version(rd_kafka_version(), err);
    if (status != MR_OK) return status;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    status = set(conf, "bootstrap.servers", options->brokers, err);
    if (status == MR_OK) status = set(conf, "client.id", options->client_id, err);
    if (status == MR_OK) status = set_all(conf, common, COUNT(common), err);
    if (status == MR_OK) status = set_role(conf, role, options, err);
    if (status == MR_OK) status = apply_properties(conf, role, options->properties, err);
    if (status == MR_OK)
        status = mr_kafka_login_apply(options->login, conf, is_producer(role), err);
    if (status != MR_OK) goto fail;
    rd_kafka_conf_set_opaque(conf, opaque);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_conf_set_error_cb(conf, mr_kafka_conf_report);
    *out = conf;
    return MR_OK;
fail:
    rd_kafka_conf_destroy(conf);
    return status;
}

enum mr_status mr_kafka_conf_open(struct rd_kafka_s **out, struct rd_kafka_conf_s *conf,
                                  enum mr_kafka_role role, struct mr_error *err)
{
    char reason[256];
    rd_kafka_type_t type = is_producer(role) ? RD_KAFKA_PRODUCER : RD_KAFKA_CONSUMER;
    *out = rd_kafka_new(type, conf, reason, sizeof reason);
    if (!*out) {
        rd_kafka_conf_destroy(conf);
        return mr_fail(err, MR_BAD_CONFIG, "Kafka client: %s", reason);
    }
    const struct mr_kafka_options *options = options_of(*out);
    if (options) mr_kafka_login_add(options->login, *out, is_producer(role));
    return MR_OK;
}

void mr_kafka_conf_close(struct rd_kafka_s *rk, bool leave_group)
{
    const struct mr_kafka_options *options = options_of(rk);
    if (options) mr_kafka_login_remove(options->login, rk);
    rd_kafka_destroy_flags(rk, leave_group ? 0 : RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}
