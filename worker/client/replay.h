/* replay - decides which records of a topic are sent again, to which topic, and when.
 *
 * A record that is sent again keeps key, value and headers; its key chooses the partition. The
 * headers that a worker adds to a dead letter are left out, and so is millrace-deadline, which has
 * passed. A dead letter goes to the topic that it came from, unless another one is given. A dead
 * letter without its value cannot be sent again.
 *
 * Owner: one thread. Memory: none; a plan borrows from the record. Errors: as texts of _plan. */
#ifndef MR_WORKER_CLIENT_REPLAY_H
#define MR_WORKER_CLIENT_REPLAY_H

#include "worker/kafka/kafka_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_REPLAY_TOPIC_BYTES ((size_t)250)

struct mr_replay_options {
    const char *to;         /* topic to send to; "": where the record came from */
    const char *const *ids; /* [id_count] only records with one of these keys or ids; 0: all */
    size_t id_count;
    int64_t from_ms, until_ms; /* timestamps, Unix time, until_ms is not included; 0: no limit */
};

struct mr_replay_plan {
    const char *refusal; /* why the record cannot be sent again; NULL: it can */
    char topic[MR_REPLAY_TOPIC_BYTES];
    struct mr_kafka_record record; /* to publish */
    struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX];
};

/* Whether the options select the record. */
bool mr_replay_wants(const struct mr_replay_options *options, const struct mr_kafka_record *record);
void mr_replay_plan(struct mr_replay_plan *plan, const struct mr_replay_options *options,
                    const struct mr_kafka_record *record);
/* When to send a record, in nanoseconds after the first one: the difference of their timestamps
 * divided by speed; 0: at once. first_ms, record_ms: timestamps of the first record and of this
 * one. */
uint64_t mr_replay_due_ns(double speed, int64_t first_ms, int64_t record_ms);

#endif
