/* ending - the records that end a request: which there are, how each is made, and their count.
 *
 * A result, if the id was readable; a reply, if one was asked for; a dead letter, for a record that
 * is no request. Used by whoever writes them: publish, or settle with exactly-once delivery.
 *
 * Owner:  the thread that has the ticket's publish fields. Memory: none of its own. Errors: as
 *         worker/publish/output.h. */
#ifndef MR_WORKER_PUBLISH_TERMINAL_H
#define MR_WORKER_PUBLISH_TERMINAL_H

#include "worker/base/log.h"
#include "worker/metrics/metrics.h"
#include "worker/publish/output.h"

struct mr_kafka_out;

struct mr_terminal_stats {
    uint64_t results, replies, dead_letters;
};

struct mr_log_place mr_terminal_place(const struct mr_ticket *ticket);

/* The ticket's ending asks for this record. A reply only if its topic exists, which is asked of the
 * broker: it is never created, and librdkafka before 2.12 frees headers twice when the partition
 * asked for does not exist. */
bool mr_terminal_wants(const struct mr_ticket *ticket, enum mr_part kind, struct mr_kafka_out *out,
                       struct mr_log *log);
/* Makes the record, ready to produce. shrunk: without its bulk. */
enum mr_status mr_terminal_make(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_ticket *ticket, enum mr_part kind, bool shrunk,
                                struct mr_error *err);
/* One more of them is on the broker. */
void mr_terminal_count(struct mr_terminal_stats *stats, struct mr_metrics *metrics,
                       enum mr_part kind);

#endif
