/* Committing offsets (worker/kafka/kafka_in_commit.c). */
#include "tests/unit/worker/kafka/consuming.h"
#include "tests/unit/worker/producing.h"

#define API_OFFSET_COMMIT          8
#define METADATA_TOO_LARGE         12
#define INVALID_COMMIT_OFFSET_SIZE 28

static const struct mr_kafka_consumer_topic one_topic[] = {{"t", 1}};

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUS_TEST(an_offset_is_committed_with_its_metadata),
        BUS_TEST(a_refused_commit_is_reported),
        BUS_TEST(a_commit_that_is_refused_for_one_topic_names_its_partitions),
        BUS_TEST(metadata_too_large_does_not_hold_back_the_other_partitions),
        BUS_TEST(metadata_too_large_together_is_sent_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
