#include "worker/publish/transactions.h"

#include "codec/check.h"
#include "worker/base/thread.h"
#include "worker/publish/failing_replies.h"

#include <pthread.h>
#include <stdlib.h>

/* Longest time of one step; calls of librdkafka have timeouts. */
#define STEP_MAX_NS ((uint64_t)120000000000)

/* time until a retry; a delivery report or a finished lookup wakes the thread earlier */
#define RETRY_NS ((uint64_t)100000000)

enum phase {
    PHASE_IDLE,
    PHASE_PREPARE,
    PHASE_BEGIN,
    PHASE_PRODUCE,
    PHASE_COMMIT,
    PHASE_ABORT,
    PHASE_RENEW,
    PHASE_REPORT
};

struct mr_transactions {
    struct mr_transactions_options options;
    struct mr_transactions_port port;
    struct mr_output output;
    struct mr_wake wake;
    struct mr_thread *thread;    /* NULL: mr_transactions_step is called by a simulation */
    const struct mr_wake *owner; /* rung when a job is done */
    atomic_bool stopping;

    /* The fields down to `failing` are used by the step only, without the mutex. */
    enum phase phase;
    struct mr_transactions_job *running;
    uint64_t began_ns, now_ns; /* when the job began; time of this step */
    uint64_t opened_ns;        /* when its transaction began */
    struct mr_error error;     /* error of the last library call; its status becomes the outcome */
    /* why a record can never be written; status MR_OK: there is no such record */
    struct mr_error unwritable;
    /* records of the transaction, except replies, that are neither acknowledged nor permanently
     * refused */
    uint32_t unsettled;
    struct mr_failing_replies failing;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* The fields below are under the mutex. */
    struct mr_transactions_job *job;
    bool is_running, is_done;
    struct mr_transactions_stats stats;
};

/* ---- records of one job ---- */

/* Handles a record that was not accepted: the next transaction contains it again, changed, or not
 * at all. A permanently refused result fails the job. */
static enum mr_terminal_next handle_refused(struct mr_transactions *transactions,
                                            struct mr_ticket_part *part,
                                            const struct mr_error *reason)
{
    const struct mr_transactions_options *options = &transactions->options;
    struct mr_log_place place = mr_ticket_log_place(part->ticket);
    enum mr_terminal_next next = mr_terminal_refused(part, reason->status, transactions->now_ns);
    if (next == MR_TERMINAL_LOST)
        mr_terminal_lose(part, reason->detail, options->log, options->metrics);
    if (next != MR_TERMINAL_FAILED) return next;
    mr_log_write(options->log, MR_LOG_ERROR, &place, "record not written: %s", reason->detail);
    if (transactions->unwritable.status == MR_OK) transactions->unwritable = *reason;
    return next;
}

static void settle(struct mr_transactions *transactions, const struct mr_ticket_part *part)
{
    if (part->kind != MR_PART_REPLY) transactions->unsettled--;
}

/* Handles a record's delivery report. A record that the broker refused aborts its transaction. An
 * error that breaks the producer is handled where the transaction's own calls return it. */
static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    struct mr_transactions *transactions = context;
    struct mr_ticket_part *part = opaque;
    const struct mr_ticket *ticket = part->ticket;
    struct mr_error err = {0};
    if (status == MR_OK) {
        settle(transactions, part);
        if (part->kind == MR_PART_REPLY)
            mr_failing_replies_remove(&transactions->failing, ticket->reply_topic,
                                      ticket->reply_partition);
        return;
    }
    if (status == MR_BACKEND) return;
    mr_fail(&err, status, "%s", reason);
    if (handle_refused(transactions, part, &err) != MR_TERMINAL_RETRY)
        settle(transactions, part);
    else if (status != MR_CLOSED) /* MR_CLOSED: the transaction was aborted for another reason */
        part->refused = true;
}

/* Call after a transaction was not committed although its records, except replies, are settled:
 * abandons a refused reply if its partition has refused replies for too long. */
static void judge_reply(struct mr_transactions *transactions, struct mr_ticket_part *part)
{
    const struct mr_ticket *ticket = part->ticket;
    struct mr_log *log = transactions->options.log;
    const uint64_t now_ns = transactions->now_ns;
    struct mr_failing_replies *failing = &transactions->failing;
    if (!part->pending || !part->refused) return;
    bool held =
        mr_failing_replies_has(failing, ticket->reply_topic, ticket->reply_partition, now_ns);
    if (!mr_failing_replies_add(failing, ticket->reply_topic, ticket->reply_partition,
                                transactions->opened_ns, now_ns))
        return;
    mr_terminal_lose(part, "Kafka accepts other records, but not this one", log,
                     transactions->options.metrics);
    if (!held)
        mr_log_warn(
            log,
            "no reply is written to %s, partition %d, for %u s, because it refuses all of them",
            ticket->reply_topic, ticket->reply_partition,
            (unsigned)(MR_FAILING_HOLD_NS / 1000000000u));
}

static void judge_replies(struct mr_transactions *transactions)
{
    for (struct mr_ticket *ticket = transactions->running->tickets;
         ticket && transactions->unsettled == 0; ticket = ticket->intake.ready_next)
        judge_reply(transactions, &ticket->publish.parts[MR_PART_REPLY]);
}

/* Produces one record. MR_FULL: try again later. MR_AGAIN: abort the transaction. */
static enum mr_status produce_part(struct mr_transactions *transactions,
                                   const struct mr_producer_port *producer,
                                   struct mr_ticket_part *part)
{
    struct mr_error *err = &transactions->error;
    enum mr_status status =
        mr_terminal_make(&transactions->output, &transactions->options.output, part, err);
    if (status == MR_OK)
        status = producer->produce(producer->self, &transactions->output.record, part, err);
    if (status == MR_OK || status == MR_BACKEND) return status;
    if (status == MR_FULL && !atomic_load(&transactions->stopping)) return status;
    if (mr_status_class(status) == MR_CLASS_RETRY) return MR_AGAIN;
    switch (handle_refused(transactions, part, err)) {
    case MR_TERMINAL_CHANGED:
        return produce_part(transactions, producer, part);
    case MR_TERMINAL_LOST:
        settle(transactions, part);
        return MR_OK;
    default:
        return MR_AGAIN;
    }
}

/* Determines which terminal records the ticket needs, in its first transaction only. They stay
 * pending until a transaction that contains them is committed. */
static void prepare_ticket(struct mr_ticket *ticket)
{
    ticket->publish.parts[MR_PART_REPLY].refused = false;
    if (ticket->publish.phase != MR_TERMINAL_WAITING) return;
    ticket->publish.phase = MR_TERMINAL_RESULT;
    for (unsigned i = 0; i < MR_PART_TOKENS; i++) {
        enum mr_part kind = (enum mr_part)i;
        bool wanted = mr_terminal_wants(ticket, kind);
        ticket->publish.parts[i] =
            (struct mr_ticket_part){.ticket = ticket, .kind = kind, .pending = wanted};
    }
}

static void settle_parts(struct mr_transactions *transactions)
{
    for (struct mr_ticket *ticket = transactions->running->tickets; ticket;
         ticket = ticket->intake.ready_next)
        for (unsigned i = 0; i < MR_PART_TOKENS; i++) {
            if (!ticket->publish.parts[i].pending) continue;
            ticket->publish.parts[i].pending = false;
            mr_terminal_acknowledged(&transactions->stats.terminal, transactions->options.metrics,
                                     (enum mr_part)i);
        }
}

/* ---- the phases of one job; each returns when the next one is due, 0: at once ---- */

static uint64_t enter(struct mr_transactions *transactions, enum phase phase)
{
    transactions->phase = phase;
    return 0;
}

/* Call when the transaction was committed or aborted, or its producer broke. */
static uint64_t end_transaction(struct mr_transactions *transactions, enum mr_status status)
{
    const struct mr_error *unwritable = &transactions->unwritable;
    if (unwritable->status != MR_OK) {
        enum mr_status ended = status == MR_OK ? MR_OK : unwritable->status;
        transactions->error = *unwritable;
        transactions->error.status = ended;
        return enter(transactions, PHASE_REPORT);
    }
    transactions->error.status = status;
    return enter(transactions, status == MR_BACKEND ? PHASE_RENEW : PHASE_REPORT);
}

static uint64_t take_job(struct mr_transactions *transactions, uint64_t now_ns)
{
    uint32_t count = 0;
    pthread_mutex_lock(&transactions->mutex);
    transactions->is_running =
        transactions->job && !transactions->is_done && !atomic_load(&transactions->stopping);
    transactions->running = transactions->is_running ? transactions->job : NULL;
    pthread_mutex_unlock(&transactions->mutex);
    if (!transactions->running) return UINT64_MAX;
    for (struct mr_ticket *ticket = transactions->running->tickets; ticket;
         ticket = ticket->intake.ready_next) {
        prepare_ticket(ticket);
        count++;
    }
    transactions->error = (struct mr_error){0};
    transactions->began_ns = now_ns;
    mr_metrics_transaction_began(transactions->options.metrics, count, now_ns);
    return enter(transactions, PHASE_PREPARE);
}

/* Looks up the reply topics before the transaction begins, so that lookups do not prolong the
 * transaction, and drops replies to places that are failing. */
static uint64_t look_up_replies(struct mr_transactions *transactions, uint64_t now_ns)
{
    struct mr_producer_port producer = transactions->port.producer(transactions->port.self);
    bool all = true;
    for (struct mr_ticket *ticket = transactions->running->tickets; ticket;
         ticket = ticket->intake.ready_next) {
        struct mr_ticket_part *part = &ticket->publish.parts[MR_PART_REPLY];
        if (part->pending && mr_failing_replies_has(&transactions->failing, ticket->reply_topic,
                                                    ticket->reply_partition, now_ns))
            mr_terminal_drop(part, transactions->options.metrics);
        if (!part->pending || part->topic_exists) continue;
        mr_terminal_check_reply_topic(part, &producer, transactions->options.log,
                                      transactions->options.metrics, now_ns);
        all = all && (!part->pending || part->topic_exists);
    }
    if (all) return enter(transactions, PHASE_BEGIN);
    if (!atomic_load(&transactions->stopping)) return now_ns + RETRY_NS;
    mr_fail(&transactions->error, MR_AGAIN, "the worker ends");
    return enter(transactions, PHASE_REPORT);
}

static uint64_t begin(struct mr_transactions *transactions)
{
    enum mr_status status = transactions->port.begin(transactions->port.self, &transactions->error);
    if (status != MR_OK) return end_transaction(transactions, status);
    transactions->opened_ns = transactions->now_ns;
    transactions->unsettled = 0;
    for (struct mr_ticket *ticket = transactions->running->tickets; ticket;
         ticket = ticket->intake.ready_next)
        for (unsigned i = 0; i < MR_PART_TOKENS; i++) {
            struct mr_ticket_part *part = &ticket->publish.parts[i];
            part->unsent = part->pending;
            if (part->pending && part->kind != MR_PART_REPLY) transactions->unsettled++;
        }
    return enter(transactions, PHASE_PRODUCE);
}

static uint64_t produce(struct mr_transactions *transactions, uint64_t now_ns)
{
    struct mr_producer_port producer = transactions->port.producer(transactions->port.self);
    enum mr_status status = MR_OK;
    producer.serve(producer.self);
    for (struct mr_ticket *ticket = transactions->running->tickets; ticket && status == MR_OK;
         ticket = ticket->intake.ready_next)
        for (unsigned i = 0; i < MR_PART_TOKENS && status == MR_OK; i++) {
            struct mr_ticket_part *part = &ticket->publish.parts[i];
            if (!part->unsent) continue;
            status = produce_part(transactions, &producer, part);
            part->unsent = status == MR_FULL;
        }
    if (status == MR_FULL) return now_ns + RETRY_NS;
    if (status == MR_OK) return enter(transactions, PHASE_COMMIT);
    if (status == MR_AGAIN) return enter(transactions, PHASE_ABORT);
    return end_transaction(transactions, status);
}

static struct mr_transaction_offsets offsets_of(const struct mr_transactions_job *job)
{
    return (struct mr_transaction_offsets){job->commits, job->commit_count, job->membership};
}

static uint64_t commit(struct mr_transactions *transactions)
{
    struct mr_transaction_offsets offsets = offsets_of(transactions->running);
    return end_transaction(transactions, transactions->port.commit(transactions->port.self,
                                                                   &offsets, &transactions->error));
}

static uint64_t abort_transaction(struct mr_transactions *transactions)
{
    return end_transaction(transactions,
                           transactions->port.abort(transactions->port.self, &transactions->error));
}

/* Replaces the broken producer. The job is done if the old producer's transaction was committed. */
static uint64_t renew(struct mr_transactions *transactions, uint64_t now_ns)
{
    struct mr_transaction_offsets offsets = offsets_of(transactions->running);
    struct mr_error err = {0};
    bool committed = false;
    enum mr_status status =
        transactions->port.renew(transactions->port.self, &offsets, &committed, &err);
    if (status == MR_UNREACHABLE && !atomic_load(&transactions->stopping)) return now_ns + RETRY_NS;
    if (status != MR_OK) {
        if (err.status != MR_OK) transactions->error = err;
        transactions->error.status = MR_BACKEND;
        return enter(transactions, PHASE_REPORT);
    }
    mr_log_warn(transactions->options.log, "transactional producer replaced, after: %s%s",
                transactions->error.detail,
                committed ? "; its last transaction was committed" : "");
    mr_metrics_add(transactions->options.metrics, MR_COUNTER_TRANSACTORS, 1);
    pthread_mutex_lock(&transactions->mutex);
    transactions->stats.renewed++;
    pthread_mutex_unlock(&transactions->mutex);
    transactions->error.status = committed ? MR_OK : MR_AGAIN;
    return enter(transactions, PHASE_REPORT);
}

static uint64_t report(struct mr_transactions *transactions, uint64_t now_ns)
{
    struct mr_transactions_job *job = transactions->running;
    bool committed = transactions->error.status == MR_OK;
    mr_metrics_transaction_ended(transactions->options.metrics, committed, now_ns);
    transactions->port.free_membership(transactions->port.self, job->membership);
    job->membership = NULL;
    if (!committed) judge_replies(transactions);
    pthread_mutex_lock(&transactions->mutex);
    transactions->stats.transactions++;
    if (committed) {
        transactions->stats.ns_sum += now_ns - transactions->began_ns;
        settle_parts(transactions);
    } else {
        transactions->stats.aborted++;
    }
    job->outcome = transactions->error;
    transactions->running = NULL;
    transactions->is_running = false;
    transactions->is_done = true;
    pthread_cond_broadcast(&transactions->changed);
    pthread_mutex_unlock(&transactions->mutex);
    if (transactions->owner) mr_wake_ring(transactions->owner);
    return enter(transactions, PHASE_IDLE);
}

uint64_t mr_transactions_step(struct mr_transactions *transactions, struct mr_time now)
{
    transactions->now_ns = now.ns;
    switch (transactions->phase) {
    case PHASE_IDLE:
        return take_job(transactions, now.ns);
    case PHASE_PREPARE:
        return look_up_replies(transactions, now.ns);
    case PHASE_BEGIN:
        return begin(transactions);
    case PHASE_PRODUCE:
        return produce(transactions, now.ns);
    case PHASE_COMMIT:
        return commit(transactions);
    case PHASE_ABORT:
        return abort_transaction(transactions);
    case PHASE_RENEW:
        return renew(transactions, now.ns);
    default:
        return report(transactions, now.ns);
    }
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_transactions_step(state, now);
}

/* ---- the owner ---- */

static void free_all(struct mr_transactions *transactions)
{
    mr_wake_close(&transactions->wake);
    mr_output_clear(&transactions->output);
    pthread_cond_destroy(&transactions->changed);
    pthread_mutex_destroy(&transactions->mutex);
    free(transactions);
}

enum mr_status mr_transactions_create(struct mr_transactions **out,
                                      const struct mr_transactions_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_transactions *transactions = calloc(1, sizeof *transactions);
    if (!transactions) return mr_fail(err, MR_NOMEM, "no memory for transactions");
    transactions->options = *options;
    pthread_mutex_init(&transactions->mutex, NULL);
    pthread_cond_init(&transactions->changed, NULL);
    const char *topics[] = {options->output.results_topic, options->output.dlq_topic};
    struct mr_transactions_user user = {.producer = {.wake = &transactions->wake,
                                                     .reported = on_reported,
                                                     .context = transactions,
                                                     .topics = topics,
                                                     .topic_count = 2},
                                        .stopping = &transactions->stopping};
    enum mr_status status = mr_wake_open(&transactions->wake, err);
    if (status == MR_OK)
        status = options->producer.open(options->producer.context, &user, &transactions->port, err);
    if (status != MR_OK) {
        free_all(transactions);
        return status;
    }
    *out = transactions;
    return MR_OK;
}

enum mr_status mr_transactions_start(struct mr_transactions *transactions, struct mr_error *err)
{
    struct mr_thread_options options = {.name = "transactions",
                                        .step = step,
                                        .state = transactions,
                                        .wake = &transactions->wake,
                                        .heartbeats = transactions->options.heartbeats,
                                        .step_max_ns = STEP_MAX_NS};
    return mr_thread_start(&transactions->thread, &options, err);
}

const struct mr_wake *mr_transactions_wake(const struct mr_transactions *transactions)
{
    return &transactions->wake;
}

void mr_transactions_set_wake(struct mr_transactions *transactions, const struct mr_wake *wake)
{
    transactions->owner = wake;
}

void mr_transactions_submit(struct mr_transactions *transactions, struct mr_transactions_job *job)
{
    /* no mutex needed to read: only the calling thread changes `job` */
    MR_ASSERT(!transactions->job);
    pthread_mutex_lock(&transactions->mutex);
    transactions->job = job;
    transactions->is_done = false;
    pthread_mutex_unlock(&transactions->mutex);
    mr_wake_ring(&transactions->wake);
}

bool mr_transactions_take_outcome(struct mr_transactions *transactions)
{
    pthread_mutex_lock(&transactions->mutex);
    bool done = transactions->job && transactions->is_done;
    if (done) transactions->job = NULL;
    pthread_mutex_unlock(&transactions->mutex);
    return done;
}

struct mr_transactions_stats mr_transactions_stats(struct mr_transactions *transactions)
{
    pthread_mutex_lock(&transactions->mutex);
    struct mr_transactions_stats stats = transactions->stats;
    pthread_mutex_unlock(&transactions->mutex);
    return stats;
}

uint64_t mr_transactions_call_ns(const struct mr_transactions *transactions)
{
    return transactions->port.call_ns(transactions->port.self);
}

/* Waits until no job runs; false: a job still runs after timeout_ms. */
static bool wait_for_job(struct mr_transactions *transactions, uint32_t timeout_ms)
{
    const uint64_t until_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    pthread_mutex_lock(&transactions->mutex);
    atomic_store(&transactions->stopping, true);
    while (transactions->thread && transactions->is_running &&
           mr_clock_wait(&transactions->changed, &transactions->mutex, until_ns))
        ;
    bool ended = !transactions->thread || !transactions->is_running;
    pthread_mutex_unlock(&transactions->mutex);
    return ended;
}

bool mr_transactions_destroy(struct mr_transactions *transactions, uint32_t timeout_ms)
{
    if (!transactions) return true;
    if (!wait_for_job(transactions, timeout_ms)) return false;
    mr_thread_stop(transactions->thread);
    struct mr_transactions_job *job = transactions->job;
    if (job) transactions->port.free_membership(transactions->port.self, job->membership);
    if (job) job->membership = NULL;
    transactions->port.close(transactions->port.self);
    free_all(transactions);
    return true;
}
