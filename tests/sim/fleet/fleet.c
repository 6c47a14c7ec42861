#include "tests/sim/fleet/fleet.h"

#include "codec/check.h"
#include "worker/config/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS SECOND
/* the largest difference between two workers' clocks that recovery tolerates */
#define CLOCK_SKEW_MS 5000

static struct mr_config *configs[2]; /* with one and with two request topics */

void fleet_free_shared(void)
{
    for (int i = 0; i < 2; i++)
        mr_config_destroy(configs[i]);
    configs[0] = configs[1] = NULL;
    sim_worker_free_shared();
}

void fleet_accuse(struct fleet *fleet, const char *format, ...)
{
    if (fleet->wrong[0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fleet->wrong, sizeof fleet->wrong, format, arguments);
    va_end(arguments);
}

static void cover(struct fleet *fleet, enum coverage_kind kind)
{
    fleet->coverage->counts[kind]++;
}

/* ---- settings ---- */

static const struct mr_config *base_config(uint32_t topics)
{
    char *words[] = {"millrace",
                     "serve",
                     "--model",
                     "m",
                     "--brokers",
                     "b:1",
                     "--model-name",
                     "fake",
                     "--reply-topic",
                     "reply",
                     "--requests-topic",
                     "requests.a",
                     "--requests-topic",
                     "requests.b,priority=10,tenant=other",
                     NULL};
    char *environment[] = {NULL};
    struct mr_error err = {0};
    struct mr_config **config = &configs[topics - 1];
    int count = topics == 1 ? 12 : 14;
    if (!*config && mr_config_create(config, count, words, environment, &err) != MR_OK) {
        fprintf(stderr, "configuration: %s\n", err.detail);
        exit(2);
    }
    return *config;
}

static void make_config(struct fleet *fleet)
{
    const struct scenario *scenario = fleet->scenario;
    struct mr_config *config = &fleet->config;
    *config = *base_config(scenario->topics);
    config->delivery =
        scenario->exactly_once ? MR_DELIVERY_EXACTLY_ONCE : MR_DELIVERY_AT_LEAST_ONCE;
    config->max_sequences = scenario->max_sequences;
    config->queue_requests = scenario->queue_requests;
    config->commit_interval_ns = scenario->commit_interval_ns;
    config->session_timeout_ns = scenario->session_ns;
    config->poll_interval_max_ns = scenario->rebalance_ns;
    config->max_record_bytes = 32 << 10;
    config->default_max_tokens = 16;
}

static void make_broker(struct fleet *fleet, bool trace)
{
    const struct scenario *scenario = fleet->scenario;
    const struct mr_config *config = &fleet->config;
    struct broker_options options = {.seed = scenario->seed,
                                     .cooperative = scenario->cooperative,
                                     .session_ns = scenario->session_ns,
                                     .rebalance_ns = scenario->rebalance_ns,
                                     .transaction_ns = scenario->session_ns,
                                     .latency_ns = scenario->latency_ns};
    fleet->broker = broker_create(&options, fleet->coverage);
    fleet->broker->trace = trace;
    for (uint32_t i = 0; i < scenario->topics; i++)
        broker_add_topic(fleet->broker, config->request_topics[i].name, scenario->partitions, true);
    broker_add_topic(fleet->broker, config->tokens_topic, 2, false);
    broker_add_topic(fleet->broker, config->results_topic, 2, false);
    broker_add_topic(fleet->broker, config->dlq_topic, 1, false);
    fleet->cancel_topic = broker_add_topic(fleet->broker, config->cancel_topic, 1, false);
    broker_add_topic(fleet->broker, "reply", 1, false);
}

static void add_worker(struct fleet *fleet, uint32_t index, bool trace)
{
    const struct scenario *scenario = fleet->scenario;
    uint32_t at = fleet->worker_count++;
    fleet->workers[at].options =
        (struct sim_worker_options){.broker = fleet->broker,
                                    .redis = fleet->redis,
                                    .config = &fleet->config,
                                    .index = index,
                                    .drain_ns = scenario->drain_ns,
                                    .blocks = scenario->blocks,
                                    .step_ms = scenario->step_ms,
                                    .steps_ahead = scenario->steps_ahead,
                                    .state_slots = scenario->state_slots,
                                    .fails_late = scenario->fails_late,
                                    .producer_room = scenario->producer_room,
                                    .force_preempt_every = scenario->force_preempt_every,
                                    .trace = trace};
    fleet->restart_ns[at] = platform_ns() + sim_below(&fleet->random, 1000) * MS;
}

/* ---- external events ---- */

static enum coverage_kind kind_of(const struct plan *plan)
{
    switch (plan->kind) {
    case PLAN_AGAIN:
        return COVER_REQUEST_TWICE;
    case PLAN_REUSED:
        return COVER_REQUEST_ID_REUSED;
    case PLAN_MALFORMED:
        return COVER_REQUEST_MALFORMED;
    case PLAN_NULL:
        return COVER_REQUEST_NULL;
    case PLAN_HUGE:
        return COVER_REQUEST_HUGE;
    case PLAN_BAD_HEADER:
        return COVER_REQUEST_BAD_HEADER;
    default:
        return COVERAGE_COUNT;
    }
}

static void on_plan(struct broker *broker, void *context, uint64_t at)
{
    struct fleet *fleet = context;
    const struct plan *plan = &fleet->scenario->plans[at];
    uint32_t topic = plan->kind == PLAN_CANCEL ? fleet->cancel_topic : plan->topic;
    struct mr_kafka_record record = {
        .topic = broker->topics[topic].name,
        .partition = plan->kind == PLAN_CANCEL ? 0 : plan->partition,
        .timestamp_ms = platform_unix_ms(),
        .key = plan->kind == PLAN_CANCEL || at % 3 > 0 ? plan->key : (struct mr_text){0},
        .value = plan->value,
        .headers = plan->headers,
        .header_count = plan->header_count};
    if (kind_of(plan) != COVERAGE_COUNT) cover(fleet, kind_of(plan));
    if (plan->kind == PLAN_CANCEL) {
        bool before = plan->at_ns < fleet->scenario->plans[plan->other].at_ns;
        cover(fleet, before ? COVER_CANCEL_BEFORE : COVER_CANCEL_AFTER);
    }
    fleet->plan_offsets[at] = broker_append(broker, &record, NULL);
}

static void block_transactions(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->worker_count; i++) {
        struct sim_machine *machine = &fleet->workers[i].machine;
        for (uint32_t k = 0; k < machine->thread_count; k++)
            if (strcmp(machine->threads[k].name, "transactions") == 0)
                machine->threads[k].not_before_ns = fleet->broker->down_until_ns;
    }
}

static void pause_worker(struct fleet *fleet, struct sim_worker *worker, uint64_t for_ns)
{
    bool is_long = for_ns >= fleet->scenario->session_ns;
    cover(fleet, is_long ? COVER_PAUSE_LONG : COVER_PAUSE_SHORT);
    fleet->long_pauses += is_long;
    worker->machine.paused_until_ns = platform_ns() + for_ns;
}

static void hit_worker(struct fleet *fleet, const struct fault *fault)
{
    struct sim_worker *worker = &fleet->workers[fault->worker % fleet->worker_count];
    if (worker->phase == SIM_OFF) return;
    switch (fault->kind) {
    case FAULT_CRASH:
        cover(fleet, COVER_CRASH);
        fleet->crashes++;
        sim_worker_crash(worker);
        break;
    case FAULT_CRASH_INSIDE:
        worker->wire.crash_countdown = fault->amount;
        fleet->crashes++;
        break;
    case FAULT_CRASH_TRANSACTION:
        worker->wire.dies_with_offsets = true;
        fleet->crashes++;
        break;
    case FAULT_CRASH_RECOVERING:
        worker->dies_recovering = true;
        fleet->crashes++;
        break;
    case FAULT_PRODUCER_BREAKS:
        worker->wire.producer_broken = true;
        break;
    case FAULT_SIGTERM:
        cover(fleet, broker_is_down(fleet->broker) ? COVER_SIGTERM_BROKER_DOWN : COVER_SIGTERM);
        sim_worker_stop(worker);
        break;
    case FAULT_MODEL:
        if (!worker->fake) return;
        worker->fake->fail_after = 1;
        fleet->crashes++;
        break;
    case FAULT_PAUSE_TRANSACTION:
        worker->pauses_in_transaction_ns = fault->for_ns;
        fleet->long_pauses++;
        break;
    case FAULT_PAUSE:
        pause_worker(fleet, worker, fault->for_ns);
        break;
    default:
        cover(fleet, COVER_CLOCK_JUMP);
        fleet->clock_jumps += llabs(fault->skew_ms) > CLOCK_SKEW_MS / 2;
        worker->machine.skew_ms = fault->skew_ms;
    }
}

/* Deletes committed records, as retention does. */
static void expire_records(struct fleet *fleet)
{
    struct broker *broker = fleet->broker;
    for (uint32_t i = 0; i < broker->group.partition_count; i++) {
        uint32_t topic;
        int32_t partition;
        broker_group_place(broker, i, &topic, &partition);
        const struct broker_offset *committed = broker->group.committed[i];
        if (!committed || committed->offset == 0) continue;
        cover(fleet, COVER_RETENTION);
        broker_delete_before(broker, topic, partition, committed->offset);
    }
}

static void hit_broker(struct fleet *fleet, const struct fault *fault)
{
    struct broker *broker = fleet->broker;
    uint64_t until_ns = platform_ns() + fault->for_ns;
    switch (fault->kind) {
    case FAULT_BROKER_STOP:
        cover(fleet, COVER_BROKER_DOWN);
        broker_stop(broker, fault->for_ns);
        block_transactions(fleet);
        break;
    case FAULT_BROKER_SLOW:
        cover(fleet, COVER_BROKER_SLOW);
        broker->slow_until_ns = until_ns;
        break;
    case FAULT_PRODUCE:
        broker->refuse_percent = fault->amount / 2;
        broker->lose_percent = fault->amount / 2;
        fleet->produce_until_ns = until_ns;
        break;
    case FAULT_COMMIT:
        fleet->failed_commits++;
        broker->commit_fail_percent = fault->amount * 2;
        fleet->commit_until_ns = until_ns;
        break;
    case FAULT_TRANSACTION:
        fleet->failed_commits++;
        broker->transaction_fail_percent = fault->amount * 2;
        fleet->transaction_until_ns = until_ns;
        break;
    case FAULT_RETENTION:
        expire_records(fleet);
        break;
    default:
        cover(fleet, COVER_COMPACTION);
        broker_compact(broker, (uint32_t)broker_find_topic(broker, fleet->config.results_topic));
    }
}

static void hit_redis(struct fleet *fleet, const struct fault *fault)
{
    uint64_t until_ns = platform_ns() + fault->for_ns;
    if (fault->kind == FAULT_REDIS_STOP) sim_redis_stop(fleet->redis, until_ns);
    if (fault->kind == FAULT_REDIS_SLOW) sim_redis_slow(fleet->redis, until_ns);
    if (fault->kind == FAULT_REDIS_LAG) sim_redis_lag(fleet->redis, until_ns);
    if (fault->kind == FAULT_REDIS_FLUSH) sim_redis_flush(fleet->redis);
    if (fault->kind == FAULT_REDIS_EVICT) sim_redis_evict(fleet->redis, 2 * fault->amount);
}

/* Starts another worker. A worker with the id of a running one fences it, and the fenced worker
 * must end. The supervisor restarts the fenced worker with an id of its own. */
static void add_another(struct fleet *fleet, const struct fault *fault)
{
    struct sim_worker *of = &fleet->workers[fault->worker % fleet->worker_count];
    bool trace = fleet->workers[0].options.trace;
    if (fleet->worker_count == SCENARIO_WORKERS_MAX) return;
    if (fault->kind == FAULT_ADD_WORKER || of->phase != SIM_RUNNING || of->loses_id) {
        cover(fleet, COVER_WORKER_ADDED);
        add_worker(fleet, fleet->next_index++, trace);
        return;
    }
    cover(fleet, COVER_WORKER_TWICE);
    fleet->failed_commits++; /* the last instance of the worker that loses its id */
    of->loses_id = true;
    add_worker(fleet, of->options.index, trace);
}

static void hit(struct fleet *fleet, const struct fault *fault)
{
    broker_note(fleet->broker, "fault: %s", fault_text(fault->kind));
    if (fault->kind == FAULT_ADD_WORKER || fault->kind == FAULT_TWIN) {
        add_another(fleet, fault);
    } else if (fault->kind < FAULT_BROKER_STOP) {
        hit_worker(fleet, fault);
    } else if (fault->kind < FAULT_REDIS_STOP) {
        hit_broker(fleet, fault);
    } else {
        hit_redis(fleet, fault);
    }
}

static void end_faults(struct fleet *fleet)
{
    struct broker *broker = fleet->broker;
    uint64_t now_ns = platform_ns();
    if (now_ns >= fleet->produce_until_ns) broker->refuse_percent = broker->lose_percent = 0;
    if (now_ns >= fleet->commit_until_ns) broker->commit_fail_percent = 0;
    if (now_ns >= fleet->transaction_until_ns) broker->transaction_fail_percent = 0;
    if (now_ns >= PLATFORM_START_NS + fleet->scenario->quiet_ns)
        for (uint32_t i = 0; i < fleet->worker_count; i++) {
            fleet->workers[i].wire.crash_countdown = 0;
            fleet->workers[i].wire.dies_with_offsets = false;
            fleet->workers[i].dies_recovering = false;
            fleet->workers[i].pauses_in_transaction_ns = 0;
        }
}

/* ---- time ---- */

static void sort_by_time(struct fleet *fleet)
{
    const struct scenario *scenario = fleet->scenario;
    for (uint32_t i = 0; i < scenario->plan_count; i++) {
        uint32_t k = i;
        for (; k > 0 && scenario->plans[fleet->plan_order[k - 1]].at_ns > scenario->plans[i].at_ns;
             k--)
            fleet->plan_order[k] = fleet->plan_order[k - 1];
        fleet->plan_order[k] = i;
    }
    for (uint32_t i = 0; i < scenario->fault_count; i++) {
        uint32_t k = i;
        for (;
             k > 0 && scenario->faults[fleet->fault_order[k - 1]].at_ns > scenario->faults[i].at_ns;
             k--)
            fleet->fault_order[k] = fleet->fault_order[k - 1];
        fleet->fault_order[k] = i;
    }
}

static uint64_t next_outside_ns(const struct fleet *fleet)
{
    const struct scenario *scenario = fleet->scenario;
    uint64_t next_ns = UINT64_MAX;
    if (fleet->plan_at < scenario->plan_count)
        next_ns = PLATFORM_START_NS + scenario->plans[fleet->plan_order[fleet->plan_at]].at_ns;
    if (fleet->fault_at < scenario->fault_count) {
        uint64_t at_ns =
            PLATFORM_START_NS + scenario->faults[fleet->fault_order[fleet->fault_at]].at_ns;
        if (at_ns < next_ns) next_ns = at_ns;
    }
    return next_ns;
}

static void run_outside(struct fleet *fleet)
{
    const struct scenario *scenario = fleet->scenario;
    uint64_t now_ns = platform_ns() - PLATFORM_START_NS;
    while (fleet->plan_at < scenario->plan_count &&
           scenario->plans[fleet->plan_order[fleet->plan_at]].at_ns <= now_ns) {
        uint32_t at = fleet->plan_order[fleet->plan_at++];
        if (!scenario->plans[at].left_out)
            broker_schedule(fleet->broker, 0, true, on_plan, fleet, at);
    }
    while (fleet->fault_at < scenario->fault_count &&
           scenario->faults[fleet->fault_order[fleet->fault_at]].at_ns <= now_ns) {
        const struct fault *fault = &scenario->faults[fleet->fault_order[fleet->fault_at++]];
        if (!fault->left_out) hit(fleet, fault);
    }
}

/* A process has ended, and the supervisor restarts it. */
static void note_end(struct fleet *fleet, uint32_t at)
{
    struct sim_worker *worker = &fleet->workers[at];
    if (worker->phase != SIM_OFF || fleet->restart_ns[at] > 0 || fleet->stopping) return;
    if (worker->poisoned) {
        cover(fleet, COVER_POISON_CRASH);
        fleet->poison_crashes++;
        fleet->crashes++;
    }
    if (!fleet->scenario->keeps_ids || worker->loses_id)
        worker->options.index = fleet->next_index++;
    worker->loses_id = false;
    fleet->restart_ns[at] = platform_ns() + sim_between(&fleet->random, 100, 3000) * MS;
}

static void start_worker(struct fleet *fleet, uint32_t at)
{
    fleet->restart_ns[at] = 0;
    if (fleet->stopping) return;
    if (!sim_worker_start(&fleet->workers[at])) {
        cover(fleet, COVER_CRASH_WHILE_STARTING);
        note_end(fleet, at);
    }
}

/* Runs the earliest event. False: there is none before until_ns. */
static bool advance(struct fleet *fleet, uint64_t until_ns)
{
    uint64_t outside_ns = next_outside_ns(fleet), broker_ns = broker_next_ns(fleet->broker);
    uint64_t next_ns = outside_ns < broker_ns ? outside_ns : broker_ns, due_ns;
    struct sim_thread *thread = NULL;
    uint32_t who = UINT32_MAX;
    bool starts = false;
    for (uint32_t i = 0; i < fleet->worker_count; i++) {
        struct sim_worker *worker = &fleet->workers[i];
        if (worker->phase == SIM_OFF) {
            if (fleet->restart_ns[i] == 0 || fleet->restart_ns[i] >= next_ns) continue;
            next_ns = fleet->restart_ns[i];
            who = i;
            thread = NULL;
            starts = true;
            continue;
        }
        struct sim_thread *best = platform_next(&worker->machine, &due_ns);
        uint64_t watch_ns = sim_worker_due_ns(worker);
        if (watch_ns < due_ns) {
            due_ns = watch_ns;
            best = NULL;
        }
        if (due_ns >= next_ns) continue;
        next_ns = due_ns;
        who = i;
        thread = best;
        starts = false;
    }
    if (next_ns > until_ns) {
        if (until_ns > platform_ns()) platform_set_ns(until_ns);
        return false;
    }
    if (next_ns > platform_ns()) platform_set_ns(next_ns);
    if (who == UINT32_MAX) {
        run_outside(fleet);
        broker_run(fleet->broker);
        for (uint32_t i = 0; i < fleet->worker_count; i++)
            note_end(fleet, i);
        return true;
    }
    if (starts) {
        start_worker(fleet, who);
        return true;
    }
    broker_mix(fleet->broker, platform_ns() ^ (uint64_t)who << 60);
    if (thread) platform_run(&fleet->workers[who].machine, thread);
    sim_worker_watch(&fleet->workers[who]);
    note_end(fleet, who);
    fleet->steps++;
    return true;
}

static bool all_off(const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->worker_count; i++)
        if (fleet->workers[i].phase != SIM_OFF) return false;
    return true;
}

/* Runs until every request has ended. */
static void run_requests(struct fleet *fleet)
{
    uint64_t quiet_ns = PLATFORM_START_NS + fleet->scenario->quiet_ns;
    uint64_t limit_ns = quiet_ns + FLEET_PATIENCE_NS;
    char text[256] = "";
    for (uint64_t check_ns = PLATFORM_START_NS; check_ns < limit_ns; check_ns += CHECK_NS) {
        while (advance(fleet, check_ns))
            ;
        end_faults(fleet);
        if (check_ns > quiet_ns && fleet_is_done(fleet, text, sizeof text)) return;
    }
    if (!fleet_is_done(fleet, text, sizeof text)) fleet_accuse(fleet, "no progress: %s", text);
}

static void stop_all(struct fleet *fleet)
{
    uint64_t limit_ns = platform_ns() + fleet->scenario->drain_ns + 35 * SECOND;
    fleet->stopping = true;
    for (uint32_t i = 0; i < fleet->worker_count; i++) {
        sim_worker_check(&fleet->workers[i]);
        sim_worker_stop(&fleet->workers[i]);
    }
    while (!all_off(fleet) && advance(fleet, limit_ns))
        ;
    for (uint32_t i = 0; i < fleet->worker_count; i++)
        if (fleet->workers[i].phase != SIM_OFF) {
            fleet_accuse(fleet, "worker %u does not end", i);
            sim_worker_crash(&fleet->workers[i]);
        }
}

bool fleet_run(const struct scenario *scenario, const struct fleet_options *options,
               struct coverage *coverage, char *text, size_t size, uint64_t *hash)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    MR_ASSERT(fleet);
    platform_begin(scenario->seed);
    fleet->scenario = scenario;
    fleet->coverage = coverage;
    fleet->random.state = scenario->seed ^ 0x666c656574u;
    make_config(fleet);
    make_broker(fleet, options->trace);
    if (scenario->redis) fleet->redis = sim_redis_create(scenario->seed, coverage);
    memset(fleet->plan_offsets, 0xff, sizeof fleet->plan_offsets);
    sort_by_time(fleet);
    for (uint32_t i = 0; i < scenario->workers; i++)
        add_worker(fleet, fleet->next_index++, options->trace);
    run_requests(fleet);
    stop_all(fleet);
    if (!platform_is_clean()) fleet_accuse(fleet, "a wake was not closed");
    fleet_judge(fleet);
    bool right = fleet->wrong[0] == '\0';
    snprintf(text, size, "%s", fleet->wrong);
    *hash = fleet->broker->hash;
    broker_destroy(fleet->broker);
    sim_redis_destroy(fleet->redis);
    free(fleet);
    return right;
}
