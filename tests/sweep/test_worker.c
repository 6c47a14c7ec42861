/* Sweeps of a whole worker except librdkafka, the model and sockets: intake, engine, publish and,
 * with exactly-once delivery, transactions, stepped in one thread under virtual time. A life has
 * requests of every kind, a cancel, a revocation, a drain and a shutdown. Then a second worker, in
 * which no call fails, answers the remaining requests. */
#include "tests/fakes/engine_rig.h"
#include "tests/sweep/bus.h"
#include "tests/sweep/many_lists.h"
#include "tests/sweep/sweep.h"
#include "worker/engine/engine_thread.h"
#include "worker/intake/intake_state.h"
#include "worker/publish/publish.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS        ((uint64_t)1000000)
#define START_NS  ((uint64_t)1000000000000)
#define START_MS  ((int64_t)1763740000000)
#define STEPS_MAX 4000

struct kind {
    bool exactly_once, redis;
};

struct life {
    struct kind kind;
    struct bus bus;
    struct many_lists lists;
    struct fake_remote *remote; /* the storage of both workers' remote caches */
    struct mr_time now;
};

/* One worker. The product's objects are NULL until they are created. */
struct worker {
    struct life *life;
    struct mr_kafka_options kafka_options;
    struct mr_config config;
    struct engine_rig rig; /* its options, fake model, remote cache and tokenizer */
    struct mr_model_port model;
    struct mr_log *log;
    int log_fd;
    struct mr_intake *intake;
    struct mr_engine_thread *engine;
    struct mr_metrics *metrics;
    struct mr_resume *resume;
    struct mr_publish *publish;
    struct mr_transactions *transactions; /* borrowed once intake is open */
    bool linked, opened, transactions_owned;
    struct mr_error failure, err;
};

static void on_failed(void *context, const struct mr_error *err)
{
    struct worker *worker = context;
    if (worker->failure.status == MR_OK) worker->failure = *err;
}

/* ---- the engine's source, over a fake model that can fail ---- */

static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    struct worker *worker = context;
    if (points_fail(POINT_TENSOR, "launch")) return mr_fail(err, MR_BACKEND, "launch");
    return worker->model.launch(worker->model.context, step, err);
}

static enum mr_status collect(void *context, struct mr_error *err)
{
    struct worker *worker = context;
    enum mr_status status = worker->model.collect(worker->model.context, err);
    if (points_fail(POINT_TENSOR, "collect")) return mr_fail(err, MR_BACKEND, "collect");
    return status;
}

static enum mr_status logits(void *context, uint32_t row, float *out, struct mr_error *err)
{
    struct worker *worker = context;
    if (points_fail(POINT_TENSOR, "logits")) return mr_fail(err, MR_BACKEND, "logits");
    return worker->model.logits(worker->model.context, row, out, err);
}

static size_t kv_bytes(void *context, uint32_t token_count)
{
    struct worker *worker = context;
    return worker->model.kv_bytes(worker->model.context, token_count);
}

static enum mr_status kv_export(void *context, struct mr_kv_place place, uint32_t token_count,
                                void *bytes)
{
    struct worker *worker = context;
    if (points_fail(POINT_TENSOR, "kv_export")) return MR_MALFORMED;
    return worker->model.kv_export(worker->model.context, place, token_count, bytes);
}

static enum mr_status kv_import(void *context, struct mr_kv_place place, uint32_t token_count,
                                const void *bytes)
{
    struct worker *worker = context;
    if (points_fail(POINT_TENSOR, "kv_import")) return MR_MALFORMED;
    return worker->model.kv_import(worker->model.context, place, token_count, bytes);
}

static void *kv_bytes_of(void *context, uint32_t block)
{
    struct worker *worker = context;
    return worker->model.kv_bytes_of ? worker->model.kv_bytes_of(worker->model.context, block)
                                     : NULL;
}

static void kv_copy(void *context, struct mr_kv_place from, struct mr_kv_place to,
                    uint32_t token_count)
{
    struct worker *worker = context;
    worker->model.kv_copy(worker->model.context, from, to, token_count);
}

static struct mr_model_port failing_model(struct worker *worker)
{
    struct mr_model_port port = worker->model;
    port.context = worker;
    port.launch = launch;
    port.collect = collect;
    port.logits = logits;
    port.kv_bytes = kv_bytes;
    port.kv_export = kv_export;
    port.kv_import = kv_import;
    port.kv_bytes_of = kv_bytes_of;
    port.kv_copy = kv_copy;
    return port;
}

static enum mr_status open_source(void *self, const struct mr_engine_user *user,
                                  struct mr_engine_parts *parts, struct mr_error *err)
{
    struct worker *worker = self;
    worker->rig.options.wake = user->wake;
    worker->rig.options.wake_context = user->context;
    enum mr_status status =
        mr_engine_create(&worker->rig.engine, &worker->rig.options, &user->sink, err);
    *parts = (struct mr_engine_parts){.engine = worker->rig.engine,
                                      .tokenizer = worker->rig.tokenizer,
                                      .context_tokens = worker->rig.options.context_tokens};
    return status;
}

static bool nothing_to_populate(void *self)
{
    (void)self;
    return false;
}

static uint64_t read_clock(void *self)
{
    return ((struct worker *)self)->rig.fake->now_ns;
}

static void close_source(void *self)
{
    mr_engine_destroy(((struct worker *)self)->rig.engine);
}

/* ---- start, as worker/serve/worker.c does ---- */

static void make_fakes(struct worker *worker, struct life *life)
{
    static const struct fake_remote_options fast = {.latency_ns = MS, .bytes_per_second = 1e9};
    struct engine_rig *rig = &worker->rig;
    *worker = (struct worker){.life = life,
                              .config = {.request_topics = {{.name = "r", .tenant = "default"}},
                                         .request_topic_count = 1,
                                         .group = "g",
                                         .model_name = "fake",
                                         .cancel_topic = "cancel",
                                         .default_max_tokens = 16,
                                         .max_record_bytes = 4096,
                                         .queue_requests = 64,
                                         .attempts_max = 50,
                                         .commit_interval_ns = 100 * MS}};
    if (life->kind.exactly_once) worker->config.delivery = MR_DELIVERY_EXACTLY_ONCE;
    worker->log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    rig_init(rig);
    rig->tokenizer = mr_fake_tokenizer();
    rig->fake_options.vocab_size = MR_FAKE_VOCABULARY;
    rig->fake_options.block_count = rig->options.block_count;
    rig->fake_options.sequences_max = rig->options.sequences_max;
    rig->fake = mr_fake_model_create(&rig->fake_options);
    rig->fake->now_ns = life->now.ns;
    worker->model = mr_fake_model_port(rig->fake);
    rig->options.model = failing_model(worker);
    rig->options.prompt_cache_entries = 4;
    if (life->kind.redis) {
        rig->remote = fake_remote_create(&fast, life->remote);
        fake_remote_set_clock(rig->remote, &rig->fake->now_ns);
        rig->options.remote = fake_remote_port(rig->remote);
    }
    rig->options.tokenizer = rig->tokenizer;
}

static enum mr_status make_engine(struct worker *worker)
{
    struct mr_engine_thread_options options = {
        .source = {worker, open_source, nothing_to_populate, read_clock, close_source},
        .failed = on_failed,
        .context = worker};
    enum mr_status status = mr_engine_thread_create(&worker->engine, &options, &worker->err);
    if (status != MR_OK) return status;
    mr_engine_thread_step(worker->engine, worker->life->now); /* opens the model */
    return mr_engine_thread_wait_ready(worker->engine, &worker->err);
}

static enum mr_status make_base(struct worker *worker)
{
    struct mr_log_options log = {
        .fd = worker->log_fd, .format = MR_LOG_JSON, .level = MR_LOG_INFO, .worker = "w"};
    struct mr_intake_options intake = {.config = &worker->config,
                                       .kafka = &worker->kafka_options,
                                       .open_consumer = bus_open_consumer,
                                       .open_reader = bus_open_reader,
                                       .open_context = &worker->life->bus,
                                       .failed = on_failed,
                                       .context = worker};
    struct mr_metrics_info info = {"w",
                                   "fake",
                                   "fp32",
                                   "cpu",
                                   MR_BLOCK_TOKENS,
                                   2048,
                                   8,
                                   worker->config.request_topics,
                                   worker->config.request_topic_count,
                                   "2.0.2"};
    enum mr_status status = mr_log_create(&worker->log, &log, &worker->err);
    intake.log = worker->log;
    if (status == MR_OK) status = mr_intake_create(&worker->intake, &intake, &worker->err);
    if (status == MR_OK) status = make_engine(worker);
    if (status == MR_OK) status = mr_metrics_create(&worker->metrics, &info, &worker->err);
    return status;
}

static enum mr_status make_resume(struct worker *worker)
{
    struct mr_resume_options options = {.call = many_lists_call,
                                        .context = &worker->life->lists,
                                        .ttl_ns = 60000 * MS,
                                        .bytes_max = 1 << 20,
                                        .intake = mr_intake_mailbox(worker->intake),
                                        .metrics = worker->metrics};
    if (!worker->life->kind.redis) return MR_OK;
    return mr_resume_create(&worker->resume, &options, &worker->err);
}

static enum mr_status make_publish(struct worker *worker)
{
    static const struct mr_output_options output = {.tokens_topic = "tokens",
                                                    .results_topic = "results",
                                                    .dlq_topic = "dlq",
                                                    .worker = "w",
                                                    .model = "fake",
                                                    .group = "g"};
    struct mr_publish_options publish = {.producer = bus_producer(&worker->life->bus),
                                         .output = output,
                                         .exactly_once = worker->life->kind.exactly_once,
                                         .intake = mr_intake_mailbox(worker->intake),
                                         .oldest_ms = mr_intake_oldest(worker->intake),
                                         .resume = worker->resume,
                                         .log = worker->log,
                                         .metrics = worker->metrics,
                                         .failed = on_failed,
                                         .context = worker};
    struct mr_transactions_options transactions = {.producer = bus_transactions(&worker->life->bus),
                                                   .output = output,
                                                   .log = worker->log,
                                                   .metrics = worker->metrics};
    enum mr_status status = mr_publish_create(&worker->publish, &publish, &worker->err);
    if (status != MR_OK || !worker->life->kind.exactly_once) return status;
    status = mr_transactions_create(&worker->transactions, &transactions, &worker->err);
    worker->transactions_owned = status == MR_OK;
    return status;
}

static enum mr_status link_all(struct worker *worker)
{
    static const char *const chat =
        "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}<assistant>";
    struct mr_engine_thread_links links = {.publish = mr_publish_mailbox(worker->publish),
                                           .intake = mr_intake_mailbox(worker->intake),
                                           .intake_wake = mr_intake_wake(worker->intake)};
    mr_engine_thread_link(worker->engine, &links);
    worker->linked = true;
    struct mr_intake_targets targets = {.engine = mr_engine_thread_port(worker->engine),
                                        .prompt = {.tokenizer = worker->rig.tokenizer,
                                                   .chat_template = {chat, strlen(chat)},
                                                   .prompt_tokens_max = 256},
                                        .publish = mr_publish_mailbox(worker->publish),
                                        .metrics = worker->metrics,
                                        .resume = worker->resume,
                                        .transactions = worker->transactions};
    enum mr_status status = mr_intake_open(worker->intake, &targets, &worker->err);
    worker->opened = status == MR_OK;
    if (status == MR_OK) worker->transactions_owned = false;
    return status;
}

static enum mr_status start(struct worker *worker)
{
    enum mr_status status = make_base(worker);
    if (status == MR_OK) status = make_resume(worker);
    if (status == MR_OK) status = make_publish(worker);
    return status == MR_OK ? link_all(worker) : status;
}

/* ---- steps ---- */

static uint64_t least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* Runs one step of every thread, then advances time until a thread has work. */
static void step(struct worker *worker)
{
    struct mr_time *now = &worker->life->now;
    uint64_t *model_ns = &worker->rig.fake->now_ns, before_ns = now->ns;
    uint64_t next_ns = mr_intake_step(worker->intake, *now);
    if (worker->engine) {
        *model_ns = now->ns;
        next_ns = least(next_ns, mr_engine_thread_step(worker->engine, *now));
        now->ns = *model_ns;
    }
    if (worker->publish) next_ns = least(next_ns, mr_publish_step(worker->publish, *now));
    if (worker->transactions)
        next_ns = least(next_ns, mr_transactions_step(worker->transactions, *now));
    if (next_ns > now->ns) now->ns = least(next_ns, now->ns + 20 * MS);
    now->unix_ms += (int64_t)(now->ns / MS - before_ns / MS);
}

/* Runs until everything is committed or the worker has failed. */
static void run(struct worker *worker)
{
    struct bus *bus = &worker->life->bus;
    for (int i = 0; worker->failure.status == MR_OK && !bus_is_done(bus); i++) {
        SWEEP_CHECK(i < STEPS_MAX);
        step(worker);
    }
}

/* ---- the end, as worker/serve/parts.c does ---- */

static void leave_group(struct worker *worker)
{
    atomic_store(&worker->intake->leave_requested, true);
    for (int i = 0; worker->intake->leaving != MR_INTAKE_HAS_LEFT; i++) {
        SWEEP_CHECK(i < STEPS_MAX);
        step(worker);
    }
    mr_intake_step(worker->intake, worker->life->now);
}

static void end_publish(struct worker *worker)
{
    if (!worker->publish) return;
    if (worker->linked) {
        mr_publish_drain(worker->publish, worker->life->now.ns + 10000 * MS);
        for (int i = 0; !mr_publish_is_drained(worker->publish); i++) {
            SWEEP_CHECK(i < STEPS_MAX);
            mr_publish_step(worker->publish, worker->life->now);
            worker->life->now.ns += MS;
        }
    }
    mr_publish_destroy(worker->publish, 0);
    worker->publish = NULL;
}

static void drain(struct worker *worker)
{
    mr_intake_drain(worker->intake, UINT64_MAX);
    mr_engine_thread_drain(worker->engine);
    step(worker);
    step(worker);
}

static void end(struct worker *worker)
{
    if (worker->opened) drain(worker);
    if (worker->intake) mr_intake_forget_engine(worker->intake);
    mr_engine_thread_destroy(worker->engine);
    worker->engine = NULL;
    end_publish(worker);
    if (worker->opened) leave_group(worker);
    mr_intake_destroy(worker->intake, 1000);
    if (worker->transactions_owned)
        SWEEP_CHECK(mr_transactions_destroy(worker->transactions, 60000));
    mr_resume_destroy(worker->resume);
    mr_metrics_destroy(worker->metrics);
    mr_log_destroy(worker->log);
    bus_release(&worker->life->bus);
}

static void free_fakes(struct worker *worker)
{
    SWEEP_CHECK(worker->rig.fake->wrong_reads == 0 && worker->rig.fake->double_writes == 0);
    if (worker->rig.remote) fake_remote_destroy(worker->rig.remote);
    mr_fake_model_destroy(worker->rig.fake);
    mr_tokenizer_destroy(worker->rig.tokenizer);
    close(worker->log_fd);
}

/* ---- the life ---- */

#define LONG "0123456789abcdef0123456789abcdef0123456789abcdef"

static void produce_all(struct life *life)
{
    static const char *const first[] = {
        "{\"id\":\"a\",\"prompt\":\"" LONG "\",\"max_tokens\":5}",
        "{\"id\":\"b\",\"messages\":[{\"role\":\"user\",\"content\":\" hi \"}],\"max_tokens\":4,"
        "\"stop\":[\"zz\",\"qq\"],\"logprobs\":1,\"metadata\":{\"k\":[1,2]}}",
        "nonsense",
        "{\"id\":\"d\",\"prompt\":\"x\",\"temperature\":-1}",
        "{\"id\":\"e\",\"prompt\":\"hello\",\"n\":2,\"max_tokens\":4,\"session\":\"s\","
        "\"logit_bias\":{\"7\":1.5},\"bad_words\":[\"q\"],\"seed\":7}",
        "{\"id\":\"f\",\"prompt\":\"to be cancelled\",\"max_tokens\":120,"
        "\"stream\":false}",
    };
    static const char *const second[] = {
        "\x85\xa2id\xa1m\xa6prompt\xa2hi\xaamax_tokens\x03\xa6stream\xc2\xa8priority\x05",
        "{\"id\":\"g\",\"prompt\":\"late\",\"deadline_ms\":1}",
        "{\"id\":\"i\",\"prompt\":\"" LONG "!\",\"max_tokens\":3,"
        "\"response_format\":{\"type\":\"text\"}}",
    };
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        memory_kafka_produce(&life->bus.kafka, 0, first[i], START_MS);
    for (size_t i = 0; i < sizeof second / sizeof *second; i++)
        memory_kafka_produce(&life->bus.kafka, 1, second[i], START_MS);
}

/* Partition 1 is revoked and assigned again while requests run. */
static void serve(struct worker *worker)
{
    struct life *life = worker->life;
    memory_kafka_assign(&life->bus.kafka, 0, 2);
    for (int i = 0; worker->failure.status == MR_OK && i < 12; i++)
        step(worker);
    if (worker->failure.status == MR_OK) life->bus.cancel_id = "f";
    memory_kafka_revoke(&life->bus.kafka, 1, 1, MR_KAFKA_REVOKE_GONE);
    memory_kafka_assign(&life->bus.kafka, 1, 1);
    run(worker);
}

static void live(struct kind kind)
{
    static const struct fake_remote_options none = {0};
    struct life *life = calloc(1, sizeof *life);
    struct worker *worker = calloc(1, sizeof *worker);
    life->kind = kind;
    if (kind.redis) life->remote = fake_remote_create(&none, NULL);
    life->now = (struct mr_time){START_NS, START_MS};
    bus_init(&life->bus);
    produce_all(life);
    make_fakes(worker, life);
    sweep_begin();
    enum mr_status status = start(worker);
    if (status == MR_OK) serve(worker);
    if (status == MR_OK) status = worker->failure.status;
    end(worker);
    const char *failed = sweep_end();
    if (status != MR_OK && !failed)
        fprintf(stderr, "sweep: %s%s\n", worker->err.detail, worker->failure.detail);
    SWEEP_CHECK(status == MR_OK || failed);
    SWEEP_CHECK(status == MR_OK || worker->err.detail[0] || worker->failure.detail[0]);
    free_fakes(worker);
    make_fakes(worker, life); /* the second worker */
    life->bus.cancel_id = NULL;
    SWEEP_CHECK(start(worker) == MR_OK);
    memory_kafka_assign(&life->bus.kafka, 0, 2);
    run(worker);
    SWEEP_CHECK(worker->failure.status == MR_OK);
    end(worker);
    free_fakes(worker);
    bus_judge(&life->bus);
    many_lists_free(&life->lists);
    if (life->remote) fake_remote_destroy(life->remote);
    free(worker);
    free(life);
}

static void at_least_once(void)
{
    live((struct kind){0});
}

static void exactly_once(void)
{
    live((struct kind){.exactly_once = true});
}

static void with_redis(void)
{
    live((struct kind){.redis = true});
}

int main(int argc, char *argv[])
{
    static const struct sweep_life lives[] = {
        {.name = "at_least_once", .live = at_least_once},
        {.name = "exactly_once", .live = exactly_once},
        {.name = "redis", .live = with_redis},
    };
    return sweep_main(argc, argv, lives, sizeof lives / sizeof *lives);
}
