/* request_metrics - how requests ended and how long they took, by requests topic.
 *
 * millrace_requests_finished_total counts every record that this worker has answered once: when its
 * terminal records are on the broker, or, for a copy of a request in flight, when the terminal
 * records of that request are. Its sum over all labels is the number of records answered. Records
 * that another worker has to answer (after a lost partition or a drain) are not counted here.
 *
 * The label sets are bounded: topic and tenant come from the configuration, reason and code from
 * the contract. Series of usual ends are on the page from the start, other series from the first
 * such end on.
 *
 * Owner: one thread at a time; metrics.c holds its lock. Memory: all of it in _create.
 * Errors: MR_NOMEM from _create. */
#ifndef MR_WORKER_METRICS_REQUEST_METRICS_H
#define MR_WORKER_METRICS_REQUEST_METRICS_H

#include "codec/records/result.h"
#include "worker/config/config.h"

#include <stdio.h>

/* How a request ended. */
struct mr_request_end {
    enum mr_finish finish;
    enum mr_status error; /* MR_OK: none */
    /* the record was not run: it is a copy of a request in flight, whose result answers both */
    bool duplicate;
    uint64_t tokens; /* computed: prompt tokens that no cache had, and generated tokens */
};

struct mr_request_metrics;

/* Copies the names in topics. */
enum mr_status mr_request_metrics_create(struct mr_request_metrics **out,
                                         const struct mr_request_topic *topics, size_t topic_count,
                                         struct mr_error *err);
/* requests may be NULL. */
void mr_request_metrics_destroy(struct mr_request_metrics *requests);

void mr_request_metrics_count_end(struct mr_request_metrics *requests, size_t topic_index,
                                  const struct mr_request_end *end);
/* Adds the times and sizes of a request that has run to its topic's histograms. since_record_ms:
 * time from the record's timestamp to the first token, by the wall clock; negative: unknown. */
void mr_request_metrics_observe(struct mr_request_metrics *requests, size_t topic_index,
                                const struct mr_result *result, double since_record_ms);
/* Copies the current counts, so that they can be printed without the lock. The copy borrows the
 * labels of `requests`; the caller frees it with free(). NULL: out of memory. */
struct mr_request_metrics *mr_request_metrics_copy(const struct mr_request_metrics *requests);
void mr_request_metrics_print(const struct mr_request_metrics *requests, FILE *out);

#endif
