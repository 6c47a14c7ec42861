#include "worker/kafka/kafka_stats.h"

#include "codec/check.h"
#include "codec/wire/json.h"
#include "worker/metrics/metric_text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 128u

/* X(enum, name, type, HELP): one metric with the label `client`. */
#define NUMBER_LIST(X)                                                                             \
    X(QUEUED, "requests_queued", "gauge",                                                          \
      "Requests that wait in a Kafka client to be sent to brokers.")                               \
    X(IN_FLIGHT, "requests_in_flight", "gauge",                                                    \
      "Requests of a Kafka client that brokers have not answered.")                                \
    X(MESSAGES, "queue_messages", "gauge",                                                         \
      "Records in the queues of a Kafka client: to be sent, or fetched and not read.")             \
    X(BYTES, "queue_bytes", "gauge", "Bytes of the records in the queues of a Kafka client.")      \
    X(RETRIES, "request_retries_total", "counter",                                                 \
      "Requests that a Kafka client sent to a broker again.")                                      \
    X(ERRORS, "request_errors_total", "counter",                                                   \
      "Errors of a Kafka client when sending to brokers or receiving from them.")                  \
    X(TIMEOUTS, "request_timeouts_total", "counter",                                               \
      "Requests of a Kafka client that a broker did not answer in time.")                          \
    X(DISCONNECTS, "disconnects_total", "counter", "Connections of a Kafka client that ended.")

enum number {
#define X(name, text, type, help) name,
    NUMBER_LIST(X)
#undef X
        NUMBER_COUNT
};

struct broker {
    char name[NAME_BYTES]; /* HOST:PORT/ID */
    bool connected;
    double round_trip_s; /* mean over the last interval */
};

struct client {
    bool known;
    double numbers[NUMBER_COUNT];
    struct broker brokers[MR_KAFKA_BROKERS_MAX];
    unsigned broker_count;
};

struct mr_kafka_stats {
    pthread_mutex_t mutex;
    struct client clients[MR_KAFKA_STATS_CLIENTS];
};

enum mr_status mr_kafka_stats_create(struct mr_kafka_stats **out, struct mr_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return mr_fail(err, MR_NOMEM, "no memory for the statistics of Kafka");
    pthread_mutex_init(&(*out)->mutex, NULL);
    return MR_OK;
}

void mr_kafka_stats_destroy(struct mr_kafka_stats *stats)
{
    if (!stats) return;
    pthread_mutex_destroy(&stats->mutex);
    free(stats);
}

/* ---- reading ---- */

static double number_of(const struct mr_json_value *object, const char *name)
{
    double number = 0;
    mr_json_number(mr_json_get(object, name), &number);
    return number;
}

/* Adds a broker of the cluster, or the connection to the coordinator ("GroupCoordinator"), which
 * has the id of its broker. Entries for bootstrap addresses have a negative id and are only added
 * to the sums. */
static void read_broker(struct client *client, const struct mr_json_member *member)
{
    const struct mr_json_value *value = member->value;
    struct mr_text state = {0};
    client->numbers[QUEUED] += number_of(value, "outbuf_cnt");
    client->numbers[IN_FLIGHT] += number_of(value, "waitresp_cnt");
    client->numbers[RETRIES] += number_of(value, "txretries");
    client->numbers[ERRORS] += number_of(value, "txerrs") + number_of(value, "rxerrs");
    client->numbers[TIMEOUTS] += number_of(value, "req_timeouts");
    client->numbers[DISCONNECTS] += number_of(value, "disconnects");
    if (number_of(value, "nodeid") < 0 || client->broker_count == MR_KAFKA_BROKERS_MAX) return;
    struct broker *broker = &client->brokers[client->broker_count++];
    size_t length =
        member->name.length < NAME_BYTES - 1 ? member->name.length : (size_t)NAME_BYTES - 1;
    memcpy(broker->name, member->name.bytes, length);
    mr_json_text(mr_json_get(value, "state"), &state);
    broker->connected = mr_text_is(state, "UP") || mr_text_is(state, "UPDATE");
    broker->round_trip_s = number_of(mr_json_get(value, "rtt"), "avg") / 1e6;
}

static void read_partitions(struct client *client, const struct mr_json_value *topic)
{
    struct mr_json_member partition = {0};
    while (mr_json_next(mr_json_get(topic, "partitions"), &partition)) {
        client->numbers[MESSAGES] += number_of(partition.value, "fetchq_cnt");
        client->numbers[BYTES] += number_of(partition.value, "fetchq_size");
    }
}

static void read_document(struct client *client, const struct mr_json_value *root)
{
    struct mr_json_member broker = {0}, topic = {0};
    client->known = true;
    client->numbers[MESSAGES] = number_of(root, "msg_cnt");
    client->numbers[BYTES] = number_of(root, "msg_size");
    while (mr_json_next(mr_json_get(root, "brokers"), &broker))
        read_broker(client, &broker);
    while (mr_json_next(mr_json_get(root, "topics"), &topic))
        read_partitions(client, topic.value);
}

void mr_kafka_stats_read(struct mr_kafka_stats *stats, enum mr_kafka_stats_client client,
                         struct mr_text json)
{
    static const struct mr_json_limits limits = {
        .bytes_max = (size_t)64 << 20, .values_max = 4000000, .depth_max = 16};
    struct mr_json *document = NULL;
    MR_ASSERT((unsigned)client < MR_KAFKA_STATS_CLIENTS);
    if (!stats || mr_json_parse_wide(&document, json, &limits, NULL) != MR_OK) return;
    struct client *read = calloc(1, sizeof *read);
    if (read) {
        read_document(read, mr_json_root(document));
        pthread_mutex_lock(&stats->mutex);
        stats->clients[client] = *read;
        pthread_mutex_unlock(&stats->mutex);
    }
    free(read);
    mr_json_destroy(document);
}

/* ---- printing ---- */

static const char *const client_names[MR_KAFKA_STATS_CLIENTS] = {"consumer", "producer",
                                                                 "transactions"};

static void put_sample(FILE *out, const char *name, unsigned client, const struct broker *broker,
                       double value)
{
    fprintf(out, "millrace_kafka_%s{", name);
    mr_metric_put_label(out, "client", client_names[client]);
    if (broker) fputc(',', out);
    if (broker) mr_metric_put_label(out, "broker", broker->name);
    fprintf(out, "} %.17g\n", value);
}

static void put_numbers(FILE *out, const struct mr_kafka_stats *stats)
{
    static const struct {
        const char *name, *full, *type, *help;
    } table[NUMBER_COUNT] = {
#define X(name, text, type, help) {text, "millrace_kafka_" text, type, help},
        NUMBER_LIST(X)
#undef X
    };
    for (unsigned i = 0; i < NUMBER_COUNT; i++) {
        mr_metric_put_head(out, table[i].full, table[i].type, table[i].help);
        for (unsigned c = 0; c < MR_KAFKA_STATS_CLIENTS; c++)
            if (stats->clients[c].known)
                put_sample(out, table[i].name, c, NULL, stats->clients[c].numbers[i]);
    }
}

static void put_brokers(FILE *out, const struct mr_kafka_stats *stats, bool connected)
{
    for (unsigned c = 0; c < MR_KAFKA_STATS_CLIENTS; c++) {
        const struct client *client = &stats->clients[c];
        for (unsigned i = 0; i < client->broker_count; i++) {
            const struct broker *broker = &client->brokers[i];
            if (connected)
                put_sample(out, "broker_connected", c, broker, broker->connected);
            else
                put_sample(out, "broker_round_trip_seconds", c, broker, broker->round_trip_s);
        }
    }
}

static void put_all(FILE *out, const void *all)
{
    const struct mr_kafka_stats *stats = all;
    mr_metric_put_head(out, "millrace_kafka_broker_connected", "gauge",
                       "1 while a Kafka client is connected to the broker; it connects only to "
                       "brokers that it needs.");
    put_brokers(out, stats, true);
    mr_metric_put_head(out, "millrace_kafka_broker_round_trip_seconds", "gauge",
                       "Mean time between a request to the broker and its answer over the last 5 "
                       "seconds, including fetches that wait for records.");
    put_brokers(out, stats, false);
    put_numbers(out, stats);
}

enum mr_status mr_kafka_stats_append(struct mr_kafka_stats *stats, char **text, size_t *length,
                                     struct mr_error *err)
{
    pthread_mutex_lock(&stats->mutex);
    enum mr_status status = mr_metric_append(text, length, put_all, stats, err);
    pthread_mutex_unlock(&stats->mutex);
    return status;
}
