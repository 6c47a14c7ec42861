#include "worker/offsets/recovery.h"

#include "tests/unit/worker/producing.h"
#include "worker/kafka/header_names.h"
#include "worker/kafka/kafka_reader.h"

#include <stdio.h>
#include <stdlib.h>

#define NOW_MS ((int64_t)1763740000000)

static struct mr_recovery_scan *scan_of(int32_t partition, int64_t base, int64_t since_ms)
{
    struct mr_recovery_scan *scan = calloc(1, sizeof *scan);
    assert_non_null(scan);
    scan->topic = "r";
    scan->partition = partition;
    scan->epoch = 9;
    scan->base = scan->committed = base;
    scan->since_ms = scan->proofs_ms = since_ms;
    return scan;
}

static void note(struct mr_recovery_scan *scans, const char *source, const char *group,
                 int64_t timestamp_ms)
{
    struct mr_kafka_header headers[] = {{MR_HEADER_SOURCE, source, source ? strlen(source) : 0},
                                        {MR_HEADER_GROUP, group, group ? strlen(group) : 0}};
    struct mr_kafka_record record = {
        .headers = headers, .header_count = 2, .timestamp_ms = timestamp_ms};
    mr_recovery_note(scans, &record, "g");
}

/* Asserts that the scan has found exactly these offsets finished. */
static void assert_found(const struct mr_recovery_scan *scan, const int64_t *offsets,
                         uint32_t count)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < MR_LEDGER_SPAN_MAX; i++)
        found += mr_recovery_is_finished(scan, scan->base + i);
    assert_int_equal(found, count);
    assert_int_equal(scan->found, count);
    for (uint32_t i = 0; i < count; i++)
        assert_true(mr_recovery_is_finished(scan, offsets[i]));
}
#define ASSERT_FOUND(scan, ...)                                                                    \
    assert_found(scan, (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void a_result_is_noted_once_in_its_partition(void **state)
{
    (void)state;
    struct mr_recovery_scan *first = scan_of(0, 100, NOW_MS), *second = scan_of(1, 5, NOW_MS);
    first->next = second;
    note(first, "r/0/100", "g", NOW_MS);
    note(first, "r/0/109", "g", NOW_MS + 5);
    note(first, "r/0/109", "g", NOW_MS + 6);
    note(first, "r/1/6", "g", NOW_MS);
    ASSERT_FOUND(first, 100, 109);
    assert_int_equal(first->first, 100);
    assert_int_equal(first->first_ms, NOW_MS);
    assert_int_equal(first->newest_ms, NOW_MS + 6);
    ASSERT_FOUND(second, 6);
    free(first);
    free(second);
}

static void what_is_not_about_this_partition_is_left_alone(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "r/0/99", "q/0/100",  "r/2/100",  "r0/100",   "r/0/",
        "r//100", "r/0/1e3",  "r/0/-1",   "/0/100",   "r/0",
        "",       "r/0/100 ", "r/0/100/", "rr/0/100", "r/0/99999999999999999999"};
    struct mr_recovery_scan *scan = scan_of(0, 100, NOW_MS);
    struct mr_kafka_record bare = {.timestamp_ms = NOW_MS};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        note(scan, sources[i], "g", NOW_MS);
    note(scan, "r/0/100", "other", NOW_MS);
    note(scan, "r/0/100", "", NOW_MS);
    note(scan, "r/0/100", NULL, NOW_MS);
    note(scan, NULL, "g", NOW_MS);
    note(scan, "r/0/100", "g", NOW_MS - 1); /* before the time: another life's */
    mr_recovery_note(scan, &bare, "g");
    assert_int_equal(scan->found, 0);
    note(scan, "r/0/12387", "g", NOW_MS); /* the last that a ledger holds */
    ASSERT_FOUND(scan, 12387);
    assert_int_equal(scan->base, 100);
    free(scan);
}

static void a_result_beyond_the_span_proves_what_is_below(void **state)
{
    (void)state;
    struct mr_recovery_scan *scan = scan_of(0, 100, NOW_MS);
    note(scan, "r/0/100", "g", NOW_MS);
    note(scan, "r/0/101", "g", NOW_MS);
    note(scan, "r/0/12388", "g", NOW_MS);
    assert_int_equal(scan->base, 101);
    assert_true(mr_recovery_has_moved(scan));
    ASSERT_FOUND(scan, 101, 12388);
    note(scan, "r/0/100", "g", NOW_MS);
    ASSERT_FOUND(scan, 101, 12388);
    note(scan, "r/0/1000000", "g", NOW_MS);
    assert_int_equal(scan->base, 1000000 - 12287);
    ASSERT_FOUND(scan, 1000000);
    note(scan, "r/0/990000", "g", NOW_MS);
    ASSERT_FOUND(scan, 990000, 1000000);
    assert_int_equal(scan->base + (int64_t)MR_LEDGER_SPAN_MAX - 1, 1000000);
    free(scan);
}

static void an_old_result_or_one_without_a_commit_proves_nothing(void **state)
{
    (void)state;
    struct mr_recovery_scan *scan = scan_of(0, 100, NOW_MS);
    scan->proofs_ms = NOW_MS + 5;
    note(scan, "r/0/12388", "g", NOW_MS + 4);
    assert_int_equal(scan->base, 100);
    assert_int_equal(scan->found, 0);
    scan->committed = -1;
    note(scan, "r/0/12388", "g", NOW_MS + 5);
    assert_int_equal(scan->base, 100);
    assert_int_equal(scan->found, 0);
    free(scan);
}

/* ---- over a broker ---- */

struct rig {
    struct broker broker;
    struct producing producing;
    struct mr_wake wake;
    struct mr_log *log;
    struct mr_recovery *recovery;
};

static void open_rig(struct rig *rig)
{
    struct mr_log_options log = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    *rig = (struct rig){.recovery = NULL};
    open_broker(&rig->broker);
    add_topic(&rig->broker, "r", 2);
    add_topic(&rig->broker, "results", 3);
    add_topic(&rig->broker, "dlq", 1);
    open_producing(&rig->producing, &rig->broker);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_log_create(&rig->log, &log, NULL), MR_OK);
    struct mr_recovery_options options = {.open_reader = mr_kafka_reader_open_port,
                                          .kafka = &rig->broker.kafka,
                                          .results_topic = "results",
                                          .dlq_topic = "dlq",
                                          .group = "g",
                                          .timeout_ms = 20000,
                                          .wake = &rig->wake,
                                          .log = rig->log};
    assert_int_equal(mr_recovery_create(&rig->recovery, &options, NULL), MR_OK);
    assert_int_equal(mr_recovery_start(rig->recovery, NULL), MR_OK);
}

static void close_rig(struct rig *rig)
{
    mr_recovery_destroy(rig->recovery);
    mr_log_destroy(rig->log);
    mr_wake_close(&rig->wake);
    mr_kafka_out_destroy(rig->producing.out);
    close_broker(&rig->broker);
}

static void answer(struct rig *rig, const char *topic, int32_t partition, const char *source)
{
    struct mr_kafka_header headers[] = {{MR_HEADER_SOURCE, source, strlen(source)},
                                        {MR_HEADER_GROUP, "g", 1}};
    struct mr_kafka_record record = {.topic = topic,
                                     .partition = partition,
                                     .value = text_of("{}"),
                                     .headers = headers,
                                     .header_count = 2};
    assert_int_equal(mr_kafka_out_produce(rig->producing.out, &record, NULL, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(rig->producing.out, 10000), MR_OK);
    assert_int_equal(rig->producing.last, MR_OK);
}

static struct mr_recovery_scan *wait_answer(struct rig *rig)
{
    struct mr_recovery_scan *scan;
    while (!(scan = mr_recovery_take(rig->recovery)))
        mr_wake_wait(&rig->wake, UINT64_MAX);
    return scan;
}

static void results_and_lone_dead_letters_are_found(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    answer(&rig, "results", 0, "r/0/7");
    answer(&rig, "results", 2, "r/0/3");
    answer(&rig, "dlq", 0, "r/0/4");
    answer(&rig, "results", 1, "r/1/0");
    mr_recovery_request(rig.recovery, scan_of(0, 3, 1));
    struct mr_recovery_scan *scan = wait_answer(&rig);
    assert_null(scan->next);
    assert_true(scan->complete);
    assert_int_equal(scan->epoch, 9);
    ASSERT_FOUND(scan, 3, 4, 7);
    free(scan);
    close_rig(&rig);
}

static void a_partition_without_a_commit_begins_where_its_log_begins(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    for (int i = 0; i < 3; i++)
        answer(&rig, "r", 1, ""); /* the requests */
    answer(&rig, "results", 0, "r/1/2");
    mr_recovery_request(rig.recovery, scan_of(1, -1, 1));
    struct mr_recovery_scan *scan = wait_answer(&rig);
    assert_true(scan->complete);
    assert_int_equal(scan->base, 0);
    assert_int_equal(scan->first, 2);
    assert_int_equal(scan->first_ms, scan->newest_ms);
    ASSERT_FOUND(scan, 2);
    free(scan);
    close_rig(&rig);
}

static void a_broker_that_is_away_ends_the_look_and_says_so(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    mr_recovery_destroy(rig.recovery);
    struct mr_recovery_options options = {.open_reader = mr_kafka_reader_open_port,
                                          .kafka = &rig.broker.kafka,
                                          .results_topic = "results",
                                          .dlq_topic = "dlq",
                                          .group = "g",
                                          .timeout_ms = 300,
                                          .wake = &rig.wake,
                                          .log = rig.log};
    assert_int_equal(mr_recovery_create(&rig.recovery, &options, NULL), MR_OK);
    assert_int_equal(mr_recovery_start(rig.recovery, NULL), MR_OK);
    mr_kafka_mock_set_down(rig.broker.mock, 1, true);
    mr_recovery_request(rig.recovery, scan_of(0, 3, 1));
    struct mr_recovery_scan *scan = wait_answer(&rig);
    assert_false(scan->complete);
    assert_int_equal(scan->found, 0);
    free(scan);
    mr_kafka_mock_set_down(rig.broker.mock, 1, false);
    mr_recovery_request(rig.recovery, scan_of(0, 3, 1)); /* may be left unanswered */
    close_rig(&rig);
    mr_recovery_destroy(NULL);
}

/* ---- over a slow reader ---- */

enum { SLOW_RECORDS = 5 };

struct slow_reader {
    const char *const *sources; /* [SLOW_RECORDS] */
    unsigned taken; /* calls for twice the number of records: every other call returns none */
    int64_t end;    /* of the partition; -1: the broker does not report it */
};

static bool take_slowly(void *self, struct mr_kafka_record *record)
{
    static struct mr_kafka_header headers[2];
    struct slow_reader *reader = self;
    if (reader->taken++ % 2 == 1 || reader->taken > 2 * SLOW_RECORDS) return false;
    const char *source = reader->sources[reader->taken / 2];
    headers[0] = (struct mr_kafka_header){MR_HEADER_SOURCE, source, strlen(source)};
    headers[1] = (struct mr_kafka_header){MR_HEADER_GROUP, "g", 1};
    *record =
        (struct mr_kafka_record){.headers = headers, .header_count = 2, .timestamp_ms = NOW_MS};
    return true;
}

static bool is_slowly_behind(void *self)
{
    const struct slow_reader *reader = self;
    return reader->taken < 2 * SLOW_RECORDS;
}

static enum mr_status ends_slowly(void *self, const char *topic, int32_t partition,
                                  uint32_t timeout_ms, struct mr_kafka_ends *ends,
                                  struct mr_error *err)
{
    const struct slow_reader *reader = self;
    assert_string_equal(topic, "r");
    assert_int_equal(partition, 0);
    assert_true(timeout_ms > 0);
    if (reader->end < 0) return mr_fail(err, MR_UNREACHABLE, "no answer");
    *ends = (struct mr_kafka_ends){0, reader->end};
    return MR_OK;
}

static void close_slowly(void *self)
{
    (void)self;
}

static enum mr_status open_slowly(void *context, const struct mr_kafka_reader_options *options,
                                  struct mr_kafka_reader_port *out, struct mr_error *err)
{
    (void)options, (void)err;
    *out = (struct mr_kafka_reader_port){context, take_slowly, is_slowly_behind, ends_slowly,
                                         close_slowly};
    return MR_OK;
}

/* One record in each step and one step every 90 ms, with 100 ms allowed for reading. */
static struct mr_recovery_scan *read_slowly(int64_t committed, bool exactly_once,
                                            const char *const *sources, int64_t end)
{
    struct mr_time now = {.ns = 1, .unix_ms = NOW_MS};
    struct slow_reader reader = {.sources = sources, .end = end};
    struct mr_log_options log_options = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    struct mr_log *log;
    struct mr_recovery *recovery;
    struct mr_recovery_scan *scan = NULL;
    assert_int_equal(mr_log_create(&log, &log_options, NULL), MR_OK);
    struct mr_recovery_options options = {.open_reader = open_slowly,
                                          .open_context = &reader,
                                          .results_topic = "results",
                                          .dlq_topic = "dlq",
                                          .group = "g",
                                          .committed_only = exactly_once,
                                          .timeout_ms = 100,
                                          .log = log};
    assert_int_equal(mr_recovery_create(&recovery, &options, NULL), MR_OK);
    mr_recovery_request(recovery, scan_of(0, committed, 1));
    for (unsigned step = 0; !(scan = mr_recovery_take(recovery)); step++) {
        assert_true(step < 4 * SLOW_RECORDS);
        mr_recovery_step(recovery, now);
        now.ns += 90000000u;
    }
    mr_recovery_destroy(recovery);
    mr_log_destroy(log);
    return scan;
}

static const char *const near[SLOW_RECORDS] = {"r/0/3", "r/0/4", "r/0/5", "r/0/6", "r/0/7"};

static void exactly_once_delivery_waits_while_results_come(void **state)
{
    (void)state;
    struct mr_recovery_scan *scan = read_slowly(3, true, near, -1);
    assert_true(scan->complete);
    assert_int_equal(scan->found, SLOW_RECORDS);
    free(scan);
    scan = read_slowly(3, false, near, -1);
    assert_false(scan->complete);
    assert_in_range(scan->found, 1, SLOW_RECORDS - 1);
    free(scan);
}

/* A commit that was lost: results reach far beyond it. They are used if the partition's end offset
 * is as high. */
static void proofs_are_of_offsets_that_the_partition_has(void **state)
{
    (void)state;
    static const char *const far[SLOW_RECORDS] = {"r/0/3", "r/0/40000", "r/0/40001", "r/0/39999",
                                                  "r/0/40001"};
    struct mr_recovery_scan *scan = read_slowly(3, true, far, 40002);
    assert_true(scan->complete);
    assert_int_equal(scan->base, 40001 - 12287);
    ASSERT_FOUND(scan, 39999, 40000, 40001);
    free(scan);
    for (int64_t end = -1; end <= 40001; end += 40002) { /* no answer; a replaced log */
        scan = read_slowly(3, true, far, end);
        assert_false(scan->complete);
        assert_int_equal(scan->base, 3);
        assert_int_equal(scan->found, 0);
        free(scan);
    }
}

/* The topic was deleted and created again: its results are still there, and no commit is. */
static void results_beyond_the_end_of_a_log_are_of_another_log(void **state)
{
    (void)state;
    struct mr_recovery_scan *scan = read_slowly(-1, true, near, 8);
    assert_true(scan->complete);
    ASSERT_FOUND(scan, 3, 4, 5, 6, 7);
    assert_int_equal(scan->first, 3);
    assert_int_equal(scan->newest_ms, NOW_MS);
    free(scan);
    for (int64_t end = 0; end < 8; end++) {
        scan = read_slowly(-1, true, near, end);
        assert_false(scan->complete);
        assert_int_equal(scan->base, -1);
        assert_int_equal(scan->found, 0);
        free(scan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_noted_once_in_its_partition),
        cmocka_unit_test(what_is_not_about_this_partition_is_left_alone),
        cmocka_unit_test(a_result_beyond_the_span_proves_what_is_below),
        cmocka_unit_test(an_old_result_or_one_without_a_commit_proves_nothing),
        cmocka_unit_test(results_and_lone_dead_letters_are_found),
        cmocka_unit_test(a_partition_without_a_commit_begins_where_its_log_begins),
        cmocka_unit_test(a_broker_that_is_away_ends_the_look_and_says_so),
        cmocka_unit_test(exactly_once_delivery_waits_while_results_come),
        cmocka_unit_test(proofs_are_of_offsets_that_the_partition_has),
        cmocka_unit_test(results_beyond_the_end_of_a_log_are_of_another_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
