#include "worker/serve/worker.h"

#include "worker/base/clock.h"
#include "worker/base/slice.h"
#include "worker/config/option_apply.h"
#include "worker/config/topics.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/kafka/kafka_txn.h"
#include "worker/serve/banner.h"
#include "worker/serve/health.h"
#include "worker/serve/local.h"
#include "worker/serve/parts_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_MS 1000u
/* memory for the resume data of running requests: 16 KiB for each of 4,096 sequences, the most that
 * --max-sequences accepts */
#define RESUME_BYTES_MAX ((uint64_t)64 << 20)
/* fetch wait with the embedded broker; long, so that the broker leaves the CPU cores to the model
 */
#define EMBEDDED_WAIT_MS 30u
/* Default and least of --session-timeout with the embedded broker. A rebalance there lasts a second
 * less than the session timeout, and the first one of a group 3 s, in which no member sends
 * heartbeats. */
#define EMBEDDED_SESSION_NS       ((uint64_t)6000000000)
#define EMBEDDED_SESSION_LEAST_NS ((uint64_t)4000000000)
#define TOPIC_TIMEOUT_MS          10000u
#define TRANSACTION_NS            ((uint64_t)10000000000)
/* timeout of the first request to Kafka's transaction coordinator */
#define OPEN_TIMEOUT_MS 30000u
/* for ending the started parts when the start fails, also one that is opening a model */
#define FAILED_START_TIMEOUT_MS 5000u

/* ---- callbacks of the parts ---- */

/* Keeps the first failure of a component and wakes the main thread. Threads: any. */
static void on_failed(void *context, const struct mr_error *err)
{
    struct mr_worker *worker = context;
    pthread_mutex_lock(&worker->mutex);
    bool first = worker->failure.status == MR_OK;
    if (first) worker->failure = *err;
    pthread_mutex_unlock(&worker->mutex);
    if (first) mr_log_error(worker->options.log, "worker failed and will exit: %s", err->detail);
    mr_wake_ring(&worker->wake);
}

static void on_kafka_log(void *context, enum mr_log_level level, const char *text)
{
    struct mr_worker *worker = context;
    mr_log_write(worker->options.log, level, NULL, "%s", text);
}

static void on_kafka_failed(void *context, bool unreachable, const char *reason)
{
    struct mr_worker *worker = context;
    mr_kafka_outage_note(&worker->outage, unreachable, reason, mr_clock_ns());
}

/* ---- building ---- */

/* The timeout after which the Kafka broker aborts the open transaction of a crashed worker. Until
 * then consumers of committed records cannot read past that transaction, and nobody can read its
 * offsets. Not longer than the session timeout, after which another worker gets the partitions. */
static uint64_t transaction_timeout_ns(const struct mr_config *config)
{
    if (config->delivery != MR_DELIVERY_EXACTLY_ONCE) return 0;
    return config->session_timeout_ns < TRANSACTION_NS ? config->session_timeout_ns
                                                       : TRANSACTION_NS;
}

static void set_kafka_options(struct mr_worker *worker)
{
    const struct mr_config *config = worker->options.config;
    worker->kafka = (struct mr_kafka_options){
        .brokers = worker->options.brokers ? worker->options.brokers : config->brokers,
        .group = config->group,
        .client_id = config->worker_id,
        .group_instance = config->group_instance,
        .properties = &config->kafka,
        .session_timeout_ns = config->session_timeout_ns,
        .transaction_timeout_ns = transaction_timeout_ns(config),
        .poll_interval_max_ns = config->poll_interval_max_ns,
        .prefetch_bytes = config->prefetch_bytes,
        .linger_ns = config->token_linger_ns,
        .max_record_bytes = config->max_record_bytes,
        .log = on_kafka_log,
        .failed = on_kafka_failed,
        .log_context = worker,
        .ending = &worker->ending,
        .heartbeats = &worker->heartbeats,
        .login = worker->kafka_login,
        .stats = worker->kafka_stats};
}

static enum mr_status ensure_topics(struct mr_worker *worker, struct mr_kafka_admin *admin,
                                    struct mr_error *err)
{
    struct mr_topic topic;
    enum mr_status status = MR_OK;
    uint32_t count = 0;
    for (size_t i = 0; status == MR_OK && mr_topics_at(worker->options.config, i, &topic); i++) {
        status = mr_kafka_admin_ensure(admin, topic.name, TOPIC_TIMEOUT_MS, &count, err);
        if (topic.role == MR_TOPIC_REQUESTS) worker->partition_count += count;
    }
    return status;
}

/* Connects again and again while the broker cannot be reached. Stops if the broker rejects the
 * login or certificate, or if the model could not be opened meanwhile. */
static enum mr_status wait_for_broker(struct mr_worker *worker, struct mr_kafka_admin *admin,
                                      bool *embedded, struct mr_error *err)
{
    const struct mr_worker_options *options = &worker->options;
    uint64_t until_ns = mr_clock_ns() + options->config->broker_timeout_ns;
    for (bool logged = false;; logged = true) {
        enum mr_status status = mr_kafka_admin_probe(admin, PROBE_MS, embedded, err);
        if (status == MR_OK || mr_kafka_admin_refused(admin)) return status;
        if (mr_clock_ns() >= until_ns) return status;
        if (options->give_up && options->give_up(options->context)) return status;
        if (mr_engine_thread_has_failed(worker->engine)) return status;
        if (!logged) mr_log_warn(options->log, "%s; retrying", err->detail);
    }
}

static void set_embedded_session(struct mr_worker *worker)
{
    const struct mr_option *option = mr_option_find("session-timeout");
    uint64_t *session_ns = &worker->kafka.session_timeout_ns;
    if (mr_option_origin(worker->options.config, option) == MR_ORIGIN_DEFAULT)
        *session_ns = EMBEDDED_SESSION_NS;
    else if (*session_ns < EMBEDDED_SESSION_LEAST_NS)
        *session_ns = EMBEDDED_SESSION_LEAST_NS;
}

/* Connects to the broker and creates missing topics. Meanwhile the engine thread loads the
 * model. */
static enum mr_status connect_broker(struct mr_worker *worker, struct mr_kafka_admin *admin,
                                     struct mr_error *err)
{
    bool embedded = false;
    enum mr_status status = wait_for_broker(worker, admin, &embedded, err);
    if (status == MR_OK && embedded && worker->options.config->delivery == MR_DELIVERY_EXACTLY_ONCE)
        status = mr_fail(err, MR_BAD_CONFIG,
                         "--delivery exactly-once needs Apache Kafka: the embedded broker has no "
                         "transactions");
    if (status == MR_OK) status = ensure_topics(worker, admin, err);
    worker->kafka.embedded = embedded;
    worker->kafka.mock_wait_ms = EMBEDDED_WAIT_MS;
    if (embedded) set_embedded_session(worker);
    return status;
}

static enum mr_status open_metrics(struct mr_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = worker->options.config;
    const struct mr_model_info *model = mr_engine_thread_model(worker->engine);
    struct mr_metrics_info info = {.worker = config->worker_id,
                                   .model = config->model_name,
                                   .dtype = model->dtype,
                                   .device = model->device,
                                   .block_tokens = MR_BLOCK_TOKENS,
                                   .context_tokens =
                                       mr_engine_thread_context_tokens(worker->engine),
                                   .sequences_max = config->max_sequences,
                                   .topics = config->request_topics,
                                   .topic_count = config->request_topic_count,
                                   .kafka_version = mr_kafka_conf_version()};
    return mr_metrics_create(&worker->metrics, &info, err);
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

/* The transactional id consists of group and worker id: a restarted worker thereby aborts the
 * transaction that it left open, and a second worker of the same id fences the first. */
static enum mr_status open_transactions(struct mr_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = worker->options.config;
    if (config->delivery != MR_DELIVERY_EXACTLY_ONCE) return MR_OK;
    snprintf(worker->transactional_id, sizeof worker->transactional_id, "millrace-%s-%s",
             config->group, config->worker_id);
    const struct mr_kafka_txn_source source = {.kafka = &worker->kafka,
                                               .transactional_id = worker->transactional_id,
                                               .topics = config->request_topics,
                                               .timeout_ms = OPEN_TIMEOUT_MS};
    struct mr_transactions_options options = {.producer = mr_kafka_txn_opener(&source),
                                              .output = output_options(config),
                                              .log = worker->options.log,
                                              .metrics = worker->metrics,
                                              .heartbeats = &worker->heartbeats};
    enum mr_status status = mr_transactions_create(&worker->transactions, &options, err);
    return status == MR_OK ? mr_transactions_start(worker->transactions, err) : status;
}

static bool call_remote(void *context, const struct mr_redis_call *calls, size_t count)
{
    return mr_redis_cache_call(context, calls, count);
}

static void silence_remote(void *context, bool silent)
{
    mr_redis_cache_set_silent(context, silent);
}

static enum mr_status open_resume(struct mr_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = worker->options.config;
    struct mr_frame_secret secrets[MR_FRAME_KEYS_MAX];
    struct mr_resume_options options = {.call = call_remote,
                                        .silence = silence_remote,
                                        .context = worker->remote_cache,
                                        .secrets = secrets,
                                        .ttl_ns = config->resume_ttl_ns,
                                        .bytes_max = config->resume ? RESUME_BYTES_MAX : 0,
                                        .intake = mr_intake_mailbox(worker->intake),
                                        .metrics = worker->metrics};
    if (!worker->remote_cache) return MR_OK;
    memcpy(options.weights_digest, mr_engine_thread_model(worker->engine)->weights_digest,
           sizeof options.weights_digest);
    enum mr_status status =
        mr_redis_cache_secrets(config->redis_key_file, secrets, &options.secret_count, err);
    if (status == MR_OK) status = mr_resume_create(&worker->resume, &options, err);
    explicit_bzero(secrets, sizeof secrets);
    return status;
}

static enum mr_status open_publish(struct mr_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = worker->options.config;
    bool exactly_once = config->delivery == MR_DELIVERY_EXACTLY_ONCE;
    struct mr_publish_options options = {.producer = mr_kafka_out_opener(&worker->kafka),
                                         .output = output_options(config),
                                         .exactly_once = exactly_once,
                                         .intake = mr_intake_mailbox(worker->intake),
                                         .oldest_ms = mr_intake_oldest(worker->intake),
                                         .resume = worker->resume,
                                         .log = worker->options.log,
                                         .metrics = worker->metrics,
                                         .heartbeats = &worker->heartbeats,
                                         .failed = on_failed,
                                         .context = worker};
    enum mr_status status = mr_publish_create(&worker->publish, &options, err);
    return status == MR_OK ? mr_publish_start(worker->publish, err) : status;
}

/* Wakes the engine, because answers from Redis are ready to be polled. Threads: runs on the
 * connection threads of Redis. */
static void on_remote_answers(void *context)
{
    mr_engine_thread_wake(context);
}

static void link_engine(struct mr_worker *worker)
{
    if (worker->remote_cache)
        mr_redis_cache_link(worker->remote_cache, on_remote_answers, worker->engine);
    struct mr_engine_thread_links links = {.publish = mr_publish_mailbox(worker->publish),
                                           .intake = mr_intake_mailbox(worker->intake),
                                           .intake_wake = mr_intake_wake(worker->intake),
                                           .step_failed = mr_intake_step_failed(worker->intake)};
    mr_engine_thread_link(worker->engine, &links);
}

static enum mr_status start_intake(struct mr_worker *worker, struct mr_error *err)
{
    const struct mr_model_info *model = mr_engine_thread_model(worker->engine);
    struct mr_intake_targets targets = {
        .engine = mr_engine_thread_port(worker->engine),
        .prompt = {.tokenizer = mr_engine_thread_tokenizer(worker->engine),
                   .chat_template = model->chat_template,
                   .tool_template = model->tool_template,
                   .special = model->special,
                   .prompt_tokens_max = mr_engine_thread_context_tokens(worker->engine) -
                                        !mr_engine_thread_model(worker->engine)->both_ways},
        .publish = mr_publish_mailbox(worker->publish),
        .metrics = worker->metrics,
        .resume = worker->resume,
        .adapters = worker->adapters,
        .transactions = worker->transactions};
    enum mr_status status = mr_intake_start(worker->intake, &targets, err);
    if (status == MR_OK) worker->transactions = NULL;
    return status;
}

static void warn_of_context(struct mr_worker *worker)
{
    const uint32_t asked = worker->options.config->context_tokens;
    const uint32_t most = mr_engine_thread_model(worker->engine)->context_tokens;
    if (asked > most)
        mr_log_warn(worker->options.log,
                    "--context-tokens %" PRIu32 " exceeds the model's limit of %" PRIu32
                    ", which applies",
                    asked, most);
}

static void print_banner(struct mr_worker *worker)
{
    struct mr_banner banner = {.config = worker->options.config,
                               .model = mr_engine_thread_model(worker->engine),
                               .machine = &worker->engine_setup.machine,
                               .thread_count = worker->engine_setup.thread_count,
                               .brokers = worker->kafka.brokers,
                               .embedded = worker->kafka.embedded,
                               .context_tokens = mr_engine_thread_context_tokens(worker->engine),
                               .partition_count = worker->partition_count,
                               .http_port = worker->http ? mr_http_port(worker->http) : (uint16_t)0,
                               .start_seconds =
                                   (double)(worker->built_ns - worker->started_ns) / 1e9};
    if (worker->options.banner && mr_log_is_json(worker->options.log))
        mr_banner_log(&banner, worker->options.log);
    else if (worker->options.banner)
        mr_banner_print(&banner, worker->options.banner);
}

/* Creates the remote cache and starts its connection threads. An unreachable Redis is not an error.
 */
static enum mr_status open_remote_cache(struct mr_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = worker->options.config;
    struct mr_redis_cache_options options = mr_local_redis(config, worker->options.log);
    options.heartbeats = &worker->heartbeats;
    return config->redis[0] ? mr_redis_cache_create(&worker->remote_cache, &options, err) : MR_OK;
}

static enum mr_status open_tracer(struct mr_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = worker->options.config;
    struct mr_tracer_options options = {.url = config->trace_endpoint,
                                        .ratio = config->trace_sample,
                                        .worker = {.worker = config->worker_id,
                                                   .model = config->model_name,
                                                   .group = config->group,
                                                   .results_topic = config->results_topic},
                                        .log = worker->options.log,
                                        .heartbeats = &worker->heartbeats};
    return options.url[0] ? mr_tracer_create(&worker->tracer, &options, err) : MR_OK;
}

static void warn(void *context, const char *text)
{
    const struct mr_worker *worker = context;
    mr_log_warn(worker->options.log, "%s", text);
}

/* Makes the checks that need no server, and creates the client that will connect to the broker,
 * because creating it reads the files of the TLS properties. */
static enum mr_status check_local(struct mr_worker *worker, struct mr_kafka_admin **admin,
                                  enum mr_exit *exit_code, struct mr_error *err)
{
    const struct mr_config *config = worker->options.config;
    enum mr_status status = mr_local_check(config, err);
    if (status == MR_OK) status = mr_kafka_conf_check(&worker->kafka, err);
    if (status == MR_OK) status = mr_kafka_admin_open(admin, &worker->kafka, err);
    *exit_code = mr_worker_exit_code(status);
    if (status != MR_OK) return status;
    mr_local_check_secrets(config, warn, worker);
    status = mr_local_open_model(&worker->model_files, config, err);
    *exit_code = mr_local_model_exit(status);
    if (status != MR_OK) return status;
    status = mr_health_open(worker, err);
    *exit_code = mr_worker_exit_code(status);
    return status;
}

static enum mr_status create_adapters(struct mr_worker *worker, struct mr_error *err)
{
    const struct mr_config *config = worker->options.config;
    const struct mr_adapters_options options = {.named = &config->adapter,
                                                .folder = config->adapters,
                                                .memory_bytes = config->adapter_memory_bytes,
                                                .log = worker->options.log};
    if (!mr_adapters_wanted(&options)) return MR_OK;
    return mr_adapters_create(&worker->adapters, &options, err);
}

static enum mr_status start_threads(struct mr_worker *worker, struct mr_error *err)
{
    worker->engine_setup = (struct mr_engine_setup){.config = worker->options.config,
                                                    .source = &worker->model_files,
                                                    .log = worker->options.log};
    struct mr_engine_thread_options engine = {.source =
                                                  mr_engine_setup_source(&worker->engine_setup),
                                              .failed = on_failed,
                                              .context = worker};
    struct mr_intake_options intake = {.config = worker->options.config,
                                       .kafka = &worker->kafka,
                                       .join_group = worker->options.join_group,
                                       .log = worker->options.log,
                                       .failed = on_failed,
                                       .context = worker};
    if (worker->options.join_group && worker->options.config->state_dir) {
        mr_handover_open(&worker->handover, worker->options.config->state_dir, worker->options.log);
        intake.handover = &worker->handover;
    }
    enum mr_status status = create_adapters(worker, err);
    worker->engine_setup.adapters = worker->adapters;
    if (status == MR_OK) status = open_tracer(worker, err);
    intake.tracer = worker->tracer;
    if (status == MR_OK) status = mr_intake_create(&worker->intake, &intake, err);
    if (status == MR_OK) status = open_remote_cache(worker, err);
    if (worker->remote_cache)
        worker->engine_setup.remote = mr_redis_cache_table(worker->remote_cache);
    if (status == MR_OK) status = mr_engine_thread_create(&worker->engine, &engine, err);
    if (status == MR_OK) status = mr_engine_thread_start(worker->engine, err);
    return status;
}

/* Adds to an error about memory the option that sets most of it, and the memory that the process
 * may use. */
static void name_kv_memory(const struct mr_worker *worker, struct mr_error *err)
{
    const double mebibyte = 1048576.0;
    struct mr_error inner = *err;
    struct mr_machine machine;
    mr_machine_read(&machine, "");
    mr_fail(err, inner.status,
            "%.160s; --kv-memory is %.0f MiB, and this process may use %.0f MiB in all",
            inner.detail, (double)worker->options.config->kv_memory_bytes / mebibyte,
            (double)mr_machine_usable_bytes(&machine) / mebibyte);
}

/* Connects to the broker while the engine thread opens the model, and waits for both. */
static enum mr_status open_model_and_broker(struct mr_worker *worker, enum mr_exit *exit_code,
                                            struct mr_error *err)
{
    struct mr_kafka_admin *admin = NULL;
    enum mr_status status = check_local(worker, &admin, exit_code, err);
    if (status != MR_OK) goto close;
    status = start_threads(worker, err);
    if (status == MR_OK) status = connect_broker(worker, admin, err);
    *exit_code = mr_worker_exit_code(status);
    if (status != MR_OK && (!worker->engine || !mr_engine_thread_has_failed(worker->engine)))
        goto close;
    status = mr_engine_thread_wait_ready(worker->engine, err);
    if (status != MR_OK) *exit_code = mr_local_model_exit(status);
    if (status == MR_NOMEM) name_kv_memory(worker, err);
close:
    mr_kafka_admin_close(admin);
    return status;
}

/* Starts all components of the worker in order. *exit_code: the process's exit code if one
 * fails. */
static enum mr_status build(struct mr_worker *worker, enum mr_exit *exit_code, struct mr_error *err)
{
    enum mr_status status = open_model_and_broker(worker, exit_code, err);
    if (status != MR_OK) return status;
    status = open_metrics(worker, err);
    if (status == MR_OK) status = open_resume(worker, err);
    if (status == MR_OK) status = open_publish(worker, err);
    if (status == MR_OK) status = open_transactions(worker, err);
    if (status == MR_OK) {
        link_engine(worker);
        status = start_intake(worker, err);
    }
    *exit_code = mr_worker_exit_code(status);
    return status;
}

enum mr_status mr_worker_create(struct mr_worker **out, const struct mr_worker_options *options,
                                enum mr_exit *exit_code, struct mr_error *err)
{
    *out = NULL;
    *exit_code = MR_EXIT_FAILED;
    struct mr_worker *worker = calloc(1, sizeof *worker);
    if (!worker) return mr_fail(err, MR_NOMEM, "no memory for a worker");
    worker->options = *options;
    worker->started_ns = mr_clock_ns();
    pthread_mutex_init(&worker->mutex, NULL);
    mr_kafka_outage_open(&worker->outage);
    enum mr_status status = mr_wake_open(&worker->wake, err);
    if (status == MR_OK) status = mr_kafka_stats_create(&worker->kafka_stats, err);
    if (status == MR_OK) status = mr_kafka_login_create(&worker->kafka_login, options->config, err);
    set_kafka_options(worker);
    mr_slice_short();
    if (status == MR_OK) status = build(worker, exit_code, err);
    mr_slice_usual();
    if (status != MR_OK) {
        mr_worker_destroy(worker, FAILED_START_TIMEOUT_MS);
        return status;
    }
    worker->built_ns = mr_clock_ns();
    atomic_store(&worker->built, true);
    atomic_store(&worker->ready, true);
    warn_of_context(worker);
    print_banner(worker);
    *out = worker;
    return MR_OK;
}
