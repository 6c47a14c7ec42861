#include "worker/intake/intake_state.h"
#include "worker/kafka/kafka_in.h"
#include "worker/kafka/kafka_reader.h"

#include <stdlib.h>

/* Longest time of one step; calls of librdkafka have timeouts. */
#define STEP_MAX_NS ((uint64_t)60000000000)

#define CANCEL_TIMEOUT_MS 5000u
#define RECOVERY_MS       5000u
/* tickets in addition to those of requests queued and running in the engine: refused records,
 * duplicates and parked requests */
#define IN_FLIGHT_MORE 4096u
/* records of all tenants that wait for other requests (worker/intake/flight.h) */
#define WAITING_MAX       (IN_FLIGHT_MORE / 2)
#define WAITING_BYTES_MAX ((size_t)64 << 20)
#define MAIL_COUNT_MAX    65536u
#define MAIL_BYTES_MAX    ((size_t)16 << 20)

/* ---- creating ---- */

static enum mr_status make_tables(struct mr_intake *intake, struct mr_error *err)
{
    const struct mr_config *config = intake->options.config;
    uint32_t count_max = config->queue_requests + config->max_sequences + IN_FLIGHT_MORE;
    uint32_t ids_max = intake->options.ids_max > 0 ? intake->options.ids_max : MR_INTAKE_IDS_MAX;
    uint32_t tenants = config->tenant_count > 0 ? config->tenant_count : 1;
    struct mr_flight_limits limits = {
        .count_max = count_max,
        .ended_max = ids_max,
        .attempts_max = config->attempts_max,
        .waiting_max = {WAITING_MAX / tenants, WAITING_BYTES_MAX / tenants}};
    enum mr_status status = mr_partitions_create(&intake->partitions, err);
    if (status == MR_OK) status = mr_flight_open(&intake->flight, &limits, err);
    if (status == MR_OK) mr_partitions_set_handover(intake->partitions, intake->options.handover);
    if (status == MR_OK)
        status = mr_id_memory_create(&intake->cancelled, ids_max, MR_CANCEL_KEEP_NS, err);
    intake->hash = mr_sha256_create();
    if (status == MR_OK && !intake->hash) status = mr_fail(err, MR_NOMEM, "no memory for a hash");
    return status;
}

static void free_all(struct mr_intake *intake)
{
    mr_prompt_destroy(intake->prompt);
    mr_sha256_destroy(intake->hash);
    mr_id_memory_destroy(intake->cancelled);
    mr_flight_close(&intake->flight);
    free(intake->schedule.batch);
    mr_partitions_destroy(intake->partitions);
    mr_mailbox_destroy(intake->mailbox);
    mr_wake_close(&intake->wake);
    pthread_cond_destroy(&intake->changed);
    pthread_mutex_destroy(&intake->mutex);
    mr_engine_link_destroy(&intake->admission.engine);
    free(intake);
}

enum mr_status mr_intake_create(struct mr_intake **out, const struct mr_intake_options *options,
                                struct mr_error *err)
{
    *out = NULL;
    struct mr_intake *intake = calloc(1, sizeof *intake);
    if (!intake) return mr_fail(err, MR_NOMEM, "no memory for intake");
    intake->options = *options;
    if (!options->open_consumer) intake->options.open_consumer = mr_kafka_in_open;
    if (!options->open_reader) intake->options.open_reader = mr_kafka_reader_open_port;
    intake->fault = (struct mr_fault){.report = options->failed, .context = options->context};
    intake->wake.fd = -1;
    pthread_mutex_init(&intake->mutex, NULL);
    mr_engine_link_init(&intake->admission.engine);
    pthread_cond_init(&intake->changed, NULL);
    enum mr_status status = mr_wake_open(&intake->wake, err);
    struct mr_mailbox_options mailbox = {MAIL_COUNT_MAX, MAIL_BYTES_MAX, &intake->wake};
    if (status == MR_OK) status = mr_mailbox_create(&intake->mailbox, &mailbox, err);
    if (status == MR_OK) status = make_tables(intake, err);
    if (status != MR_OK) {
        free_all(intake);
        return status;
    }
    *out = intake;
    return MR_OK;
}

struct mr_mailbox *mr_intake_mailbox(struct mr_intake *intake)
{
    return intake->mailbox;
}

const struct mr_wake *mr_intake_wake(const struct mr_intake *intake)
{
    return &intake->wake;
}

atomic_int_least64_t *mr_intake_oldest(struct mr_intake *intake)
{
    return &intake->oldest_ms;
}

atomic_bool *mr_intake_step_failed(struct mr_intake *intake)
{
    return &intake->starts.step_failed;
}

/* ---- opening and starting ---- */

/* Sets in each module of intake the pointers to the modules that it calls. */
static void connect_parts(struct mr_intake *intake, const struct mr_intake_targets *targets)
{
    const struct mr_config *config = intake->options.config;
    struct mr_log *log = intake->options.log;
    struct mr_admission *admission = &intake->admission;
    intake->schedule = (struct mr_commit_schedule){.partitions = intake->partitions,
                                                   .fault = &intake->fault,
                                                   .log = log,
                                                   .metrics = targets->metrics,
                                                   .interval_ns = config->commit_interval_ns,
                                                   .due_ns = UINT64_MAX};
    intake->lookups = (struct mr_lookups){.resume = targets->resume,
                                          .config = config,
                                          .metrics = targets->metrics,
                                          .due_ns = UINT64_MAX};
    intake->starts.schedule = &intake->schedule;
    intake->starts.resume = targets->resume;
    intake->starts.flight = &intake->flight;
    intake->starts.handover = intake->options.handover;
    intake->starts.due_ns = UINT64_MAX;
    admission->config = config;
    mr_quota_open(&admission->quota, config);
    admission->log = log;
    admission->metrics = targets->metrics;
    admission->fault = &intake->fault;
    admission->partitions = intake->partitions;
    admission->schedule = &intake->schedule;
    admission->flight = &intake->flight;
    admission->lookups = &intake->lookups;
    admission->starts = &intake->starts;
    admission->requests = &intake->requests;
    admission->cancelled = intake->cancelled;
    admission->hash = intake->hash;
    admission->prompt = intake->prompt;
    admission->tracer = intake->options.tracer;
    admission->adapters = targets->adapters;
    if (targets->adapters) mr_adapters_set_wake(targets->adapters, mr_intake_wake(intake));
    admission->publish = targets->publish;
    admission->engine.port = targets->engine;
    intake->requests = (struct mr_partition_requests){
        .flight = &intake->flight, .starts = &intake->starts, .engine = &admission->engine};
    intake->ownership =
        (struct mr_ownership){.config = config,
                              .log = log,
                              .metrics = targets->metrics,
                              .fault = &intake->fault,
                              .partitions = intake->partitions,
                              .schedule = &intake->schedule,
                              .requests = mr_partition_requests_port(&intake->requests),
                              .recovery = intake->recovery};
    intake->exactly_once = (struct mr_exactly_once){.transactions = targets->transactions,
                                                    .sink = mr_admission_sink(admission),
                                                    .schedule = &intake->schedule,
                                                    .fault = &intake->fault,
                                                    .due_ns = UINT64_MAX};
}

static enum mr_status open_cancels(struct mr_intake *intake, struct mr_error *err)
{
    /* The embedded test broker cannot look up offsets by timestamp. */
    bool embedded = intake->options.kafka->embedded;
    const char *topic = intake->options.config->cancel_topic;
    struct mr_kafka_reader_options options = {.kafka = intake->options.kafka,
                                              .wake = &intake->wake,
                                              .topics = &topic,
                                              .topic_count = 1,
                                              .from = embedded ? MR_KAFKA_FROM_BEGINNING
                                                               : MR_KAFKA_FROM_AGE,
                                              .age_ms = MR_CANCEL_KEEP_NS / 1000000,
                                              .timeout_ms = CANCEL_TIMEOUT_MS};
    return intake->options.open_reader(intake->options.open_context, &options, &intake->cancels,
                                       err);
}

static enum mr_status create_recovery(struct mr_intake *intake, struct mr_error *err)
{
    const struct mr_config *config = intake->options.config;
    struct mr_recovery_options options = {.kafka = intake->options.kafka,
                                          .open_reader = intake->options.open_reader,
                                          .open_context = intake->options.open_context,
                                          .results_topic = config->results_topic,
                                          .dlq_topic = config->dlq_topic,
                                          .group = config->group,
                                          .committed_only =
                                              config->delivery == MR_DELIVERY_EXACTLY_ONCE,
                                          .timeout_ms = RECOVERY_MS,
                                          .wake = &intake->wake,
                                          .log = intake->options.log};
    if (!intake->options.join_group) return MR_OK;
    return mr_recovery_create(&intake->recovery, &options, err);
}

/* The topic's configured weight; without one, a weight that doubles with every 10 of the topic's
 * priority (low, normal, high, urgent). */
static uint32_t weight_of(const struct mr_request_topic *topic)
{
    if (topic->weight > 0) return topic->weight;
    int32_t exponent = topic->priority / 10 + 4;
    return 1u << (exponent < 0 ? 0 : exponent > 12 ? 12 : exponent);
}

static enum mr_status open_consumer(struct mr_intake *intake, struct mr_error *err)
{
    const struct mr_config *config = intake->options.config;
    for (size_t i = 0; i < config->request_topic_count; i++)
        intake->topics[i] = (struct mr_kafka_consumer_topic){config->request_topics[i].name,
                                                             weight_of(&config->request_topics[i])};
    struct mr_kafka_consumer_options options = {.kafka = intake->options.kafka,
                                                .wake = &intake->wake,
                                                .topics = intake->topics,
                                                .topic_count = config->request_topic_count,
                                                .join_group = intake->options.join_group};
    return intake->options.open_consumer(intake->options.open_context, &options, &intake->consumer,
                                         err);
}

static void close_readers(struct mr_intake *intake)
{
    mr_recovery_destroy(intake->recovery);
    intake->recovery = NULL;
    if (intake->cancels.self) intake->cancels.close(intake->cancels.self);
    intake->cancels.self = NULL;
}

enum mr_status mr_intake_open(struct mr_intake *intake, const struct mr_intake_targets *targets,
                              struct mr_error *err)
{
    enum mr_status status = mr_prompt_create(&intake->prompt, &targets->prompt, err);
    if (status == MR_OK) status = open_cancels(intake, err);
    if (status == MR_OK) status = create_recovery(intake, err);
    if (status == MR_OK) status = open_consumer(intake, err);
    if (status != MR_OK) {
        close_readers(intake);
        return status;
    }
    connect_parts(intake, targets);
    if (targets->transactions) mr_transactions_set_wake(targets->transactions, &intake->wake);
    intake->opened = true;
    return MR_OK;
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_intake_step(state, now);
}

enum mr_status mr_intake_start(struct mr_intake *intake, const struct mr_intake_targets *targets,
                               struct mr_error *err)
{
    enum mr_status status = mr_intake_open(intake, targets, err);
    if (status != MR_OK) return status;
    struct mr_thread_options options = {.name = "intake",
                                        .step = step,
                                        .state = intake,
                                        .wake = &intake->wake,
                                        .heartbeats = intake->options.kafka->heartbeats,
                                        .step_max_ns = STEP_MAX_NS};
    if (intake->recovery) status = mr_recovery_start(intake->recovery, err);
    if (status == MR_OK) status = mr_thread_start(&intake->thread, &options, err);
    if (status == MR_OK) return MR_OK;
    intake->exactly_once.transactions = NULL;
    intake->opened = false;
    intake->consumer.close(intake->consumer.self, 1000);
    close_readers(intake);
    return status;
}

/* ---- ending ---- */

/* Waits until the condition holds; false: it did not hold at until_ns. */
static bool wait_until(struct mr_intake *intake, const bool *condition, uint64_t until_ns)
{
    mr_wake_ring(&intake->wake);
    pthread_mutex_lock(&intake->mutex);
    while (!*condition && mr_clock_wait(&intake->changed, &intake->mutex, until_ns))
        ;
    bool holds = *condition;
    pthread_mutex_unlock(&intake->mutex);
    return holds;
}

void mr_intake_drain(struct mr_intake *intake, uint64_t timeout_ns)
{
    uint64_t now_ns = mr_clock_ns(), most_ns = (uint64_t)INT64_MAX - now_ns;
    atomic_store(&intake->draining, true);
    if (!intake->thread) return;
    wait_until(intake, &intake->drained, now_ns + (timeout_ns < most_ns ? timeout_ns : most_ns));
}

void mr_intake_forget_engine(struct mr_intake *intake)
{
    mr_engine_link_close(&intake->admission.engine);
}

/* *freeable: whether intake may be freed, because no transaction with its tickets runs. */
static bool close_all(struct mr_intake *intake, uint64_t until_ns, bool *freeable)
{
    bool closed_well =
        intake->consumer.close(intake->consumer.self, mr_clock_left_ms(mr_clock_ns(), until_ns));
    close_readers(intake);
    *freeable = mr_transactions_destroy(intake->exactly_once.transactions,
                                        mr_clock_left_ms(mr_clock_ns(), until_ns));
    if (!*freeable) return false;
    mr_exactly_once_drop_all(&intake->exactly_once);
    mr_admission_drop_all(&intake->admission);
    mr_lookups_close(&intake->lookups, intake->mailbox);
    return closed_well;
}

bool mr_intake_destroy(struct mr_intake *intake, uint32_t timeout_ms)
{
    bool closed_well = true, freeable = true;
    uint64_t now_ns = mr_clock_ns(), timeout_ns = timeout_ms * UINT64_C(1000000);
    if (!intake) return true;
    intake->leave_by_ns = now_ns + timeout_ns / 2; /* the rest is for leaving the group */
    atomic_store(&intake->leave_requested, true);
    if (intake->thread && !wait_until(intake, &intake->left, now_ns + timeout_ns)) return false;
    mr_thread_stop(intake->thread);
    if (intake->opened) closed_well = close_all(intake, now_ns + timeout_ns, &freeable);
    if (!freeable) return false;
    free_all(intake);
    return closed_well;
}

struct mr_intake_stats mr_intake_stats(struct mr_intake *intake)
{
    pthread_mutex_lock(&intake->mutex);
    struct mr_intake_stats stats = intake->shown;
    pthread_mutex_unlock(&intake->mutex);
    return stats;
}

void mr_intake_oldest_requests(struct mr_intake *intake, struct mr_oldest *oldest)
{
    pthread_mutex_lock(&intake->mutex);
    *oldest = intake->oldest;
    pthread_mutex_unlock(&intake->mutex);
}
