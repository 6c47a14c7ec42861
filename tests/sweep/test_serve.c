/* Sweeps of a whole worker with its threads: librdkafka and its embedded broker, HTTP, a tiny
 * model. One life takes up to a second, so make check and make test sweep only the start. make
 * sweep continues to the answer of a request and the end. */
#include "tests/sweep/sweep.h"
#include "tests/unit/worker/serving.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_reader.h"
#include "worker/serve/drain.h"
#include "worker/serve/worker.h"

#include <librdkafka/rdkafka.h>
#include <unistd.h>

#define MS    ((uint64_t)1000000)
#define MODEL "tests/golden/models/qwen2"

static const char *const results = "millrace.results";

static bool give_up(void *context)
{
    return mr_clock_ns() > *(const uint64_t *)context;
}

static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    (void)opaque, (void)reason;
    *(bool *)context = status == MR_OK;
}

static void produce(const struct serving *serving)
{
    static const char value[] = "{\"id\":\"a\",\"prompt\":\"mill\",\"max_tokens\":3}";
    struct mr_kafka_out *out = NULL;
    bool written = false;
    struct mr_kafka_out_options options = {
        .kafka = &serving->broker.kafka, .reported = on_reported, .context = &written};
    struct mr_kafka_record record = {
        .topic = "millrace.requests", .key = {"a", 1}, .value = {value, sizeof value - 1}};
    SWEEP_CHECK(mr_kafka_out_create(&out, &options, NULL) == MR_OK);
    SWEEP_CHECK(mr_kafka_out_produce(out, &record, NULL, NULL) == MR_OK);
    SWEEP_CHECK(mr_kafka_out_flush(out, 10000) == MR_OK && written);
    mr_kafka_out_destroy(out);
}

static bool has_result(const struct serving *serving)
{
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_record record;
    struct mr_kafka_reader_options options = {.kafka = &serving->broker.kafka,
                                              .topics = &results,
                                              .topic_count = 1,
                                              .from = MR_KAFKA_FROM_BEGINNING,
                                              .timeout_ms = 5000};
    SWEEP_CHECK(mr_kafka_reader_create(&reader, &options, NULL) == MR_OK);
    bool found = mr_kafka_reader_take(reader, 300, &record);
    mr_kafka_reader_destroy(reader);
    return found;
}

static int64_t committed(const struct serving *serving)
{
    char reason[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", serving->broker.kafka.brokers, NULL, 0);
    rd_kafka_conf_set(conf, "group.id", "millrace", NULL, 0);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof reason);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, "millrace.requests", 0);
    SWEEP_CHECK(rd_kafka_committed(rk, list, 5000) == RD_KAFKA_RESP_ERR_NO_ERROR);
    int64_t offset = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(rk);
    return offset;
}

/* Runs until the request is answered and its offset committed, until the worker fails, or until a
 * timeout. */
static void wait_answered(struct mr_worker *worker)
{
    uint64_t until_ns = mr_clock_ns() + 8000 * MS;
    for (;;) {
        struct mr_worker_stats stats = mr_worker_stats(worker);
        bool answered = stats.intake.records > 0 && stats.intake.in_flight == 0;
        if (answered || mr_worker_health(worker, NULL) != MR_OK) return;
        if (mr_clock_ns() > until_ns) return;
        usleep(1000);
    }
}

static void live(bool answering)
{
    static const char *const flags[] = {
        "--threads", "2", "--drain-timeout", "1s", "--broker-timeout", "2s", "--max-sequences",
        "2",         NULL};
    struct serving serving;
    struct mr_worker *worker = NULL;
    struct mr_error err = {0};
    enum mr_exit code = MR_EXIT_DONE;
    open_serving(&serving, MODEL, flags);
    add_topic(&serving.broker, "millrace.requests", 1);
    add_topic(&serving.broker, results, 1);
    if (answering) produce(&serving);
    uint64_t until_ns = mr_clock_ns() + 5000 * MS;
    struct mr_worker_options options = {
        .config = serving.config, .log = serving.log, .give_up = give_up, .context = &until_ns};
    if (!answering) sweep_begin();
    enum mr_status status = mr_worker_create(&worker, &options, &code, &err);
    if (answering) sweep_begin();
    if (!answering) sweep_end();
    SWEEP_CHECK(status == MR_OK || (err.detail[0] && code != MR_EXIT_DONE && !worker));
    if (status == MR_OK && answering) wait_answered(worker);
    if (status == MR_OK) code = mr_worker_drain(worker, 1000 * MS, NULL, NULL, NULL);
    const char *failed = sweep_end();
    SWEEP_CHECK(failed || (status == MR_OK && code == MR_EXIT_DONE));
    if (answering) {
        bool found = has_result(&serving);
        SWEEP_CHECK(found || committed(&serving) < 1);
        SWEEP_CHECK(found || failed);
    }
    close_serving(&serving);
}

static void start(void)
{
    live(false);
}

static void answer(void)
{
    live(true);
}

int main(int argc, char *argv[])
{
    static const struct sweep_life lives[] = {{.name = "start", .live = start, .slow = true},
                                              {.name = "answer", .live = answer, .slow = true}};
    return sweep_main(argc, argv, lives, sizeof lives / sizeof *lives);
}
