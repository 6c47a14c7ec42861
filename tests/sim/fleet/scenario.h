/* scenario - the settings of a simulated fleet, the records that producers write, and the faults,
 * each with its time. A seed determines all of it.
 *
 * Requests and faults are lists, so that a failing scenario can be reduced by leaving out elements
 * (`left_out`). The rest of the scenario still depends only on the seed.
 *
 * Owner: the program. Memory: fixed arrays; texts are in the scenario. Errors: asserted. */
#ifndef MR_TESTS_SIM_FLEET_SCENARIO_H
#define MR_TESTS_SIM_FLEET_SCENARIO_H

#include "tests/sim/fleet/platform.h"
#include "worker/kafka/kafka_record.h"

#define SCENARIO_WORKERS_MAX  4u
#define SCENARIO_REQUESTS_MAX 48u
#define SCENARIO_FAULTS_MAX   24u
#define SCENARIO_TEXT_BYTES   ((size_t)192 << 10)

#define SCENARIO_ROOM        1000u /* for a producer that is never full */
#define SCENARIO_TEMPERATURE 0.8f
#define SCENARIO_STOPS                                                                             \
    {                                                                                              \
        "a", "bc"                                                                                  \
    }

enum plan_kind {
    PLAN_REQUEST,
    PLAN_AGAIN,  /* the same record as an earlier one, like a producer's retry */
    PLAN_REUSED, /* a different request with the id of an earlier one */
    PLAN_MALFORMED,
    PLAN_NULL, /* a record without a value */
    PLAN_HUGE,
    PLAN_BAD_HEADER,
    PLAN_POISON,
    PLAN_CANCEL, /* a cancel record for another plan */
    PLAN_KINDS
};

struct plan {
    enum plan_kind kind;
    uint64_t at_ns;        /* after the start */
    uint32_t topic, other; /* request topic; index of the plan that it repeats or cancels */
    int32_t partition;
    char id[24]; /* "": the record has none */
    struct mr_text key, value, prompt;
    struct mr_kafka_header headers[2];
    size_t header_count;
    uint32_t max_tokens, choices;
    bool drawn, stops;    /* with a temperature; with the stop texts below */
    uint32_t deadline_ms; /* time after its timestamp; 0: no deadline */
    bool left_out;
};

enum fault_kind {
    FAULT_CRASH,
    FAULT_CRASH_INSIDE,      /* at the amount-th effect of a port call */
    FAULT_CRASH_TRANSACTION, /* between the offsets and the end of a transaction */
    FAULT_CRASH_RECOVERING,  /* as soon as the worker recovers a partition */
    FAULT_PRODUCER_BREAKS,
    FAULT_SIGTERM,
    FAULT_PAUSE,
    FAULT_PAUSE_TRANSACTION, /* as soon as a transaction of the worker is open, until the
                                transaction times out */
    FAULT_CLOCK,
    FAULT_ADD_WORKER,
    FAULT_TWIN,  /* another worker with the id of this one, with exactly-once delivery */
    FAULT_MODEL, /* the next forward of the model fails */
    FAULT_BROKER_STOP,
    FAULT_BROKER_SLOW,
    FAULT_PRODUCE, /* amount: per cent of the records that are refused, or whose answers are lost */
    FAULT_COMMIT,  /* amount: per cent of the commits that fail, or whose answers are lost */
    FAULT_TRANSACTION,
    FAULT_RETENTION,
    FAULT_COMPACTION,
    FAULT_REDIS_STOP,
    FAULT_REDIS_SLOW,
    FAULT_REDIS_LAG,
    FAULT_REDIS_FLUSH,
    FAULT_REDIS_EVICT,
    FAULT_KINDS
};

struct fault {
    enum fault_kind kind;
    uint64_t at_ns, for_ns;
    uint32_t worker, amount;
    int64_t skew_ms;
    bool left_out;
};

struct scenario {
    uint64_t seed;
    bool exactly_once, redis, cooperative;
    uint32_t workers, topics, partitions, blocks, producer_room, force_preempt_every;
    uint32_t max_sequences, queue_requests;
    uint32_t state_slots; /* of a model with recurrent layers; 0: the model has none */
    uint32_t steps_ahead; /* of the model: see model_port.h */
    bool fails_late;      /* a failing step fails when it is collected */
    uint64_t session_ns, rebalance_ns, drain_ns, latency_ns, commit_interval_ns;
    double step_ms;
    bool keeps_ids; /* a restarted worker has the same id */
    struct plan plans[SCENARIO_REQUESTS_MAX];
    uint32_t plan_count;
    struct fault faults[SCENARIO_FAULTS_MAX];
    uint32_t fault_count;
    uint64_t quiet_ns; /* time from the start after which there are no more events */
    char text[SCENARIO_TEXT_BYTES];
    size_t text_used;
};

void scenario_make(struct scenario *scenario, uint64_t seed);
/* Recomputes quiet_ns after elements were left out. */
void scenario_settle(struct scenario *scenario);
void scenario_print(const struct scenario *scenario);
const char *fault_text(enum fault_kind kind);
const char *plan_text(enum plan_kind kind);

#endif
