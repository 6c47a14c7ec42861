#include "worker/kafka/kafka_txn.h"

#include "tests/unit/worker/kafka/transacting.h"

#define API_INIT_PRODUCER_ID       22
#define API_TXN_COMMIT             28
#define ILLEGAL_GENERATION         22
#define INVALID_COMMIT_OFFSET_SIZE 28
#define UNKNOWN_TOPIC              3
#define UNAUTHORIZED               53 /* TRANSACTIONAL_ID_AUTHORIZATION_FAILED */

static const struct mr_transaction_offsets no_offsets;

/* librdkafka repeats requests for an unknown topic until the transaction times out. */
static int open_brief_rig(void **state)
{
    struct mr_error err = {0};
    open_broker_rig(state);
    ((struct rig *)*state)->broker.kafka.transaction_timeout_ns = BRIEF_NS;
    if (open_txn(*state, &err) != MR_OK) fail_msg("%s", err.detail);
    return 0;
}

#define BRIEF_TEST(name) cmocka_unit_test_setup_teardown(name, open_brief_rig, close_rig)

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

static enum mr_status send_all(struct rig *rig, const struct mr_kafka_commit *commits, size_t count)
{
    struct mr_error err = {0};
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    write_one(rig);
    return commit_offsets(rig, commits, count, &err);
}

/* One transaction with these offsets. error: the broker refuses offsets of every topic with it; 0:
 * it accepts them. */
static enum mr_status run_one(struct rig *rig, const struct mr_kafka_commit *commits, size_t count,
                              int refusal)
{
    mr_kafka_mock_fail(rig->broker.mock, API_TXN_COMMIT, refusal, refusal ? 100 : 0);
    return send_all(rig, commits, count);
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

/* The sum was too large: the next transaction sends 64, 64 and 2 partitions. */
static void offsets_that_are_too_large_together_are_sent_in_parts(void **state)
{
    enum { COUNT = 130, PARTS = 3 };
    struct rig *rig = *state;
    struct mr_kafka_commit offsets[COUNT];
    for (int32_t i = 0; i < COUNT; i++)
        offsets[i] = (struct mr_kafka_commit){0, i, 3, "a"};
    assert_int_equal(run_one(rig, offsets, COUNT, 0), MR_OK);
    mr_kafka_mock_delay(rig->broker.mock, 1, API_TXN_COMMIT, 0, 1);
    mr_kafka_mock_delay(rig->broker.mock, 1, API_TXN_COMMIT, INVALID_COMMIT_OFFSET_SIZE, 1);
    assert_int_equal(send_all(rig, offsets, COUNT), MR_OK); /* in one request */
    assert_int_equal(send_all(rig, offsets, COUNT), MR_AGAIN);
    for (int i = 0; i < PARTS; i++)
        mr_kafka_mock_delay(rig->broker.mock, 1, API_TXN_COMMIT,
                            i == PARTS - 1 ? ILLEGAL_GENERATION : 0, 1);
    assert_int_equal(send_all(rig, offsets, COUNT), MR_AGAIN); /* its last request was refused */
    assert_int_equal(send_all(rig, offsets, COUNT), MR_OK);
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
        RIG_TEST(offsets_that_are_too_large_together_are_sent_in_parts),
        RIG_TEST(a_transaction_can_begin_after_an_abort),
        RIG_TEST(a_worker_that_stops_does_not_wait_for_a_broker),
        cmocka_unit_test_setup_teardown(a_refused_transactional_id_is_a_configuration_error,
                                        open_broker_rig, close_rig),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
