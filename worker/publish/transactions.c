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
    struct mr_output output;
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
static void give_up_part(struct mr_transactions *transactions, struct mr_ticket_part *part,
                         const struct mr_error *reason)
{
    struct mr_log_place place = mr_terminal_place(part->ticket);
    mr_log_write(transactions->options.log, MR_LOG_ERROR, &place, "record not written: %s",
                 reason->detail);
    if (part->kind == MR_PART_REPLY)
        part->pending = false;
    else if (transactions->broken.status == MR_OK)
        transactions->broken = *reason;
}

/* What cannot be written as it is ends the transaction; this is for the next one. */
static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    struct mr_transactions *transactions = context;
    struct mr_ticket_part *part = opaque;
    struct mr_error err = {0};
    if (status == MR_RECORD_TOO_LARGE && !part->shrunk) {
        part->shrunk = true;
    } else if (status == MR_RECORD_TOO_LARGE || status == MR_BAD_CONFIG) {
        mr_fail(&err, status, "%s", reason);
        give_up_part(transactions, part, &err);
    }
}

/* MR_AGAIN: the transaction is to be aborted. */
static enum mr_status produce_part(struct mr_transactions *transactions,
                                   struct mr_ticket_part *part, struct mr_error *err)
{
    struct mr_kafka_out *out = mr_kafka_txn_out(transactions->txn);
    enum mr_status status =
        mr_terminal_make(&transactions->output, &transactions->options.output, part, err);
    while (status == MR_OK &&
           (status = mr_kafka_out_produce(out, &transactions->output.record, part, err)) ==
               MR_FULL &&
           !atomic_load(&transactions->stopping))
        mr_kafka_out_serve(out, 100), status = MR_OK;
    if (status == MR_OK || status == MR_BACKEND) return status;
    if (status == MR_RECORD_TOO_LARGE && !part->shrunk) {
        part->shrunk = true;
        return produce_part(transactions, part, err);
    }
    if (mr_status_class(status) == MR_CLASS_RETRY) return MR_AGAIN;
    give_up_part(transactions, part, err);
    return transactions->broken.status == MR_OK ? MR_OK : MR_AGAIN;
}

/* Which records there are is found out once; then they are pending until a transaction is through.
 */
static void prepare(struct mr_transactions *transactions, struct mr_ticket *ticket)
{
    struct mr_producer_port producer = mr_kafka_out_port(mr_kafka_txn_out(transactions->txn));
    if (ticket->publish.phase != MR_TERMINAL_WAITING) return;
    ticket->publish.phase = MR_TERMINAL_RESULT;
    for (unsigned i = 0; i < MR_PART_TOKENS; i++) {
        enum mr_part kind = (enum mr_part)i;
        struct mr_ticket_part *part = &ticket->publish.parts[i];
        *part = (struct mr_ticket_part){.ticket = ticket, .kind = kind};
        part->pending = mr_terminal_wants(ticket, kind);
        while (kind == MR_PART_REPLY && part->pending && !part->topic_exists) {
            mr_terminal_find_reply_topic(part, &producer, transactions->options.log);
            if (part->pending && !part->topic_exists)
                mr_kafka_out_serve(mr_kafka_txn_out(transactions->txn), 10);
        }
    }
}

static enum mr_status produce_all(struct mr_transactions *transactions,
                                  const struct mr_transactions_job *job, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (struct mr_ticket *ticket = job->tickets; ticket; ticket = ticket->intake.ready_next)
        for (unsigned i = 0; i < MR_PART_TOKENS && status == MR_OK; i++)
            if (ticket->publish.parts[i].pending)
                status = produce_part(transactions, &ticket->publish.parts[i], err);
    return status;
}

static void count_parts(struct mr_transactions *transactions, const struct mr_transactions_job *job)
{
    for (struct mr_ticket *ticket = job->tickets; ticket; ticket = ticket->intake.ready_next)
        for (unsigned i = 0; i < MR_PART_TOKENS; i++) {
            if (!ticket->publish.parts[i].pending) continue;
            ticket->publish.parts[i].pending = false;
            mr_terminal_count(&transactions->stats.terminal, transactions->options.metrics,
                              (enum mr_part)i);
        }
}

/* ---- one job ---- */

static enum mr_status transact(struct mr_transactions *transactions,
                               const struct mr_transactions_job *job, struct mr_error *err)
{
    enum mr_status status = mr_kafka_txn_begin(transactions->txn, err);
    if (status != MR_OK) return status;
    status = produce_all(transactions, job, err);
    if (status == MR_OK)
        return mr_kafka_txn_commit(transactions->txn, job->commits, job->commit_count,
                                   job->membership, err);
    return status == MR_AGAIN ? mr_kafka_txn_abort(transactions->txn, err) : status;
}

/* Another producer for the one that broke; the job is through if its transaction was. */
static enum mr_status renew(struct mr_transactions *transactions,
                            const struct mr_transactions_job *job, struct mr_error *err)
{
    bool committed = false;
    struct mr_error why = {0};
    enum mr_status status = MR_UNREACHABLE;
    while (status == MR_UNREACHABLE && !atomic_load(&transactions->stopping))
        status = mr_kafka_txn_renew(transactions->txn, job->commits, job->commit_count, &committed,
                                    &why);
    if (why.status != MR_OK && status != MR_OK) *err = why;
    if (status != MR_OK) return MR_BACKEND;
    mr_log_warn(transactions->options.log, "transactions go on with another producer, after: %s%s",
                err->detail, committed ? "; the last one had come through" : "");
    mr_metrics_add(transactions->options.metrics, MR_COUNTER_TRANSACTORS, 1);
    pthread_mutex_lock(&transactions->mutex);
    transactions->stats.renewed++;
    pthread_mutex_unlock(&transactions->mutex);
    return committed ? MR_OK : MR_AGAIN;
}

static enum mr_status run_transaction(struct mr_transactions *transactions,
                                      const struct mr_transactions_job *job, struct mr_error *err)
{
    for (struct mr_ticket *ticket = job->tickets; ticket; ticket = ticket->intake.ready_next)
        prepare(transactions, ticket);
    enum mr_status status = transact(transactions, job, err);
    if (transactions->broken.status != MR_OK) {
        *err = transactions->broken;
        return status == MR_OK ? MR_OK : transactions->broken.status;
    }
    return status == MR_BACKEND ? renew(transactions, job, err) : status;
}

static uint32_t count_tickets(const struct mr_transactions_job *job)
{
    uint32_t count = 0;
    for (const struct mr_ticket *ticket = job->tickets; ticket; ticket = ticket->intake.ready_next)
        count++;
    return count;
}

static void execute(struct mr_transactions *transactions, struct mr_transactions_job *job)
{
    struct mr_error err = {0};
    uint64_t began_ns = mr_clock_ns();
    mr_metrics_transaction_began(transactions->options.metrics, count_tickets(job), began_ns);
    enum mr_status status = run_transaction(transactions, job, &err);
    uint64_t ended_ns = mr_clock_ns();
    mr_metrics_transaction_ended(transactions->options.metrics, status == MR_OK, ended_ns);
    mr_kafka_membership_free(job->membership);
    job->membership = NULL;
    pthread_mutex_lock(&transactions->mutex);
    transactions->stats.transactions++;
    if (status == MR_OK) {
        transactions->stats.ns_sum += ended_ns - began_ns;
        count_parts(transactions, job);
    } else {
        transactions->stats.aborted++;
    }
    job->outcome = err;
    job->outcome.status = status;
    transactions->done = true;
    pthread_cond_broadcast(&transactions->changed);
    pthread_mutex_unlock(&transactions->mutex);
    if (transactions->wake) mr_wake_ring(transactions->wake);
}

static void *run(void *argument)
{
    struct mr_transactions *transactions = argument;
    pthread_mutex_lock(&transactions->mutex);
    for (;;) {
        while (!atomic_load(&transactions->stopping) && (!transactions->job || transactions->done))
            pthread_cond_wait(&transactions->changed, &transactions->mutex);
        if (atomic_load(&transactions->stopping)) break;
        struct mr_transactions_job *job = transactions->job;
        pthread_mutex_unlock(&transactions->mutex);
        execute(transactions, job);
        pthread_mutex_lock(&transactions->mutex);
    }
    pthread_mutex_unlock(&transactions->mutex);
    return NULL;
}

/* ---- the owner ---- */

static enum mr_status prime(struct mr_transactions *transactions, struct mr_error *err)
{
    struct mr_kafka_out *out = mr_kafka_txn_out(transactions->txn);
    enum mr_status status = mr_kafka_out_prime(out, transactions->options.output.results_topic,
                                               transactions->options.timeout_ms, err);
    if (status != MR_OK) return status;
    return mr_kafka_out_prime(out, transactions->options.output.dlq_topic,
                              transactions->options.timeout_ms, err);
}

static void free_all(struct mr_transactions *transactions)
{
    mr_kafka_txn_destroy(transactions->txn);
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
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&transactions->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    struct mr_kafka_txn_options txn = {.out = {.kafka = options->kafka,
                                               .transactional_id = options->transactional_id,
                                               .reported = on_reported,
                                               .context = transactions},
                                       .topics = options->topics,
                                       .timeout_ms = options->timeout_ms,
                                       .stopping = &transactions->stopping};
    enum mr_status status = mr_kafka_txn_create(&transactions->txn, &txn, err);
    if (status == MR_OK) status = prime(transactions, err);
    if (status == MR_OK && pthread_create(&transactions->thread, NULL, run, transactions) != 0)
        status = mr_fail(err, MR_NOMEM, "no thread for transactions");
    if (status != MR_OK) {
        free_all(transactions);
        return status;
    }
    pthread_setname_np(transactions->thread, "transactions");
    *out = transactions;
    return MR_OK;
}

void mr_transactions_set_wake(struct mr_transactions *transactions, const struct mr_wake *wake)
{
    transactions->wake = wake;
}

void mr_transactions_submit(struct mr_transactions *transactions, struct mr_transactions_job *job)
{
    MR_ASSERT(!transactions->job); /* only the owner changes it */
    pthread_mutex_lock(&transactions->mutex);
    transactions->job = job;
    transactions->done = false;
    pthread_cond_broadcast(&transactions->changed);
    pthread_mutex_unlock(&transactions->mutex);
}

bool mr_transactions_wait(struct mr_transactions *transactions, uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&transactions->mutex);
    while (transactions->job && !transactions->done)
        if (timeout_ms == 0 ||
            pthread_cond_timedwait(&transactions->changed, &transactions->mutex, &until) != 0)
            break;
    bool done = transactions->job && transactions->done;
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
    return mr_kafka_txn_call_ns(transactions->txn);
}

void mr_transactions_destroy(struct mr_transactions *transactions)
{
    if (!transactions) return;
    pthread_mutex_lock(&transactions->mutex);
    atomic_store(&transactions->stopping, true);
    pthread_cond_broadcast(&transactions->changed);
    pthread_mutex_unlock(&transactions->mutex);
    pthread_join(transactions->thread, NULL);
    free_all(transactions);
}
