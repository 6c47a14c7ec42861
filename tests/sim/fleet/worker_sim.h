/* worker_sim - one simulated worker: the product's intake, engine thread, publish, transactions,
 * recovery and Redis threads, assembled as in worker/serve, over the simulated broker, the
 * simulated Redis and the fake model.
 *
 *     OFF -> RUNNING -> STOPPING ... -> OFF       SIGTERM: the phases of worker/serve/drain.c
 *                    -> OFF                       a crash, or an error that ends the process
 *
 * A crash marks the machine as dead and frees the worker with the product's own functions, whose
 * calls to the outside then have no effect. So every crash also tests for leaks.
 *
 * A prompt that begins with POISON_BYTE kills the machine when its first step runs.
 *
 * Owner: one run. Memory: freed when the worker is off. */
#ifndef MR_TESTS_SIM_FLEET_WORKER_SIM_H
#define MR_TESTS_SIM_FLEET_WORKER_SIM_H

#include "tests/fakes/fake_model.h"
#include "tests/sim/fleet/clients.h"
#include "tests/sim/fleet/redis_sim.h"
#include "worker/engine/engine_thread.h"
#include "worker/intake/intake_state.h"
#include "worker/publish/publish.h"
#include "worker/remote_cache/redis_cache.h"

#define POISON_BYTE    'r' /* no other prompt has it */
#define SIM_DRAFT_ROWS 12u
/* Whether the fake model of a worker repeats itself, so that its steps can check drafts. */
#define worker_sim_repeats(steps_ahead) ((steps_ahead) < 2)
#define SIM_VOCABULARY                  116u /* every token below is an ASCII character */
#define SIM_CONTEXT                     512u

enum sim_phase {
    SIM_OFF,
    SIM_RUNNING,
    SIM_STOPPING, /* intake takes no more records; waits for it */
    SIM_DRAINING, /* running requests end */
    SIM_FLUSHING, /* publish writes the remaining records */
    SIM_LEAVING   /* intake commits and leaves the group */
};

struct sim_worker_options {
    struct broker *broker;
    struct sim_redis *redis; /* NULL: without Redis */
    const struct mr_config *config;
    uint32_t index;
    uint64_t drain_ns;
    uint32_t blocks; /* of the KV pool */
    double step_ms;  /* of the model */
    uint32_t steps_ahead, state_slots;
    bool fails_late;
    uint32_t producer_room;
    bool trace;
    uint32_t force_preempt_every;
};

struct sim_worker {
    struct sim_machine machine; /* first member: the fleet converts its address to the worker's */
    struct sim_worker_options options;
    struct sim_wire wire;
    struct mr_config config;
    struct mr_kafka_options kafka;
    char id[16], transactional_id[64];
    enum sim_phase phase;
    uint64_t deadline_ns; /* of the phase */
    uint64_t began_ns;    /* when SIGTERM came */
    struct mr_error failure;
    bool poisoned;                     /* the last crash was by poison */
    uint64_t pauses_in_transaction_ns; /* a fault: the length of a pause in its next transaction */
    bool dies_recovering;              /* a fault: crashes as soon as it recovers a partition */
    bool loses_id;                     /* a fault: another worker has started with its id */
    bool step_failed;                  /* a forward of the model has failed */
    uint64_t suspended_epochs[BROKER_GROUPED_MAX]; /* by index in intake's partitions */

    struct mr_fake_model *fake;
    struct mr_model_port real_port;
    struct mr_engine *engine_core;
    struct mr_log *log;
    struct mr_metrics *metrics;
    struct mr_redis_cache *remote;
    struct mr_resume *resume;
    struct mr_engine_thread *engine;
    struct mr_publish *publish;
    struct mr_transactions *transactions;
    struct mr_intake *intake;
};

/* Starts a process. False: it ended at once because the broker is down. */
bool sim_worker_start(struct sim_worker *worker);
/* kill -9 of the process. */
void sim_worker_crash(struct sim_worker *worker);
/* SIGTERM. */
void sim_worker_stop(struct sim_worker *worker);
/* The main thread of the process: continues a shutdown, and ends the process after a failure or a
 * crash. Call this after every step of the machine. */
void sim_worker_watch(struct sim_worker *worker);
/* When _watch has work without a step of the machine; UINT64_MAX: only after a step. */
uint64_t sim_worker_due_ns(const struct sim_worker *worker);
/* Asserts the invariants of all containers. */
void sim_worker_check(struct sim_worker *worker);
/* Frees the objects that all workers share. */
void sim_worker_free_shared(void);

#endif
