#include "worker/kafka/kafka_txn.h"

#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_in.h"
#include "worker/kafka/kafka_reader.h"

#include <stdlib.h>
#include <time.h>

/* The mock broker runs the protocol of transactions, but readers see records of open and aborted
 * transactions, and nobody is fenced. tests/integration shows both on Apache Kafka. */

#define API_INIT_PRODUCER_ID 22
#define API_END_TXN          26
#define API_TXN_COMMIT       28
#define INVALID_PRODUCER     47 /* INVALID_PRODUCER_EPOCH: fenced */
#define ILLEGAL_GENERATION   22
#define UNKNOWN_TOPIC        3
#define UNAUTHORIZED         53 /* TRANSACTIONAL_ID_AUTHORIZATION_FAILED */
#define ROOMY_NS             30000000000u
#define BRIEF_NS             3000000000u /* longer than the rest of the test takes, even on a busy machine */

static const struct mr_transaction_offsets no_offsets;

struct rig {
    struct broker broker;
    struct producing producing;
    struct mr_request_topic topics[2];
    struct mr_kafka_consumer_topic read;
    struct mr_kafka_txn *txn;
    struct mr_kafka_in *in;
    struct mr_wake wake;
    atomic_bool stopping;
};

static enum mr_status open_txn(struct rig *rig, struct mr_error *err)
{
    struct mr_kafka_txn_options options = {.out = {.kafka = &rig->broker.kafka,
                                                   .transactional_id = "t-w",
                                                   .reported = count_report,
                                                   .context = &rig->producing},
                                           .topics = rig->topics,
                                           .timeout_ms = 10000,
                                           .stopping = &rig->stopping};
    return mr_kafka_txn_create(&rig->txn, &options, err);
}

static int open_broker_rig(void **state)
{
    struct rig *rig = *state = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->topics[0].name = "r";
    rig->topics[1].name = "other";
    open_broker(&rig->broker);
    rig->broker.kafka.transaction_timeout_ns = ROOMY_NS;
    add_topic(&rig->broker, "r", 1);
    add_topic(&rig->broker, "other", 1);
    add_topic(&rig->broker, "results", 1);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    rig->read = (struct mr_kafka_consumer_topic){"r", 1};
    struct mr_kafka_consumer_options options = {
        .kafka = &rig->broker.kafka, .wake = &rig->wake, .topics = &rig->read, .topic_count = 1};
    assert_int_equal(mr_kafka_in_create(&rig->in, &options, NULL), MR_OK);
    struct mr_kafka_event assigned;
    while (!mr_kafka_in_next_event(rig->in, &assigned))
        mr_clock_sleep_ms(10);
    mr_kafka_in_complete_rebalance(rig->in);
    return 0;
}

static int open_rig(void **state)
{
    struct mr_error err = {0};
    open_broker_rig(state);
    if (open_txn(*state, &err) != MR_OK) fail_msg("%s", err.detail);
    return 0;
}

/* librdkafka repeats requests for an unknown topic until the transaction times out. */
static int open_brief_rig(void **state)
{
    struct mr_error err = {0};
    open_broker_rig(state);
    ((struct rig *)*state)->broker.kafka.transaction_timeout_ns = BRIEF_NS;
    if (open_txn(*state, &err) != MR_OK) fail_msg("%s", err.detail);
    return 0;
}

/* Also ends an open transaction. */
static int close_rig(void **state)
{
    struct rig *rig = *state;
    mr_kafka_txn_destroy(rig->txn);
    assert_true(mr_kafka_in_close(rig->in, 10000));
    mr_wake_close(&rig->wake);
    close_broker(&rig->broker);
    free(rig);
    return 0;
}

#define RIG_TEST(name)   cmocka_unit_test_setup_teardown(name, open_rig, close_rig)
#define BRIEF_TEST(name) cmocka_unit_test_setup_teardown(name, open_brief_rig, close_rig)

static void write_one(struct rig *rig)
{
    struct mr_kafka_record record = {.topic = "results", .partition = -1, .value = {"v", 1}};
    assert_int_equal(mr_kafka_out_produce(mr_kafka_txn_out(rig->txn), &record, NULL, NULL), MR_OK);
}

static enum mr_status commit_offsets(struct rig *rig, const struct mr_kafka_commit *commits,
                                     size_t count, struct mr_error *err)
{
    struct mr_kafka_membership *membership = mr_kafka_in_membership(rig->in);
    const struct mr_transaction_offsets offsets = {commits, count, membership};
    enum mr_status status = mr_kafka_txn_commit(rig->txn, &offsets, err);
    mr_kafka_membership_free(membership);
    return status;
}

static enum mr_status commit(struct rig *rig, struct mr_error *err)
{
    const struct mr_kafka_commit offset = {.offset = 3, .metadata = "text"};
    return commit_offsets(rig, &offset, 1, err);
}

static enum mr_status renew(struct rig *rig, const struct mr_kafka_commit *offset, bool *committed,
                            struct mr_error *err)
{
    const struct mr_transaction_offsets offsets = {.commits = offset, .count = 1};
    return mr_kafka_txn_renew(rig->txn, &offsets, committed, err);
}

static void records_and_offsets_go_in_one_transaction(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
        write_one(rig);
        if (commit(rig, &err) != MR_OK) fail_msg("%s", err.detail);
        assert_int_equal(rig->producing.reports, i + 1); /* reported from within the call */
        assert_int_equal(rig->producing.last, MR_OK);
    }
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    assert_int_equal(mr_kafka_txn_commit(rig->txn, &no_offsets, &err),
                     MR_OK); /* an empty transaction */
    mr_kafka_membership_free(NULL);
}

static void offsets_of_an_older_generation_abort_it_and_the_next_one_works(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
    mr_kafka_mock_fail(rig->broker.mock, API_TXN_COMMIT, ILLEGAL_GENERATION, 1);
    assert_int_equal(commit(rig, &err), MR_AGAIN);
    assert_true(strlen(err.detail) > 0);
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
    assert_int_equal(commit(rig, &err), MR_OK);
}

/* One transaction with these offsets. error: the broker refuses offsets of every topic with it; 0:
 * it accepts them. */
static enum mr_status run_one(struct rig *rig, const struct mr_kafka_commit *commits, size_t count,
                              int refusal)
{
    struct mr_error err = {0};
    mr_kafka_mock_fail(rig->broker.mock, API_TXN_COMMIT, refusal, refusal ? 100 : 0);
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
    return commit_offsets(rig, commits, count, &err);
}

/* The mock broker accepts offsets of every topic. The offsets that are left out are therefore
 * tested where it refuses all. */
static void offsets_of_a_topic_that_is_gone_are_left_out(void **state)
{
    struct rig *rig = *state;
    const struct mr_kafka_commit both[] = {{0, 0, 3, "a"}, {1, 0, 3, "a"}};
    mr_kafka_mock_hide(rig->broker.mock, "other", true);
    assert_int_equal(run_one(rig, both, 2, UNKNOWN_TOPIC), MR_AGAIN);
    assert_int_equal(run_one(rig, &both[1], 1, ILLEGAL_GENERATION), MR_OK); /* it is not sent */
    assert_int_equal(run_one(rig, both, 2, ILLEGAL_GENERATION), MR_AGAIN);
    assert_int_equal(run_one(rig, both, 2, 0), MR_OK);
    mr_kafka_mock_hide(rig->broker.mock, "other", false);
    assert_int_equal(run_one(rig, &both[1], 1, ILLEGAL_GENERATION), MR_AGAIN);
    mr_kafka_mock_hide(rig->broker.mock, "other", true); /* it was known since */
    assert_int_equal(run_one(rig, &both[1], 1, ILLEGAL_GENERATION), MR_AGAIN);
}

static void a_topic_that_only_the_coordinator_does_not_know_is_not_gone(void **state)
{
    struct rig *rig = *state;
    const struct mr_kafka_commit offset = {0, 0, 3, "a"};
    assert_int_equal(run_one(rig, &offset, 1, UNKNOWN_TOPIC), MR_AGAIN);
    assert_int_equal(run_one(rig, &offset, 1, ILLEGAL_GENERATION), MR_AGAIN);
    assert_int_equal(run_one(rig, &offset, 1, 0), MR_OK);
}

static void a_transaction_can_begin_after_an_abort(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
    assert_int_equal(mr_kafka_txn_abort(rig->txn, &err), MR_AGAIN);
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
}

/* Makes the broker refuse to commit a transaction that has lasted for so long. */
static void break_one(struct rig *rig, uint64_t lasted_ns)
{
    struct mr_error err = {0};
    uint64_t until_ns = mr_clock_ns() + lasted_ns;
    struct timespec pause = {.tv_nsec = 10000000};
    rig->broker.kafka.transaction_timeout_ns = ROOMY_NS; /* until the refusal */
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
    while (mr_clock_ns() < until_ns)
        nanosleep(&pause, NULL);
    mr_kafka_mock_fail(rig->broker.mock, API_END_TXN, INVALID_PRODUCER, 1);
    assert_int_equal(commit(rig, &err), MR_BACKEND);
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_BACKEND);
    if (lasted_ns > 0) rig->broker.kafka.transaction_timeout_ns = lasted_ns;
}

static void a_producer_whose_id_was_taken_is_broken_for_good(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    bool committed;
    break_one(rig, 0);
    assert_int_equal(mr_kafka_txn_renew(rig->txn, &no_offsets, &committed, &err), MR_BACKEND);
    assert_non_null(strstr(err.detail, "--worker-id"));
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_BACKEND);
}

static void a_producer_fenced_for_its_long_transaction_is_replaced(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    bool committed = true;
    const struct mr_kafka_commit offset = {.offset = 3, .metadata = "text"};
    break_one(rig, BRIEF_NS);
    if (renew(rig, &offset, &committed, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_false(committed);
    rig->broker.kafka.transaction_timeout_ns = ROOMY_NS;
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
    assert_int_equal(commit(rig, &err), MR_OK);
    assert_int_equal(mr_kafka_txn_call_ns(rig->txn), 0);
}

static void equal_offsets_mean_that_the_last_transaction_was_committed(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    bool committed = false;
    const struct mr_kafka_commit offset = {.offset = 3, .metadata = "text"};
    const struct mr_kafka_commit older = {.offset = 3, .metadata = "older"};
    struct mr_kafka_event event;
    if (mr_kafka_in_commit(rig->in, &offset, 1, 1, &err) != MR_OK) fail_msg("%s", err.detail);
    do {
        mr_wake_wait(&rig->wake, 10000000u);
        assert_int_equal(mr_kafka_in_serve(rig->in, NULL), MR_OK);
    } while (!mr_kafka_in_next_event(rig->in, &event) || event.kind != MR_KAFKA_EVENT_COMMITTED);
    assert_int_equal(event.status, MR_OK);
    break_one(rig, BRIEF_NS);
    assert_int_equal(renew(rig, &offset, &committed, &err), MR_OK);
    assert_true(committed);
    break_one(rig, BRIEF_NS);
    assert_int_equal(renew(rig, &older, &committed, &err), MR_OK);
    assert_false(committed);
}

static void producers_are_not_replaced_without_end(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    bool committed;
    enum mr_status status = MR_OK;
    unsigned renewed = 0;
    for (; status == MR_OK && renewed < 100; renewed++) {
        break_one(rig, BRIEF_NS);
        status = mr_kafka_txn_renew(rig->txn, &no_offsets, &committed, &err);
    }
    assert_int_equal(status, MR_BACKEND);
    assert_in_range(renewed, 2, 20);
}

static void a_worker_that_stops_does_not_wait_for_a_broker(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
    atomic_store(&rig->stopping, true);
    mr_kafka_mock_set_down(rig->broker.mock, 1, true);
    assert_int_not_equal(commit(rig, &err), MR_OK); /* fails instead of waiting */
    mr_kafka_mock_set_down(rig->broker.mock, 1, false);
}

static void a_refused_transactional_id_is_a_configuration_error(void **state)
{
    struct rig *rig = *state;
    struct mr_error err = {0};
    mr_kafka_mock_fail(rig->broker.mock, API_INIT_PRODUCER_ID, UNAUTHORIZED, 1);
    assert_int_equal(open_txn(rig, &err), MR_BAD_CONFIG);
    assert_null(rig->txn);
    assert_non_null(strstr(err.detail, "exactly-once"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(records_and_offsets_go_in_one_transaction),
        RIG_TEST(offsets_of_an_older_generation_abort_it_and_the_next_one_works),
        BRIEF_TEST(offsets_of_a_topic_that_is_gone_are_left_out),
        BRIEF_TEST(a_topic_that_only_the_coordinator_does_not_know_is_not_gone),
        RIG_TEST(a_transaction_can_begin_after_an_abort),
        RIG_TEST(a_producer_whose_id_was_taken_is_broken_for_good),
        RIG_TEST(a_producer_fenced_for_its_long_transaction_is_replaced),
        RIG_TEST(equal_offsets_mean_that_the_last_transaction_was_committed),
        RIG_TEST(producers_are_not_replaced_without_end),
        RIG_TEST(a_worker_that_stops_does_not_wait_for_a_broker),
        cmocka_unit_test_setup_teardown(a_refused_transactional_id_is_a_configuration_error,
                                        open_broker_rig, close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
