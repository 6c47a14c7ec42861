#include "worker/client/client.h"

#include "worker/base/clock.h"
#include "worker/config/topics.h"
#include "worker/kafka/header_names.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_outage.h"
#include "worker/kafka/kafka_reader.h"

#include <stdlib.h>
#include <string.h>

#define SEND_TIMEOUT_MS    30000u
#define RECORD_ARENA_BYTES ((size_t)64 << 20)
#define LINGER_NS          ((uint64_t)1000000)
#define ASK_TIMEOUT_MS     500u
#define FLUSH_MS           500u

struct mr_client {
    const struct mr_config *config;
    struct mr_kafka_options kafka;
    struct mr_kafka_out *out;
    struct mr_kafka_reader *reader; /* NULL: this client reads no records */
    struct mr_arena *arena;         /* memory of the event that mr_client_take returned last */
    struct mr_error failure; /* the error of the first record that the broker did not accept */
    uint32_t send_timeout_ms;
    struct mr_kafka_outage outage;
    FILE *notices;                /* NULL: none */
    struct mr_client_place place; /* of the last record that the broker acknowledged */
};

/* A topic that is unknown, or that this client may not write to, is not a usage error of the
 * command. */
static enum mr_status not_usage(enum mr_status status)
{
    return status == MR_BAD_CONFIG ? MR_BACKEND : status;
}

static void on_placed(void *context, void *opaque, int32_t partition, int64_t offset)
{
    (void)opaque;
    struct mr_client *client = context;
    client->place = (struct mr_client_place){partition, offset};
}

static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    (void)opaque;
    struct mr_client *client = context;
    if (status != MR_OK && client->failure.status == MR_OK)
        mr_fail(&client->failure, not_usage(status), "the broker did not accept the record: %s",
                reason);
}

/* Creates the topics that are missing; clients do not use the dead-letter topic. */
static enum mr_status create_topics(struct mr_client *client, struct mr_kafka_admin *admin,
                                    uint32_t timeout_ms, struct mr_error *err)
{
    struct mr_topic topic;
    uint32_t count = 0;
    enum mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && mr_topics_at(client->config, i, &topic); i++)
        if (topic.role != MR_TOPIC_DLQ)
            status = mr_kafka_admin_ensure(admin, topic.name, timeout_ms, &count, err);
    return status;
}

/* remedy: advice to the user if the topic is missing. */
static enum mr_status need_topic(struct mr_kafka_admin *admin, const char *name, const char *remedy,
                                 uint32_t timeout_ms, struct mr_error *err)
{
    uint32_t count = 0;
    enum mr_status status = mr_kafka_admin_partitions(admin, name, timeout_ms, &count, err);
    if (status != MR_OK || count > 0) return status;
    return mr_fail(err, MR_BACKEND, "topic %.100s does not exist: %s", name, remedy);
}

static enum mr_status need_topics(struct mr_client *client, struct mr_kafka_admin *admin,
                                  const struct mr_client_options *options, struct mr_error *err)
{
    static const char fleet[] = "check --prefix, start a worker, or run millrace topics create";
    static const char given[] = "check the name, and --brokers for the cluster";
    const struct mr_config *config = client->config;
    const uint32_t timeout_ms = options->timeout_ms;
    enum mr_status status = MR_OK;
    if (options->requests)
        status = need_topic(admin, config->request_topics[0].name, fleet, timeout_ms, err);
    if (status == MR_OK && options->reads)
        status = need_topic(admin, config->tokens_topic, fleet, timeout_ms, err);
    if (status == MR_OK && options->reads)
        status = need_topic(admin, config->results_topic, fleet, timeout_ms, err);
    if (options->requests || options->reads) return status;
    if (options->needs) return need_topic(admin, options->needs, given, timeout_ms, err);
    return need_topic(admin, config->cancel_topic, fleet, timeout_ms, err);
}

static enum mr_status connect_broker(struct mr_client *client,
                                     const struct mr_client_options *options, struct mr_error *err)
{
    struct mr_kafka_admin *admin = NULL;
    enum mr_status status = mr_kafka_admin_open(&admin, &client->kafka, err);
    if (status != MR_OK) return status;
    status = mr_kafka_admin_probe(admin, options->timeout_ms, &client->kafka.embedded, err);
    if (status == MR_OK)
        status = options->creates ? create_topics(client, admin, options->timeout_ms, err)
                                  : need_topics(client, admin, options, err);
    mr_kafka_admin_close(admin);
    return status;
}

static enum mr_status open_reader(struct mr_client *client, const struct mr_client_options *options,
                                  struct mr_error *err)
{
    const char *topics[] = {client->config->tokens_topic, client->config->results_topic};
    struct mr_kafka_reader_options reader = {
        .kafka = &client->kafka,
        .topics = topics,
        .topic_count = 2,
        .from = options->from_beginning ? MR_KAFKA_FROM_BEGINNING : MR_KAFKA_FROM_END,
        .timeout_ms = options->timeout_ms};
    return mr_kafka_reader_create(&client->reader, &reader, err);
}

/* Requests the metadata of the topic that the client will write to. Without this a record produced
 * while the producer connects may miss the first metadata answer, and then waits a second for the
 * next one. Errors are ignored: the record's delivery report has the reason. */
static void prime(struct mr_client *client, const struct mr_client_options *options)
{
    const char *topic = options->requests ? client->config->request_topics[0].name
                        : !options->reads && !options->needs ? client->config->cancel_topic
                                                             : NULL;
    if (topic) (void)mr_kafka_out_prime(client->out, topic, options->timeout_ms, NULL);
}

static void on_failed(void *context, bool unreachable, const char *reason)
{
    struct mr_client *client = context;
    mr_kafka_outage_note(&client->outage, unreachable, reason, mr_clock_ns());
}

static void on_log(void *context, enum mr_log_level level, const char *text)
{
    const struct mr_client *client = context;
    (void)level;
    fprintf(client->notices, "%s\n", text);
}

/* With `--kafka debug=...` librdkafka's log lines are printed too. */
static void watch_connection(struct mr_client *client)
{
    const struct mr_text_list *properties = client->kafka.properties;
    client->kafka.failed = on_failed;
    client->kafka.log_context = client;
    for (size_t i = 0; client->notices && i < properties->count; i++)
        if (strncmp(properties->values[i], "debug=", 6) == 0) client->kafka.log = on_log;
}

enum mr_status mr_client_open(struct mr_client **out, const struct mr_client_options *options,
                              struct mr_error *err)
{
    *out = NULL;
    struct mr_client *client = calloc(1, sizeof *client);
    if (!client) return mr_fail(err, MR_NOMEM, "no memory for a client");
    client->config = options->config;
    client->send_timeout_ms =
        options->send_timeout_ms > 0 ? options->send_timeout_ms : SEND_TIMEOUT_MS;
    client->kafka = (struct mr_kafka_options){
        .brokers = options->brokers ? options->brokers : options->config->brokers,
        .client_id = "millrace-client",
        .properties = &options->config->kafka,
        .linger_ns = LINGER_NS};
    client->place.offset = -1;
    client->notices = options->notices;
    mr_kafka_outage_open(&client->outage);
    watch_connection(client);
    enum mr_status status = mr_kafka_conf_check(&client->kafka, err);
    if (status == MR_OK) status = connect_broker(client, options, err);
    if (status == MR_OK && options->reads) status = open_reader(client, options, err);
    struct mr_kafka_out_options producer = {
        .kafka = &client->kafka, .reported = on_reported, .placed = on_placed, .context = client};
    if (status == MR_OK) status = mr_kafka_out_create(&client->out, &producer, err);
    if (status != MR_OK) {
        mr_client_close(client);
        return status;
    }
    prime(client, options);
    *out = client;
    return MR_OK;
}

void mr_client_close(struct mr_client *client)
{
    if (!client) return;
    mr_arena_destroy(client->arena);
    mr_kafka_reader_destroy(client->reader);
    mr_kafka_out_destroy(client->out);
    mr_kafka_outage_close(&client->outage);
    free(client);
}

struct mr_client_place mr_client_last_place(const struct mr_client *client)
{
    return client->place;
}

const struct mr_kafka_options *mr_client_kafka(const struct mr_client *client)
{
    return &client->kafka;
}

static void watch_outage(struct mr_client *client)
{
    double seconds;
    char reason[MR_KAFKA_OUTAGE_REASON_BYTES];
    if (!mr_kafka_outage_must_ask(&client->outage, mr_clock_ns())) return;
    bool answers = mr_kafka_out_answers(client->out, ASK_TIMEOUT_MS);
    enum mr_kafka_outage_change change =
        mr_kafka_outage_answer(&client->outage, answers, mr_clock_ns(), &seconds, reason);
    if (!client->notices) return;
    if (change == MR_KAFKA_OUTAGE_BEGAN)
        fprintf(client->notices, "millrace: broker away: %s; waiting\n", reason);
    if (change == MR_KAFKA_OUTAGE_ENDED) fputs("millrace: the broker is back\n", client->notices);
}

enum mr_status mr_client_health(struct mr_client *client, struct mr_error *err)
{
    mr_kafka_out_serve(client->out, 0);
    watch_outage(client);
    return client->reader ? mr_kafka_reader_failure(client->reader, ASK_TIMEOUT_MS, err) : MR_OK;
}

enum mr_status mr_client_publish(struct mr_client *client, const struct mr_kafka_record *record,
                                 struct mr_error *err)
{
    enum mr_status status;
    while ((status = mr_kafka_out_produce(client->out, record, NULL, err)) == MR_FULL) {
        mr_kafka_out_serve(client->out, 100);
        watch_outage(client);
    }
    mr_kafka_out_serve(client->out, 0);
    return not_usage(status);
}

enum mr_status mr_client_flush(struct mr_client *client, uint32_t timeout_ms, struct mr_error *err)
{
    uint64_t until_ns = mr_clock_ns() + (uint64_t)timeout_ms * 1000000, now_ns;
    enum mr_status status = mr_kafka_out_flush(client->out, 0);
    while (status != MR_OK && (now_ns = mr_clock_ns()) < until_ns) {
        uint32_t left_ms = mr_clock_left_ms(now_ns, until_ns);
        status = mr_kafka_out_flush(client->out, left_ms < FLUSH_MS ? left_ms : FLUSH_MS);
        if (status != MR_OK) watch_outage(client);
    }
    if (status != MR_OK)
        return mr_fail(err, MR_UNREACHABLE, "the broker did not acknowledge all records in time");
    if (client->failure.status != MR_OK && err) *err = client->failure;
    return client->failure.status;
}

enum mr_status mr_client_request_async(struct mr_client *client, const char *topic,
                                       struct mr_text id, struct mr_text value,
                                       enum mr_encoding encoding, struct mr_error *err)
{
    const char *type = mr_encoding_content_type(encoding);
    struct mr_kafka_header header = {MR_HEADER_CONTENT_TYPE, type, strlen(type)};
    struct mr_kafka_record record = {.topic = topic,
                                     .partition = -1,
                                     .key = id,
                                     .value = value,
                                     .headers = &header,
                                     .header_count = 1};
    return mr_client_publish(client, &record, err);
}

enum mr_status mr_client_request(struct mr_client *client, const char *topic, struct mr_text id,
                                 struct mr_text value, enum mr_encoding encoding,
                                 struct mr_error *err)
{
    enum mr_status status = mr_client_request_async(client, topic, id, value, encoding, err);
    return status == MR_OK ? mr_client_flush(client, client->send_timeout_ms, err) : status;
}

enum mr_status mr_client_cancel(struct mr_client *client, struct mr_text id, struct mr_error *err)
{
    struct mr_kafka_record record = {
        .topic = client->config->cancel_topic, .partition = -1, .key = id, .value = {"cancel", 6}};
    enum mr_status status = mr_client_publish(client, &record, err);
    return status == MR_OK ? mr_client_flush(client, client->send_timeout_ms, err) : status;
}

/* ---- reading ---- */

static enum mr_status decode(struct mr_client *client, struct mr_client_event *event)
{
    const struct mr_kafka_header *type =
        mr_kafka_record_header(&event->record, MR_HEADER_CONTENT_TYPE);
    struct mr_text content_type = {0};
    if (type && type->value) content_type = (struct mr_text){type->value, type->length};
    enum mr_status status =
        mr_encoding_detect(content_type, event->record.value, &event->encoding, NULL);
    if (status != MR_OK) return status;
    bool tokens = strcmp(event->record.topic, client->config->tokens_topic) == 0;
    event->kind = tokens ? MR_CLIENT_TOKENS : MR_CLIENT_RESULT;
    return tokens ? mr_token_record_decode(&event->tokens, event->record.value, event->encoding,
                                           client->arena, NULL)
                  : mr_result_decode(&event->result, event->record.value, event->encoding,
                                     client->arena, NULL);
}

bool mr_client_take(struct mr_client *client, uint32_t timeout_ms, struct mr_client_event *event)
{
    mr_arena_destroy(client->arena);
    client->arena = NULL;
    *event = (struct mr_client_event){0};
    if (!mr_kafka_reader_take(client->reader, timeout_ms, &event->record)) return false;
    client->arena = mr_arena_create(RECORD_ARENA_BYTES);
    event->id = event->record.key;
    if (!client->arena || decode(client, event) != MR_OK) event->kind = MR_CLIENT_OTHER;
    return true;
}
