#include "worker/kafka_txn.h"

#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 10 /* of a call that the library calls retriable */

struct mr_kafka_txn {
    struct mr_kafka_txn_options options;
    struct mr_kafka_out *out;
    rd_kafka_t *rk;
    bool open;
};

/* What an error of a transaction means; anything that is not said to be abortable is fatal. Frees
 * it. */
static enum mr_status judge(const char *what, rd_kafka_error_t *error, struct mr_error *err)
{
    if (!error) return MR_OK;
    enum mr_status status = MR_BACKEND;
    if (!rd_kafka_error_is_fatal(error) &&
        (rd_kafka_error_txn_requires_abort(error) || rd_kafka_error_is_retriable(error)))
        status = MR_AGAIN;
    if (rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR__FENCED)
        mr_fail(err, status,
                "%s: another worker has taken this worker's id (--worker-id), or the broker gave "
                "this one up: %s",
                what, rd_kafka_error_string(error));
    else
        mr_fail(err, status, "%s: %s", what, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return status;
}

static bool is_again(rd_kafka_error_t *error)
{
    if (!error || rd_kafka_error_is_fatal(error) || rd_kafka_error_txn_requires_abort(error))
        return false;
    if (!rd_kafka_error_is_retriable(error)) return false;
    rd_kafka_error_destroy(error);
    return true;
}

/* Calls until the answer is one to act on; the last one counts, whatever it is. */
static rd_kafka_error_t *insist(struct mr_kafka_txn *txn,
                                rd_kafka_error_t *(*call)(struct mr_kafka_txn *txn))
{
    rd_kafka_error_t *error = call(txn);
    for (int i = 1; i < TRIES && is_again(error); i++)
        error = call(txn);
    return error; /* what is_again frees, it has called again for */
}

static rd_kafka_error_t *call_init(struct mr_kafka_txn *txn)
{
    return rd_kafka_init_transactions(txn->rk, (int)txn->options.timeout_ms);
}

/* The whole time of the transaction: another limit leaves the library unsure of its state. */
static rd_kafka_error_t *call_commit(struct mr_kafka_txn *txn)
{
    return rd_kafka_commit_transaction(txn->rk, -1);
}

static rd_kafka_error_t *call_abort(struct mr_kafka_txn *txn)
{
    return rd_kafka_abort_transaction(txn->rk, -1);
}

/* ---- opening ---- */

static enum mr_status judge_init(rd_kafka_error_t *error, struct mr_error *err)
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

enum mr_status mr_kafka_txn_create(struct mr_kafka_txn **out,
                                   const struct mr_kafka_txn_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_txn *txn = calloc(1, sizeof *txn);
    if (!txn) return mr_fail(err, MR_NOMEM, "no memory for transactions");
    txn->options = *options;
    enum mr_status status = mr_kafka_out_create(&txn->out, &options->out, err);
    if (status != MR_OK) goto fail;
    txn->rk = mr_kafka_out_handle(txn->out);
    status = judge_init(insist(txn, call_init), err);
    if (status != MR_OK) goto fail;
    *out = txn;
    return MR_OK;
fail:
    mr_kafka_txn_destroy(txn);
    return status;
}

void mr_kafka_txn_destroy(struct mr_kafka_txn *txn)
{
    if (!txn) return;
    if (txn->open) mr_kafka_txn_abort(txn, NULL);
    mr_kafka_out_destroy(txn->out);
    free(txn);
}

struct mr_kafka_out *mr_kafka_txn_out(struct mr_kafka_txn *txn)
{
    return txn->out;
}

/* ---- one transaction ---- */

enum mr_status mr_kafka_txn_begin(struct mr_kafka_txn *txn, struct mr_error *err)
{
    enum mr_status status = judge("begin", rd_kafka_begin_transaction(txn->rk), err);
    txn->open = status == MR_OK;
    return status;
}

enum mr_status mr_kafka_txn_abort(struct mr_kafka_txn *txn, struct mr_error *err)
{
    struct mr_error reason = {0};
    txn->open = false;
    if (judge("abort", insist(txn, call_abort), &reason) == MR_OK) return MR_AGAIN;
    if (err) *err = reason;
    return MR_BACKEND;
}

/* Ends what failed; *err keeps the first reason unless the abort failed too. */
static enum mr_status give_up(struct mr_kafka_txn *txn, enum mr_status status, struct mr_error *err)
{
    if (status != MR_AGAIN) {
        txn->open = false;
        return status;
    }
    return mr_kafka_txn_abort(txn, err);
}

static rd_kafka_topic_partition_list_t *list_of(const struct mr_kafka_txn *txn,
                                                const struct mr_kafka_commit *commits, size_t count)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
    for (size_t i = 0; i < count; i++) {
        rd_kafka_topic_partition_t *element = rd_kafka_topic_partition_list_add(
            list, txn->options.topics[commits[i].topic_index].name, commits[i].partition);
        element->offset = commits[i].offset;
        element->metadata = strdup(commits[i].metadata); /* the list frees it */
        element->metadata_size = element->metadata ? strlen(commits[i].metadata) : 0;
    }
    return list;
}

static enum mr_status send_offsets(struct mr_kafka_txn *txn, const struct mr_kafka_commit *commits,
                                   size_t count, const struct mr_kafka_membership *membership,
                                   struct mr_error *err)
{
    if (count == 0) return MR_OK;
    rd_kafka_topic_partition_list_t *list = list_of(txn, commits, count);
    rd_kafka_error_t *error = NULL;
    for (int i = 0; i < TRIES && (i == 0 || is_again(error)); i++)
        error = rd_kafka_send_offsets_to_transaction(
            txn->rk, list, (const rd_kafka_consumer_group_metadata_t *)membership,
            (int)txn->options.timeout_ms);
    rd_kafka_topic_partition_list_destroy(list);
    return judge("offsets", error, err);
}

enum mr_status mr_kafka_txn_commit(struct mr_kafka_txn *txn, const struct mr_kafka_commit *commits,
                                   size_t count, const struct mr_kafka_membership *membership,
                                   struct mr_error *err)
{
    enum mr_status status = send_offsets(txn, commits, count, membership, err);
    if (status != MR_OK) return give_up(txn, status, err);
    status = judge("commit", insist(txn, call_commit), err);
    if (status != MR_OK) return give_up(txn, status, err);
    txn->open = false;
    return MR_OK;
}
