/* The transactions step under virtual time, over a transactional producer in memory. */
#include "worker/publish/transactions.h"

#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/fake_producer.h"
#include "tests/unit/worker/output_options.h"
#include "worker/ticket/messages.h"

#include <stdio.h>
#include <stdlib.h>

#define MS ((uint64_t)1000000)

struct rig {
    struct fake_producer producer;
    struct mr_transactions_user user;
    enum mr_status commit, renew; /* returned by the calls of the same name */
    bool committed;               /* result of _renew */
    uint64_t commit_ns;           /* how long a commit takes */
    uint32_t begun, aborted, freed;
    struct mr_log *log;
    struct mr_metrics *metrics;
    struct mr_transactions *transactions;
    struct mr_ticket tickets[2];
    struct mr_transactions_job job;
    struct mr_time now;
};

static struct mr_producer_port get_producer(void *self)
{
    struct rig *rig = self;
    struct mr_producer_port port;
    assert_int_equal(fake_open(&rig->producer, &rig->user.producer, &port, NULL), MR_OK);
    return port;
}

static enum mr_status begin(void *self, struct mr_error *err)
{
    (void)err;
    ((struct rig *)self)->begun++;
    return MR_OK;
}

static enum mr_status commit(void *self, const struct mr_transaction_offsets *offsets,
                             struct mr_error *err)
{
    struct rig *rig = self;
    assert_int_equal(offsets->count, 0);
    rig->producer.holding = false;
    fake_serve(&rig->producer);
    rig->now.ns += rig->commit_ns;
    return rig->commit == MR_OK ? MR_OK : mr_fail(err, rig->commit, "commit");
}

static enum mr_status abort_one(void *self, struct mr_error *err)
{
    ((struct rig *)self)->aborted++;
    return mr_fail(err, MR_AGAIN, "aborted");
}

static enum mr_status renew(void *self, const struct mr_transaction_offsets *offsets,
                            bool *committed, struct mr_error *err)
{
    struct rig *rig = self;
    (void)offsets;
    *committed = rig->committed;
    return rig->renew == MR_OK ? MR_OK : mr_fail(err, rig->renew, "renew");
}

static uint64_t no_call(const void *self)
{
    (void)self;
    return 0;
}

static void free_membership(void *self, struct mr_kafka_membership *membership)
{
    assert_null(membership);
    ((struct rig *)self)->freed++;
}

static void close_port(void *self)
{
    ((struct rig *)self)->producer.closed = true;
}

static enum mr_status open_port(void *context, const struct mr_transactions_user *user,
                                struct mr_transactions_port *port, struct mr_error *err)
{
    (void)err;
    ((struct rig *)context)->user = *user;
    *port = (struct mr_transactions_port){.self = context,
                                          .producer = get_producer,
                                          .begin = begin,
                                          .commit = commit,
                                          .abort = abort_one,
                                          .renew = renew,
                                          .call_ns = no_call,
                                          .free_membership = free_membership,
                                          .close = close_port};
    return MR_OK;
}

/* Two rejected requests; the first one has a reply topic. */
static int open_rig(void **state)
{
    struct rig *rig = *state = calloc(1, sizeof *rig);
    struct mr_log_options log = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    struct mr_metrics_info info = {
        "w", "m",    "fp32", "cpu",
        16,  64,     1,      &(struct mr_request_topic){.name = "r", .tenant = "default"},
        1,   "2.0.2"};
    struct mr_transactions_options options = {.producer = {rig, open_port}, .output = test_output};
    fake_producer_opener(&rig->producer);
    assert_int_equal(mr_log_create(&options.log, &log, NULL), MR_OK);
    assert_int_equal(mr_metrics_create(&options.metrics, &info, NULL), MR_OK);
    rig->log = options.log;
    rig->metrics = options.metrics;
    rig->now.ns = 1000 * MS;
    assert_int_equal(mr_transactions_create(&rig->transactions, &options, NULL), MR_OK);
    for (int i = 0; i < 2; i++) {
        struct mr_ticket *ticket = &rig->tickets[i];
        *ticket = (struct mr_ticket){.topic = "r", .encoding = MR_ENCODING_JSON};
        snprintf(ticket->id, sizeof ticket->id, "req-%d", i);
        struct mr_refusal_mail *mail = mr_refusal_mail_create(ticket, NULL, (struct mr_text){0});
        mail->finish = MR_FINISH_REJECTED;
        mail->write_result = true;
        mr_fail(&mail->error, MR_MALFORMED, "no request");
        ticket->publish.terminal = &mail->mail;
    }
    rig->tickets[0].intake.ready_next = &rig->tickets[1];
    rig->tickets[0].reply_topic = "replies";
    rig->job.tickets = &rig->tickets[0];
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;
    mr_transactions_destroy(rig->transactions, 10000);
    assert_true(rig->producer.closed);
    for (int i = 0; i < 2; i++)
        mr_mail_free(rig->tickets[i].publish.terminal);
    mr_metrics_destroy(rig->metrics);
    mr_log_destroy(rig->log);
    free(rig);
    return 0;
}

/* Steps until the thread would sleep; returns for how many nanoseconds. */
static uint64_t run_steps(struct rig *rig)
{
    for (int i = 0; i < 100; i++) {
        uint64_t next_ns = mr_transactions_step(rig->transactions, rig->now);
        if (next_ns == UINT64_MAX) return UINT64_MAX;
        if (next_ns > rig->now.ns) return next_ns - rig->now.ns;
    }
    fail_msg("a step that never sleeps");
    return 0;
}

static void a_job_waits_for_lookups_and_for_room(void **state)
{
    struct rig *rig = *state;
    assert_true(run_steps(rig) == UINT64_MAX);
    mr_transactions_submit(rig->transactions, &rig->job);
    rig->producer.partitions = MR_AGAIN;
    assert_int_equal(run_steps(rig), 100 * MS);
    assert_int_equal(rig->begun, 0); /* lookups come before the transaction */
    rig->producer.partitions = MR_OK;
    rig->producer.room = 2;
    rig->producer.holding = true;
    assert_int_equal(run_steps(rig), 100 * MS);
    assert_int_equal(rig->producer.count, 2);
    assert_false(mr_transactions_take_outcome(rig->transactions));
    rig->producer.holding = false;
    assert_true(run_steps(rig) == UINT64_MAX);
    assert_int_equal(rig->producer.count, 3);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_false(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status, MR_OK);
    assert_int_equal(rig->freed, 1);
    struct mr_transactions_stats stats = mr_transactions_stats(rig->transactions);
    assert_int_equal(stats.terminal.results, 2);
    assert_int_equal(stats.terminal.replies, 1);
}

static void a_job_that_waits_for_a_lookup_is_given_back_when_the_worker_ends(void **state)
{
    struct rig *rig = *state;
    rig->producer.partitions = MR_UNREACHABLE;
    mr_transactions_submit(rig->transactions, &rig->job);
    assert_int_equal(run_steps(rig), 100 * MS);
    atomic_store((atomic_bool *)(uintptr_t)rig->user.stopping, true);
    assert_true(run_steps(rig) == UINT64_MAX);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status, MR_AGAIN);
    assert_int_equal(rig->begun, 0);
}

static void a_record_that_cannot_be_written_now_aborts_its_transaction(void **state)
{
    struct rig *rig = *state;
    rig->producer.bytes_max = 10;
    mr_transactions_submit(rig->transactions, &rig->job);
    run_steps(rig);
    assert_int_equal(rig->aborted, 1);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status,
                     MR_RECORD_TOO_LARGE); /* larger than 10 bytes even without its text */
    assert_int_equal(mr_transactions_stats(rig->transactions).aborted, 1);
}

static void a_reply_refused_for_good_is_left_out_of_the_next_transaction(void **state)
{
    struct rig *rig = *state;
    rig->producer.refusing = "replies";
    rig->producer.refusal = MR_MALFORMED;
    rig->commit = MR_AGAIN; /* a transaction with a refused record is aborted */
    mr_transactions_submit(rig->transactions, &rig->job);
    run_steps(rig);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status, MR_AGAIN);
    rig->commit = MR_OK;
    mr_transactions_submit(rig->transactions, &rig->job);
    run_steps(rig);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status, MR_OK);
    assert_int_equal(fake_count(&rig->producer, "replies"), 1);
    struct mr_transactions_stats stats = mr_transactions_stats(rig->transactions);
    assert_int_equal(stats.terminal.results, 2);
    assert_int_equal(stats.terminal.replies, 0);
}

/* Runs the job; `commit` is the outcome of its transaction. */
static void run_job(struct rig *rig, enum mr_status commit, uint64_t commit_ns)
{
    rig->commit = commit;
    rig->commit_ns = commit_ns;
    mr_transactions_submit(rig->transactions, &rig->job);
    assert_true(run_steps(rig) == UINT64_MAX);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status, commit);
    rig->now.ns += 500 * MS;
}

static const struct mr_ticket_part *reply_of(const struct mr_ticket *ticket)
{
    return &ticket->publish.parts[MR_PART_REPLY];
}

/* The partition of a reply has no leader, that of the results has one. */
static void a_reply_that_keeps_results_from_being_written_is_given_up(void **state)
{
    struct rig *rig = *state;
    struct mr_ticket *ticket = &rig->tickets[0], *other = &rig->tickets[1];
    rig->producer.refusing = "replies";
    rig->producer.refusal = MR_TIMEOUT;
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(ticket)->pending);
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(ticket)->lost);
    run_job(rig, MR_OK, 0);
    assert_int_equal(fake_count(&rig->producer, "replies"), 2);
    assert_int_equal(mr_transactions_stats(rig->transactions).terminal.results, 2);

    rig->job.tickets = other; /* its reply would go to the same place */
    other->reply_topic = "replies";
    other->publish.phase = MR_TERMINAL_WAITING;
    run_job(rig, MR_OK, 0);
    assert_true(reply_of(other)->lost);
    assert_int_equal(fake_count(&rig->producer, "replies"), 2);
    rig->now.ns += 60000 * MS;
    other->publish.phase = MR_TERMINAL_WAITING;
    run_job(rig, MR_AGAIN, 10000 * MS); /* one more try */
    assert_true(reply_of(other)->lost);
    assert_int_equal(fake_count(&rig->producer, "replies"), 3);

    rig->producer.partition_count = 2;
    other->reply_partition = 1; /* another place */
    other->publish.phase = MR_TERMINAL_WAITING;
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(other)->pending);
    rig->producer.refusing = NULL;
    run_job(rig, MR_OK, 0);
    assert_int_equal(mr_transactions_stats(rig->transactions).terminal.replies, 1);
    rig->producer.refusing = "replies"; /* it has taken one since */
    other->publish.phase = MR_TERMINAL_WAITING;
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(other)->pending);
}

static void a_reply_waits_for_a_broker_that_takes_no_record_at_all(void **state)
{
    struct rig *rig = *state;
    rig->producer.outcome = MR_TIMEOUT;
    for (int i = 0; i < 20; i++)
        run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(&rig->tickets[0])->pending);
    rig->producer.refusing = "replies"; /* the transaction fails because of something else */
    rig->producer.refusal = MR_CLOSED;
    rig->producer.outcome = MR_OK;
    for (int i = 0; i < 5; i++)
        run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(&rig->tickets[0])->pending);
}

/* The partition of the dead letters has no leader either; that of the results has one. */
static void a_reply_is_not_blamed_when_another_record_fails_too(void **state)
{
    struct rig *rig = *state;
    struct mr_refusal_mail *mail = (struct mr_refusal_mail *)rig->tickets[1].publish.terminal;
    mail->dead_letter = true;
    rig->producer.refusing = "replies";
    rig->producer.refusing_too = "dlq";
    rig->producer.refusal = MR_TIMEOUT;
    for (int i = 0; i < 5; i++)
        run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(&rig->tickets[0])->pending);
    rig->producer.refusing_too = NULL; /* now only the reply fails: the timeout begins */
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(&rig->tickets[0])->pending);
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(&rig->tickets[0])->lost);
}

/* Each transaction has a new record that is not a valid request; the worker may not write to the
 * topic of dead letters. A dead letter without a key is tried once more, with one. */
static void dead_letters_that_are_given_up_do_not_keep_a_reply_from_being_given_up(void **state)
{
    struct rig *rig = *state;
    struct mr_ticket *ticket = &rig->tickets[0], *other = &rig->tickets[1];
    struct mr_refusal_mail *mail = (struct mr_refusal_mail *)other->publish.terminal;
    mail->dead_letter = true;
    rig->producer.refusing = "replies";
    rig->producer.refusal = MR_TIMEOUT;
    rig->producer.refusing_too = "dlq";
    rig->producer.refusal_too = MR_BAD_CONFIG;
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(other->publish.parts[MR_PART_DEAD_LETTER].keyed);
    assert_true(reply_of(ticket)->pending);
    other->publish.phase = MR_TERMINAL_WAITING;
    mail->record.key = (struct mr_text){"k", 1};
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(other->publish.parts[MR_PART_DEAD_LETTER].lost);
    assert_true(reply_of(ticket)->lost);
}

static void a_dead_letter_that_cannot_be_produced_does_not_either(void **state)
{
    struct rig *rig = *state;
    struct mr_refusal_mail *mail = (struct mr_refusal_mail *)rig->tickets[1].publish.terminal;
    char value[1000] = "";
    mail->dead_letter = true;
    mail->record.key = (struct mr_text){value, sizeof value};
    rig->producer.keys_max = 100; /* larger even without its value */
    rig->producer.refusing = "replies";
    rig->producer.refusal = MR_TIMEOUT;
    run_job(rig, MR_AGAIN, 20000 * MS);
    assert_true(rig->tickets[1].publish.parts[MR_PART_DEAD_LETTER].lost);
    assert_true(reply_of(&rig->tickets[0])->lost);
}

/* Only consecutive failures count. */
static void a_reply_taken_in_a_transaction_that_fails_clears_its_partition(void **state)
{
    struct rig *rig = *state;
    rig->producer.refusing = "replies";
    rig->producer.refusal = MR_TIMEOUT;
    run_job(rig, MR_AGAIN, 10000 * MS);
    rig->producer.refusing = NULL;
    run_job(rig, MR_AGAIN, 10000 * MS);
    rig->producer.refusing = "replies";
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(&rig->tickets[0])->pending);
    run_job(rig, MR_AGAIN, 10000 * MS);
    assert_true(reply_of(&rig->tickets[0])->lost);
}

static void a_result_refused_for_good_fails_its_job(void **state)
{
    struct rig *rig = *state;
    rig->producer.refusing = "results";
    rig->producer.refusal = MR_MALFORMED;
    rig->commit = MR_AGAIN;
    mr_transactions_submit(rig->transactions, &rig->job);
    run_steps(rig);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status, MR_MALFORMED);
}

static void a_broken_producer_is_replaced_when_the_broker_can_be_reached(void **state)
{
    struct rig *rig = *state;
    rig->commit = MR_BACKEND;
    rig->renew = MR_UNREACHABLE;
    mr_transactions_submit(rig->transactions, &rig->job);
    assert_int_equal(run_steps(rig), 100 * MS);
    assert_int_equal(run_steps(rig), 100 * MS);
    rig->renew = MR_OK;
    rig->committed = true; /* the producer broke after its transaction was committed */
    assert_true(run_steps(rig) == UINT64_MAX);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status, MR_OK);
    assert_int_equal(mr_transactions_stats(rig->transactions).renewed, 1);
    assert_counter(rig->metrics, "transaction_producers_renewed", 1);
    assert_int_equal(mr_transactions_stats(rig->transactions).terminal.results, 2);
}

static void a_producer_that_cannot_be_replaced_is_the_outcome(void **state)
{
    struct rig *rig = *state;
    rig->commit = MR_BACKEND;
    rig->renew = MR_BACKEND;
    mr_transactions_submit(rig->transactions, &rig->job);
    assert_true(run_steps(rig) == UINT64_MAX);
    assert_true(mr_transactions_take_outcome(rig->transactions));
    assert_int_equal(rig->job.outcome.status, MR_BACKEND);
    assert_string_equal(rig->job.outcome.detail, "renew");
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_job_waits_for_lookups_and_for_room),
        RIG_TEST(a_job_that_waits_for_a_lookup_is_given_back_when_the_worker_ends),
        RIG_TEST(a_record_that_cannot_be_written_now_aborts_its_transaction),
        RIG_TEST(a_reply_refused_for_good_is_left_out_of_the_next_transaction),
        RIG_TEST(a_reply_that_keeps_results_from_being_written_is_given_up),
        RIG_TEST(a_reply_waits_for_a_broker_that_takes_no_record_at_all),
        RIG_TEST(a_reply_is_not_blamed_when_another_record_fails_too),
        RIG_TEST(dead_letters_that_are_given_up_do_not_keep_a_reply_from_being_given_up),
        RIG_TEST(a_dead_letter_that_cannot_be_produced_does_not_either),
        RIG_TEST(a_reply_taken_in_a_transaction_that_fails_clears_its_partition),
        RIG_TEST(a_result_refused_for_good_fails_its_job),
        RIG_TEST(a_broken_producer_is_replaced_when_the_broker_can_be_reached),
        RIG_TEST(a_producer_that_cannot_be_replaced_is_the_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
