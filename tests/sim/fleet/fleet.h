/* fleet - one run of the simulation: the workers, the broker and Redis of a scenario, from the
 * start until every request has ended and every worker has stopped, and then the judgement.
 *
 * A supervisor restarts a worker some time after it ended, as Kubernetes does. After the scenario's
 * quiet_ns there are no more outside events. From then on every request must end, and its offset be
 * committed, within FLEET_PATIENCE_NS. Then all workers get SIGTERM.
 *
 * Owner: the program; one run at a time. */
#ifndef MR_TESTS_SIM_FLEET_FLEET_H
#define MR_TESTS_SIM_FLEET_FLEET_H

#include "codec/records/result.h"
#include "tests/sim/fleet/coverage.h"
#include "tests/sim/fleet/scenario.h"
#include "tests/sim/fleet/worker_sim.h"

/* Enough for two sessions of crashed workers to expire, a transaction to time out, publish to
 * retry, and all attempts of a poisonous request. */
#define FLEET_PATIENCE_NS ((uint64_t)200 * SECOND)

struct fleet {
    const struct scenario *scenario;
    struct coverage *coverage;
    struct broker *broker;
    struct sim_redis *redis;
    struct mr_config config;
    struct sim_worker workers[SCENARIO_WORKERS_MAX];
    uint64_t restart_ns[SCENARIO_WORKERS_MAX]; /* when a stopped worker starts; 0: never */
    uint32_t worker_count, next_index;
    struct sim_random random;
    uint32_t requests_topic, cancel_topic;
    uint32_t crashes, failed_commits, poison_crashes, long_pauses, clock_jumps;
    uint64_t produce_until_ns, commit_until_ns, transaction_until_ns;
    uint32_t plan_at, fault_at; /* in the order of time */
    uint32_t plan_order[SCENARIO_REQUESTS_MAX], fault_order[SCENARIO_FAULTS_MAX];
    int64_t plan_offsets[SCENARIO_REQUESTS_MAX]; /* where the record was written; -1: nowhere yet */
    const struct broker_record *answers[SCENARIO_REQUESTS_MAX]; /* first results; NULL: none */
    bool stopping;
    uint64_t steps;
    char wrong[512]; /* the first violation; "": none */
};

struct fleet_options {
    bool trace;
};

/* Runs the scenario. False: a check failed, and text names it. */
bool fleet_run(const struct scenario *scenario, const struct fleet_options *options,
               struct coverage *coverage, char *text, size_t size, uint64_t *hash);
/* Frees the data that all runs share. */
void fleet_free_shared(void);

/* answers.c: checks the answers of requests that were not rejected. */
void judge_answer(struct fleet *fleet, const struct plan *plan, const struct mr_result *result);
/* judge.c: checks the records of the run and writes the first violation to fleet->wrong. */
void fleet_judge(struct fleet *fleet);
/* Whether every request has ended and is committed. Otherwise names a partition for which this is
 * false. */
bool fleet_is_done(const struct fleet *fleet, char *text, size_t size);
__attribute__((format(printf, 2, 3))) void fleet_accuse(struct fleet *fleet, const char *format,
                                                        ...);

#endif
