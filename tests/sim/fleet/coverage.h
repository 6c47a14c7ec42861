/* coverage - counts the events in the runs of the simulation, so that the test can detect a fault
 * or an order of messages that never occurs. tests/sim/README.md explains each.
 *
 * Owner: the program; a run adds to it. */
#ifndef MR_TESTS_SIM_FLEET_COVERAGE_H
#define MR_TESTS_SIM_FLEET_COVERAGE_H

#include <stdint.h>

/* clang-format off */
#define COVERAGE_LIST(X) \
    /* faults */ \
    X(CRASH, "crash") \
    X(CRASH_INSIDE_STEP, "crash_inside_step") \
    X(CRASH_WHILE_STARTING, "crash_while_starting") \
    X(CRASH_WHILE_DRAINING, "crash_while_draining") \
    X(CRASH_WHILE_RECOVERING, "crash_while_recovering") \
    X(PAUSE_SHORT, "pause_short") \
    X(PAUSE_LONG, "pause_long") \
    X(CLOCK_JUMP, "clock_jump") \
    X(SIGTERM, "sigterm") \
    X(SIGTERM_BROKER_DOWN, "sigterm_broker_down") \
    X(WORKER_ADDED, "worker_added") \
    X(WORKER_TWICE, "worker_twice") \
    X(WORKER_FAILED, "worker_failed") \
    X(MODEL_FAILED, "model_failed") \
    X(MODEL_FAILED_LATE, "model_failed_late") \
    X(BROKER_DOWN, "broker_down") \
    X(BROKER_SLOW, "broker_slow") \
    X(PRODUCE_REFUSED, "produce_refused") \
    X(PRODUCE_ANSWER_LOST, "produce_answer_lost") \
    X(PRODUCE_QUEUE_FULL, "produce_queue_full") \
    X(COMMIT_FAILED, "commit_failed") \
    X(COMMIT_ANSWER_LOST, "commit_answer_lost") \
    X(COMMIT_PARTIAL, "commit_partial") \
    X(RETENTION, "retention") \
    X(COMPACTION, "compaction") \
    X(REDIS_DOWN, "redis_down") \
    X(REDIS_SLOW, "redis_slow") \
    X(REDIS_FLUSHED, "redis_flushed") \
    X(REDIS_EVICTED, "redis_evicted") \
    X(REDIS_STALE, "redis_stale") \
    X(POISON_CRASH, "poison_crash") \
    X(POISON_DEAD_LETTER, "poison_dead_letter") \
    /* orders of messages */ \
    X(REBALANCE_EAGER, "rebalance_eager") \
    X(REBALANCE_COOPERATIVE, "rebalance_cooperative") \
    X(REVOKED, "revoked") \
    X(REVOKED_UNREPORTED, "revoked_unreported") \
    X(LOST, "lost") \
    X(SESSION_EXPIRED, "session_expired") \
    X(REBALANCE_DURING_REBALANCE, "rebalance_during_rebalance") \
    X(COMMIT_OF_OLD_GENERATION, "commit_of_old_generation") \
    X(COMMIT_DURING_REBALANCE, "commit_during_rebalance") \
    X(COMMITTED_AND_CRASHED, "committed_and_crashed") \
    X(RECORD_BEFORE_CRASH, "record_before_crash") \
    X(RECORD_OF_ZOMBIE, "record_of_zombie") \
    X(PARTITION_RESUMED, "partition_resumed") \
    X(FINISHED_BEFORE, "finished_before") \
    X(TRANSACTION_COMMITTED, "transaction_committed") \
    X(TRANSACTION_ABORTED, "transaction_aborted") \
    X(TRANSACTION_TIMED_OUT, "transaction_timed_out") \
    X(TRANSACTION_FENCED, "transaction_fenced") \
    X(TRANSACTION_ANSWER_LOST, "transaction_answer_lost") \
    X(TRANSACTION_LEFT_OPEN, "transaction_left_open") \
    X(TRANSACTION_OLD_GENERATION, "transaction_old_generation") \
    X(OFFSETS_UNSTABLE, "offsets_unstable") \
    X(REQUEST_TWICE, "request_twice") \
    X(REQUEST_ID_REUSED, "request_id_reused") \
    X(REQUEST_MALFORMED, "request_malformed") \
    X(REQUEST_NULL, "request_null") \
    X(REQUEST_HUGE, "request_huge") \
    X(REQUEST_BAD_HEADER, "request_bad_header") \
    X(CANCEL_BEFORE, "cancel_before") \
    X(CANCEL_AFTER, "cancel_after") \
    X(CANCELLED, "cancelled") \
    X(DEADLINE, "deadline") \
    X(LATER_ATTEMPT, "later_attempt") \
    X(RESUMED_AT, "resumed_at") \
    X(REPLY, "reply") \
    X(SNAPSHOT_KEPT, "snapshot_kept") \
    X(SNAPSHOT_USED, "snapshot_used")
/* clang-format on */

enum coverage_kind {
#define X(name, text) COVER_##name,
    COVERAGE_LIST(X)
#undef X
        COVERAGE_COUNT
};

struct coverage {
    uint64_t counts[COVERAGE_COUNT];
};

const char *coverage_text(enum coverage_kind kind);

#endif
