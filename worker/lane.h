/* lane - what this worker knows of one partition it has, or had a moment ago: its ledger, and what
 * the broker has acknowledged of it.
 *
 * A worker that leaves a rebalance with the same partition goes on as if nothing had happened: with
 * the eager protocol every join takes all partitions away for a moment. Between the two events the
 * lane is in LIMBO: its requests run on, and it is resumed if the committed offset and metadata are
 * still exactly those this worker committed last, which proves that nobody else worked on it.
 * Otherwise, and when a partition is lost or gone for good, its epoch rises: what is still running
 * of it is dropped, and no late result touches the ledger.
 *
 *     NONE -> OWNED <-> LIMBO;  OWNED, LIMBO -> NONE
 *
 * Publish asks the lane's gate before it writes what ends a request: open while the partition is
 * this worker's, held while it may be given away, closed for a request of an older life.
 *
 * Owner:  intake thread, but for _admit and _settled: publish's. Pure: no clock, no I/O.
 * Memory: one ledger for each partition seen, at most MR_LANES_MAX. Errors: MR_FULL, MR_NOMEM. */
#ifndef MR_WORKER_LANE_H
#define MR_WORKER_LANE_H

#include "worker/kafka_in.h"
#include "worker/ledger_metadata.h"

#include <stdatomic.h>

#define MR_LANES_MAX ((size_t)1024)
/* A commit's time (worker/ledger_metadata.h) is at most this old while somebody has the partition:
 * the next owner has no more than that of the results to look through. */
#define MR_LANE_REFRESH_MS 10000

enum mr_lane_state { MR_LANE_NONE, MR_LANE_OWNED, MR_LANE_LIMBO };
enum mr_lane_gate { MR_LANE_OPEN, MR_LANE_HELD, MR_LANE_CLOSED };

struct mr_lane {
    size_t topic_index;
    int32_t partition;
    enum mr_lane_state state;
    uint64_t epoch;     /* of the present ownership */
    int32_t generation; /* of the group, in which it came; -1: no group */
    struct mr_offset_ledger *ledger;
    uint64_t sent_version, acked_version; /* of the ledger, in the last commits */
    int64_t sent_offset, acked_offset;    /* -1: none */
    int64_t sent_since_ms, acked_since_ms;
    bool sent;    /* a commit without an answer */
    bool looking; /* nothing is taken or committed: what the last owner wrote is being looked for */
    bool leaving; /* nothing is taken: it is about to go */
    _Atomic uint64_t gate; /* epoch, then a bit: open */
    atomic_uint unsettled; /* requests with a terminal record that is not acknowledged */
    int64_t blocked_base;  /* the ledger was full at this base: nothing is taken until it moves; -2:
                              it was not */
    char sent_metadata[MR_LEDGER_METADATA_TEXT_MAX];
    char acked_metadata[MR_LEDGER_METADATA_TEXT_MAX];
};

struct mr_lanes;

enum mr_status mr_lanes_create(struct mr_lanes **out, struct mr_error *err);
void mr_lanes_destroy(struct mr_lanes *lanes);
/* NULL when the partition was never seen. */
struct mr_lane *mr_lanes_find(struct mr_lanes *lanes, size_t topic_index, int32_t partition);
size_t mr_lanes_count(const struct mr_lanes *lanes);
struct mr_lane *mr_lanes_at(struct mr_lanes *lanes, size_t index);

/* The partition is this worker's now. claim->start is set to where to read on. *resumed: it was in
 * LIMBO and nothing has changed. MR_MALFORMED: taken, but the committed metadata is another
 * application's, so finished work may be repeated. */
enum mr_status mr_lanes_take(struct mr_lanes *lanes, struct mr_kafka_claim *claim,
                             struct mr_lane **lane, bool *resumed, struct mr_error *err);
/* OWNED becomes LIMBO. */
void mr_lane_suspend(struct mr_lane *lane);
/* Becomes NONE, with a new epoch. */
void mr_lane_forget(struct mr_lane *lane);

/* Closes the gate for what is not being written yet; the lane is still OWNED. */
void mr_lane_hold(struct mr_lane *lane);
/* A lane just forgotten is OWNED again: its log was replaced and begins at offset. */
void mr_lane_restart(struct mr_lane *lane, int64_t offset);
/* True when a commit would say something new; then *commit is it. The texts are the lane's.
 * since_ms: see worker/ledger_metadata.h. */
bool mr_lane_commit(struct mr_lane *lane, int64_t since_ms, struct mr_kafka_commit *commit);
/* The commit made last was acknowledged, or refused (then it is due again). */
void mr_lane_committed(struct mr_lane *lane, bool ok);
void mr_lanes_check(const struct mr_lanes *lanes);

/* ---- publish's thread ---- */

/* May a terminal record of this epoch be written? MR_LANE_OPEN: yes, and it counts as unsettled
 * until _settled. */
enum mr_lane_gate mr_lane_admit(struct mr_lane *lane, uint64_t epoch);
/* The same without counting. */
enum mr_lane_gate mr_lane_look(const struct mr_lane *lane, uint64_t epoch);
void mr_lane_settled(struct mr_lane *lane);

#endif
