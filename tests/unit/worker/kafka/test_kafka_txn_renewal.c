/* Replacing a transactional producer that is broken (mr_kafka_txn_renew). */
#include "tests/unit/worker/kafka/transacting.h"

static const struct mr_transaction_offsets no_offsets;

static enum mr_status renew(struct rig *rig, const struct mr_kafka_commit *offset, bool *committed,
                            struct mr_error *err)
{
    const struct mr_transaction_offsets offsets = {.commits = offset, .count = 1};
    return mr_kafka_txn_renew(rig->txn, &offsets, committed, err);
}

/* Makes the broker refuse to commit a transaction that has lasted for so long. */
static void break_one(struct rig *rig, uint64_t lasted_ns)
{
    struct mr_error err = {0};
    rig->broker.kafka.transaction_timeout_ns = ROOMY_NS; /* until the refusal */
    assert_int_equal(mr_kafka_txn_begin(rig->txn, &err), MR_OK);
    const uint64_t until_ns = mr_clock_ns() + lasted_ns;
    write_one(rig);
    while (mr_clock_ns() < until_ns)
        mr_clock_sleep_ms(10);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_producer_whose_id_was_taken_is_broken_for_good),
        RIG_TEST(a_producer_fenced_for_its_long_transaction_is_replaced),
        RIG_TEST(equal_offsets_mean_that_the_last_transaction_was_committed),
        RIG_TEST(producers_are_not_replaced_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
