#include "worker/gateway/link.h"

#include "codec/openai/answer.h"
#include "codec/openai/copy.h"
#include "codec/wire/document.h"
#include "worker/base/clock.h"
#include "worker/gateway/keys.h"
#include "worker/gateway/respond.h"
#include "worker/kafka/header_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#define OPEN_MS       10000u
#define RECORDS_MAX   256u /* read in a step before connections are resumed */
#define EVENTS_MAX    64
#define SCAN_NS       ((uint64_t)500000000)
#define PROBE_NS      ((uint64_t)5000000000)
#define SCRATCH_BYTES ((size_t)128 << 20)

/* ---- publishing ---- */

/* Header value of kafka_replyPartition. */
static void put_partition(unsigned char bytes[4], uint32_t partition)
{
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(partition >> (24 - 8 * i));
}

static void add(struct mr_kafka_record *record, struct mr_kafka_header *headers, const char *name,
                const void *value, size_t length)
{
    headers[record->header_count++] = (struct mr_kafka_header){name, value, length};
}

static enum mr_status publish(struct mr_link *link, struct mr_exchange *exchange,
                              struct mr_error *err)
{
    unsigned char partition[4];
    char deadline[24];
    struct mr_kafka_header headers[6];
    struct mr_kafka_record record = {.topic = exchange->topic,
                                     .partition = -1,
                                     .key = {exchange->record_key, strlen(exchange->record_key)},
                                     .value = {exchange->record, exchange->record_length},
                                     .headers = headers};
    put_partition(partition, link->reply_partition);
    add(&record, headers, MR_HEADER_CONTENT_TYPE, "application/json", 16);
    add(&record, headers, MR_HEADER_REPLY_TOPIC, link->reply_topic, strlen(link->reply_topic));
    add(&record, headers, MR_HEADER_REPLY_PARTITION, partition, sizeof partition);
    if (exchange->is_stream)
        add(&record, headers, MR_HEADER_REPLY, MR_HEADER_REPLY_TOKENS,
            strlen(MR_HEADER_REPLY_TOKENS));
    if (exchange->deadline_ms > 0) {
        snprintf(deadline, sizeof deadline, "%lld", (long long)exchange->deadline_ms);
        add(&record, headers, MR_HEADER_DEADLINE, deadline, strlen(deadline));
    }
    if (exchange->trace_parent[0])
        add(&record, headers, MR_HEADER_TRACE_PARENT, exchange->trace_parent,
            strlen(exchange->trace_parent));
    return mr_kafka_out_produce(link->out, &record, (void *)(uintptr_t)exchange->serial, err);
}

static void cancel(struct mr_link *link, const struct mr_exchange *exchange)
{
    struct mr_kafka_header header;
    struct mr_kafka_record record = {.topic = link->cancel_topic,
                                     .partition = -1,
                                     .key = {exchange->id, strlen(exchange->id)},
                                     .value = {"cancel", 6},
                                     .headers = &header};
    if (!exchange->is_published) return;
    if (exchange->key && exchange->key->tenant[0])
        add(&record, &header, MR_HEADER_TENANT, exchange->key->tenant,
            strlen(exchange->key->tenant));
    if (mr_kafka_out_produce(link->out, &record, NULL, NULL) == MR_OK)
        mr_gateway_count(link->counts, MR_GATEWAY_CANCELLED, 1);
}

/* Sends a request that workers reject at once, to find out that there is one and its model. */
static void probe(struct mr_link *link, uint64_t now_ns)
{
    char value[128];
    struct mr_exchange exchange = {.topic = link->requests_topic, .record = value};
    if (now_ns < link->probe_ns || !mr_fleet_wants_probe(link->fleet, now_ns)) return;
    link->probe_ns = now_ns + PROBE_NS;
    const int length =
        snprintf(value, sizeof value, "{\"id\":\"%s-%llu\",\"prompt\":\"\",\"stream\":false}",
                 link->probe_id, (unsigned long long)now_ns);
    exchange.record_length = (size_t)length;
    snprintf(exchange.record_key, sizeof exchange.record_key, "%s", link->probe_id);
    (void)publish(link, &exchange, NULL);
}

/* ---- ends ---- */

struct search {
    uint64_t serial;
    struct mr_exchange *found;
};

static void match(void *context, struct mr_hash_entry *entry)
{
    struct search *search = context;
    struct mr_exchange *exchange = MR_HASH_ITEM(entry, struct mr_exchange, hash);
    if (exchange->serial == search->serial) search->found = exchange;
}

/* The exchange in the table with this serial number; NULL: none. */
static struct mr_exchange *find_serial(struct mr_link *link, uint64_t serial)
{
    struct search search = {.serial = serial};
    pthread_mutex_lock(&link->exchanges->lock);
    mr_hash_table_each(&link->exchanges->table, match, &search);
    pthread_mutex_unlock(&link->exchanges->lock);
    return search.found;
}

/* Delivery report of a record; opaque: the serial number of an exchange, NULL: a cancel record. */
static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    struct mr_link *link = context;
    if (status == MR_OK || !opaque) return;
    struct mr_exchange *exchange = find_serial(link, (uintptr_t)opaque);
    if (!exchange) return;
    mr_log_warn(link->log, "request not written to Kafka: %s", reason);
    (void)mr_respond_error(link, exchange, "overloaded",
                           "the request could not be written to Kafka", 503);
    mr_exchanges_remove(link->exchanges, exchange);
}

/* The client is gone: the request is cancelled, unless the client may come back for it. */
static void leave(struct mr_link *link, struct mr_exchange *exchange)
{
    if (exchange->is_removed) return; /* the socket's event came first */
    pthread_mutex_lock(&link->exchanges->lock);
    exchange->is_left = true;
    mr_exchange_rouse(&link->resumes, exchange);
    pthread_mutex_unlock(&link->exchanges->lock);
    if (exchange->is_idempotent) return;
    cancel(link, exchange);
    mr_exchanges_remove(link->exchanges, exchange);
}

/* ---- posted exchanges ---- */

static void submit(struct mr_link *link, struct mr_exchange *exchange)
{
    struct mr_error err = {0};
    const enum mr_status status = publish(link, exchange, &err);
    exchange->is_published = true;
    if (status == MR_OK) {
        mr_gateway_count(link->counts, MR_GATEWAY_PUBLISHED, 1);
        if (exchange->is_idempotent) return; /* its record is compared with that of a retry */
        free(exchange->record);
        exchange->record = NULL;
        return;
    }
    if (status == MR_RECORD_TOO_LARGE)
        (void)mr_respond_error(link, exchange, "record_too_large",
                               "the request is larger than Kafka takes", 0);
    else
        (void)mr_respond_error(link, exchange, "overloaded",
                               "the request could not be written to Kafka", 503);
    if (status != MR_FULL) mr_log_warn(link->log, "request not written to Kafka: %s", err.detail);
    mr_exchanges_remove(link->exchanges, exchange);
}

static void take_posted(struct mr_link *link)
{
    struct mr_exchange *exchange;
    while ((exchange = mr_exchanges_take(link->exchanges))) {
        pthread_mutex_lock(&link->exchanges->lock);
        const bool left = exchange->is_left, replaced = exchange->is_replaced;
        const bool done = exchange->is_done;
        pthread_mutex_unlock(&link->exchanges->lock);
        if (replaced)
            mr_exchanges_remove(link->exchanges, exchange);
        else if (left && !done && (exchange->is_published || !exchange->is_idempotent))
            leave(link, exchange);
        else if (!exchange->is_published && !exchange->is_removed)
            submit(link, exchange);
        mr_exchange_drop(link->exchanges, exchange);
    }
}

/* ---- records ---- */

static void end_of_result(struct mr_link *link, struct mr_exchange *exchange,
                          struct mr_value result)
{
    struct mr_value usage;
    const uint64_t now_ns = mr_clock_ns();
    uint64_t tokens = 0;
    if (mr_openai_get(result, "usage", &usage))
        tokens = (uint64_t)mr_openai_get_int(usage, "total_tokens", 0);
    mr_gateway_count(link->counts, MR_GATEWAY_TOKENS, tokens);
    mr_gateway_observe(link->counts, 0, now_ns - exchange->start_ns);
    if (exchange->key) mr_key_charge(exchange->key, tokens);
    (void)mr_respond_result(link, exchange, result);
    mr_exchanges_remove(link->exchanges, exchange);
}

static void tokens_of(struct mr_link *link, struct mr_exchange *exchange, struct mr_value record)
{
    bool is_cut = false;
    mr_gateway_count(link->counts, MR_GATEWAY_TOKEN_RECORDS, 1);
    if (!exchange->has_token)
        mr_gateway_observe(link->counts, mr_clock_ns() - exchange->start_ns, 0);
    exchange->has_token = true;
    if (mr_respond_tokens(link, exchange, record, &is_cut)) return;
    if (is_cut) cancel(link, exchange);
    mr_exchanges_remove(link->exchanges, exchange);
}

static void take_record(struct mr_link *link, const struct mr_kafka_record *record)
{
    struct mr_document *document = NULL;
    struct mr_text model = {0};
    const bool is_result = mr_kafka_record_header(record, MR_HEADER_FINISH_REASON) != NULL;
    /* librdkafka may deliver a record again after it has lost its connection */
    if (record->offset < link->next_offset || !record->key.bytes) return;
    link->next_offset = record->offset + 1;
    const size_t probe_length = strlen(link->probe_id);
    const bool is_probe = record->key.length >= probe_length &&
                          memcmp(record->key.bytes, link->probe_id, probe_length) == 0;
    struct mr_exchange *exchange =
        is_probe ? NULL : mr_exchanges_find(link->exchanges, record->key);
    if (!exchange && !is_probe) {
        mr_gateway_count(link->counts, MR_GATEWAY_FOREIGN, 1);
        return;
    }
    if (mr_document_open(&document, record->value, MR_ENCODING_JSON, NULL) != MR_OK) return;
    const struct mr_value root = mr_document_root(document);
    const bool is_answer = mr_openai_is_answer(root); /* false: not a worker's record */
    if (is_answer && is_result) (void)mr_openai_get_text(root, "model", &model);
    if (is_answer) mr_fleet_note(link->fleet, model, mr_clock_ns());
    if (is_answer && exchange && is_result)
        end_of_result(link, exchange, root);
    else if (is_answer && exchange)
        tokens_of(link, exchange, root);
    mr_document_close(document);
}

/* ---- timers ---- */

struct scan {
    struct mr_link *link;
    uint64_t now_ns;
    struct mr_exchange *due[RECORDS_MAX]; /* each with a reference */
    size_t count;
};

static void collect(void *context, struct mr_hash_entry *entry)
{
    struct scan *scan = context;
    struct mr_exchange *exchange = MR_HASH_ITEM(entry, struct mr_exchange, hash);
    const bool comments =
        exchange->is_stream && !exchange->is_left && scan->now_ns >= exchange->comment_ns;
    if (scan->count == RECORDS_MAX || (scan->now_ns < exchange->deadline_ns && !comments)) return;
    exchange->references++;
    scan->due[scan->count++] = exchange;
}

static void act_on(struct mr_link *link, struct mr_exchange *exchange, uint64_t now_ns)
{
    bool is_cut = false;
    if (now_ns < exchange->deadline_ns) {
        if (mr_respond_comment(link, exchange, &is_cut)) return;
        cancel(link, exchange);
    } else {
        cancel(link, exchange);
        (void)mr_respond_error(link, exchange, "deadline_exceeded",
                               "the request was not answered in time", 0);
    }
    mr_exchanges_remove(link->exchanges, exchange);
}

/* Ends calls whose time is over, and writes comments to silent streams. */
static void scan_table(struct mr_link *link, uint64_t now_ns)
{
    struct scan scan = {.link = link, .now_ns = now_ns};
    pthread_mutex_lock(&link->exchanges->lock);
    mr_hash_table_each(&link->exchanges->table, collect, &scan);
    pthread_mutex_unlock(&link->exchanges->lock);
    for (size_t i = 0; i < scan.count; i++) {
        if (!scan.due[i]->is_removed) act_on(link, scan.due[i], now_ns);
        mr_exchange_drop(link->exchanges, scan.due[i]);
    }
    /* more are due than one scan takes: the next one is at once */
    link->scan_ns = scan.count == RECORDS_MAX ? now_ns : now_ns + SCAN_NS;
}

static void take_events(struct mr_link *link)
{
    struct epoll_event events[EVENTS_MAX];
    const int count = epoll_wait(link->epoll_fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        struct mr_exchange *exchange = find_serial(link, events[i].data.u64);
        if (exchange) leave(link, exchange);
    }
}

static void resume_all(struct mr_link *link)
{
    struct mr_exchange *next = link->resumes.first;
    link->resumes.first = NULL;
    while (next) {
        struct mr_exchange *exchange = next;
        next = exchange->next_resume;
        /* after this call the HTTP thread may free the exchange */
        link->resume(exchange->connection);
    }
}

static uint64_t step(void *context, struct mr_time now)
{
    struct mr_link *link = context;
    struct mr_kafka_record record;
    unsigned count = 0;
    take_posted(link);
    while (count < RECORDS_MAX && mr_kafka_reader_take(link->reader, 0, &record)) {
        take_record(link, &record);
        count++;
    }
    take_events(link);
    (void)mr_kafka_out_serve(link->out, 0);
    if (now.ns >= link->scan_ns) scan_table(link, now.ns);
    probe(link, now.ns);
    resume_all(link);
    return count == RECORDS_MAX ? now.ns : link->scan_ns;
}

static size_t sockets(void *context, struct pollfd *fds, size_t max)
{
    const struct mr_link *link = context;
    (void)max;
    fds[0] = (struct pollfd){.fd = link->epoll_fd, .events = POLLIN};
    return 1;
}

/* ---- start and end ---- */

static enum mr_status open_clients(struct mr_link *link, struct mr_error *err)
{
    const char *topics[] = {link->reply_topic};
    const struct mr_kafka_reader_options reader = {.kafka = link->kafka,
                                                   .wake = link->wake,
                                                   .topics = topics,
                                                   .topic_count = 1,
                                                   .one_partition = true,
                                                   .partition = (int32_t)link->reply_partition,
                                                   .from = MR_KAFKA_FROM_END,
                                                   .timeout_ms = OPEN_MS};
    const struct mr_kafka_out_options producer = {
        .kafka = link->kafka, .wake = link->wake, .reported = on_reported, .context = link};
    enum mr_status status = mr_kafka_out_create(&link->out, &producer, err);
    if (status == MR_OK) (void)mr_kafka_out_attend(link->out, false);
    if (status == MR_OK) (void)mr_kafka_out_prime(link->out, link->requests_topic, OPEN_MS, NULL);
    if (status == MR_OK) status = mr_kafka_reader_create(&link->reader, &reader, err);
    return status;
}

static enum mr_status open_epoll(struct mr_link *link, struct mr_error *err)
{
    link->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (link->epoll_fd >= 0) return MR_OK;
    return mr_fail(err, MR_NOMEM, "cannot create an epoll set: %s", strerror(errno));
}

enum mr_status mr_link_open(struct mr_link *link, struct mr_error *err)
{
    const struct mr_thread_options thread = {.name = "gateway-kafka",
                                             .step = step,
                                             .state = link,
                                             .wake = link->wake,
                                             .sockets = sockets};
    uint64_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    snprintf(link->probe_id, sizeof link->probe_id, "gateway-probe-%016llx",
             (unsigned long long)random);
    mr_buffer_init(&link->scratch, SCRATCH_BYTES);
    enum mr_status status = open_epoll(link, err);
    if (status == MR_OK) status = open_clients(link, err);
    if (status == MR_OK) status = mr_thread_start(&link->thread, &thread, err);
    if (status != MR_OK) mr_link_close(link);
    return status;
}

void mr_link_stop(struct mr_link *link)
{
    mr_thread_stop(link->thread);
    link->thread = NULL;
}

void mr_link_close(struct mr_link *link)
{
    mr_link_stop(link);
    if (link->out) (void)mr_kafka_out_flush(link->out, 2000);
    mr_kafka_reader_destroy(link->reader);
    mr_kafka_out_destroy(link->out);
    link->reader = NULL;
    link->out = NULL;
    if (link->epoll_fd >= 0) close(link->epoll_fd);
    link->epoll_fd = -1;
    mr_buffer_drop(&link->scratch);
}

void mr_link_watch(struct mr_link *link, struct mr_exchange *exchange, int fd)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = exchange->serial};
    if (epoll_ctl(link->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) exchange->fd = fd;
}

void mr_link_unwatch(struct mr_link *link, struct mr_exchange *exchange)
{
    if (exchange->fd >= 0) (void)epoll_ctl(link->epoll_fd, EPOLL_CTL_DEL, exchange->fd, NULL);
    exchange->fd = -1;
}

static void pick(void *context, struct mr_hash_entry *entry)
{
    *(struct mr_exchange **)context = MR_HASH_ITEM(entry, struct mr_exchange, hash);
}

void mr_link_fail_all(struct mr_link *link)
{
    struct mr_exchange *exchange;
    do {
        exchange = NULL;
        pthread_mutex_lock(&link->exchanges->lock);
        link->exchanges->is_closed = true;
        mr_hash_table_each(&link->exchanges->table, pick, &exchange);
        pthread_mutex_unlock(&link->exchanges->lock);
        if (!exchange) break;
        cancel(link, exchange);
        (void)mr_respond_error(link, exchange, "internal", "the gateway is stopping", 503);
        mr_exchanges_remove(link->exchanges, exchange);
    } while (exchange);
    resume_all(link);
}

void mr_link_drop_posted(struct mr_link *link)
{
    struct mr_exchange *exchange;
    while ((exchange = mr_exchanges_take(link->exchanges))) {
        if (exchange->is_replaced) mr_exchanges_remove(link->exchanges, exchange);
        mr_exchange_drop(link->exchanges, exchange);
    }
}
