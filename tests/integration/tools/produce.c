/* produce - publishes the lines of stdin as records; a line is KEY, a tab, VALUE.
 *
 *     produce BROKERS TOPIC
 *
 * Waits for a broker that is restarted, where kcat would exit, and is idempotent, so that no record
 * is lost or repeated. Exits 1 when the broker did not accept a record. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_MS 300000

static void die(const char *what)
{
    fprintf(stderr, "produce: %s\n", what);
    exit(1);
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    (void)rk;
    size_t *failed = opaque;
    if (!message->err) return;
    fprintf(stderr, "produce: %s\n", rd_kafka_err2str(message->err));
    (*failed)++;
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk, (void)code, (void)reason, (void)opaque; /* librdkafka recovers by itself */
}

static rd_kafka_t *open_producer(const char *brokers, size_t *failed)
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
    rd_kafka_conf_set_opaque(conf, failed);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (!rk) die(reason);
    return rk;
}

static void send_line(rd_kafka_t *rk, const char *topic, const char *line, size_t length)
{
    const char *tab = memchr(line, '\t', length);
    if (!tab) die("a line without a tab");
    size_t key_length = (size_t)(tab - line), value_length = length - key_length - 1;
    void *value = (void *)(uintptr_t)(tab + 1); /* the callee copies it; its type has no const */
    for (;;) {
        rd_kafka_resp_err_t code =
            rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_KEY(line, key_length),
                              RD_KAFKA_V_VALUE(value, value_length), RD_KAFKA_V_END);
        if (!code) return;
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL) die(rd_kafka_err2str(code));
        rd_kafka_poll(rk, 100);
    }
}

int main(int argc, char *argv[])
{
    size_t failed = 0, size = 0;
    char *line = NULL;
    ssize_t length;
    if (argc != 3) die("produce BROKERS TOPIC");
    rd_kafka_t *rk = open_producer(argv[1], &failed);
    while ((length = getline(&line, &size, stdin)) > 0) {
        send_line(rk, argv[2], line, (size_t)length - (line[length - 1] == '\n'));
        rd_kafka_poll(rk, 0);
    }
    free(line);
    if (rd_kafka_flush(rk, FLUSH_MS)) failed++;
    rd_kafka_destroy(rk);
    return failed > 0;
}
