/* metrics - the worker's figures as Prometheus text (exposition format 0.0.4).
 *
 * Counters and histograms are fed as things happen; the engine's own figures come in as a snapshot
 * when somebody asks. Names are those of the peers with the prefix millrace_, rates are left to the
 * reader: counters only.
 *
 * Threads: any; a short lock inside. Memory: made in _create, partitions up to
 *          MR_METRICS_PARTITIONS_MAX, later ones are not shown. Errors: only _create and _render.
 */
#ifndef MR_WORKER_METRICS_METRICS_H
#define MR_WORKER_METRICS_METRICS_H

#include "batching/engine.h"
#include "codec/records/result.h"

#define MR_METRICS_PARTITIONS_MAX ((size_t)256)

/* X(name, what it counts): millrace_<name>_total */
#define MR_COUNTER_LIST(X)                                                                         \
    X(RECORDS_CONSUMED, "records_consumed", "Request records taken from Kafka")                    \
    X(RECORD_BYTES, "record_bytes", "Bytes of those records")                                      \
    X(UNKNOWN_FIELDS, "unknown_fields", "Fields of requests that nobody knows")                    \
    X(DEAD_LETTERS, "dead_letters", "Records sent to the dead-letter topic")                       \
    X(CANCELS, "cancels", "Cancel records read")                                                   \
    X(TOKEN_RECORDS, "token_records", "Token records published")                                   \
    X(RESULT_RECORDS, "result_records", "Result records published")                                \
    X(PRODUCE_ERRORS, "result_produce_errors", "Records the broker did not take")                  \
    X(COMMITS, "commits", "Offset commits")                                                        \
    X(COMMIT_ERRORS, "commit_errors", "Offset commits that failed")                                \
    X(REBALANCES, "rebalances", "Changes of the assigned partitions")                              \
    X(REDELIVERIES, "redeliveries", "Requests that were started before, by any worker")            \
    X(TRANSACTIONS, "transactions_committed", "Transactions that came through")                    \
    X(TRANSACTIONS_ABORTED, "transactions_aborted", "Transactions that did not")                   \
    X(TRANSACTORS, "transaction_producers_renewed",                                                \
      "Producers of transactions replaced by another")                                             \
    X(RESUMED, "resumed_requests", "Requests that went on behind tokens of an earlier attempt")    \
    X(TOKENS_RESUMED, "resumed_tokens", "Those tokens")                                            \
    X(TOKENS_KEPT, "kept_tokens", "Tokens written to Redis for a later attempt")                   \
    X(TRAILS_LOST, "lost_trails", "Requests whose tokens are no longer kept: Redis, or a limit")   \
    X(UNHEARD, "unheard_requests", "Requests begun before Redis said what it knows of them")

enum mr_counter {
#define X(name, text, help) MR_COUNTER_##name,
    MR_COUNTER_LIST(X)
#undef X
        MR_COUNTER_COUNT
};

/* Facts that do not change while the process lives; texts are copied. */
struct mr_metrics_info {
    const char *worker, *model, *dtype, *device;
    uint32_t block_tokens, context_tokens, sequences_max;
};

struct mr_metrics;

enum mr_status mr_metrics_create(struct mr_metrics **out, const struct mr_metrics_info *info,
                                 struct mr_error *err);
/* metrics may be NULL. */
void mr_metrics_destroy(struct mr_metrics *metrics);

void mr_metrics_add(struct mr_metrics *metrics, enum mr_counter counter, uint64_t count);
/* A finished request: its reason, sizes and times. since_record_ms: from the record's timestamp to
 * the first token by the wall clock, negative when unknown. */
void mr_metrics_observe_result(struct mr_metrics *metrics, const struct mr_result *result,
                               double since_record_ms);
/* The time between two tokens of one choice. */
void mr_metrics_observe_gap(struct mr_metrics *metrics, uint64_t gap_ns);
/* From the end of the step that made a token record to its hand-over to the producer. */
void mr_metrics_observe_publish_delay(struct mr_metrics *metrics, uint64_t delay_ns);
/* A transaction that ends this many requests begins; it ends, and is on the broker or is not. */
void mr_metrics_transaction_began(struct mr_metrics *metrics, uint32_t requests, uint64_t now_ns);
void mr_metrics_transaction_ended(struct mr_metrics *metrics, bool committed, uint64_t now_ns);
/* Records of a partition not yet read, and read but not committed; negative: not known. */
void mr_metrics_set_lag(struct mr_metrics *metrics, const char *topic, int32_t partition,
                        int64_t unread, int64_t uncommitted);
/* The partition is no longer this worker's. */
void mr_metrics_drop_lag(struct mr_metrics *metrics, const char *topic, int32_t partition);

/* The page, malloc'ed. engine may be NULL (the model is still loading). */
enum mr_status mr_metrics_render(struct mr_metrics *metrics, const struct mr_engine_stats *engine,
                                 bool ready, char **text, size_t *length, struct mr_error *err);

#endif
