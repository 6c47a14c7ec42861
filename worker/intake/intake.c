#include "worker/intake/intake.h"

#include "codec/check.h"
#include "worker/base/clock.h"
#include "worker/intake/intake_claims.h"
#include "worker/intake/intake_record.h"
#include "worker/intake/intake_resume.h"
#include "worker/intake/intake_state.h"
#include "worker/intake/intake_transactions.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS         ((uint64_t)1000000000)
#define CANCELS_MAX       16384u
#define CANCEL_KEEP_NS    (600 * SECOND_NS)
#define CANCEL_TIMEOUT_MS 5000u
#define CANCEL_READ_NS    (5 * SECOND_NS)
#define COMMIT_ANSWER_NS  (30 * SECOND_NS) /* then it counts as lost and is repeated */
#define CALL_TICKS_MAX    60u
#define REFRESH_NS        (MR_PARTITION_REFRESH_MS * (uint64_t)1000000)
#define RECOVERY_MS       5000u
#define TAKE_BURST        64u   /* records between two looks at everything else */
#define IN_FLIGHT_MORE    4096u /* beside queued and running: refusals, followers */
#define MAIL_COUNT_MAX    65536u
#define MAIL_BYTES_MAX    ((size_t)16 << 20)

struct mr_log_place mr_intake_place(const struct mr_ticket *ticket)
{
    return (struct mr_log_place){.req_id = {ticket->id, strlen(ticket->id)},
                                 .topic = {ticket->topic, strlen(ticket->topic)},
                                 .partition = ticket->partition,
                                 .offset = ticket->offset};
}

void mr_intake_fail(struct mr_intake *intake, const struct mr_error *err)
{
    if (intake->failed) return;
    intake->failed = true;
    intake->options.failed(intake->options.context, err);
}

/* ---- commits ---- */

void mr_intake_commit_by(struct mr_intake *intake, uint64_t when_ns)
{
    if (when_ns < intake->commit_due_ns) intake->commit_due_ns = when_ns;
}

size_t mr_intake_gather(struct mr_intake *intake, struct mr_kafka_commit *commits)
{
    size_t count = 0;
    for (size_t i = 0; i < mr_partitions_count(intake->lanes); i++)
        if (mr_partition_commit(mr_partitions_at(intake->lanes, i), intake->since_ms,
                                &commits[count]))
            count++;
    return count;
}

void mr_intake_commit(struct mr_intake *intake, uint32_t timeout_ms)
{
    struct mr_error err = {0};
    if (intake->targets.settle) {
        mr_intake_settle(intake, timeout_ms);
        return;
    }
    intake->commit_due_ns = UINT64_MAX;
    size_t count = mr_intake_gather(intake, intake->commits);
    if (count == 0) return;
    intake->stats.commits++;
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_COMMITS, 1);
    intake->committed_ns = mr_clock_ns();
    intake->committing = true;
    intake->committing_ns = intake->committed_ns;
    enum mr_status status =
        mr_kafka_in_commit(intake->in, intake->commits, count, timeout_ms, &err);
    if (timeout_ms > 0 || status != MR_OK) mr_intake_committed(intake, status, err.detail);
}

/* A call of the library that does not come back. Told by this thread's seconds: the process may
 * have been stopped for longer. */
static void watch_settle(struct mr_intake *intake)
{
    struct mr_error err;
    uint64_t call_ns = mr_transactions_call_ns(intake->targets.settle);
    bool same = call_ns > 0 && call_ns == intake->call_ns;
    intake->call_ticks = same ? intake->call_ticks + 1 : 0;
    intake->call_ns = call_ns;
    if (intake->call_ticks < CALL_TICKS_MAX) return;
    mr_fail(&err, MR_BACKEND, "a transaction does not come to its end");
    mr_intake_fail(intake, &err);
}

static void commit_if_due(struct mr_intake *intake)
{
    if (intake->targets.settle) mr_intake_settled(intake, 0);
    uint64_t now_ns = mr_clock_ns();
    if (intake->committing && !intake->targets.settle &&
        now_ns - intake->committing_ns > COMMIT_ANSWER_NS)
        mr_intake_committed(intake, MR_TIMEOUT, "no answer");
    if (!intake->committing && now_ns >= intake->commit_due_ns) mr_intake_commit(intake, 0);
}

/* ---- the loop ---- */

/* Read before the mail: a request that leaves publish meanwhile has its message in the mailbox. */
static void read_since(struct mr_intake *intake)
{
    int64_t now_ms = mr_clock_unix_ms();
    int64_t oldest_ms = atomic_load(&intake->oldest_ms);
    intake->since_ms = oldest_ms > 0 && oldest_ms < now_ms ? oldest_ms : now_ms;
}

void mr_intake_handle_mail(struct mr_intake *intake)
{
    read_since(intake);
    for (struct mr_mail *mail = mr_mailbox_take(intake->mailbox), *next; mail; mail = next) {
        next = mail->next;
        if (mail->kind == MR_MAIL_FOUND) {
            mr_intake_found(intake, (struct mr_found_mail *)mail);
        } else if (mail->kind == MR_MAIL_STARTED) {
            mr_intake_started(intake, MR_TICKET_OF(mail, started));
        } else if (mail->kind == MR_MAIL_DONE) {
            mr_intake_done(intake, MR_TICKET_OF(mail, done));
        } else if (mail->kind == MR_MAIL_READY) {
            mr_intake_ready(intake, MR_TICKET_OF(mail, done));
        } else {
            MR_ASSERT(mail->kind == MR_MAIL_RETURNED);
            mr_intake_returned(intake, MR_TICKET_OF(mail, done));
        }
    }
}

static void handle_cancels(struct mr_intake *intake)
{
    struct mr_kafka_record record;
    int64_t oldest_ms = mr_clock_unix_ms() - (int64_t)(CANCEL_KEEP_NS / 1000000);
    while (intake->cancels && mr_kafka_reader_take(intake->cancels, 0, &record))
        if (record.timestamp_ms <= 0 || record.timestamp_ms > oldest_ms)
            mr_intake_cancel(intake, &record);
}

/* Requests are taken when the cancels of before are known: one of them may be a request's own. A
 * reader that does not get there is not waited for without end. */
static bool awaits_cancels(struct mr_intake *intake)
{
    if (intake->cancels_read) return false;
    bool behind = intake->cancels && mr_kafka_reader_is_behind(intake->cancels);
    intake->cancels_read = !behind || mr_clock_ns() > intake->started_ns + CANCEL_READ_NS;
    return !intake->cancels_read;
}

/* Which tenants the engine has room for. For the others it shall ring, by `hungry`, when it has. */
static void look_for_room(struct mr_intake *intake)
{
    uint32_t tenants = intake->options.config->tenant_count;
    uint64_t all = tenants >= 64 ? UINT64_MAX : ((uint64_t)1 << (tenants > 0 ? tenants : 1)) - 1;
    intake->room = mr_engine_room(intake->targets.engine);
    if ((intake->room & all) == all) return;
    atomic_fetch_or(&intake->hungry, all & ~intake->room);
    intake->room = mr_engine_room(intake->targets.engine); /* made before hungry was seen */
}

static bool has_room(struct mr_intake *intake)
{
    if (intake->failed || intake->in_flight >= intake->in_flight_max) return false;
    if (awaits_cancels(intake)) return false;
    if (intake->parked_count >= MR_INTAKE_PARKED_MAX) return false;
    if (intake->asking_bytes >= MR_INTAKE_ASKING_BYTES_MAX) return false;
    if (!mr_mailbox_has_room(intake->targets.publish)) return false;
    look_for_room(intake);
    return intake->room != 0;
}

/* True when there may be more. */
static bool take_records(struct mr_intake *intake)
{
    struct mr_kafka_record record;
    size_t topic_index = 0;
    for (unsigned i = 0; i < TAKE_BURST; i++) {
        if (!has_room(intake)) return false;
        if (!mr_kafka_in_take(intake->in, mr_intake_may_take, &record, &topic_index)) return false;
        mr_intake_accept(intake, &record, topic_index);
    }
    return true;
}

bool mr_intake_go_on(struct mr_intake *intake)
{
    mr_intake_handle_mail(intake);
    if (intake->recovery) mr_intake_recovered(intake);
    handle_cancels(intake);
    if (atomic_load(&intake->draining)) return false;
    if (intake->targets.resume) mr_intake_expire_asking(intake, mr_clock_ns());
    if (intake->retry_parked) mr_intake_retry_parked(intake);
    return take_records(intake);
}

static void show_lag(struct mr_intake *intake)
{
    for (size_t i = 0; i < mr_partitions_count(intake->lanes); i++) {
        const struct mr_partition *lane = mr_partitions_at(intake->lanes, i);
        if (lane->state != MR_PARTITION_OWNED) continue;
        int64_t next = mr_offset_ledger_next(lane->ledger);
        int64_t unread = mr_kafka_in_unread(intake->in, lane->topic_index, lane->partition);
        mr_metrics_set_lag(
            intake->targets.metrics, intake->options.config->request_topics[lane->topic_index].name,
            lane->partition, unread, next < 0 ? -1 : next - mr_offset_ledger_base(lane->ledger));
    }
}

static void show_stats(struct mr_intake *intake, bool ticked)
{
    if (ticked) {
        intake->stats.backlog = mr_kafka_in_backlog(intake->in);
        if (intake->targets.settle)
            intake->stats.settle = mr_transactions_stats(intake->targets.settle);
        show_lag(intake);
    }
    intake->stats.in_flight = intake->in_flight;
    intake->stats.parked = intake->parked_count;
    intake->stats.partitions = (uint32_t)mr_kafka_in_partition_count(intake->in);
    pthread_mutex_lock(&intake->mutex);
    intake->shown = intake->stats;
    if (atomic_load(&intake->draining) && !intake->drained) {
        intake->drained = true;
        pthread_cond_broadcast(&intake->drained_changed);
    }
    pthread_mutex_unlock(&intake->mutex);
}

/* One round of everything there is to do; true when there is more. */
static bool work(struct mr_intake *intake, bool ticked)
{
    struct mr_error err = {0};
    if (mr_kafka_in_serve(intake->in, &err) != MR_OK) mr_intake_fail(intake, &err);
    if (ticked && intake->parked) intake->retry_parked = true;
    bool more = mr_intake_go_on(intake);
    if (ticked && mr_clock_ns() - intake->committed_ns >= REFRESH_NS) intake->commit_due_ns = 0;
    if (ticked && intake->targets.settle) watch_settle(intake);
    commit_if_due(intake);
    show_stats(intake, ticked);
    return more;
}

static uint64_t sleep_ns(const struct mr_intake *intake)
{
    uint64_t now_ns = mr_clock_ns(), due_ns = now_ns + SECOND_NS;
    if (!intake->committing && intake->commit_due_ns < due_ns) due_ns = intake->commit_due_ns;
    if (intake->asking_due_ns < due_ns) due_ns = intake->asking_due_ns;
    return due_ns > now_ns ? due_ns - now_ns : 0;
}

/* The engine and publish have ended: what they acknowledged counts, the rest is handed back. */
static void finish(struct mr_intake *intake)
{
    intake->targets.engine = NULL;
    mr_intake_handle_mail(intake);
    mr_intake_release_all(intake);
    intake->closed_well = mr_kafka_in_close(intake->in, intake->close_timeout_ms);
    mr_kafka_reader_destroy(intake->cancels);
    mr_recovery_destroy(intake->recovery);
    mr_transactions_destroy(intake->targets.settle);
    mr_intake_drop_ready(intake);
    mr_intake_drop_all(intake);
    mr_intake_end_asking(intake);
}

static void *run(void *argument)
{
    struct mr_intake *intake = argument;
    bool more = true;
    uint64_t tick_ns = mr_clock_ns();
    while (!atomic_load(&intake->stopping)) {
        if (!more) mr_wake_wait(&intake->wake, sleep_ns(intake));
        bool ticked = mr_clock_ns() - tick_ns >= SECOND_NS;
        if (ticked) tick_ns = mr_clock_ns();
        more = work(intake, ticked);
    }
    finish(intake);
    return NULL;
}

/* ---- making and ending ---- */

static enum mr_status make_tables(struct mr_intake *intake, struct mr_error *err)
{
    const struct mr_config *config = intake->options.config;
    intake->in_flight_max = config->queue_requests + config->max_sequences + IN_FLIGHT_MORE;
    intake->commit_due_ns = intake->asking_due_ns = UINT64_MAX;
    enum mr_status status = mr_partitions_create(&intake->lanes, err);
    if (status == MR_OK)
        status = mr_ticket_table_create(&intake->table, intake->in_flight_max, err);
    if (status == MR_OK)
        status = mr_cancel_memory_create(&intake->cancelled, CANCELS_MAX, CANCEL_KEEP_NS, err);
    return status;
}

static void free_all(struct mr_intake *intake)
{
    mr_prompt_destroy(intake->prompt);
    mr_cancel_memory_destroy(intake->cancelled);
    mr_ticket_table_destroy(intake->table);
    mr_partitions_destroy(intake->lanes);
    mr_mailbox_destroy(intake->mailbox);
    mr_wake_close(&intake->wake);
    pthread_cond_destroy(&intake->drained_changed);
    pthread_mutex_destroy(&intake->mutex);
    free(intake);
}

enum mr_status mr_intake_create(struct mr_intake **out, const struct mr_intake_options *options,
                                struct mr_error *err)
{
    *out = NULL;
    struct mr_intake *intake = calloc(1, sizeof *intake);
    if (!intake) return mr_fail(err, MR_NOMEM, "no memory for intake");
    intake->options = *options;
    intake->wake.fd = -1;
    pthread_mutex_init(&intake->mutex, NULL);
    pthread_cond_init(&intake->drained_changed, NULL);
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

atomic_uint_least64_t *mr_intake_hungry(struct mr_intake *intake)
{
    return &intake->hungry;
}

atomic_int_least64_t *mr_intake_oldest(struct mr_intake *intake)
{
    return &intake->oldest_ms;
}

static enum mr_status open_cancels(struct mr_intake *intake, struct mr_error *err)
{
    /* The embedded broker does not find records by their time. */
    bool embedded = intake->options.kafka->embedded;
    const char *topic = intake->options.config->cancel_topic;
    struct mr_kafka_reader_options options = {.kafka = intake->options.kafka,
                                              .wake = &intake->wake,
                                              .topics = &topic,
                                              .topic_count = 1,
                                              .from = embedded ? MR_KAFKA_FROM_BEGINNING
                                                               : MR_KAFKA_FROM_AGE,
                                              .age_ms = CANCEL_KEEP_NS / 1000000,
                                              .timeout_ms = CANCEL_TIMEOUT_MS};
    return mr_kafka_reader_create(&intake->cancels, &options, err);
}

static enum mr_status open_recovery(struct mr_intake *intake, struct mr_error *err)
{
    const struct mr_config *config = intake->options.config;
    struct mr_recovery_options options = {.kafka = intake->options.kafka,
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

/* As given, or a share of turns that doubles with every 10 of its priority: low, normal, high,
 * urgent. */
static uint32_t weight_of(const struct mr_request_topic *topic)
{
    if (topic->weight > 0) return topic->weight;
    int32_t step = topic->priority / 10 + 4;
    return 1u << (step < 0 ? 0 : step > 12 ? 12 : step);
}

static enum mr_status open_requests(struct mr_intake *intake, struct mr_error *err)
{
    const struct mr_config *config = intake->options.config;
    for (size_t i = 0; i < config->request_topic_count; i++)
        intake->topics[i] = (struct mr_kafka_in_topic){config->request_topics[i].name,
                                                       weight_of(&config->request_topics[i])};
    struct mr_kafka_in_options options = {
        .kafka = intake->options.kafka,
        .wake = &intake->wake,
        .topics = intake->topics,
        .topic_count = config->request_topic_count,
        .join_group = intake->options.join_group,
        .events = {intake, mr_intake_assigned, mr_intake_revoked, mr_intake_committed}};
    return mr_kafka_in_create(&intake->in, &options, err);
}

enum mr_status mr_intake_start(struct mr_intake *intake, const struct mr_intake_targets *targets,
                               struct mr_error *err)
{
    intake->targets = *targets;
    intake->targets.settle = NULL;
    enum mr_status status = mr_prompt_create(&intake->prompt, &targets->prompt, err);
    if (status != MR_OK) return status;
    status = open_cancels(intake, err);
    if (status != MR_OK) return status;
    status = open_recovery(intake, err);
    if (status != MR_OK) goto fail_cancels;
    status = open_requests(intake, err);
    if (status != MR_OK) goto fail_recovery;
    intake->targets.settle = targets->settle;
    if (targets->settle) mr_transactions_set_wake(targets->settle, &intake->wake);
    intake->started_ns = mr_clock_ns();
    if (pthread_create(&intake->thread, NULL, run, intake) != 0) {
        intake->targets.settle = NULL;
        status = mr_fail(err, MR_NOMEM, "no thread for intake");
        goto fail_in;
    }
    pthread_setname_np(intake->thread, "intake");
    intake->started = true;
    return MR_OK;

fail_in:
    mr_kafka_in_close(intake->in, 1000);
fail_recovery:
    mr_recovery_destroy(intake->recovery);
    intake->recovery = NULL;
fail_cancels:
    mr_kafka_reader_destroy(intake->cancels);
    intake->cancels = NULL;
    return status;
}

void mr_intake_drain(struct mr_intake *intake)
{
    if (!intake->started) return;
    atomic_store(&intake->draining, true);
    mr_wake_ring(&intake->wake);
    pthread_mutex_lock(&intake->mutex);
    while (!intake->drained)
        pthread_cond_wait(&intake->drained_changed, &intake->mutex);
    pthread_mutex_unlock(&intake->mutex);
}

void mr_intake_forget_engine(struct mr_intake *intake)
{
    pthread_mutex_lock(&intake->mutex);
    intake->targets.engine = NULL;
    pthread_mutex_unlock(&intake->mutex);
}

bool mr_intake_destroy(struct mr_intake *intake, uint32_t timeout_ms)
{
    if (!intake) return true;
    bool closed_well = true;
    if (intake->started) {
        intake->close_timeout_ms = timeout_ms;
        atomic_store(&intake->stopping, true);
        mr_wake_ring(&intake->wake);
        pthread_join(intake->thread, NULL);
        closed_well = intake->closed_well;
    }
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
