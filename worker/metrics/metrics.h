/* metrics - the worker's counters, gauges and histograms as Prometheus text (exposition format
 * 0.0.4).
 *
 * Counters and histograms are updated where the events happen; the engine's statistics are read
 * when a page is rendered. Metric names follow vLLM and other servers, with the prefix millrace_.
 * There are no metrics for rates: Prometheus computes rates from the counters.
 *
 * Threads: any; a lock inside is held briefly. Memory: allocated in _create, with space for the lag
 * of MR_METRICS_PARTITIONS_MAX partitions; the lag of further partitions is not shown. Errors: only
 * _create and _render. */
#ifndef MR_WORKER_METRICS_METRICS_H
#define MR_WORKER_METRICS_METRICS_H

#include "batching/engine/engine.h"
#include "worker/metrics/request_metrics.h"

#define MR_METRICS_PARTITIONS_MAX ((size_t)256)

/* X(enum, name, HELP): one Prometheus counter, millrace_<name>_total, with its HELP text. */
#define MR_COUNTER_LIST(X)                                                                         \
    X(RECORDS_CONSUMED, "records_consumed", "Request records read from Kafka.")                    \
    X(RECORD_BYTES, "record_bytes", "Bytes of the request records read from Kafka.")               \
    X(TOMBSTONES, "tombstones", "Request records with a null value, which are skipped.")           \
    X(UNKNOWN_FIELDS, "unknown_fields", "Fields of requests that this version does not know.")     \
    X(DEAD_LETTERS, "dead_letters", "Records written to the dead-letter topic.")                   \
    X(CANCELS, "cancels", "Cancel records read.")                                                  \
    X(LOGS_REPLACED, "replaced_logs",                                                              \
      "Times that the log of a requests partition began again below the committed offset.")        \
    X(RECORDS_SKIPPED, "skipped_records",                                                          \
      "Request records skipped because their partition's log was replaced.")                       \
    X(REPLIES_DROPPED, "replies_dropped",                                                          \
      "Replies not written because their topic is not allowed.")                                   \
    X(TOKEN_RECORDS, "token_records", "Token records published.")                                  \
    X(RESULT_RECORDS, "result_records", "Results published.")                                      \
    X(PRODUCE_ERRORS, "result_produce_errors", "Records that the broker did not accept.")          \
    X(TOKENS_LOST, "lost_token_records",                                                           \
      "Token records that could not be written; the results have the whole text.")                 \
    X(REPLIES_LOST, "lost_replies", "Replies that could not be written; the results were.")        \
    X(DEAD_LETTERS_LOST, "lost_dead_letters", "Dead letters that could not be written.")           \
    X(COMMITS, "commits", "Offset commits sent to the broker.")                                    \
    X(COMMIT_ERRORS, "commit_errors", "Offset commits that failed.")                               \
    X(REBALANCES, "rebalances", "Changes of the partitions assigned to this worker.")              \
    X(REDELIVERIES, "redeliveries",                                                                \
      "Requests that a worker had started before, this one or another.")                           \
    X(TRANSACTIONS, "transactions_committed", "Kafka transactions committed.")                     \
    X(TRANSACTIONS_ABORTED, "transactions_aborted", "Kafka transactions aborted.")                 \
    X(TRANSACTORS, "transaction_producers_renewed",                                                \
      "Transactional producers replaced because the broker no longer accepted them.")              \
    X(RESUMED, "resumed_requests", "Requests that continued the answer of an earlier attempt.")    \
    X(TOKENS_RESUMED, "resumed_tokens",                                                            \
      "Tokens that resumed requests took from earlier attempts instead of generating them.")       \
    X(TOKENS_KEPT, "kept_tokens", "Tokens written to Redis for a later attempt to resume from.")   \
    X(TRAILS_LOST, "lost_trails",                                                                  \
      "Requests that can no longer be resumed, because Redis failed or a limit was reached.")      \
    X(UNHEARD, "unheard_requests",                                                                 \
      "Requests started without an answer from Redis about an earlier attempt.")

enum mr_counter {
#define X(name, text, help) MR_COUNTER_##name,
    MR_COUNTER_LIST(X)
#undef X
        MR_COUNTER_COUNT
};

/* The labels of the metrics millrace_model_info and millrace_build_info, and the topics of the
 * requests. All texts but kafka_version are copied. */
struct mr_metrics_info {
    const char *worker, *model, *dtype, *device;
    uint32_t block_tokens, context_tokens, sequences_max;
    const struct mr_request_topic *topics;
    size_t topic_count;
    const char *kafka_version; /* static */
};

/* Values at the time of rendering. */
struct mr_metrics_gauges {
    const struct mr_engine_stats *engine; /* NULL: unknown */
    bool ready;
    uint32_t in_flight, parked, unacknowledged;
    size_t intake_mail, publish_mail; /* messages in the mailboxes of these threads */
    /* memory of the model on its device */
    uint64_t weight_bytes, kv_pool_bytes, activation_bytes;
};

struct mr_metrics;

enum mr_status mr_metrics_create(struct mr_metrics **out, const struct mr_metrics_info *info,
                                 struct mr_error *err);
/* metrics may be NULL. */
void mr_metrics_destroy(struct mr_metrics *metrics);

void mr_metrics_add(struct mr_metrics *metrics, enum mr_counter counter, uint64_t count);
/* Counts a request record that this worker has answered; topic_index: its topic in info->topics. */
void mr_metrics_count_end(struct mr_metrics *metrics, size_t topic_index,
                          const struct mr_request_end *end);
/* Adds the times and sizes of a request that has run to its topic's histograms. since_record_ms:
 * time from the request record's timestamp to the first token, by the wall clock; negative:
 * unknown. */
void mr_metrics_observe_result(struct mr_metrics *metrics, size_t topic_index,
                               const struct mr_result *result, double since_record_ms);
/* Adds one value to the inter-token latency histogram. gap_ns: time between two tokens of one
 * choice. */
void mr_metrics_observe_gap(struct mr_metrics *metrics, uint64_t gap_ns);
/* Adds one value to a histogram. delay_ns: time from the end of the engine step that generated a
 * token until the token's record is in the Kafka producer's queue. */
void mr_metrics_observe_publish_delay(struct mr_metrics *metrics, uint64_t delay_ns);
/* _began: a Kafka transaction with the results of `requests` requests begins. _ended: that
 * transaction was committed or aborted. */
void mr_metrics_transaction_began(struct mr_metrics *metrics, uint32_t requests, uint64_t now_ns);
void mr_metrics_transaction_ended(struct mr_metrics *metrics, bool committed, uint64_t now_ns);
/* Sets the lag of a partition: the number of unread records, and of records that are read but whose
 * offset is not committed. Negative: unknown. */
void mr_metrics_set_lag(struct mr_metrics *metrics, const char *topic, int32_t partition,
                        int64_t unread, int64_t uncommitted);
/* Removes the lag of a partition that is no longer assigned to this worker. */
void mr_metrics_drop_lag(struct mr_metrics *metrics, const char *topic, int32_t partition);

/* Renders the metrics page into *text, which the caller frees. */
enum mr_status mr_metrics_render(struct mr_metrics *metrics, const struct mr_metrics_gauges *gauges,
                                 char **text, size_t *length, struct mr_error *err);

#endif
