#include "worker/kafka/kafka_backlog.h"

#include "tests/unit/worker/kafka/consuming.h"
#include "tests/unit/worker/producing.h"

static const char *const topics[] = {"t", "missing", "u"};

static struct mr_kafka_backlog *open_backlog(const struct bus *bus)
{
    struct mr_error err = {0};
    struct mr_kafka_backlog *backlog = NULL;
    if (mr_kafka_backlog_open(&backlog, &bus->broker.kafka, &err) != MR_OK)
        fail_msg("%s", err.detail);
    return backlog;
}

/* The findings of a read, by index of the topic and by partition. */
struct found {
    struct mr_kafka_backlog_partition at[3][4];
    char metadata[3][4][64];
    unsigned count;
};

static void note_partition(void *context, const struct mr_kafka_backlog_partition *at)
{
    struct found *found = context;
    assert_true(at->topic < 3 && at->partition < 4 && at->metadata.length < 64);
    found->at[at->topic][at->partition] = *at;
    if (at->metadata.length > 0)
        memcpy(found->metadata[at->topic][at->partition], at->metadata.bytes, at->metadata.length);
    found->count++;
}

static void read_backlog(struct mr_kafka_backlog *backlog, struct found *found)
{
    struct mr_error err = {0};
    const struct mr_kafka_topics names = {topics, 3};
    *found = (struct found){.count = 0};
    if (mr_kafka_backlog_read(backlog, &names, 10000, note_partition, found, &err) != MR_OK)
        fail_msg("%s", err.detail);
}

static void ends_are_read_without_a_commit(void **state)
{
    struct bus *bus = *state;
    struct found found;
    add_topic(&bus->broker, "t", 3);
    add_topic(&bus->broker, "u", 1);
    for (int i = 0; i < 5; i++)
        produce(&bus->producing, "t", 1, "key", "x");
    struct mr_kafka_backlog *backlog = open_backlog(bus);
    read_backlog(backlog, &found);
    assert_int_equal(found.count, 4); /* the missing topic has no partition, and is not created */
    assert_int_equal(found.at[0][1].begin, 0);
    assert_int_equal(found.at[0][1].end, 5);
    assert_int_equal(found.at[0][1].committed, -1);
    assert_int_equal(found.at[0][0].end, 0);
    assert_int_equal(found.at[2][0].end, 0);
    produce(&bus->producing, "t", 1, "key", "x");
    read_backlog(backlog, &found);
    assert_int_equal(found.count, 4);
    assert_int_equal(found.at[0][1].end, 6);
    mr_kafka_backlog_close(backlog);
}

static void commits_of_the_group_are_read_with_their_metadata(void **state)
{
    struct bus *bus = *state;
    struct found found;
    struct consuming consuming;
    static const struct mr_kafka_consumer_topic consumed = {.name = "t", .weight = 1};
    add_topic(&bus->broker, "t", 2);
    for (int i = 0; i < 5; i++)
        produce(&bus->producing, "t", 1, "key", "x");
    open_consuming(&consuming, &bus->broker, &consumed, 1, false);
    const struct mr_kafka_commit made = {.partition = 1, .offset = 3, .metadata = "list"};
    commit(&consuming, &made, 1);
    struct mr_kafka_backlog *backlog = open_backlog(bus);
    read_backlog(backlog, &found);
    assert_int_equal(found.at[0][1].committed, 3);
    assert_string_equal(found.metadata[0][1], "list");
    assert_int_equal(found.at[0][0].committed, -1);
    mr_kafka_backlog_close(backlog);
    close_consuming(&consuming);
}

struct taken {
    char text[64]; /* one digit for each record: the number of its range */
    unsigned stop_after;
    unsigned count;
};

static bool note_record(void *context, size_t range, const struct mr_kafka_record *record)
{
    struct taken *taken = context;
    assert_true(record->value.length > 0);
    if (taken->count == taken->stop_after) return false;
    taken->text[taken->count++] = (char)('0' + range);
    return true;
}

static void a_scan_reads_its_ranges_and_no_more(void **state)
{
    struct bus *bus = *state;
    struct mr_error err = {0};
    add_topic(&bus->broker, "t", 2);
    for (int i = 0; i < 6; i++)
        produce(&bus->producing, "t", i % 2, "key", "x");
    struct mr_kafka_backlog *backlog = open_backlog(bus);
    struct mr_kafka_range ranges[] = {{.topic = "t", .partition = 0, .from = 0, .to = 3},
                                      {.topic = "t", .partition = 1, .from = 1, .to = 2}};
    struct taken taken = {.stop_after = 60};
    struct mr_kafka_scan scan = {
        .ranges = ranges, .count = 2, .timeout_ms = 20000, .visit = note_record, .context = &taken};
    for (int round = 0; round < 3; round++) { /* the same client can scan again */
        memset(taken.text, 0, sizeof taken.text);
        taken.count = 0;
        assert_int_equal(mr_kafka_backlog_scan(backlog, &scan, &err), MR_OK);
        assert_int_equal(taken.count, 4);
        assert_int_equal(ranges[0].next, 3);
        assert_int_equal(ranges[1].next, 2);
    }
    taken.count = 0;
    taken.stop_after = 2;
    scan.count = 1;
    assert_int_equal(mr_kafka_backlog_scan(backlog, &scan, &err), MR_OK);
    assert_int_equal(ranges[0].next, 2); /* the refused record was not read */
    scan.count = 0;
    assert_int_equal(mr_kafka_backlog_scan(backlog, &scan, &err), MR_OK);
    mr_kafka_backlog_close(backlog);
}

static void a_scan_ends_after_its_time(void **state)
{
    struct bus *bus = *state;
    struct mr_error err = {0};
    add_topic(&bus->broker, "t", 1);
    produce(&bus->producing, "t", 0, "key", "x");
    struct mr_kafka_backlog *backlog = open_backlog(bus);
    struct mr_kafka_range range = {.topic = "t", .partition = 0, .from = 0, .to = 1};
    struct taken taken = {.stop_after = 60};
    const struct mr_kafka_scan scan = {
        .ranges = &range, .count = 1, .timeout_ms = 0, .visit = note_record, .context = &taken};
    assert_int_equal(mr_kafka_backlog_scan(backlog, &scan, &err), MR_OK);
    assert_int_equal(range.next, 0);
    mr_kafka_backlog_close(backlog);
}

static void a_broker_that_is_away_is_an_error(void **state)
{
    struct bus *bus = *state;
    struct mr_error err = {0};
    struct found found = {.count = 0};
    const struct mr_kafka_topics names = {topics, 3};
    struct mr_kafka_options kafka = bus->broker.kafka;
    struct mr_kafka_backlog *backlog = NULL;
    kafka.brokers = "127.0.0.1:1";
    assert_int_equal(mr_kafka_backlog_open(&backlog, &kafka, &err), MR_OK);
    assert_int_equal(mr_kafka_backlog_read(backlog, &names, 200, note_partition, &found, &err),
                     MR_UNREACHABLE);
    assert_true(strlen(err.detail) > 0);
    mr_kafka_backlog_close(backlog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUS_TEST(ends_are_read_without_a_commit),
        BUS_TEST(commits_of_the_group_are_read_with_their_metadata),
        BUS_TEST(a_scan_reads_its_ranges_and_no_more),
        BUS_TEST(a_scan_ends_after_its_time),
        BUS_TEST(a_broker_that_is_away_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
