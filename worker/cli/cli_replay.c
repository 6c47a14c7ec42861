/* millrace replay TOPIC [ID...]: sends records of a topic again, for example dead letters after a
 * fix. Selects them by time or id, and sends them to the topic that they came from or to another
 * one, at once or at the original pace. Stops after the records that existed at its start, so a
 * topic can be replayed into itself. Creates no topic. */
#include "worker/base/clock.h"
#include "worker/base/printable.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/client/client.h"
#include "worker/client/replay.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/kafka/kafka_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OPEN_TIMEOUT_MS 10000u
#define FLUSH_MOST_MS   30000u
#define FLUSH_LEAST_MS  1000u
#define POLL_MS         200u
#define MS_PER_NS       ((uint64_t)1000000)

struct replaying {
    const struct mr_config *config;
    struct mr_replay_options options;
    struct mr_cli_signals signals;
    struct mr_client *client;
    struct mr_kafka_admin *admin;
    struct mr_kafka_reader *reader;
    char found[MR_REPLAY_TOPIC_BYTES]; /* the last target topic that is known to exist */
    uint64_t until_ns;                 /* when to give up; UINT64_MAX: never */
    uint64_t begun_ns;
    int64_t first_ms; /* timestamp of the first record that was sent */
    uint64_t sent, refused;
};

/* A mistyped target must not create a topic. */
static enum mr_status need_target(struct replaying *replaying, const char *topic,
                                  struct mr_error *err)
{
    uint32_t count = 0;
    if (strcmp(replaying->found, topic) == 0) return MR_OK;
    enum mr_status status =
        mr_kafka_admin_partitions(replaying->admin, topic, OPEN_TIMEOUT_MS, &count, err);
    if (status != MR_OK) return status;
    if (count == 0) return mr_fail(err, MR_BACKEND, "topic %.100s does not exist", topic);
    snprintf(replaying->found, sizeof replaying->found, "%s", topic);
    return MR_OK;
}

static void print_line(const struct replaying *replaying, const struct mr_kafka_record *record,
                       const struct mr_replay_plan *plan)
{
    struct mr_text key = record->key.bytes ? record->key : (struct mr_text){"", 0};
    const char *verb = plan->refusal                ? "not sent"
                       : replaying->config->dry_run ? "would send"
                                                    : "sent";
    printf("%s %s/%" PRId32 "/%" PRId64 " ", verb, record->topic, record->partition,
           record->offset);
    mr_print_escaped(stdout, key, "");
    fputs(" -> ", stdout);
    /* a header of the dead letter, which anyone can write, names the topic */
    mr_print_escaped(stdout, (struct mr_text){plan->topic, strlen(plan->topic)}, "");
    printf("%s%s\n", plan->refusal ? ": " : "", plan->refusal ? plan->refusal : "");
}

/* Waits until the record's turn; false: a signal or --timeout ends the replay. */
static bool wait_turn(struct replaying *replaying, const struct mr_kafka_record *record)
{
    if (replaying->sent == 0) {
        replaying->begun_ns = mr_clock_ns();
        replaying->first_ms = record->timestamp_ms;
    }
    uint64_t due_ns =
        replaying->begun_ns + mr_replay_due_ns(replaying->config->replay_speed, replaying->first_ms,
                                               record->timestamp_ms);
    for (uint64_t now_ns; (now_ns = mr_clock_ns()) < due_ns;) {
        if (now_ns >= replaying->until_ns) return false;
        uint64_t next_ns = due_ns < replaying->until_ns ? due_ns : replaying->until_ns;
        uint64_t left_ms = (next_ns - now_ns) / MS_PER_NS + 1;
        if (mr_cli_signals_wait(&replaying->signals, -1, left_ms < 1000 ? (int)left_ms : 1000))
            return false;
    }
    return !mr_cli_signals_wait(&replaying->signals, -1, 0);
}

static enum mr_status replay_record(struct replaying *replaying,
                                    const struct mr_kafka_record *record, struct mr_error *err)
{
    struct mr_replay_plan plan;
    enum mr_status status = MR_OK;
    mr_replay_plan(&plan, &replaying->options, record);
    if (plan.refusal)
        replaying->refused++;
    else
        status = need_target(replaying, plan.topic, err);
    if (status == MR_OK && !plan.refusal && !replaying->config->dry_run) {
        if (!wait_turn(replaying, record)) return MR_OK;
        status = mr_client_publish(replaying->client, &plan.record, err);
    }
    if (status != MR_OK) return status;
    replaying->sent += !plan.refusal;
    print_line(replaying, record, &plan);
    return MR_OK;
}

static enum mr_status open_all(struct replaying *replaying, struct mr_error *err)
{
    const struct mr_config *config = replaying->config;
    const char *topic = config->arguments[0];
    uint32_t timeout_ms = mr_cli_timeout_ms(config, OPEN_TIMEOUT_MS);
    struct mr_client_options client = {
        .config = config, .needs = topic, .timeout_ms = timeout_ms, .notices = stderr};
    enum mr_status status = mr_client_open(&replaying->client, &client, err);
    if (status != MR_OK) return status;
    const struct mr_kafka_options *kafka = mr_client_kafka(replaying->client);
    status = mr_kafka_admin_open(&replaying->admin, kafka, err);
    bool since = replaying->options.from_ms > 0;
    struct mr_kafka_reader_options reader = {.kafka = kafka,
                                             .topics = &topic,
                                             .topic_count = 1,
                                             .from = since ? MR_KAFKA_FROM_TIME
                                                           : MR_KAFKA_FROM_BEGINNING,
                                             .since_ms = replaying->options.from_ms,
                                             .until_end = true,
                                             .timeout_ms = timeout_ms};
    return status == MR_OK ? mr_kafka_reader_create(&replaying->reader, &reader, err) : status;
}

/* Whether the replay can continue. */
static enum mr_status check(struct replaying *replaying, struct mr_error *err)
{
    enum mr_status status = mr_client_health(replaying->client, err);
    if (status == MR_OK) status = mr_kafka_reader_failure(replaying->reader, OPEN_TIMEOUT_MS, err);
    if (status != MR_OK || mr_clock_ns() < replaying->until_ns) return status;
    return mr_fail(err, MR_TIMEOUT, "not all records were read within --timeout");
}

/* Time limit for the acknowledgement of the published records: the rest of --timeout, but at least
 * a second. */
static uint32_t flush_ms(const struct replaying *replaying)
{
    uint32_t left_ms = mr_clock_left_ms(mr_clock_ns(), replaying->until_ns);
    return left_ms > FLUSH_MOST_MS    ? FLUSH_MOST_MS
           : left_ms < FLUSH_LEAST_MS ? FLUSH_LEAST_MS
                                      : left_ms;
}

static enum mr_status replay_all(struct replaying *replaying, struct mr_error *err)
{
    struct mr_kafka_record record;
    enum mr_status status = MR_OK;
    while (status == MR_OK && mr_kafka_reader_is_behind(replaying->reader) &&
           !mr_cli_signals_wait(&replaying->signals, -1, 0)) {
        status = check(replaying, err);
        if (status != MR_OK || !mr_kafka_reader_take(replaying->reader, POLL_MS, &record)) continue;
        if (mr_replay_wants(&replaying->options, &record))
            status = replay_record(replaying, &record, err);
    }
    /* records published before a failure are still on their way */
    struct mr_error inner = {0};
    enum mr_status flushed = mr_client_flush(replaying->client, flush_ms(replaying), &inner);
    if (status == MR_OK && flushed != MR_OK) *err = inner;
    return status == MR_OK ? flushed : status;
}

int mr_cli_replay(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_error err = {0};
    int64_t now_ms = mr_clock_unix_ms();
    int64_t since_ms = (int64_t)(config->replay_since_ns / MS_PER_NS);
    int64_t until_ms = (int64_t)(config->replay_until_ns / MS_PER_NS);
    struct replaying replaying = {
        .config = config,
        .until_ns = config->timeout_ns > 0 ? mr_clock_ns() + config->timeout_ns : UINT64_MAX,
        .options = {.to = config->replay_to,
                    .ids = config->arguments + 1,
                    .id_count = config->argument_count - 1,
                    .from_ms = since_ms > 0 ? now_ms - since_ms : 0,
                    .until_ms = until_ms > 0 ? now_ms - until_ms : 0}};
    mr_cli_signals_open(&replaying.signals);
    enum mr_status status = open_all(&replaying, &err);
    if (status == MR_OK) status = replay_all(&replaying, &err);
    if (replaying.reader)
        fprintf(stderr, "%s%" PRIu64 " records, %" PRIu64 " cannot be sent\n",
                config->dry_run ? "dry run: would send " : "sent ", replaying.sent,
                replaying.refused);
    mr_kafka_reader_destroy(replaying.reader);
    mr_kafka_admin_close(replaying.admin);
    mr_client_close(replaying.client);
    mr_cli_signals_close(&replaying.signals);
    return status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
}
