#include "worker/kafka/kafka_in.h"

#include "tests/unit/worker/kafka/consuming.h"
#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>

#define API_OFFSET_COMMIT          8
#define API_OFFSET_FETCH           9
#define METADATA_TOO_LARGE         12
#define INVALID_COMMIT_OFFSET_SIZE 28
#define TOPIC_AUTHORIZATION_FAILED 29
#define API_HEARTBEAT              12
#define FENCED_INSTANCE_ID         82

static bool nothing_comes(struct consuming *consuming, int rounds)
{
    struct mr_kafka_record record;
    size_t index = 0;
    for (int i = 0; i < rounds; i++) {
        assert_int_equal(serve(consuming, NULL), MR_OK);
        if (mr_kafka_in_take(consuming->in, gate, consuming, &record, &index)) return false;
        mr_wake_wait(&consuming->wake, 20000000u);
    }
    return true;
}

static const struct mr_kafka_consumer_topic one_topic[] = {{"t", 1}};

static void a_partition_without_room_is_not_taken_from_and_others_are(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 2);
    produce(&bus->producing, "t", 0, "a", "0");
    produce(&bus->producing, "t", 1, "b", "1");
    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    consuming.closed_gate[0] = true;
    assert_true(take(&consuming, &record));
    assert_int_equal(record.partition, 1);
    assert_true(nothing_comes(&consuming, 5));
    consuming.closed_gate[0] = false;
    assert_true(take(&consuming, &record));
    assert_int_equal(record.partition, 0);
    assert_string_equal(record.topic, "t");
    assert_memory_equal(record.key.bytes, "a", 1);
    close_consuming(&consuming);
}

static void a_record_put_back_comes_first_again(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 1);
    produce(&bus->producing, "t", 0, "a", "0");
    produce(&bus->producing, "t", 0, "a", "1");
    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    for (int i = 0; i < 3; i++) {
        assert_true(take(&consuming, &record));
        assert_int_equal(record.offset, 0);
        mr_kafka_in_put_back(consuming.in);
    }
    assert_int_equal(mr_kafka_in_backlog(consuming.in), 2);
    assert_true(take(&consuming, &record));
    assert_int_equal(record.offset, 0);
    assert_true(take(&consuming, &record));
    assert_int_equal(record.offset, 1);
    assert_int_equal(mr_kafka_in_backlog(consuming.in), 0);
    mr_kafka_in_put_back(consuming.in);
    close_consuming(&consuming); /* records put back are not leaked */
}

static void topics_take_turns_by_weight(void **state)
{
    struct bus *bus = *state;
    static const struct mr_kafka_consumer_topic topics[] = {{"high", 3}, {"low", 1}};
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "high", 1);
    add_topic(&bus->broker, "low", 1);
    for (int i = 0; i < 12; i++) {
        produce(&bus->producing, "high", 0, "h", "x");
        produce(&bus->producing, "low", 0, "l", "x");
    }
    open_consuming(&consuming, &bus->broker, topics, 2, false);
    consuming.closed_gate[0] = true;
    /* More rounds than records: one arrival wakes the caller before all records are there. */
    assert_true(nothing_comes(&consuming, 100));
    consuming.closed_gate[0] = false;
    int high = 0;
    for (int i = 0; i < 12; i++) {
        assert_true(take(&consuming, &record));
        high += record.topic[0] == 'h';
    }
    assert_in_range(high, 8, 10);
    close_consuming(&consuming);
}

static void a_topic_of_many_partitions_has_no_more_turns(void **state)
{
    struct bus *bus = *state;
    static const struct mr_kafka_consumer_topic topics[] = {{"wide", 1}, {"narrow", 1}};
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "wide", 4);
    add_topic(&bus->broker, "narrow", 1);
    for (int i = 0; i < 12; i++) {
        produce(&bus->producing, "wide", i % 4, "w", "x");
        produce(&bus->producing, "narrow", 0, "n", "x");
    }
    open_consuming(&consuming, &bus->broker, topics, 2, false);
    memset(consuming.closed_gate, true, sizeof consuming.closed_gate);
    assert_true(nothing_comes(&consuming, 100));
    memset(consuming.closed_gate, false, sizeof consuming.closed_gate);
    int wide = 0;
    for (int i = 0; i < 12; i++) {
        assert_true(take(&consuming, &record));
        wide += record.topic[0] == 'w';
    }
    assert_in_range(wide, 5, 7);
    close_consuming(&consuming);
}

static void an_offset_is_committed_with_its_metadata(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 1);
    for (int i = 0; i < 4; i++)
        produce(&bus->producing, "t", 0, "a", "x");
    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    assert_int_equal(consuming.committed[0], -1);
    struct mr_kafka_commit one = {0, 0, 2, "oQEC"};
    assert_int_equal(commit(&consuming, &one, 1), MR_OK);
    close_consuming(&consuming);

    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    assert_int_equal(consuming.committed[0], 2);
    assert_string_equal(consuming.metadata[0], "oQEC");
    assert_true(take(&consuming, &record));
    assert_int_equal(record.offset, 2);
    one = (struct mr_kafka_commit){0, 0, 3, "revoked"};
    assert_int_equal(commit(&consuming, &one, 1), MR_OK);
    close_consuming(&consuming);

    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    assert_int_equal(consuming.committed[0], 3);
    assert_string_equal(consuming.metadata[0], "revoked");
    close_consuming(&consuming);
}

static void committed_offsets_that_are_not_told_are_asked_for_again(void **state)
{
    (void)state;
    struct broker broker;
    struct consuming consuming;
    static const struct mr_kafka_consumer_topic topics[] = {{"requests", 1}};
    static const struct mr_kafka_commit offset = {0, 0, 3, "text"};
    open_broker(&broker);
    add_topic(&broker, "requests", 1);
    open_consuming(&consuming, &broker, topics, 1, false);
    assert_int_equal(commit(&consuming, &offset, 1), MR_OK);
    close_consuming(&consuming);
    mr_kafka_mock_fail(broker.mock, API_OFFSET_FETCH, TOPIC_AUTHORIZATION_FAILED, 1);
    open_consuming(&consuming, &broker, topics, 1, true);
    assert_false(consuming.held[0]);
    while (!consuming.held[0])
        assert_int_equal(serve(&consuming, NULL), MR_OK);
    assert_int_equal(consuming.committed[0], 3);
    assert_string_equal(consuming.metadata[0], "text");
    close_consuming(&consuming);
    close_broker(&broker);
}

static void a_refused_commit_is_reported(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    add_topic(&bus->broker, "t", 1);
    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    struct mr_kafka_commit one = {0, 0, 1, ""};
    mr_kafka_mock_fail(bus->broker.mock, API_OFFSET_COMMIT, 29, 1); /* topic authorization failed */
    assert_int_equal(commit(&consuming, &one, 1), MR_BAD_CONFIG);
    assert_int_equal(consuming.commits_failed, 1);
    close_consuming(&consuming);
}

static void a_commit_that_is_refused_for_one_topic_names_its_partitions(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    static const struct mr_kafka_consumer_topic topics[] = {{"t", 1}, {"gone", 1}};
    add_topic(&bus->broker, "t", 2);
    add_topic(&bus->broker, "gone", 1);
    open_consuming(&consuming, &bus->broker, topics, 2, false);
    /* there is no partition 5 */
    const struct mr_kafka_commit offsets[] = {{0, 0, 1, "a"}, {1, 5, 1, "a"}, {0, 1, 1, "a"}};
    assert_int_equal(commit(&consuming, offsets, 3), MR_BAD_CONFIG);
    assert_int_equal(consuming.refused, 1);
    assert_int_equal(consuming.refused_partition, 5);
    assert_int_equal(commit(&consuming, offsets, 1), MR_OK);
    assert_int_equal(consuming.refused, 0);
    close_consuming(&consuming);
}

/* librdkafka reports one partition's error for all partitions of the request. */
static void metadata_too_large_does_not_hold_back_the_other_partitions(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    add_topic(&bus->broker, "t", 3);
    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    const struct mr_kafka_commit offsets[] = {{0, 0, 1, "a"}, {0, 1, 1, "a"}, {0, 2, 1, "a"}};
    for (int i = 0; i < 3; i++) {
        mr_kafka_mock_fail(bus->broker.mock, API_OFFSET_COMMIT, METADATA_TOO_LARGE, 1);
        assert_int_equal(commit(&consuming, offsets, 3), MR_MALFORMED);
        assert_int_equal(consuming.refused, i == 0 ? 3 : 1); /* then of the first request only */
        assert_int_equal(consuming.refused_partition, 0);
    }
    assert_int_equal(commit(&consuming, offsets, 3), MR_OK);
    assert_int_equal(consuming.refused, 0);
    close_consuming(&consuming);
}

/* The sum was too large: the next requests have 64 partitions, and only then one each. */
static void metadata_too_large_together_is_sent_in_parts(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    struct mr_kafka_commit offsets[PARTITIONS_MAX];
    static const size_t refused[] = {PARTITIONS_MAX, 64, 1};
    add_topic(&bus->broker, "t", PARTITIONS_MAX);
    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    for (int32_t i = 0; i < PARTITIONS_MAX; i++)
        offsets[i] = (struct mr_kafka_commit){0, i, 1, "a"};
    for (int i = 0; i < 3; i++) {
        mr_kafka_mock_fail(bus->broker.mock, API_OFFSET_COMMIT, INVALID_COMMIT_OFFSET_SIZE, 1);
        assert_int_equal(commit(&consuming, offsets, PARTITIONS_MAX), MR_MALFORMED);
        assert_int_equal(consuming.refused, refused[i]);
        assert_int_equal(consuming.refused_partition, 0);
    }
    assert_int_equal(commit(&consuming, offsets, PARTITIONS_MAX), MR_OK);
    close_consuming(&consuming);
}

/* Serves both members until the partitions are spread as wanted: held by first, held by second.
 * False: they are not within a minute. */
static bool balance(struct consuming *first, struct consuming *second, size_t one, size_t two)
{
    uint64_t until_ns = mr_clock_ns() + WAIT_NS;
    while (mr_clock_ns() < until_ns) {
        assert_int_equal(serve(first, NULL), MR_OK);
        if (second) assert_int_equal(serve(second, NULL), MR_OK);
        if (mr_kafka_in_partition_count(first->in) == one &&
            (!second || mr_kafka_in_partition_count(second->in) == two))
            return true;
        mr_wake_wait(&first->wake, 10000000u);
    }
    return false;
}

static void members_share_the_partitions_and_inherit_them(void **state)
{
    struct bus *bus = *state;
    struct consuming first, second;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 2);
    for (int i = 0; i < 6; i++)
        produce(&bus->producing, "t", i % 2, "a", "x");
    open_consuming(&first, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, NULL, 2, 0));
    assert_true(take(&first, &record));
    struct mr_kafka_commit both[] = {{0, 0, 1, "one"}, {0, 1, 1, "one"}};
    assert_int_equal(commit(&first, both, 2), MR_OK);
    open_consuming(&second, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, &second, 1, 1));
    assert_false(first.lost);
    int32_t shared = second.held[0] ? 0 : 1;
    assert_int_equal(second.committed[shared], 1);
    assert_string_equal(second.metadata[shared], "one");
    assert_true(take(&second, &record));
    assert_int_equal(record.partition, shared);
    assert_int_equal(record.offset, 1);
    struct mr_kafka_commit last = {0, 1 - shared, 2, "last"};
    assert_int_equal(commit(&first, &last, 1), MR_OK);
    close_consuming(&first);
    assert_true(balance(&second, NULL, 2, 0));
    assert_int_equal(second.committed[1 - shared], 2);
    close_consuming(&second);
}

/* Runs with every version of the library, including those with which the worker does not use this
 * mode. */
static void with_the_cooperative_protocol_what_stays_is_not_touched(void **state)
{
    struct bus *bus = *state;
    struct consuming first, second;
    struct mr_kafka_record record;
    bus->broker.kafka.assignor = "cooperative-sticky";
    add_topic(&bus->broker, "t", 4);
    open_consuming(&first, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, NULL, 4, 0));
    for (int i = 0; i < 8; i++)
        produce(&bus->producing, "t", i % 4, "a", "x");
    for (int i = 0; i < 8; i++)
        assert_true(take(&first, &record));
    open_consuming(&second, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, &second, 2, 2));
    assert_int_equal(first.revoked, 2);
    assert_int_equal(first.how, MR_KAFKA_REVOKE_GONE);
    for (int32_t i = 0; i < 4; i++) {
        assert_true(first.held[i] != second.held[i]);
        if (second.held[i]) assert_true(second.generation[i] > first.generation[i]);
        if (!second.held[i]) produce(&bus->producing, "t", i, "b", "y");
    }
    for (int i = 0; i < 2; i++) { /* continues at its position: nothing was fetched again */
        assert_true(take(&first, &record));
        assert_int_equal(record.offset, 2);
    }
    close_consuming(&first);
    assert_true(balance(&second, NULL, 4, 0));
    assert_int_equal(second.revoked, 0);
    close_consuming(&second);
}

/* The owner may continue for any time: it commits, and takes records from the partitions that
 * stay. */
static void a_revocation_is_over_when_its_owner_completes_it(void **state)
{
    struct bus *bus = *state;
    struct consuming first, second;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 2);
    for (int i = 0; i < 6; i++)
        produce(&bus->producing, "t", i % 2, "a", "x");
    open_consuming(&first, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, NULL, 2, 0));
    assert_true(take(&first, &record));
    first.keep_revoking = true;
    open_consuming(&second, &bus->broker, one_topic, 1, true);
    while (!first.revoking) {
        assert_int_equal(serve(&first, NULL), MR_OK);
        assert_int_equal(serve(&second, NULL), MR_OK);
        mr_wake_wait(&first.wake, 10000000u);
    }
    for (int i = 0; i < 50; i++) {
        assert_int_equal(serve(&first, NULL), MR_OK);
        assert_int_equal(serve(&second, NULL), MR_OK);
        mr_wake_wait(&first.wake, 10000000u);
    }
    assert_int_equal(mr_kafka_in_partition_count(first.in), 2);
    assert_int_equal(mr_kafka_in_partition_count(second.in), 0);
    first.keep_revoking = false;
    mr_kafka_in_complete_rebalance(first.in);
    assert_true(balance(&first, &second, 1, 1));
    close_consuming(&first);
    close_consuming(&second);
}

static void a_consumer_may_close_in_the_middle_of_a_revocation(void **state)
{
    struct bus *bus = *state;
    struct consuming first, second;
    add_topic(&bus->broker, "t", 2);
    open_consuming(&first, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, NULL, 2, 0));
    first.keep_revoking = true;
    open_consuming(&second, &bus->broker, one_topic, 1, true);
    while (!first.revoking) {
        assert_int_equal(serve(&first, NULL), MR_OK);
        assert_int_equal(serve(&second, NULL), MR_OK);
        mr_wake_wait(&first.wake, 10000000u);
    }
    close_consuming(&first);
    assert_true(balance(&second, NULL, 2, 0));
    close_consuming(&second);
}

static void a_static_member_that_lost_its_place_says_so(void **state)
{
    struct bus *bus = *state;
    struct mr_error err = {0};
    struct consuming consuming;
    bus->broker.kafka.group_instance = "mill-3";
    add_topic(&bus->broker, "t", 1);
    open_consuming(&consuming, &bus->broker, one_topic, 1, true);
    assert_true(balance(&consuming, NULL, 1, 0));
    mr_kafka_mock_fail(bus->broker.mock, API_HEARTBEAT, FENCED_INSTANCE_ID, 1);
    while (serve(&consuming, &err) == MR_OK)
        mr_wake_wait(&consuming.wake, 50000000u);
    assert_int_equal(err.status, MR_BACKEND);
    assert_non_null(strstr(err.detail, "--group-instance mill-3"));
    close_consuming(&consuming);
}

/* A log that ends, as a worker's does after it has closed its consumer. */
struct ending_log {
    atomic_uint lines, lines_after_the_end;
    atomic_bool ended;
};

static void count_line(void *context, enum mr_log_level level, const char *text)
{
    (void)level, (void)text;
    struct ending_log *log = context;
    atomic_fetch_add(atomic_load(&log->ended) ? &log->lines_after_the_end : &log->lines, 1);
}

static void an_abandoned_consumer_no_longer_logs(void **state)
{
    (void)state;
    static struct mr_text_list debug = {{"debug=all"}, 1};
    static struct ending_log log, other;
    struct broker broker;
    struct consuming abandoned, running;
    static const struct mr_kafka_consumer_topic topics[] = {{"requests", 1}};
    open_broker(&broker);
    add_topic(&broker, "requests", 1);
    broker.kafka.properties = &debug;
    broker.kafka.log = count_line;
    broker.kafka.log_context = &log;
    open_consuming(&abandoned, &broker, topics, 1, true);
    while (!abandoned.held[0])
        assert_int_equal(serve(&abandoned, NULL), MR_OK);
    assert_false(mr_kafka_in_close(abandoned.in, 0));
    atomic_store(&log.ended, true);
    mr_wake_close(&abandoned.wake);
    broker.kafka.log_context = &other; /* another consumer's log lines show that time passes */
    open_consuming(&running, &broker, topics, 1, false);
    while (atomic_load(&other.lines) < 1000)
        assert_int_equal(serve(&running, NULL), MR_OK);
    assert_true(atomic_load(&log.lines) > 0);
    assert_int_equal(atomic_load(&log.lines_after_the_end), 0);
    close_consuming(&running);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUS_TEST(a_partition_without_room_is_not_taken_from_and_others_are),
        BUS_TEST(a_record_put_back_comes_first_again),
        BUS_TEST(topics_take_turns_by_weight),
        BUS_TEST(a_topic_of_many_partitions_has_no_more_turns),
        BUS_TEST(an_offset_is_committed_with_its_metadata),
        cmocka_unit_test(committed_offsets_that_are_not_told_are_asked_for_again),
        BUS_TEST(a_refused_commit_is_reported),
        BUS_TEST(a_commit_that_is_refused_for_one_topic_names_its_partitions),
        BUS_TEST(metadata_too_large_does_not_hold_back_the_other_partitions),
        BUS_TEST(metadata_too_large_together_is_sent_in_parts),
        BUS_TEST(members_share_the_partitions_and_inherit_them),
        BUS_TEST(with_the_cooperative_protocol_what_stays_is_not_touched),
        BUS_TEST(a_revocation_is_over_when_its_owner_completes_it),
        BUS_TEST(a_consumer_may_close_in_the_middle_of_a_revocation),
        BUS_TEST(a_static_member_that_lost_its_place_says_so),
        cmocka_unit_test(an_abandoned_consumer_no_longer_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
