#include "worker/publish/transactions.h"

#include "codec/check.h"
#include "worker/base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct mr_transactions {
    struct mr_transactions_options options;
    struct mr_kafka_txn *txn;
    const struct mr_wake *wake;
    struct mr_answer answer;
    struct mr_error broken; /* a record that can never be written */
    pthread_t thread;
    atomic_bool stopping; /* set under mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct mr_transactions_job *job; /* these three under mutex */
    bool done;
    struct mr_transactions_stats stats;
};

/* ---- records of one job ---- */

/* A reply that cannot be written is given up: its topic is the caller's. */
static void give_up_part(struct mr_transactions *settle, struct mr_ticket_part *part,
                         const struct mr_error *reason)
{
    struct mr_log_place place = mr_ticket_log_place(part->ticket);
    mr_log_write(settle->options.log, MR_LOG_ERROR, &place, "record not written: %s",
                 reason->detail);
    if (part->kind == MR_PART_REPLY)
        part->pending = false;
    else if (settle->broken.status == MR_OK)
        settle->broken = *reason;
}

/* What cannot be written as it is ends the transaction; this is for the next one. */
static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    struct mr_transactions *settle = context;
    struct mr_ticket_part *part = opaque;
    struct mr_error err = {0};
    if (status == MR_RECORD_TOO_LARGE && !part->shrunk) {
        part->shrunk = true;
    } else if (status == MR_RECORD_TOO_LARGE || status == MR_BAD_CONFIG) {
        mr_fail(&err, status, "%s", reason);
        give_up_part(settle, part, &err);
    }
}

/* MR_AGAIN: the transaction is to be aborted. */
static enum mr_status produce_part(struct mr_transactions *settle, struct mr_ticket_part *part,
                                   struct mr_error *err)
{
    struct mr_kafka_out *out = mr_kafka_txn_out(settle->txn);
    enum mr_status status = mr_ending_make(&settle->answer, &settle->options.source, part->ticket,
                                           part->kind, part->shrunk, err);
    while (status == MR_OK &&
           (status = mr_kafka_out_produce(out, &settle->answer.record, part, err)) == MR_FULL &&
           !atomic_load(&settle->stopping))
        mr_kafka_out_serve(out, 100), status = MR_OK;
    if (status == MR_OK || status == MR_BACKEND) return status;
    if (status == MR_RECORD_TOO_LARGE && !part->shrunk) {
        part->shrunk = true;
        return produce_part(settle, part, err);
    }
    if (mr_status_class(status) == MR_CLASS_RETRY) return MR_AGAIN;
    give_up_part(settle, part, err);
    return settle->broken.status == MR_OK ? MR_OK : MR_AGAIN;
}

/* Which records there are is found out once; then they are pending until a transaction is through.
 */
static void prepare(struct mr_transactions *settle, struct mr_ticket *ticket)
{
    struct mr_kafka_out *out = mr_kafka_txn_out(settle->txn);
    if (ticket->publish.phase != MR_ENDING_WAITS) return;
    ticket->publish.phase = MR_ENDING_RESULT;
    for (unsigned i = 0; i < MR_PART_TOKENS; i++) {
        enum mr_part kind = (enum mr_part)i;
        ticket->publish.parts[i] = (struct mr_ticket_part){.ticket = ticket, .kind = kind};
        ticket->publish.parts[i].pending = mr_ending_wants(ticket, kind, out, settle->options.log);
    }
}

static enum mr_status produce_all(struct mr_transactions *settle,
                                  const struct mr_transactions_job *job, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (struct mr_ticket *ticket = job->tickets; ticket; ticket = ticket->intake.ready_next)
        for (unsigned i = 0; i < MR_PART_TOKENS && status == MR_OK; i++)
            if (ticket->publish.parts[i].pending)
                status = produce_part(settle, &ticket->publish.parts[i], err);
    return status;
}

static void count_parts(struct mr_transactions *settle, const struct mr_transactions_job *job)
{
    for (struct mr_ticket *ticket = job->tickets; ticket; ticket = ticket->intake.ready_next)
        for (unsigned i = 0; i < MR_PART_TOKENS; i++) {
            if (!ticket->publish.parts[i].pending) continue;
            ticket->publish.parts[i].pending = false;
            mr_ending_count(&settle->stats.endings, settle->options.metrics, (enum mr_part)i);
        }
}

/* ---- one job ---- */

static enum mr_status transact(struct mr_transactions *settle,
                               const struct mr_transactions_job *job, struct mr_error *err)
{
    enum mr_status status = mr_kafka_txn_begin(settle->txn, err);
    if (status != MR_OK) return status;
    status = produce_all(settle, job, err);
    if (status == MR_OK)
        return mr_kafka_txn_commit(settle->txn, job->commits, job->commit_count, job->membership,
                                   err);
    return status == MR_AGAIN ? mr_kafka_txn_abort(settle->txn, err) : status;
}

/* Another producer for the one that broke; the job is through if its transaction was. */
static enum mr_status renew(struct mr_transactions *settle, const struct mr_transactions_job *job,
                            struct mr_error *err)
{
    bool committed = false;
    struct mr_error why = {0};
    enum mr_status status = MR_UNREACHABLE;
    while (status == MR_UNREACHABLE && !atomic_load(&settle->stopping))
        status = mr_kafka_txn_renew(settle->txn, job->commits, job->commit_count, &committed, &why);
    if (why.status != MR_OK && status != MR_OK) *err = why;
    if (status != MR_OK) return MR_BACKEND;
    mr_log_warn(settle->options.log, "transactions go on with another producer, after: %s%s",
                err->detail, committed ? "; the last one had come through" : "");
    mr_metrics_add(settle->options.metrics, MR_COUNTER_TRANSACTORS, 1);
    pthread_mutex_lock(&settle->mutex);
    settle->stats.renewed++;
    pthread_mutex_unlock(&settle->mutex);
    return committed ? MR_OK : MR_AGAIN;
}

static enum mr_status settle_job(struct mr_transactions *settle,
                                 const struct mr_transactions_job *job, struct mr_error *err)
{
    for (struct mr_ticket *ticket = job->tickets; ticket; ticket = ticket->intake.ready_next)
        prepare(settle, ticket);
    enum mr_status status = transact(settle, job, err);
    if (settle->broken.status != MR_OK) {
        *err = settle->broken;
        return status == MR_OK ? MR_OK : settle->broken.status;
    }
    return status == MR_BACKEND ? renew(settle, job, err) : status;
}

static uint32_t count_tickets(const struct mr_transactions_job *job)
{
    uint32_t count = 0;
    for (const struct mr_ticket *ticket = job->tickets; ticket; ticket = ticket->intake.ready_next)
        count++;
    return count;
}

static void execute(struct mr_transactions *settle, struct mr_transactions_job *job)
{
    struct mr_error err = {0};
    uint64_t began_ns = mr_clock_ns();
    mr_metrics_transaction_began(settle->options.metrics, count_tickets(job), began_ns);
    enum mr_status status = settle_job(settle, job, &err);
    uint64_t ended_ns = mr_clock_ns();
    mr_metrics_transaction_ended(settle->options.metrics, status == MR_OK, ended_ns);
    mr_kafka_membership_free(job->membership);
    job->membership = NULL;
    pthread_mutex_lock(&settle->mutex);
    settle->stats.transactions++;
    if (status == MR_OK) {
        settle->stats.ns_sum += ended_ns - began_ns;
        count_parts(settle, job);
    } else {
        settle->stats.aborted++;
    }
    job->outcome = err;
    job->outcome.status = status;
    settle->done = true;
    pthread_cond_broadcast(&settle->changed);
    pthread_mutex_unlock(&settle->mutex);
    if (settle->wake) mr_wake_ring(settle->wake);
}

static void *run(void *argument)
{
    struct mr_transactions *settle = argument;
    pthread_mutex_lock(&settle->mutex);
    for (;;) {
        while (!atomic_load(&settle->stopping) && (!settle->job || settle->done))
            pthread_cond_wait(&settle->changed, &settle->mutex);
        if (atomic_load(&settle->stopping)) break;
        struct mr_transactions_job *job = settle->job;
        pthread_mutex_unlock(&settle->mutex);
        execute(settle, job);
        pthread_mutex_lock(&settle->mutex);
    }
    pthread_mutex_unlock(&settle->mutex);
    return NULL;
}

/* ---- the owner ---- */

static enum mr_status prime(struct mr_transactions *settle, struct mr_error *err)
{
    struct mr_kafka_out *out = mr_kafka_txn_out(settle->txn);
    enum mr_status status = mr_kafka_out_prime(out, settle->options.source.results_topic,
                                               settle->options.timeout_ms, err);
    if (status != MR_OK) return status;
    return mr_kafka_out_prime(out, settle->options.source.dlq_topic, settle->options.timeout_ms,
                              err);
}

static void free_settle(struct mr_transactions *settle)
{
    mr_kafka_txn_destroy(settle->txn);
    mr_answer_clear(&settle->answer);
    pthread_cond_destroy(&settle->changed);
    pthread_mutex_destroy(&settle->mutex);
    free(settle);
}

enum mr_status mr_transactions_create(struct mr_transactions **out,
                                      const struct mr_transactions_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_transactions *settle = calloc(1, sizeof *settle);
    if (!settle) return mr_fail(err, MR_NOMEM, "no memory for settle");
    settle->options = *options;
    pthread_mutex_init(&settle->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&settle->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    struct mr_kafka_txn_options txn = {.out = {.kafka = options->kafka,
                                               .transactional_id = options->transactional_id,
                                               .reported = on_reported,
                                               .context = settle},
                                       .topics = options->topics,
                                       .timeout_ms = options->timeout_ms,
                                       .stopping = &settle->stopping};
    enum mr_status status = mr_kafka_txn_create(&settle->txn, &txn, err);
    if (status == MR_OK) status = prime(settle, err);
    if (status == MR_OK && pthread_create(&settle->thread, NULL, run, settle) != 0)
        status = mr_fail(err, MR_NOMEM, "no thread for settle");
    if (status != MR_OK) {
        free_settle(settle);
        return status;
    }
    pthread_setname_np(settle->thread, "settle");
    *out = settle;
    return MR_OK;
}

void mr_transactions_wake(struct mr_transactions *settle, const struct mr_wake *wake)
{
    settle->wake = wake;
}

void mr_transactions_start(struct mr_transactions *settle, struct mr_transactions_job *job)
{
    MR_ASSERT(!settle->job); /* only the owner changes it */
    pthread_mutex_lock(&settle->mutex);
    settle->job = job;
    settle->done = false;
    pthread_cond_broadcast(&settle->changed);
    pthread_mutex_unlock(&settle->mutex);
}

bool mr_transactions_wait(struct mr_transactions *settle, uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&settle->mutex);
    while (settle->job && !settle->done)
        if (timeout_ms == 0 ||
            pthread_cond_timedwait(&settle->changed, &settle->mutex, &until) != 0)
            break;
    bool done = settle->job && settle->done;
    if (done) settle->job = NULL;
    pthread_mutex_unlock(&settle->mutex);
    return done;
}

struct mr_transactions_stats mr_transactions_stats(struct mr_transactions *settle)
{
    pthread_mutex_lock(&settle->mutex);
    struct mr_transactions_stats stats = settle->stats;
    pthread_mutex_unlock(&settle->mutex);
    return stats;
}

uint64_t mr_transactions_call_ns(const struct mr_transactions *settle)
{
    return mr_kafka_txn_call_ns(settle->txn);
}

void mr_transactions_destroy(struct mr_transactions *settle)
{
    if (!settle) return;
    pthread_mutex_lock(&settle->mutex);
    atomic_store(&settle->stopping, true);
    pthread_cond_broadcast(&settle->changed);
    pthread_mutex_unlock(&settle->mutex);
    pthread_join(settle->thread, NULL);
    free_settle(settle);
}
