/* produce - publishes the lines of stdin as records; a line is KEY, a tab, VALUE.
 *
 *     produce BROKERS TOPIC
 *
 * Waits during a restart of the broker, when kcat would exit. It is idempotent, so that no record
 * is lost or repeated. A killed broker can lose the state of an idempotent producer, which then
 * fails with a fatal error. A new producer sends the remaining records. Exits 1 if the broker did
 * not accept a record. */
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_MS 300000

struct record {
    struct record *next;
    size_t key_length, value_length;
    char bytes[]; /* the key, then the value */
};

struct reports {
    size_t failed;
    struct record *unaccepted,
        **last; /* records that the failed producer did not deliver, in their order */
};

static void die(const char *what)
{
    fprintf(stderr, "produce: %s\n", what);
    exit(1);
}

static void keep(struct reports *reports, const rd_kafka_message_t *message)
{
    struct record *record = malloc(sizeof *record + message->key_len + message->len);
    if (!record) die("out of memory");
    *record = (struct record){.key_length = message->key_len, .value_length = message->len};
    memcpy(record->bytes, message->key, message->key_len);
    memcpy(record->bytes + message->key_len, message->payload, message->len);
    *reports->last = record;
    reports->last = &record->next;
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    char reason[256];
    struct reports *reports = opaque;
    if (!message->err) return;
    if (rd_kafka_fatal_error(rk, reason, sizeof reason)) {
        keep(reports, message);
        return;
    }
    fprintf(stderr, "produce: %s\n", rd_kafka_err2str(message->err));
    reports->failed++;
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk, (void)code, (void)reason, (void)opaque; /* librdkafka recovers by itself */
}

static rd_kafka_t *open_producer(const char *brokers, struct reports *reports)
{
    static const char *const properties[][2] = {
        {"enable.idempotence", "true"},   {"partitioner", "murmur2_random"},
        {"message.timeout.ms", "300000"}, {"reconnect.backoff.max.ms", "1000"},
        {"message.max.bytes", "1000000"}, {"log_level", "0"}};
    char reason[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, reason, sizeof reason)) die(reason);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (rd_kafka_conf_set(conf, properties[i][0], properties[i][1], reason, sizeof reason))
            die(reason);
    rd_kafka_conf_set_opaque(conf, reports);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (!rk) die(reason);
    return rk;
}

/* False: the producer has had a fatal error. */
static bool send_record(rd_kafka_t *rk, const char *topic, const char *key, size_t key_length,
                        const char *value, size_t value_length)
{
    void *bytes = (void *)(uintptr_t)value; /* the callee copies it; its type has no const */
    for (;;) {
        rd_kafka_resp_err_t code = rd_kafka_producev(
            rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY(key, key_length), RD_KAFKA_V_VALUE(bytes, value_length), RD_KAFKA_V_END);
        if (!code) return true;
        if (code == RD_KAFKA_RESP_ERR__FATAL) return false;
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL) die(rd_kafka_err2str(code));
        rd_kafka_poll(rk, 100);
    }
}

struct sender {
    const char *brokers, *topic;
    rd_kafka_t *rk;
    struct reports reports;
};

/* Creates a new producer, which sends the records that the failed one did not deliver. */
static void replace_producer(struct sender *sender)
{
    char reason[256] = "";
    rd_kafka_fatal_error(sender->rk, reason, sizeof reason);
    rd_kafka_purge(sender->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_flush(sender->rk, FLUSH_MS);
    rd_kafka_destroy(sender->rk);
    struct record *record = sender->reports.unaccepted;
    sender->reports.unaccepted = NULL, sender->reports.last = &sender->reports.unaccepted;
    sender->rk = open_producer(sender->brokers, &sender->reports);
    size_t count = 0;
    while (record) {
        struct record *next = record->next;
        if (!send_record(sender->rk, sender->topic, record->bytes, record->key_length,
                         record->bytes + record->key_length, record->value_length))
            die("a second fatal error at once");
        free(record);
        record = next;
        count++;
    }
    fprintf(stderr, "produce: %s: %zu records sent again\n", reason, count);
}

static void send_line(struct sender *sender, const char *line, size_t length)
{
    const char *tab = memchr(line, '\t', length);
    if (!tab) die("a line without a tab");
    size_t key_length = (size_t)(tab - line);
    while (
        !send_record(sender->rk, sender->topic, line, key_length, tab + 1, length - key_length - 1))
        replace_producer(sender);
}

int main(int argc, char *argv[])
{
    size_t size = 0;
    char *line = NULL, reason[256];
    ssize_t length;
    if (argc != 3) die("produce BROKERS TOPIC");
    struct sender sender = {.brokers = argv[1], .topic = argv[2]};
    sender.reports.last = &sender.reports.unaccepted;
    sender.rk = open_producer(sender.brokers, &sender.reports);
    while ((length = getline(&line, &size, stdin)) > 0) {
        send_line(&sender, line, (size_t)length - (line[length - 1] == '\n'));
        rd_kafka_poll(sender.rk, 0);
    }
    free(line);
    bool done = !rd_kafka_flush(sender.rk, FLUSH_MS);
    while (rd_kafka_fatal_error(sender.rk, reason, sizeof reason)) {
        replace_producer(&sender);
        done = !rd_kafka_flush(sender.rk, FLUSH_MS);
    }
    rd_kafka_destroy(sender.rk);
    return !done || sender.reports.failed > 0;
}
