/* request_metrics - how requests ended and how long they took, by requests topic.
 *
 * Every record that a worker has answered is counted once, in millrace_requests_finished_total:
 * when its terminal records are on the broker, or when the result of an equal record is that it
 * follows. So the sum of that metric over all labels is the number of records answered. A record
 * that another worker has to answer (a lost partition, a drain) is not counted here.
 *
 * The label sets are bounded: topic and tenant come from the configuration, reason and code from
 * the contract. The series of the usual ends are on the page from the start, any
 * other one from the first such end.
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
    /* the record was not run: the result of an equal record in flight answers it */
    bool duplicate;
};

struct mr_request_metrics;

/* Copies what it needs of the topics. */
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
/* Copies the counts as they are now, for printing while others go on counting; the copy borrows the
 * labels of `requests`. The caller frees it with free(). NULL: out of memory. */
struct mr_request_metrics *mr_request_metrics_copy(const struct mr_request_metrics *requests);
void mr_request_metrics_print(const struct mr_request_metrics *requests, FILE *out);

#endif
