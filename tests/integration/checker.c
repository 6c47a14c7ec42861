/* checker - reads the topics of a fleet and the commits of its consumer group, and checks the
 * guarantees of the fleet: every request has a result, tokens have no gaps, and no commit is early.
 * verdict.h lists the violations.
 *
 *     checker BROKERS [--prefix NAME] [--group NAME] [--requests-topic TOPIC]... [--single]
 *             [--exactly-once] [--expect N] [--wait SECONDS] [--kafka NAME=VALUE]...
 *
 * Without --wait it checks the records that exist now. With --wait it reads until N requests are
 * read and answered and no record has arrived for a moment, or until no record has arrived for
 * SECONDS. --single: a second result of an id is a violation. --exactly-once: the same, and only
 * committed records are read. The commits come from the topic __consumer_offsets if the broker has
 * it (Apache Kafka does, the embedded broker does not), and the last commit from the group.
 *
 * Prints one JSON object to stdout and one line per violation to stderr. Exits 0 without
 * violations, 1 with violations, 2 when a topic could not be read. */
#include "tests/integration/verdict/commit_log.h"
#include "tests/integration/verdict/verdict.h"
#include "worker/kafka/kafka_client.h"

#include <getopt.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAMES_MAX      8u
#define PARTITIONS_MAX 256u
#define TIMEOUT_MS     20000
#define QUIET_MS       3000
#define REPORTED_MAX   50u

struct checker {
    const char *brokers, *prefix, *group;
    const char *properties[NAMES_MAX * 4], *request_topics[NAMES_MAX];
    size_t property_count, request_topic_count;
    char names[4][256]; /* requests, tokens, results, dead letters */
    bool single, exactly_once;
    uint32_t expect, wait_s, reported;
    struct verdict *verdict;
};

struct reading {
    rd_kafka_t *rk;
    rd_kafka_topic_partition_list_t *open; /* partitions that are not yet read to the end */
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "checker: %s: %s\n", what, why);
    exit(2);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void report_violation(void *context, enum verdict_kind kind, const char *what)
{
    struct checker *checker = context;
    if (checker->reported++ < REPORTED_MAX) fprintf(stderr, "%s: %s\n", verdict_text(kind), what);
}

/* ---- Kafka ---- */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char reason[256];
    if (rd_kafka_conf_set(conf, name, value, reason, sizeof reason) != RD_KAFKA_CONF_OK)
        die(name, reason);
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk, (void)code, (void)reason, (void)opaque; /* librdkafka recovers by itself */
}

static rd_kafka_t *open_client(const struct checker *checker)
{
    char reason[256], name[128];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", checker->brokers);
    set(conf, "group.id", checker->group);
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    set(conf, "auto.offset.reset", "earliest");
    set(conf, "allow.auto.create.topics", "false");
    set(conf, "fetch.wait.max.ms", "50");
    set(conf, "reconnect.backoff.max.ms", "1000");
    set(conf, "log_level", "0");
    set(conf, "isolation.level", checker->exactly_once ? "read_committed" : "read_uncommitted");
    for (size_t i = 0; i < checker->property_count; i++) {
        const char *text = checker->properties[i], *equals = strchr(text, '=');
        if (!equals || (size_t)(equals - text) >= sizeof name) die(text, "not NAME=VALUE");
        snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
        set(conf, name, equals + 1);
    }
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof reason);
    if (!rk) die("client", reason);
    rd_kafka_poll_set_consumer(rk);
    return rk;
}

static void close_client(rd_kafka_t *rk)
{
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
}

/* Assigns all partitions of the topics that exist, from offset `start` on. */
static rd_kafka_topic_partition_list_t *partitions_of(rd_kafka_t *rk, const char *const *topics,
                                                      size_t topic_count, int64_t start)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    rd_kafka_resp_err_t code = rd_kafka_metadata(rk, 1, NULL, &metadata, TIMEOUT_MS);
    if (code) die("topics", rd_kafka_err2str(code));
    for (int i = 0; i < metadata->topic_cnt; i++)
        for (size_t k = 0; k < topic_count; k++) {
            const struct rd_kafka_metadata_topic *topic = &metadata->topics[i];
            if (strcmp(topic->topic, topics[k]) != 0) continue;
            for (int32_t p = 0; p < topic->partition_cnt; p++)
                rd_kafka_topic_partition_list_add(list, topic->topic, p)->offset = start;
        }
    rd_kafka_metadata_destroy(metadata);
    return list;
}

static void open_reading(struct reading *reading, const struct checker *checker,
                         const char *const *topics, size_t topic_count)
{
    reading->rk = open_client(checker);
    reading->open = partitions_of(reading->rk, topics, topic_count, RD_KAFKA_OFFSET_BEGINNING);
    rd_kafka_resp_err_t code = rd_kafka_assign(reading->rk, reading->open);
    if (code) die("assign", rd_kafka_err2str(code));
}

static void close_reading(struct reading *reading)
{
    rd_kafka_topic_partition_list_destroy(reading->open);
    close_client(reading->rk);
}

/* ---- records ---- */

static void take(struct checker *checker, const struct mr_kafka_record *record)
{
    const struct verdict_topics topics = {checker->names[1], checker->names[2], checker->names[3]};
    verdict_record(checker->verdict, &topics, record);
}

/* Polls once. True if a record arrived. Errors are ignored, because tests restart the broker. */
static bool read_one(struct checker *checker, struct reading *reading, int timeout_ms,
                     void (*use)(struct checker *checker, const struct mr_kafka_record *record))
{
    struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX];
    struct mr_kafka_record record;
    rd_kafka_message_t *message = rd_kafka_consumer_poll(reading->rk, timeout_ms);
    if (!message) return false;
    bool is_record = !message->err;
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        rd_kafka_topic_partition_list_del(reading->open, rd_kafka_topic_name(message->rkt),
                                          message->partition);
    if (is_record) {
        mr_kafka_client_describe(message, headers, &record);
        use(checker, &record);
    }
    rd_kafka_message_destroy(message);
    return is_record;
}

static void read_to_end(struct checker *checker, struct reading *reading,
                        void (*use)(struct checker *checker, const struct mr_kafka_record *record))
{
    int64_t last_ms = now_ms();
    while (reading->open->cnt > 0) {
        if (read_one(checker, reading, 100, use)) last_ms = now_ms();
        if (now_ms() - last_ms > TIMEOUT_MS) die("reading", "the broker does not answer");
    }
}

static void wait_for_answers(struct checker *checker, struct reading *reading)
{
    int64_t last_ms = now_ms(), reported_ms = 0;
    for (;;) {
        if (read_one(checker, reading, 100, take)) last_ms = now_ms();
        if (now_ms() - reported_ms < 500) continue;
        reported_ms = now_ms();
        uint32_t seen = verdict_requests(checker->verdict), open = verdict_open(checker->verdict);
        fprintf(stderr, "answered %u of %u\n", seen - open, seen);
        int64_t quiet_ms = reported_ms - last_ms;
        if (seen >= checker->expect && open == 0 && quiet_ms > QUIET_MS) return;
        if (quiet_ms > (int64_t)checker->wait_s * 1000) return;
    }
}

/* ---- commits ---- */

static void take_commit(struct checker *checker, const struct mr_kafka_record *record)
{
    struct commit_entry entry;
    if (!commit_log_decode(&entry, record->key, record->value)) return;
    struct mr_text group = {checker->group, strlen(checker->group)};
    if (entry.group.length != group.length ||
        memcmp(entry.group.bytes, group.bytes, group.length) != 0)
        return;
    char topic[256];
    snprintf(topic, sizeof topic, "%.*s", (int)entry.topic.length, entry.topic.bytes);
    struct verdict_place place = {topic, entry.partition, entry.offset};
    verdict_commit(checker->verdict, &place, entry.metadata, entry.time_ms);
}

static void read_commit_log(struct checker *checker)
{
    static const char *const topic = "__consumer_offsets";
    struct reading reading;
    open_reading(&reading, checker, &topic, 1);
    read_to_end(checker, &reading, take_commit);
    close_reading(&reading);
}

/* The last commit, as the next owner of the partition reads it. */
static void read_committed_offsets(struct checker *checker)
{
    rd_kafka_t *rk = open_client(checker);
    rd_kafka_topic_partition_list_t *list =
        partitions_of(rk, checker->request_topics, checker->request_topic_count, 0);
    rd_kafka_resp_err_t code = rd_kafka_committed(rk, list, TIMEOUT_MS);
    if (code) die("committed offsets", rd_kafka_err2str(code));
    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *one = &list->elems[i];
        if (one->offset < 0) continue;
        struct verdict_place place = {one->topic, one->partition, one->offset};
        size_t length = one->metadata ? strnlen(one->metadata, one->metadata_size) : 0;
        verdict_commit(checker->verdict, &place, (struct mr_text){one->metadata, length},
                       INT64_MAX - 1);
    }
    rd_kafka_topic_partition_list_destroy(list);
    close_client(rk);
}

/* ---- the report ---- */

static void report(const struct verdict_figures *f)
{
    printf("{\"ok\": %s, \"requests\": %u, \"ids\": %u, \"answered\": %u, \"results\": %u, "
           "\"dead_letters\": %u,\n \"results_per_id\": {",
           f->violation_count == 0 ? "true" : "false", f->requests, f->ids, f->answered, f->results,
           f->dead_letters);
    const char *comma = "";
    for (size_t i = 0; i < VERDICT_RESULTS_SHOWN; i++) {
        if (f->results_per_id[i] == 0) continue;
        printf("%s\"%zu\": %u", comma, i, f->results_per_id[i]);
        comma = ", ";
    }
    printf("},\n \"duplicates\": %u, \"repeated_ids\": %u, \"same_attempt\": %u, "
           "\"later_attempt\": %u, \"refused\": %u, \"duplicate_ids\": %u,\n"
           " \"token_records\": %u, \"tokens\": %u, \"tokens_again\": %u, "
           "\"late_token_records\": %u,\n"
           " \"commits\": %u, \"forgetful_commits\": %u, \"stall_ms\": %" PRId64
           ", \"span_ms\": %" PRId64 ",\n \"violations\": {",
           f->duplicates, f->repeated_ids, f->same_attempt, f->later_attempt, f->refused,
           f->duplicate_ids, f->token_records, f->tokens, f->tokens_again, f->late_token_records,
           f->commits, f->forgetful_commits, f->stall_ms, f->span_ms);
    comma = "";
    for (int kind = 0; kind < VERDICT_COUNT; kind++) {
        if (f->violations[kind] == 0) continue;
        printf("%s\"%s\": %u", comma, verdict_text((enum verdict_kind)kind), f->violations[kind]);
        comma = ", ";
    }
    printf("}}\n");
}

static void name_topics(struct checker *checker)
{
    static const char *const ends[] = {"requests", "tokens", "results", "dlq"};
    for (size_t i = 0; i < 4; i++)
        snprintf(checker->names[i], sizeof checker->names[i], "%.200s.%s", checker->prefix,
                 ends[i]);
    if (checker->request_topic_count == 0)
        checker->request_topics[checker->request_topic_count++] = checker->names[0];
}

static void read_options(struct checker *checker, int argc, char *argv[])
{
    static const struct option options[] = {
        {"prefix", 1, NULL, 'p'}, {"group", 1, NULL, 'g'},        {"requests-topic", 1, NULL, 'r'},
        {"single", 0, NULL, 's'}, {"exactly-once", 0, NULL, 'x'}, {"expect", 1, NULL, 'e'},
        {"wait", 1, NULL, 'w'},   {"kafka", 1, NULL, 'k'},        {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') checker->prefix = optarg;
        if (option == 'g') checker->group = optarg;
        if (option == 's') checker->single = true;
        if (option == 'x') checker->single = checker->exactly_once = true;
        if (option == 'e') checker->expect = (uint32_t)strtoul(optarg, NULL, 10);
        if (option == 'w') checker->wait_s = (uint32_t)strtoul(optarg, NULL, 10);
        if (option == 'r' && checker->request_topic_count < NAMES_MAX)
            checker->request_topics[checker->request_topic_count++] = optarg;
        if (option == 'k' && checker->property_count < NAMES_MAX * 4)
            checker->properties[checker->property_count++] = optarg;
        if (option == '?') die("usage", "checker BROKERS [options]; see the source");
    }
    if (optind + 1 != argc) die("usage", "checker BROKERS [options]; see the source");
    checker->brokers = argv[optind];
    name_topics(checker);
}

static void name_all(const struct checker *checker, const char *names[], size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < checker->request_topic_count; i++)
        names[(*count)++] = checker->request_topics[i];
    for (size_t i = 1; i < 4; i++)
        names[(*count)++] = checker->names[i];
}

/* Reads until --wait is satisfied. The check reads the records again. */
static void wait(struct checker *checker, const char *const *topics, size_t topic_count)
{
    struct verdict_options options = {.single = false};
    struct reading reading;
    checker->verdict = verdict_create(&options);
    open_reading(&reading, checker, topics, topic_count);
    wait_for_answers(checker, &reading);
    close_reading(&reading);
    verdict_destroy(checker->verdict);
}

int main(int argc, char *argv[])
{
    struct checker checker = {.prefix = "millrace", .group = "millrace"};
    struct verdict_figures figures;
    struct reading reading;
    const char *topics[NAMES_MAX + 3];
    size_t topic_count = 0;
    read_options(&checker, argc, argv);
    name_all(&checker, topics, &topic_count);
    if (checker.wait_s > 0) wait(&checker, topics, topic_count);
    struct verdict_options options = {.single = checker.single,
                                      .timed = !checker.exactly_once,
                                      .report = report_violation,
                                      .context = &checker};
    checker.verdict = verdict_create(&options);
    /* Commits are read before results, because a result is written before the commit that covers
     * it. */
    read_commit_log(&checker);
    read_committed_offsets(&checker);
    open_reading(&reading, &checker, topics, topic_count);
    read_to_end(&checker, &reading, take);
    close_reading(&reading);
    verdict_judge(checker.verdict, &figures);
    report(&figures);
    verdict_destroy(checker.verdict);
    return figures.violation_count > 0;
}
