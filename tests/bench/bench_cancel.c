/* Measures the latency of a cancel in a running fleet: from publishing the cancel record to reading
 * the request's terminal record. A request is cancelled while it runs, while it waits in the queue,
 * or before it is sent.
 *
 *     bench_cancel --brokers HOST:PORT [--requests N] [--concurrency N]
 *
 * --concurrency other requests run during the measurement; set it to the worker's sequence limit
 * minus one. Takes the options of `millrace bench` and prints one JSON object. */
#include "worker/base/clock.h"
#include "worker/client/client.h"
#include "worker/config/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_TIMEOUT_MS 10000u
#define WAIT_NS         ((uint64_t)60000000000u)
#define LONG            4000u /* max_tokens of an answer that is cancelled */
#define BEFORE_MAX      20u
#define SAMPLES_MAX     1000u

/* Milliseconds from the start of a cancel until: the broker has acknowledged the cancel record; the
 * terminal record is written (its timestamp); the terminal record is read. */
struct timeline {
    double acknowledged_ms, written_ms, read_ms;
};

struct bench {
    const struct mr_config *config;
    struct mr_client *client;
    char run[32]; /* prefix of the request ids of this run */
    uint32_t sent;
    double ms[SAMPLES_MAX], step_ms[SAMPLES_MAX];
    uint32_t count, without_text, not_cancelled;
    struct timeline timeline, slowest;
};

static void fail(const char *what, const struct mr_error *err)
{
    fprintf(stderr, "bench_cancel: %s: %s\n", what, err ? err->detail : "no answer in time");
    exit(1);
}

static void name(const struct bench *bench, uint32_t number, char id[64])
{
    snprintf(id, 64, "%s-%u", bench->run, number);
}

static uint32_t send_request(struct bench *bench, uint32_t number)
{
    struct mr_error err = {0};
    char id[64], value[512];
    name(bench, number, id);
    int length = snprintf(value, sizeof value,
                          "{\"prompt_token_ids\":[%u,%u,%u,504,505,506,507,508],\"max_tokens\":%u,"
                          "\"ignore_eos\":true,\"temperature\":0}",
                          100 + number, 200 + number, 300 + number, LONG);
    if (mr_client_request(bench->client, bench->config->request_topics[0].name,
                          (struct mr_text){id, strlen(id)}, (struct mr_text){value, (size_t)length},
                          MR_ENCODING_JSON, &err) != MR_OK)
        fail("request", &err);
    return number;
}

static uint32_t send_next(struct bench *bench)
{
    return send_request(bench, bench->sent++);
}

static void send_cancel(struct bench *bench, uint32_t number)
{
    struct mr_error err = {0};
    char id[64];
    name(bench, number, id);
    if (mr_client_cancel(bench->client, (struct mr_text){id, strlen(id)}, &err) != MR_OK)
        fail("cancel", &err);
}

/* Reads records until one of this kind and request arrives. */
static void await(struct bench *bench, uint32_t number, enum mr_client_kind kind,
                  struct mr_client_event *event)
{
    char id[64];
    uint64_t until_ns = mr_clock_ns() + WAIT_NS;
    name(bench, number, id);
    while (mr_clock_ns() < until_ns)
        if (mr_client_take(bench->client, 100, event) && event->kind == kind &&
            event->id.length == strlen(id) && memcmp(event->id.bytes, id, strlen(id)) == 0)
            return;
    fail(id, NULL);
}

static double since_ms(uint64_t from_ns)
{
    return (double)(mr_clock_ns() - from_ns) / 1e6;
}

static void note_end(struct bench *bench, uint64_t from_ns, const struct mr_client_event *event)
{
    const struct mr_result *result = &event->result;
    struct timeline *timeline = &bench->timeline;
    if (bench->count == SAMPLES_MAX) return;
    timeline->read_ms = since_ms(from_ns);
    timeline->written_ms =
        timeline->read_ms - (double)(mr_clock_unix_ms() - event->record.timestamp_ms);
    if (timeline->read_ms > bench->slowest.read_ms) bench->slowest = *timeline;
    bench->ms[bench->count] = timeline->read_ms;
    bench->step_ms[bench->count++] = result->itl_mean_ms;
    bench->without_text += result->choices[0].text.length == 0;
    bench->not_cancelled += result->choices[0].finish != MR_FINISH_CANCELLED;
}

static void cancel_and_time(struct bench *bench, uint32_t number)
{
    struct mr_client_event event;
    uint64_t from_ns = mr_clock_ns();
    send_cancel(bench, number);
    bench->timeline.acknowledged_ms = since_ms(from_ns);
    await(bench, number, MR_CLIENT_RESULT, &event);
    note_end(bench, from_ns, &event);
}

static void cancel_running(struct bench *bench)
{
    struct mr_client_event event;
    uint32_t number = send_next(bench);
    for (uint32_t records = 2 + number % 5; records > 0; records--)
        await(bench, number, MR_CLIENT_TOKENS, &event);
    cancel_and_time(bench, number);
}

/* Sends one more request than the worker runs at once, so that it waits in the queue. */
static void cancel_waiting(struct bench *bench)
{
    struct mr_client_event event;
    uint32_t last = send_next(bench), waiting;
    await(bench, last, MR_CLIENT_TOKENS, &event);
    waiting = send_next(bench);
    await(bench, last, MR_CLIENT_TOKENS, &event); /* one step later the request is in the queue */
    cancel_and_time(bench, waiting);
    send_cancel(bench, last);
    await(bench, last, MR_CLIENT_RESULT, &event);
}

static void cancel_before(struct bench *bench)
{
    struct mr_client_event event;
    uint32_t number = bench->sent++;
    send_cancel(bench, number);
    uint64_t from_ns = mr_clock_ns();
    send_request(bench, number);
    await(bench, number, MR_CLIENT_RESULT, &event);
    note_end(bench, from_ns, &event);
}

static int by_size(const void *left, const void *right)
{
    double one = *(const double *)left, two = *(const double *)right;
    return one < two ? -1 : one > two;
}

/* The percentile `share` (0 to 1) by nearest rank. */
static double percentile(const double *sorted, uint32_t count, double share)
{
    uint32_t rank = (uint32_t)(share * count + 0.999999);
    return count == 0 ? 0 : sorted[rank > 0 ? rank - 1 : 0];
}

static void measure(struct bench *bench, const char *kind, uint32_t count,
                    void (*one)(struct bench *bench))
{
    bench->count = bench->without_text = bench->not_cancelled = 0;
    bench->timeline = bench->slowest = (struct timeline){0};
    for (uint32_t i = 0; i < count; i++)
        one(bench);
    qsort(bench->ms, bench->count, sizeof *bench->ms, by_size);
    qsort(bench->step_ms, bench->count, sizeof *bench->step_ms, by_size);
    printf("\"%s\": {\"count\": %u, \"median_ms\": %.1f, \"p99_ms\": %.1f, \"max_ms\": %.1f, "
           "\"step_ms\": %.1f, \"slowest\": {\"acknowledged_ms\": %.1f, \"written_ms\": %.1f, "
           "\"read_ms\": %.1f}, \"without_text\": %u, \"not_cancelled\": %u}",
           kind, bench->count, percentile(bench->ms, bench->count, 0.5),
           percentile(bench->ms, bench->count, 0.99), percentile(bench->ms, bench->count, 1),
           percentile(bench->step_ms, bench->count, 0.5), bench->slowest.acknowledged_ms,
           bench->slowest.written_ms, bench->slowest.read_ms, bench->without_text,
           bench->not_cancelled);
}

static void run(struct bench *bench)
{
    struct mr_client_event event;
    uint32_t others = bench->config->concurrency, count = bench->config->requests;
    for (uint32_t i = 0; i < others; i++)
        await(bench, send_next(bench), MR_CLIENT_TOKENS, &event);
    uint64_t from_ns = mr_clock_ns();
    send_cancel(bench, UINT32_MAX); /* a producer's first record to a topic waits for metadata */
    printf("{\"first_acknowledged_ms\": %.1f, ", since_ms(from_ns));
    measure(bench, "running", count, cancel_running);
    printf(", ");
    measure(bench, "waiting", count < BEFORE_MAX ? count : BEFORE_MAX, cancel_waiting);
    printf(", ");
    measure(bench, "before", count < BEFORE_MAX ? count : BEFORE_MAX, cancel_before);
    printf("}\n");
    for (uint32_t i = 0; i < others; i++)
        send_cancel(bench, i);
}

int main(int argc, char *argv[])
{
    struct mr_error err = {0};
    struct mr_config *config = NULL;
    char **arguments = calloc((size_t)argc + 2, sizeof *arguments);
    char command[] = "bench";
    char *none[] = {NULL};
    if (!arguments) return 1;
    arguments[0] = argv[0];
    arguments[1] = command;
    for (int i = 1; i < argc; i++)
        arguments[i + 1] = argv[i];
    if (mr_config_create(&config, argc + 1, arguments, none, &err) != MR_OK) fail("options", &err);
    struct bench bench = {.config = config};
    snprintf(bench.run, sizeof bench.run, "cancel-%llx", (unsigned long long)mr_clock_unix_ms());
    struct mr_client_options client = {
        .config = config, .reads = true, .timeout_ms = OPEN_TIMEOUT_MS};
    if (mr_client_open(&bench.client, &client, &err) != MR_OK) fail("broker", &err);
    run(&bench);
    mr_client_close(bench.client);
    mr_config_destroy(config);
    free(arguments);
    return 0;
}
