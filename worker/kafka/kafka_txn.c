#include "worker/kafka/kafka_txn.h"

#include "worker/base/clock.h"
#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_errors.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS_NS ((uint64_t)1000000)
/* timeout of one librdkafka call; calling again continues the same operation */
#define CALL_MS  1000u
#define PAUSE_MS 20u /* between two attempts of a call */
/* timeout of one librdkafka call about offsets; calling again starts a new operation */
#define OFFSETS_MS 5000u
/* most producers that are replaced in a row without a committed transaction */
#define RENEWALS 3u

struct mr_kafka_txn {
    struct mr_kafka_txn_options options;
    struct mr_kafka_out *out;
    rd_kafka_t *rk;
    bool open, renewing;
    uint32_t renewals; /* producers replaced since the last committed transaction */
    uint64_t began_ns; /* when the last transaction began */
    _Atomic uint64_t call_ns;
    rd_kafka_topic_partition_list_t *gone; /* partitions that no longer exist in the cluster */
    uint32_t request_max;                  /* most partitions of a request with offsets; 0: all */
};

/* Converts a librdkafka error to a status and frees the error. An error is fatal unless librdkafka
 * classifies it as retriable or as requiring an abort. */
static enum mr_status take_error(const char *what, rd_kafka_error_t *error, struct mr_error *err)
{
    if (!error) return MR_OK;
    enum mr_status status = MR_BACKEND;
    if (!rd_kafka_error_is_fatal(error) &&
        (rd_kafka_error_txn_requires_abort(error) || rd_kafka_error_is_retriable(error)))
        status = MR_AGAIN;
    mr_fail(err, status, "%s: %s", what, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return status;
}

static bool is_retriable(rd_kafka_error_t *error)
{
    return error && !rd_kafka_error_is_fatal(error) && !rd_kafka_error_txn_requires_abort(error) &&
           rd_kafka_error_is_retriable(error);
}

static bool is_stopping(const struct mr_kafka_txn *txn)
{
    return txn->options.stopping && atomic_load(txn->options.stopping);
}

static uint64_t age_ns(const struct mr_kafka_txn *txn)
{
    return mr_clock_ns() - txn->began_ns;
}

/* Repeats a librdkafka call while its error is retriable: for at most timeout_ms, or without a
 * limit if that is 0. Returns the last error. */
static rd_kafka_error_t *repeat_call(struct mr_kafka_txn *txn, uint32_t timeout_ms,
                                     rd_kafka_error_t *(*call)(rd_kafka_t *rk, int timeout_ms))
{
    rd_kafka_error_t *error = NULL;
    uint64_t began_ns = mr_clock_ns();
    for (;;) {
        atomic_store(&txn->call_ns, mr_clock_ns());
        error = call(txn->rk, (int)CALL_MS);
        atomic_store(&txn->call_ns, 0);
        if (!is_retriable(error) || is_stopping(txn)) return error;
        if (timeout_ms > 0 && mr_clock_ns() - began_ns >= timeout_ms * MS_NS) return error;
        rd_kafka_error_destroy(error);
        mr_clock_sleep_ms(PAUSE_MS);
    }
}

/* ---- opening ---- */

static enum mr_status take_init_error(rd_kafka_error_t *error, struct mr_error *err)
{
    if (!error) return MR_OK;
    enum mr_status status = MR_BAD_CONFIG;
    switch (rd_kafka_error_code(error)) {
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
        mr_fail(err, status, "--delivery exactly-once: this broker has no transactions: %s",
                rd_kafka_error_string(error));
        break;
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
        status = mr_fail(err, MR_UNREACHABLE, "the transaction coordinator does not answer: %s",
                         rd_kafka_error_string(error));
        break;
    default:
        mr_fail(err, status, "--delivery exactly-once: %s", rd_kafka_error_string(error));
    }
    rd_kafka_error_destroy(error);
    return status;
}

static enum mr_status open_producer(struct mr_kafka_txn *txn, struct mr_error *err)
{
    if (txn->out) return MR_OK;
    enum mr_status status = mr_kafka_out_create(&txn->out, &txn->options.out, err);
    if (status == MR_OK) txn->rk = mr_kafka_out_handle(txn->out);
    return status;
}

/* Opens a transactional producer: the first one, or the next one after the previous one was
 * destroyed. */
static enum mr_status init(struct mr_kafka_txn *txn, struct mr_error *err)
{
    enum mr_status status = open_producer(txn, err);
    if (status != MR_OK) return status;
    return take_init_error(repeat_call(txn, txn->options.timeout_ms, rd_kafka_init_transactions),
                           err);
}

enum mr_status mr_kafka_txn_create(struct mr_kafka_txn **out,
                                   const struct mr_kafka_txn_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_txn *txn = calloc(1, sizeof *txn);
    if (!txn) return mr_fail(err, MR_NOMEM, "no memory for transactions");
    txn->options = *options;
    txn->gone = rd_kafka_topic_partition_list_new(0);
    enum mr_status status = init(txn, err);
    if (status != MR_OK) {
        mr_kafka_txn_destroy(txn);
        return status;
    }
    *out = txn;
    return MR_OK;
}

void mr_kafka_txn_destroy(void *self)
{
    struct mr_kafka_txn *txn = self;
    if (!txn) return;
    if (txn->open) mr_kafka_txn_abort(txn, NULL);
    mr_kafka_out_destroy(txn->out);
    rd_kafka_topic_partition_list_destroy(txn->gone);
    free(txn);
}

uint64_t mr_kafka_txn_call_ns(const void *self)
{
    const struct mr_kafka_txn *txn = self;
    return atomic_load(&txn->call_ns);
}

struct mr_kafka_out *mr_kafka_txn_out(struct mr_kafka_txn *txn)
{
    return txn->out;
}

/* ---- one transaction ---- */

enum mr_status mr_kafka_txn_begin(void *self, struct mr_error *err)
{
    struct mr_kafka_txn *txn = self;
    enum mr_status status = take_error("begin", rd_kafka_begin_transaction(txn->rk), err);
    txn->open = status == MR_OK;
    if (txn->open) txn->began_ns = mr_clock_ns();
    return status;
}

enum mr_status mr_kafka_txn_abort(void *self, struct mr_error *err)
{
    struct mr_kafka_txn *txn = self;
    struct mr_error reason = {0};
    txn->open = false;
    if (take_error("abort", repeat_call(txn, 0, rd_kafka_abort_transaction), &reason) == MR_OK)
        return MR_AGAIN;
    if (err) *err = reason;
    return MR_BACKEND;
}

/* Aborts a transaction that failed with MR_AGAIN; *err keeps the reason of that failure unless the
 * abort fails too. */
static enum mr_status end_failed(struct mr_kafka_txn *txn, enum mr_status status,
                                 struct mr_error *err)
{
    if (status != MR_AGAIN) {
        txn->open = false;
        return status;
    }
    return mr_kafka_txn_abort(txn, err);
}

static rd_kafka_topic_partition_list_t *partition_list(const struct mr_kafka_txn *txn,
                                                       const struct mr_transaction_offsets *offsets)
{
    const struct mr_kafka_commit *commits = offsets->commits;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)offsets->count);
    for (size_t i = 0; i < offsets->count; i++)
        mr_kafka_client_add_offset(list, txn->options.topics[commits[i].topic_index].name,
                                   &commits[i]);
    return list;
}

/* ---- partitions of deleted topics ---- */

/* A deleted topic must not make every transaction fail until the group unassigns its partitions. A
 * partition is treated as gone when the group coordinator refuses it as unknown for as long as
 * librdkafka repeats the request (OFFSETS_MS) and the list of all topics does not have it either.
 * The second condition is needed because shortly after its start a broker does not know all topics.
 */

static void remove_known(void *context, const char *topic, int32_t partition_count)
{
    rd_kafka_topic_partition_list_t *list = context;
    for (int i = list->cnt - 1; i >= 0; i--)
        if (list->elems[i].partition < partition_count && strcmp(list->elems[i].topic, topic) == 0)
            rd_kafka_topic_partition_list_del_by_idx(list, i);
}

static bool is_in(rd_kafka_topic_partition_list_t *list, const rd_kafka_topic_partition_t *element)
{
    return rd_kafka_topic_partition_list_find(list, element->topic, element->partition) != NULL;
}

/* Call when the group coordinator has refused these offsets because of an unknown partition. */
static void note_gone(struct mr_kafka_txn *txn, const rd_kafka_topic_partition_list_t *refused)
{
    const struct mr_kafka_options *kafka = txn->options.out.kafka;
    rd_kafka_topic_partition_list_t *missing = rd_kafka_topic_partition_list_copy(refused);
    bool known = mr_kafka_client_topics(txn->rk, OFFSETS_MS, remove_known, missing, NULL) == MR_OK;
    for (int i = 0; i < missing->cnt && known; i++) {
        char text[400];
        const rd_kafka_topic_partition_t *element = &missing->elems[i];
        rd_kafka_topic_partition_list_add(txn->gone, element->topic, element->partition);
        snprintf(text, sizeof text,
                 "topic %s, partition %d no longer exists: its offset is not committed",
                 element->topic, element->partition);
        if (kafka->log) kafka->log(kafka->log_context, MR_LOG_WARN, text);
    }
    rd_kafka_topic_partition_list_destroy(missing);
}

/* Removes from the list the partitions that are still gone. */
static void leave_out_gone(struct mr_kafka_txn *txn, rd_kafka_topic_partition_list_t *list)
{
    int found = 0;
    for (int i = 0; i < list->cnt && txn->gone->cnt > 0; i++)
        found += is_in(txn->gone, &list->elems[i]);
    if (found == 0) return;
    mr_kafka_client_topics(txn->rk, OFFSETS_MS, remove_known, txn->gone, NULL);
    for (int i = list->cnt - 1; i >= 0; i--)
        if (is_in(txn->gone, &list->elems[i])) rd_kafka_topic_partition_list_del_by_idx(list, i);
}

/* ---- one transaction, its end ---- */

/* Sends the offsets in one request. */
static enum mr_status send_request(struct mr_kafka_txn *txn,
                                   const struct mr_transaction_offsets *offsets,
                                   struct mr_error *err)
{
    const void *membership = offsets->membership;
    rd_kafka_topic_partition_list_t *list = partition_list(txn, offsets);
    rd_kafka_error_t *error = NULL;
    uint64_t timeout_ns = txn->options.out.kafka->transaction_timeout_ns;
    leave_out_gone(txn, list);
    do {
        if (error) rd_kafka_error_destroy(error);
        atomic_store(&txn->call_ns, mr_clock_ns());
        error = rd_kafka_send_offsets_to_transaction(txn->rk, list, membership, (int)OFFSETS_MS);
        atomic_store(&txn->call_ns, 0);
    } while (is_retriable(error) && !is_stopping(txn) && age_ns(txn) < timeout_ns);
    if (error && rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        note_gone(txn, list);
    if (error)
        txn->request_max =
            mr_kafka_client_request_max(txn->request_max, rd_kafka_error_code(error), list->cnt);
    rd_kafka_topic_partition_list_destroy(list);
    return take_error("offsets", error, err);
}

/* A transaction may have several requests with offsets. After one was too large for the broker,
 * this transaction is aborted, and the next ones send smaller requests. */
static enum mr_status send_offsets(struct mr_kafka_txn *txn,
                                   const struct mr_transaction_offsets *offsets,
                                   struct mr_error *err)
{
    enum mr_status status = MR_OK;
    const size_t most = txn->request_max > 0 ? txn->request_max : offsets->count;
    for (size_t from = 0; status == MR_OK && from < offsets->count; from += most) {
        const size_t left = offsets->count - from;
        const struct mr_transaction_offsets part = {offsets->commits + from,
                                                    left < most ? left : most, offsets->membership};
        status = send_request(txn, &part, err);
    }
    return status;
}

enum mr_status mr_kafka_txn_commit(void *self, const struct mr_transaction_offsets *offsets,
                                   struct mr_error *err)
{
    struct mr_kafka_txn *txn = self;
    enum mr_status status = send_offsets(txn, offsets, err);
    if (status != MR_OK) return end_failed(txn, status, err);
    status = take_error("commit", repeat_call(txn, 0, rd_kafka_commit_transaction), err);
    if (status != MR_OK) return end_failed(txn, status, err);
    txn->open = false;
    txn->renewals = 0;
    return MR_OK;
}

/* ---- another producer ---- */

static bool is_same(const rd_kafka_topic_partition_t *a, const rd_kafka_topic_partition_t *b)
{
    size_t length = strlen(b->metadata);
    return a->offset == b->offset && a->metadata && a->metadata_size >= length &&
           memcmp(a->metadata, b->metadata, length) == 0;
}

/* Whether the group has any of the wanted offsets. One equal offset is enough, because the broker
 * commits a transaction as a whole or not at all. If another worker owns the partition now, its
 * offset differs, because the metadata has the time of the commit. */
static bool has_any(const rd_kafka_event_t *event, const rd_kafka_topic_partition_list_t *wanted)
{
    size_t count = 0;
    const rd_kafka_ListConsumerGroupOffsets_result_t *result =
        rd_kafka_event_ListConsumerGroupOffsets_result((rd_kafka_event_t *)(uintptr_t)event);
    const rd_kafka_group_result_t **groups =
        rd_kafka_ListConsumerGroupOffsets_result_groups(result, &count);
    const rd_kafka_topic_partition_list_t *list =
        count == 1 ? rd_kafka_group_result_partitions(groups[0]) : NULL;
    for (int i = 0; list && i < wanted->cnt; i++)
        for (int k = 0; k < list->cnt; k++)
            if (list->elems[k].partition == wanted->elems[i].partition &&
                strcmp(list->elems[k].topic, wanted->elems[i].topic) == 0 &&
                is_same(&list->elems[k], &wanted->elems[i]))
                return true;
    return false;
}

static enum mr_status query_offsets(struct mr_kafka_txn *txn,
                                    const rd_kafka_topic_partition_list_t *wanted, bool *committed,
                                    struct mr_error *err)
{
    char reason[128];
    rd_kafka_ListConsumerGroupOffsets_t *request =
        rd_kafka_ListConsumerGroupOffsets_new(txn->options.out.kafka->group, wanted);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(txn->rk, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    rd_kafka_AdminOptions_set_request_timeout(options, (int)OFFSETS_MS, reason, sizeof reason);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(txn->rk);
    rd_kafka_ListConsumerGroupOffsets(txn->rk, &request, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, (int)(2 * OFFSETS_MS));
    enum mr_status status = MR_OK;
    if (!event || rd_kafka_event_error(event))
        status = mr_fail(err, MR_UNREACHABLE, "committed offsets: %s",
                         event ? rd_kafka_event_error_string(event) : "no reply");
    else
        *committed = has_any(event, wanted);
    if (event) rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ListConsumerGroupOffsets_destroy(request);
    return status;
}

/* MR_OK: the broken producer may be replaced by another one. */
static enum mr_status may_renew(struct mr_kafka_txn *txn, struct mr_error *err)
{
    const struct mr_kafka_options *kafka = txn->options.out.kafka;
    char reason[8];
    rd_kafka_resp_err_t code = rd_kafka_fatal_error(txn->rk, reason, sizeof reason);
    if (mr_kafka_verdict(code) == MR_KAFKA_FENCED && age_ns(txn) < kafka->transaction_timeout_ns)
        return mr_fail(err, MR_BACKEND, "another worker uses this worker's id (--worker-id %s)",
                       kafka->client_id);
    return txn->renewals++ < RENEWALS ? MR_OK : MR_BACKEND;
}

enum mr_status mr_kafka_txn_renew(void *self, const struct mr_transaction_offsets *offsets,
                                  bool *committed, struct mr_error *err)
{
    struct mr_kafka_txn *txn = self;
    enum mr_status status = MR_OK;
    *committed = false;
    if (!txn->renewing) {
        status = may_renew(txn, err);
        if (status != MR_OK) return status;
        mr_kafka_out_destroy(txn->out);
        txn->out = NULL;
        txn->renewing = true;
        txn->open = false;
    }
    status = init(txn, err);
    if (status != MR_OK) return status;
    if (offsets->count > 0) {
        rd_kafka_topic_partition_list_t *wanted = partition_list(txn, offsets);
        status = query_offsets(txn, wanted, committed, err);
        rd_kafka_topic_partition_list_destroy(wanted);
    }
    txn->renewing = status != MR_OK;
    return status;
}

/* ---- the port ---- */

static struct mr_producer_port port_producer(void *self)
{
    return mr_kafka_out_port(((struct mr_kafka_txn *)self)->out);
}

static void port_free_membership(void *self, struct mr_kafka_membership *membership)
{
    (void)self;
    mr_kafka_membership_free(membership);
}

static enum mr_status open_port(void *context, const struct mr_transactions_user *user,
                                struct mr_transactions_port *port, struct mr_error *err)
{
    const struct mr_kafka_txn_source *source = context;
    struct mr_kafka_txn *txn = NULL;
    struct mr_kafka_txn_options options = {.out = {.kafka = source->kafka,
                                                   .wake = user->producer.wake,
                                                   .transactional_id = source->transactional_id,
                                                   .reported = user->producer.reported,
                                                   .context = user->producer.context},
                                           .topics = source->topics,
                                           .timeout_ms = source->timeout_ms,
                                           .stopping = user->stopping};
    enum mr_status status = mr_kafka_txn_create(&txn, &options, err);
    for (size_t i = 0; i < user->producer.topic_count && status == MR_OK; i++)
        status = mr_kafka_out_prime(txn->out, user->producer.topics[i], source->timeout_ms, err);
    if (status != MR_OK) {
        mr_kafka_txn_destroy(txn);
        return status;
    }
    *port = (struct mr_transactions_port){.self = txn,
                                          .producer = port_producer,
                                          .begin = mr_kafka_txn_begin,
                                          .commit = mr_kafka_txn_commit,
                                          .abort = mr_kafka_txn_abort,
                                          .renew = mr_kafka_txn_renew,
                                          .call_ns = mr_kafka_txn_call_ns,
                                          .free_membership = port_free_membership,
                                          .close = mr_kafka_txn_destroy};
    return MR_OK;
}

struct mr_transactions_opener mr_kafka_txn_opener(const struct mr_kafka_txn_source *source)
{
    return (struct mr_transactions_opener){(void *)(uintptr_t)source, open_port};
}
