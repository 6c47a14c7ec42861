#include "worker/kafka/kafka_out.h"

#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_errors.h"
#include "worker/kafka/kafka_lookup.h"

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PRIME_TIMEOUT_MS  30000u /* the brokers have answered before: one may be restarting */
#define STATS_INTERVAL_MS "5000" /* the same as the consumer's: kafka_conf.c */
/* most bytes of keys and headers without a report; librdkafka counts only the bytes of values */
#define EXTRA_BYTES_MAX ((size_t)64 << 20)

struct mr_kafka_out {
    /* must be the first field: callbacks in kafka_conf.c read it */
    const struct mr_kafka_options *kafka;
    struct mr_kafka_out_options options;
    rd_kafka_t *rk;
    rd_kafka_queue_t *reports;
    struct mr_kafka_lookup *lookup;
    atomic_bool attending; /* delivery reports ring options.wake */
    uint32_t served;       /* delivery reports handled since _create */
    size_t extra_bytes;    /* bytes of the keys and headers of records without a report */
    bool closing;
};

/* Bytes of the key and headers of a record to produce, and of a reported record. */
static size_t extra_bytes(const struct mr_kafka_record *record)
{
    size_t bytes = record->key.length;
    for (size_t i = 0; i < record->header_count && i < MR_KAFKA_HEADERS_MAX; i++)
        bytes += strlen(record->headers[i].name) + record->headers[i].length;
    return bytes;
}

static size_t reported_extra_bytes(const rd_kafka_message_t *message)
{
    size_t bytes = message->key_len, length;
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return bytes;
    for (size_t i = 0; !rd_kafka_header_get_all(headers, i, &name, &value, &length); i++)
        bytes += strlen(name) + length;
    return bytes;
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    (void)rk;
    struct mr_kafka_out *out = opaque;
    const size_t bytes = reported_extra_bytes(message);
    /* a plugin of librdkafka may have added headers */
    out->extra_bytes -= bytes < out->extra_bytes ? bytes : out->extra_bytes;
    out->served++;
    if (out->closing) return;
    if (!message->err && out->options.placed)
        out->options.placed(out->options.context, message->_private, message->partition,
                            message->offset < 0 ? -1 : message->offset);
    out->options.reported(out->options.context, message->_private, mr_kafka_status(message->err),
                          message->err ? rd_kafka_err2str(message->err) : "");
}

/* librdkafka calls it from rd_kafka_poll, on the owner's thread. */
static int on_stats(rd_kafka_t *rk, char *json, size_t length, void *opaque)
{
    const struct mr_kafka_out *out = opaque;
    enum mr_kafka_stats_client client =
        out->options.transactional_id ? MR_KAFKA_STATS_TRANSACTIONS : MR_KAFKA_STATS_PRODUCER;
    (void)rk;
    mr_kafka_stats_read(out->kafka->stats, client, (struct mr_text){json, length});
    return 0; /* librdkafka frees the text */
}

/* librdkafka calls this on its own threads, under the queue's lock, when something arrives in the
 * empty queue of reports. So after mr_kafka_out_attend(out, true) either this callback rings the
 * wake, or the queue is not empty. */
static void on_event(rd_kafka_t *rk, void *opaque)
{
    const struct mr_kafka_out *out = opaque;
    (void)rk;
    if (atomic_load(&out->attending)) mr_wake_ring(out->options.wake);
}

static void ask_for_stats(rd_kafka_conf_t *conf, const struct mr_kafka_out_options *options)
{
    if (!options->kafka->stats) return;
    rd_kafka_conf_set(conf, "statistics.interval.ms", STATS_INTERVAL_MS, NULL, 0);
    rd_kafka_conf_set_stats_cb(conf, on_stats);
}

enum mr_status mr_kafka_out_create(struct mr_kafka_out **out,
                                   const struct mr_kafka_out_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_out *made = calloc(1, sizeof *made);
    if (!made) return mr_fail(err, MR_NOMEM, "no memory for a producer");
    made->options = *options;
    made->kafka = options->kafka;
    rd_kafka_conf_t *conf = NULL;
    enum mr_kafka_role role = options->transactional_id ? MR_KAFKA_TRANSACTOR : MR_KAFKA_PRODUCER;
    enum mr_status status = mr_kafka_conf_create(&conf, role, options->kafka, made, err);
    if (status != MR_OK) goto fail;
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    ask_for_stats(conf, options);
    if (options->transactional_id)
        rd_kafka_conf_set(conf, "transactional.id", options->transactional_id, NULL, 0);
    status = mr_kafka_conf_open(&made->rk, conf, role, err);
    if (status != MR_OK) goto fail;
    struct mr_kafka_lookup_options lookup = {.kafka = options->kafka,
                                             .answered = options->wake,
                                             .keep_ns = MR_KAFKA_LOOKUP_KEEP_NS,
                                             .keep_missing_ns = MR_KAFKA_LOOKUP_KEEP_MISSING_NS};
    status = mr_kafka_lookup_create(&made->lookup, &lookup, err);
    if (status != MR_OK) goto fail_handle;
    made->reports = rd_kafka_queue_get_main(made->rk);
    atomic_init(&made->attending, true);
    if (options->wake) rd_kafka_queue_cb_event_enable(made->reports, on_event, made);
    *out = made;
    return MR_OK;
fail_handle:
    mr_kafka_conf_close(made->rk, false);
fail:
    free(made);
    return status;
}

void mr_kafka_out_destroy(void *self)
{
    struct mr_kafka_out *out = self;
    if (!out) return;
    out->closing = true;
    mr_kafka_lookup_destroy(out->lookup);
    rd_kafka_queue_cb_event_enable(out->reports, NULL, NULL);
    rd_kafka_purge(out->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    /* runs the callbacks for the delivery reports of the dropped records */
    rd_kafka_flush(out->rk, 1000);
    rd_kafka_queue_destroy(out->reports);
    mr_kafka_conf_close(out->rk, false);
    free(out);
}

enum mr_status mr_kafka_out_partitions(void *self, const char *topic, uint32_t *count,
                                       struct mr_error *err)
{
    struct mr_kafka_out *out = self;
    return mr_kafka_lookup_query(out->lookup, topic, count, err);
}

enum mr_status mr_kafka_out_prime(struct mr_kafka_out *out, const char *topic, uint32_t timeout_ms,
                                  struct mr_error *err)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(out->rk, topic, NULL);
    if (!handle)
        return mr_fail(err, MR_BAD_CONFIG, "topic %s: %s", topic,
                       rd_kafka_err2str(rd_kafka_last_error()));
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(out->rk, 0, handle, &metadata, (int)timeout_ms);
    if (!code && metadata->topic_cnt == 1) code = metadata->topics[0].err;
    if (metadata) rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(handle);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return MR_OK;
    return mr_fail(err, mr_kafka_status(code), "topic %s: %s", topic, rd_kafka_err2str(code));
}

/* Returns one argument for rd_kafka_produceva. librdkafka declares the pointer without const. */
static rd_kafka_vu_t memory_argument(rd_kafka_vtype_t type, struct mr_text text)
{
    rd_kafka_vu_t argument = {.vtype = type};
    argument.u.mem.ptr = (void *)(uintptr_t)text.bytes;
    argument.u.mem.size = text.length;
    return argument;
}

enum mr_status mr_kafka_out_produce(void *self, const struct mr_kafka_record *record, void *opaque,
                                    struct mr_error *err)
{
    struct mr_kafka_out *out = self;
    rd_kafka_vu_t arguments[6 + MR_KAFKA_HEADERS_MAX];
    size_t count = 0;
    if (out->extra_bytes >= EXTRA_BYTES_MAX)
        return mr_fail(err, MR_FULL,
                       "produce to %s: too many bytes of keys and headers wait for the broker",
                       record->topic);
    arguments[count++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = record->topic};
    arguments[count++] =
        (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY};
    arguments[count++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = opaque};
    arguments[count++] = memory_argument(RD_KAFKA_VTYPE_KEY, record->key);
    arguments[count++] = memory_argument(RD_KAFKA_VTYPE_VALUE, record->value);
    if (record->partition >= 0)
        arguments[count++] =
            (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = record->partition};
    for (size_t i = 0; i < record->header_count && i < MR_KAFKA_HEADERS_MAX; i++) {
        const struct mr_kafka_header *header = &record->headers[i];
        arguments[count].vtype = RD_KAFKA_VTYPE_HEADER;
        arguments[count].u.header.name = header->name;
        arguments[count].u.header.val = header->value;
        arguments[count++].u.header.size = (ssize_t)header->length;
    }
    rd_kafka_error_t *error = rd_kafka_produceva(out->rk, arguments, count);
    if (!error) {
        out->extra_bytes += extra_bytes(record);
        return MR_OK;
    }
    enum mr_status status = mr_kafka_status(rd_kafka_error_code(error));
    if (rd_kafka_fatal_error(out->rk, NULL, 0)) status = MR_BACKEND;
    mr_fail(err, status, "produce to %s: %s", record->topic, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return status;
}

uint32_t mr_kafka_out_serve(struct mr_kafka_out *out, uint32_t timeout_ms)
{
    uint32_t before = out->served;
    rd_kafka_poll(out->rk, (int)timeout_ms);
    return out->served - before;
}

bool mr_kafka_out_attend(void *self, bool on)
{
    struct mr_kafka_out *out = self;
    atomic_store(&out->attending, on);
    return on && rd_kafka_queue_length(out->reports) > 0;
}

enum mr_status mr_kafka_out_flush(struct mr_kafka_out *out, uint32_t timeout_ms)
{
    rd_kafka_resp_err_t code = rd_kafka_flush(out->rk, (int)timeout_ms);
    return code ? MR_TIMEOUT : MR_OK;
}

bool mr_kafka_out_answers(struct mr_kafka_out *out, uint32_t timeout_ms)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(out->rk, 0, NULL, &metadata, (int)timeout_ms);
    if (metadata) rd_kafka_metadata_destroy(metadata);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR;
}

uint32_t mr_kafka_out_pending(void *self)
{
    struct mr_kafka_out *out = self;
    return (uint32_t)rd_kafka_outq_len(out->rk);
}

struct rd_kafka_s *mr_kafka_out_handle(struct mr_kafka_out *out)
{
    return out->rk;
}

enum mr_status mr_kafka_out_fatal(void *self, struct mr_error *err)
{
    struct mr_kafka_out *out = self;
    char reason[256];
    if (!rd_kafka_fatal_error(out->rk, reason, sizeof reason)) return MR_OK;
    return mr_fail(err, MR_BACKEND, "producer: %s", reason);
}

/* ---- the port ---- */

static void port_serve(void *self)
{
    mr_kafka_out_serve(self, 0);
}

struct mr_producer_port mr_kafka_out_port(struct mr_kafka_out *out)
{
    return (struct mr_producer_port){.self = out,
                                     .produce = mr_kafka_out_produce,
                                     .serve = port_serve,
                                     .attend = mr_kafka_out_attend,
                                     .pending = mr_kafka_out_pending,
                                     .partitions = mr_kafka_out_partitions,
                                     .fatal = mr_kafka_out_fatal,
                                     .close = mr_kafka_out_destroy};
}

static enum mr_status open_port(void *context, const struct mr_producer_user *user,
                                struct mr_producer_port *port, struct mr_error *err)
{
    struct mr_kafka_out_options options = {
        .kafka = context, .wake = user->wake, .reported = user->reported, .context = user->context};
    struct mr_kafka_out *out = NULL;
    enum mr_status status = mr_kafka_out_create(&out, &options, err);
    for (size_t i = 0; i < user->topic_count && status == MR_OK; i++)
        status = mr_kafka_out_prime(out, user->topics[i], PRIME_TIMEOUT_MS, err);
    if (status != MR_OK) {
        mr_kafka_out_destroy(out);
        return status;
    }
    *port = mr_kafka_out_port(out);
    return MR_OK;
}

struct mr_producer_opener mr_kafka_out_opener(const struct mr_kafka_options *kafka)
{
    return (struct mr_producer_opener){(void *)(uintptr_t)kafka, open_port};
}
