#include "tests/sim/fleet/worker_sim.h"

#include "codec/check.h"
#include "tests/fakes/fake_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAVE_NS (15 * SECOND)
#define FLUSH_NS (10 * SECOND)
#define POLL_NS  (20 * MS)

static const uint32_t end_ids[] = {MR_FAKE_END};
static struct mr_tokenizer *tokenizer; /* of all workers */
static const struct mr_model_info model_info = {
    .name = "fake", .device = "cpu", .dtype = "fp32", .weights_digest = {7}};

void sim_worker_free_shared(void)
{
    mr_tokenizer_destroy(tokenizer);
    tokenizer = NULL;
}

static void on_failed(void *context, const struct mr_error *err)
{
    struct sim_worker *worker = context;
    if (worker->failure.status == MR_OK) worker->failure = *err;
}

/* ---- the engine ---- */

static enum mr_status note_failure(struct sim_worker *worker, enum mr_status status, bool late)
{
    if (status == MR_OK) return MR_OK;
    broker_cover(worker->options.broker, late ? COVER_MODEL_FAILED_LATE : COVER_MODEL_FAILED);
    worker->step_failed = true;
    return status;
}

static enum mr_status collect(void *context, struct mr_error *err)
{
    struct sim_worker *worker = (struct sim_worker *)(void *)platform_current();
    return note_failure(worker, worker->real_port.collect(context, err), true);
}

/* The model's launch. It kills the machine if a poisonous prompt is in its first step. */
static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    struct sim_worker *worker = (struct sim_worker *)(void *)platform_current();
    const struct mr_batch *batch = step->batch;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const struct mr_batch_sequence *sequence = &batch->sequences[i];
        if (sequence->context_tokens > 0 ||
            batch->token_ids[sequence->row_begin] != POISON_BYTE + 1)
            continue;
        worker->poisoned = true;
        worker->machine.dead = true;
    }
    if (worker->step_failed)
        broker_accuse(worker->options.broker, "engine: %s runs a step after one that failed",
                      worker->id);
    return note_failure(worker, worker->real_port.launch(context, step, err), false);
}

static enum mr_status open_model(void *self, const struct mr_engine_user *user,
                                 struct mr_engine_parts *parts, struct mr_error *err)
{
    struct sim_worker *worker = self;
    const struct sim_worker_options *options = &worker->options;
    struct mr_fake_options fake = {.block_count = options->blocks,
                                   .vocab_size = SIM_VOCABULARY,
                                   .sequences_max = worker->config.max_sequences + SIM_DRAFT_ROWS,
                                   .step_ms = options->step_ms,
                                   .row_ms = options->step_ms / 8,
                                   .token_ms = options->step_ms / 64,
                                   .steps_ahead = options->steps_ahead,
                                   .state_count = options->state_slots,
                                   .repeats = worker_sim_repeats(options->steps_ahead),
                                   .fails_late = options->fails_late};
    worker->fake = mr_fake_model_create(&fake);
    worker->fake->now_ns = platform_ns();
    worker->real_port = mr_fake_model_port(worker->fake);
    struct mr_model_port port = worker->real_port;
    struct mr_engine_options engine = {
        .block_count = options->blocks,
        .context_tokens = SIM_CONTEXT,
        .sequences_max = worker->config.max_sequences,
        .rows_max = 256,
        .draft_rows_max = SIM_DRAFT_ROWS,
        .chunk_tokens = 128,
        .prefills_max = 2,
        .prefill_batch_max = 8,
        .prefill_bytes_max = (uint64_t)4 << 30,
        .prefix_cache = true,
        .remote_staging_bytes = (uint64_t)64 << 10,
        .remote = worker->remote ? mr_redis_cache_table(worker->remote) : NULL,
        .prompt_cache_entries = 4,
        .prompt_cache_ttl_ns = 300 * SECOND,
        .queue_count_max = worker->config.queue_requests,
        .queue_bytes_max = (uint64_t)1 << 26,
        .ageing_ns = 10 * SECOND,
        .tenant_count = worker->config.tenant_count,
        .tenant_weights = worker->config.tenant_weights,
        .tokenizer = tokenizer,
        .defaults.temperature = 0.0f,
        .defaults.top_p = 1.0f,
        .eos_ids = end_ids,
        .eos_count = 1,
        .wake = user->wake,
        .wake_context = user->context,
        .state_slots = options->state_slots,
        .force_preempt_every = options->force_preempt_every};
    port.launch = launch;
    port.collect = collect;
    engine.model = port;
    enum mr_status status = mr_engine_create(&worker->engine_core, &engine, &user->sink, err);
    *parts = (struct mr_engine_parts){.engine = worker->engine_core,
                                      .model = &model_info,
                                      .tokenizer = tokenizer,
                                      .context_tokens = SIM_CONTEXT};
    return status;
}

static bool nothing_to_populate(void *self)
{
    (void)self;
    return false;
}

static uint64_t model_clock(void *self)
{
    return ((struct sim_worker *)self)->fake->now_ns;
}

static void close_model(void *self)
{
    struct sim_worker *worker = self;
    mr_engine_destroy(worker->engine_core);
    mr_fake_model_destroy(worker->fake);
    worker->engine_core = NULL;
    worker->fake = NULL;
}

/* The engine's step. The cost of a step advances the model's clock ahead of the simulation's, and
 * the thread is busy until that time. */
static uint64_t step_engine(void *state, struct mr_time now)
{
    struct sim_worker *worker = state;
    struct sim_machine *machine = &worker->machine;
    if (worker->fake && worker->fake->now_ns < now.ns) worker->fake->now_ns = now.ns;
    uint64_t next_ns = mr_engine_thread_step(worker->engine, now);
    for (uint32_t i = 0; worker->fake && i < machine->thread_count; i++)
        if (machine->threads[i].step == step_engine)
            machine->threads[i].not_before_ns = worker->fake->now_ns;
    return next_ns;
}

/* ---- starting ---- */

static bool call_tier(void *context, const struct mr_redis_call *calls, size_t count)
{
    return mr_redis_cache_call(context, calls, count);
}

static void silence_tier(void *context, bool silent)
{
    mr_redis_cache_set_silent(context, silent);
}

static void wake_engine(void *context)
{
    mr_engine_thread_wake(context);
}

static enum mr_status open_redis(struct sim_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = &worker->config;
    if (!worker->options.redis) return MR_OK;
    sim_redis_enter(worker->options.redis, &worker->machine);
    struct mr_redis_cache_options options = {.url = "redis://127.0.0.1:6379",
                                             .password_file = "",
                                             .key_file = "",
                                             .tls = {"", "", ""},
                                             .connections = 1,
                                             .lookup_timeout_ns = config->redis_timeout_ns,
                                             .transfer_timeout_ns = 2000000000u,
                                             .ttl_ns = config->redis_ttl_ns,
                                             .store_bytes_max = (uint64_t)1 << 20,
                                             .codec = MR_FRAME_EXACT,
                                             .log = worker->log};
    return mr_redis_cache_create(&worker->remote, &options, err);
}

static enum mr_status open_resume(struct sim_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = &worker->config;
    struct mr_resume_options options = {.call = call_tier,
                                        .silence = silence_tier,
                                        .context = worker->remote,
                                        .ttl_ns = config->resume_ttl_ns,
                                        .bytes_max = (uint64_t)1 << 20,
                                        .intake = mr_intake_mailbox(worker->intake),
                                        .metrics = worker->metrics};
    if (!worker->remote) return MR_OK;
    return mr_resume_create(&worker->resume, &options, err);
}

static struct mr_output_options output_options(const struct mr_config *config)
{
    return (struct mr_output_options){.tokens_topic = config->tokens_topic,
                                      .results_topic = config->results_topic,
                                      .dlq_topic = config->dlq_topic,
                                      .worker = config->worker_id,
                                      .model = config->model_name,
                                      .group = config->group};
}

static bool is_exactly_once(const struct sim_worker *worker)
{
    return worker->config.delivery == MR_DELIVERY_EXACTLY_ONCE;
}

static enum mr_status open_writers(struct sim_worker *worker, struct mr_error *err)
{
    struct mr_publish_options publish = {.producer = sim_producer_opener(&worker->wire),
                                         .output = output_options(&worker->config),
                                         .exactly_once = is_exactly_once(worker),
                                         .intake = mr_intake_mailbox(worker->intake),
                                         .oldest_ms = mr_intake_oldest(worker->intake),
                                         .resume = worker->resume,
                                         .log = worker->log,
                                         .metrics = worker->metrics,
                                         .failed = on_failed,
                                         .context = worker};
    struct mr_transactions_options transactions = {.producer =
                                                       sim_transactions_opener(&worker->wire),
                                                   .output = output_options(&worker->config),
                                                   .log = worker->log,
                                                   .metrics = worker->metrics};
    enum mr_status status = mr_publish_create(&worker->publish, &publish, err);
    if (status == MR_OK && is_exactly_once(worker))
        status = mr_transactions_create(&worker->transactions, &transactions, err);
    return status;
}

static enum mr_status open_engine(struct sim_worker *worker, struct mr_error *err)
{
    struct mr_engine_thread_options options = {
        .source = {worker, open_model, nothing_to_populate, model_clock, close_model},
        .failed = on_failed,
        .context = worker};
    enum mr_status status = mr_engine_thread_create(&worker->engine, &options, err);
    if (status != MR_OK) return status;
    mr_engine_thread_step(worker->engine, mr_clock_now()); /* opens the model */
    return mr_engine_thread_wait_ready(worker->engine, err);
}

static enum mr_status open_intake(struct sim_worker *worker, struct mr_error *err)
{
    struct mr_engine_thread_links links = {.publish = mr_publish_mailbox(worker->publish),
                                           .intake = mr_intake_mailbox(worker->intake),
                                           .intake_wake = mr_intake_wake(worker->intake)};
    if (worker->remote) mr_redis_cache_link(worker->remote, wake_engine, worker->engine);
    mr_engine_thread_link(worker->engine, &links);
    struct mr_intake_targets targets = {
        .engine = mr_engine_thread_port(worker->engine),
        .prompt = {.tokenizer = tokenizer, .prompt_tokens_max = SIM_CONTEXT - 1},
        .publish = mr_publish_mailbox(worker->publish),
        .metrics = worker->metrics,
        .resume = worker->resume,
        .transactions = worker->transactions};
    enum mr_status status = mr_intake_open(worker->intake, &targets, err);
    if (status == MR_OK) worker->transactions = NULL;
    return status;
}

static enum mr_status open_parts(struct sim_worker *worker, struct mr_error *err)
{
    struct mr_log_options log = {.fd = worker->options.trace ? 1 : -1,
                                 .format = MR_LOG_TEXT,
                                 .level = worker->options.trace ? MR_LOG_INFO : MR_LOG_ERROR,
                                 .worker = worker->id};
    struct mr_metrics_info info = {worker->id,
                                   "fake",
                                   "fp32",
                                   "cpu",
                                   MR_BLOCK_TOKENS,
                                   SIM_CONTEXT,
                                   4,
                                   worker->config.request_topics,
                                   worker->config.request_topic_count,
                                   "2.0.2"};
    struct mr_intake_options intake = {.config = &worker->config,
                                       .kafka = &worker->kafka,
                                       .open_consumer = sim_open_consumer,
                                       .open_reader = sim_open_reader,
                                       .open_context = &worker->wire,
                                       .join_group = true,
                                       .ids_max = 256,
                                       .failed = on_failed,
                                       .context = worker};
    enum mr_status status = mr_log_create(&worker->log, &log, err);
    intake.log = worker->log;
    if (status == MR_OK) status = mr_metrics_create(&worker->metrics, &info, err);
    if (status == MR_OK) status = mr_intake_create(&worker->intake, &intake, err);
    if (status == MR_OK) status = open_redis(worker, err);
    if (status == MR_OK) status = open_engine(worker, err);
    if (status == MR_OK) status = open_resume(worker, err);
    if (status == MR_OK) status = open_writers(worker, err);
    if (status == MR_OK) status = open_intake(worker, err);
    return status;
}

static uint64_t step_intake(void *state, struct mr_time now)
{
    return mr_intake_step(state, now);
}

static uint64_t step_recovery(void *state, struct mr_time now)
{
    return mr_recovery_step(state, now);
}

static uint64_t step_publish(void *state, struct mr_time now)
{
    return mr_publish_step(state, now);
}

/* Pauses the machine if the fault is set and one of its transactions is open. */
static void pause_in_transaction(struct sim_worker *worker)
{
    const struct sim_producer *producer = worker->wire.broker->producers;
    if (worker->pauses_in_transaction_ns == 0) return;
    while (producer && (producer->wire != &worker->wire || !producer->transactional))
        producer = producer->next;
    if (!producer || !producer->transaction || producer->transaction->state != BROKER_OPEN) return;
    broker_note(worker->wire.broker, "%s stops in a transaction", worker->id);
    broker_cover(worker->wire.broker, COVER_PAUSE_LONG);
    worker->machine.paused_until_ns = platform_ns() + worker->pauses_in_transaction_ns;
    worker->pauses_in_transaction_ns = 0;
}

/* The calls of a transaction block for a round trip each. */
static uint64_t step_transactions(void *state, struct mr_time now)
{
    struct sim_worker *worker = (struct sim_worker *)(void *)platform_current();
    struct sim_machine *machine = &worker->machine;
    uint64_t next_ns = mr_transactions_step(state, now);
    for (uint32_t i = 0; next_ns <= now.ns && i < machine->thread_count; i++)
        if (machine->threads[i].step == step_transactions)
            machine->threads[i].not_before_ns = now.ns + 2 * broker_latency(worker->wire.broker);
    pause_in_transaction(worker);
    return next_ns;
}

static void add_threads(struct sim_worker *worker)
{
    struct sim_machine *machine = &worker->machine;
    struct mr_intake *intake = worker->intake;
    platform_add_thread(machine, "intake", step_intake, intake, &intake->wake);
    platform_add_thread(machine, "publish", step_publish, worker->publish,
                        mr_publish_wake(worker->publish));
    platform_add_thread(machine, "engine", step_engine, worker,
                        mr_engine_thread_step_wake(worker->engine));
    if (intake->recovery)
        platform_add_thread(machine, "recovery", step_recovery, intake->recovery,
                            mr_recovery_wake(intake->recovery));
    if (intake->exactly_once.transactions)
        platform_add_thread(machine, "transactions", step_transactions,
                            intake->exactly_once.transactions,
                            mr_transactions_wake(intake->exactly_once.transactions));
}

static void set_up(struct sim_worker *worker)
{
    const struct sim_worker_options *options = &worker->options;
    worker->config = *options->config;
    worker->config.worker_id = worker->id;
    worker->config.on_revoke = options->index % 2 ? MR_ON_REVOKE_DRAIN : MR_ON_REVOKE_DROP;
    snprintf(worker->id, sizeof worker->id, "w%u", options->index);
    snprintf(worker->transactional_id, sizeof worker->transactional_id, "millrace-%s-%s",
             worker->config.group, worker->id);
    worker->kafka = (struct mr_kafka_options){.group = worker->config.group};
    worker->wire = (struct sim_wire){.broker = options->broker,
                                     .machine = &worker->machine,
                                     .transactional_id =
                                         is_exactly_once(worker) ? worker->transactional_id : NULL,
                                     .producer_room = options->producer_room,
                                     .record_bytes_max = (uint64_t)1 << 20,
                                     .rules = {.judged = true}};
    worker->failure = (struct mr_error){0};
    worker->machine.thread_count = 0;
    worker->machine.paused_until_ns = 0;
    worker->machine.dead = false;
    worker->poisoned = worker->dies_recovering = worker->step_failed = false;
    worker->pauses_in_transaction_ns = 0;
    memset(worker->suspended_epochs, 0, sizeof worker->suspended_epochs);
}

/* ---- ending ---- */

static void destroy_parts(struct sim_worker *worker)
{
    if (worker->intake && worker->intake->admission.stats.finished_before > 0)
        broker_cover(worker->options.broker, COVER_FINISHED_BEFORE);
    if (worker->intake) mr_intake_forget_engine(worker->intake);
    mr_redis_cache_close(worker->remote, 0);
    mr_engine_thread_stop(worker->engine);
    mr_publish_destroy(worker->publish, 0);
    if (worker->machine.dead && worker->intake && worker->intake->opened) {
        /* takes the messages of the other threads; its calls to the outside have no effect now */
        mr_intake_drain(worker->intake, 0);
        atomic_store(&worker->intake->leave_requested, true);
        mr_intake_step(worker->intake, mr_clock_now());
    }
    mr_intake_destroy(worker->intake, 0);
    mr_transactions_destroy(worker->transactions, 0);
    mr_engine_thread_destroy(worker->engine);
    mr_redis_cache_destroy(worker->remote);
    mr_resume_destroy(worker->resume);
    mr_metrics_destroy(worker->metrics);
    mr_log_destroy(worker->log);
    worker->intake = NULL;
    worker->remote = NULL;
    worker->engine = NULL;
    worker->publish = NULL;
    worker->transactions = NULL;
    worker->resume = NULL;
    worker->metrics = NULL;
    worker->log = NULL;
    worker->machine.thread_count = 0;
    worker->phase = SIM_OFF;
}

static void go_off(struct sim_worker *worker, bool died)
{
    struct sim_machine *before = platform_enter(&worker->machine);
    worker->machine.dead = worker->machine.dead || died;
    destroy_parts(worker);
    worker->machine.dead = true;
    platform_enter(before);
}

bool sim_worker_start(struct sim_worker *worker)
{
    struct mr_error err = {0};
    struct broker *broker = worker->options.broker;
    if (!tokenizer) tokenizer = mr_fake_tokenizer();
    set_up(worker);
    struct sim_machine *before = platform_enter(&worker->machine);
    enum mr_status status = open_parts(worker, &err);
    platform_enter(before);
    if (status != MR_OK) {
        broker_note(broker, "%s does not start: %s", worker->id, err.detail);
        go_off(worker, true);
        return false;
    }
    add_threads(worker);
    worker->phase = SIM_RUNNING;
    broker_note(broker, "%s starts", worker->id);
    return true;
}

void sim_worker_crash(struct sim_worker *worker)
{
    if (worker->phase == SIM_OFF) return;
    broker_note(worker->options.broker, "%s crashes", worker->id);
    if (worker->phase >= SIM_STOPPING)
        broker_cover(worker->options.broker, COVER_CRASH_WHILE_DRAINING);
    go_off(worker, true);
}

void sim_worker_stop(struct sim_worker *worker)
{
    if (worker->phase != SIM_RUNNING) return;
    broker_note(worker->options.broker, "%s gets SIGTERM", worker->id);
    worker->phase = SIM_STOPPING;
    worker->began_ns = platform_ns();
    mr_intake_drain(worker->intake, 0);
    mr_wake_ring(mr_intake_wake(worker->intake));
}

/* Begins to stop the parts that follow the engine, as mr_worker_destroy does. */
static void end_engine(struct sim_worker *worker)
{
    mr_intake_forget_engine(worker->intake);
    mr_redis_cache_close(worker->remote, 0);
    mr_engine_thread_stop(worker->engine);
    for (uint32_t i = 0; i < worker->machine.thread_count; i++)
        if (worker->machine.threads[i].step == step_engine)
            worker->machine.threads[i] = worker->machine.threads[--worker->machine.thread_count];
    mr_publish_drain(worker->publish, platform_ns() + FLUSH_NS);
    worker->phase = SIM_FLUSHING;
}

static void end_publish(struct sim_worker *worker)
{
    mr_publish_destroy(worker->publish, 0);
    worker->publish = NULL;
    for (uint32_t i = 0; i < worker->machine.thread_count; i++)
        if (worker->machine.threads[i].step == step_publish)
            worker->machine.threads[i] = worker->machine.threads[--worker->machine.thread_count];
    atomic_store(&worker->intake->leave_requested, true);
    mr_wake_ring(mr_intake_wake(worker->intake));
    worker->deadline_ns = platform_ns() + LEAVE_NS;
    worker->phase = SIM_LEAVING;
}

static void advance_stop(struct sim_worker *worker)
{
    uint64_t now_ns = platform_ns();
    bool failed = worker->failure.status != MR_OK;
    if (worker->phase == SIM_STOPPING && (worker->intake->drained || failed)) {
        mr_engine_thread_drain(worker->engine);
        worker->deadline_ns = now_ns + worker->options.drain_ns;
        worker->phase = SIM_DRAINING;
    }
    if (worker->phase == SIM_DRAINING &&
        (mr_intake_stats(worker->intake).in_flight == 0 || now_ns >= worker->deadline_ns || failed))
        end_engine(worker);
    if (worker->phase == SIM_FLUSHING && mr_publish_is_drained(worker->publish))
        end_publish(worker);
    if (worker->phase == SIM_LEAVING &&
        (worker->intake->leaving == MR_INTAKE_HAS_LEFT || now_ns >= worker->deadline_ns)) {
        broker_note(worker->options.broker, "%s ends", worker->id);
        go_off(worker, false);
    }
}

/* Records partitions that are resumed after a rebalance. With the fault, the machine dies while one
 * recovers. */
static void watch_partitions(struct sim_worker *worker)
{
    struct mr_partitions *partitions = worker->intake->partitions;
    for (size_t i = 0; i < mr_partitions_count(partitions) && i < BROKER_GROUPED_MAX; i++) {
        const struct mr_partition *partition = mr_partitions_at(partitions, i);
        uint64_t *suspended = &worker->suspended_epochs[i];
        if (partition->recovering && worker->dies_recovering) {
            broker_cover(worker->options.broker, COVER_CRASH_WHILE_RECOVERING);
            worker->machine.dead = true;
        }
        if (partition->state == MR_PARTITION_SUSPENDED) *suspended = partition->epoch;
        if (partition->state != MR_PARTITION_OWNED || *suspended == 0) continue;
        if (*suspended == partition->epoch)
            broker_cover(worker->options.broker, COVER_PARTITION_RESUMED);
        *suspended = 0;
    }
}

void sim_worker_watch(struct sim_worker *worker)
{
    if (worker->phase == SIM_OFF) return;
    if (!worker->machine.dead) watch_partitions(worker);
    if (worker->machine.dead) {
        sim_worker_crash(worker);
        return;
    }
    struct sim_machine *before = platform_enter(&worker->machine);
    if (worker->phase == SIM_RUNNING && worker->failure.status != MR_OK) {
        broker_note(worker->options.broker, "%s fails: %s", worker->id, worker->failure.detail);
        broker_cover(worker->options.broker, COVER_WORKER_FAILED);
        sim_worker_stop(worker);
    }
    if (worker->phase > SIM_RUNNING && platform_ns() >= worker->machine.paused_until_ns)
        advance_stop(worker);
    platform_enter(before);
}

uint64_t sim_worker_due_ns(const struct sim_worker *worker)
{
    if (worker->phase <= SIM_RUNNING) return UINT64_MAX;
    uint64_t due_ns = platform_ns() + POLL_NS;
    return due_ns < worker->machine.paused_until_ns ? worker->machine.paused_until_ns : due_ns;
}

/* An engine without requests holds no block, unless Redis still loads into it or stores it. */
static void check_engine(struct mr_engine *engine)
{
    struct mr_engine_stats stats = mr_engine_stats(engine);
    mr_engine_check(engine);
    MR_ASSERT(stats.running + stats.waiting > 0 || stats.remote.lent_tables > 0 ||
              stats.cache.held_count == 0);
}

void sim_worker_check(struct sim_worker *worker)
{
    if (worker->phase == SIM_OFF) return;
    mr_partitions_check(worker->intake->partitions);
    mr_ticket_table_check(worker->intake->flight.submitted);
    mr_id_memory_check(worker->intake->cancelled);
    mr_id_memory_check(worker->intake->flight.ended);
    if (worker->engine_core) check_engine(worker->engine_core);
    if (!worker->fake) return;
    MR_ASSERT(worker->fake->wrong_reads == 0 && worker->fake->double_writes == 0);
    const struct mr_kv_cache_stats cache = mr_engine_stats(worker->engine_core).cache;
    if (cache.snapshots_total > 0) broker_cover(worker->options.broker, COVER_SNAPSHOT_KEPT);
    if (worker->options.state_slots > 0 && cache.hit_tokens > 0)
        broker_cover(worker->options.broker, COVER_SNAPSHOT_USED);
}
