/* A whole batch with the embedded test broker and a worker of this test, which answers each time
 * that the batch looks for interrupts. */
#include "files.h"

#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"
#include "worker/batch/batch.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_reader.h"

#include <signal.h>
#include <sys/resource.h>

#define LINES      ((size_t)40)
#define ALL        UINT32_MAX
#define LONGEST_NS ((uint64_t)60000000000)

enum answer { ANSWER, RETRYABLE, REJECTED, SILENCE };

/* The fleet: reads requests and cancels, writes results. */
struct fleet {
    struct broker *broker;
    struct mr_kafka_reader *reader;
    struct mr_kafka_out *out;
    uint32_t requests, cancels; /* read */
    uint32_t answers_left;      /* then it is silent */
    enum answer first_tries;    /* its answer to the first request of a line */
    unsigned interrupts;        /* what the batch is told when answers_left is 0 */
    uint64_t until_ns;
    char keys[4 * LINES][64]; /* of the requests */
};

static void on_sent(void *context, void *opaque, enum mr_status status, const char *reason)
{
    (void)context, (void)opaque, (void)reason;
    assert_int_equal(status, MR_OK);
}

static void open_fleet(struct fleet *fleet, struct broker *broker)
{
    static const char *const topics[] = {"r", "c"};
    *fleet = (struct fleet){
        .broker = broker, .answers_left = ALL, .until_ns = mr_clock_ns() + LONGEST_NS};
    const struct mr_kafka_reader_options reader = {.kafka = &broker->kafka,
                                                   .topics = topics,
                                                   .topic_count = 2,
                                                   .from = MR_KAFKA_FROM_BEGINNING,
                                                   .timeout_ms = 5000};
    const struct mr_kafka_out_options out = {.kafka = &broker->kafka, .reported = on_sent};
    assert_int_equal(mr_kafka_reader_create(&fleet->reader, &reader, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_create(&fleet->out, &out, NULL), MR_OK);
}

static void close_fleet(struct fleet *fleet)
{
    mr_kafka_out_flush(fleet->out, 5000);
    mr_kafka_out_destroy(fleet->out);
    mr_kafka_reader_destroy(fleet->reader);
}

static void answer(struct fleet *fleet, const struct mr_kafka_record *request, enum answer kind)
{
    static const char *const bodies[] = {
        [ANSWER] = "{\"model\":\"m\",\"finish_reason\":\"eos\",\"stopped_by\":\"eos\",\"text\":"
                   "\"Hi\",\"usage\":{\"completion_tokens\":2}}",
        [RETRYABLE] = "{\"model\":\"m\",\"finish_reason\":\"error\",\"text\":\"\",\"error\":{"
                      "\"code\":\"overloaded\",\"message\":\"later\",\"retryable\":true}}",
        [REJECTED] = "{\"model\":\"m\",\"finish_reason\":\"rejected\",\"text\":\"\",\"error\":{"
                     "\"code\":\"model_not_found\",\"message\":\"no\",\"retryable\":false}}"};
    const struct mr_kafka_record result = {
        .topic = "s", .partition = -1, .key = request->key, .value = text_of(bodies[kind])};
    assert_int_equal(mr_kafka_out_produce(fleet->out, &result, NULL, NULL), MR_OK);
}

/* What the batch calls in each round of its loop. */
static unsigned work(void *context)
{
    struct fleet *fleet = context;
    struct mr_kafka_record record;
    while (fleet->answers_left > 0 && mr_kafka_reader_take(fleet->reader, 0, &record)) {
        if (record.topic[0] == 'c') {
            fleet->cancels++;
            continue;
        }
        assert_true(fleet->requests < 4 * LINES && record.key.length < 64);
        memcpy(fleet->keys[fleet->requests++], record.key.bytes, record.key.length);
        const bool is_first = record.key.bytes[record.key.length - 1] == '0';
        const enum answer kind = is_first ? fleet->first_tries : ANSWER;
        if (kind == SILENCE) continue;
        answer(fleet, &record, kind);
        fleet->answers_left--;
    }
    mr_kafka_out_serve(fleet->out, 0);
    if (mr_clock_ns() > fleet->until_ns) fail_msg("the batch does not end");
    return fleet->answers_left > 0 ? 0 : fleet->interrupts;
}

static void write_input(const char *path, size_t lines)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 1; i <= lines; i++)
        fprintf(
            file,
            "{\"custom_id\":\"c-%zu\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"%zu\"}}\n",
            i, i);
    fclose(file);
}

/* The rig of a test: a broker with the topics, a fleet and a folder with in.jsonl. */
struct rig {
    struct broker broker;
    struct fleet fleet;
    struct mr_config config;
    const char *arguments[2];
    char in[PATH_BYTES], out[PATH_BYTES], errors[PATH_BYTES], state[PATH_BYTES];
    FILE *messages;
    bool complete;
    struct mr_error err;
};

static void open_rig(struct rig *rig, const char *name)
{
    static const char *const topics[] = {"r", "s", "c"};
    struct mr_kafka_admin *admin;
    uint32_t count;
    bool embedded;
    char out[64], errors[64], state[64], in[64];
    *rig = (struct rig){0};
    open_broker(&rig->broker);
    assert_int_equal(mr_kafka_admin_open(&admin, &rig->broker.kafka, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_probe(admin, 5000, &embedded, NULL), MR_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(mr_kafka_admin_ensure(admin, topics[i], 5000, &count, NULL), MR_OK);
    mr_kafka_admin_close(admin);
    snprintf(in, sizeof in, "%s.in", name);
    snprintf(out, sizeof out, "%s.out", name);
    snprintf(errors, sizeof errors, "%s.out.errors", name);
    snprintf(state, sizeof state, "%s.out.state", name);
    rig->arguments[0] = path_of(in, rig->in);
    rig->arguments[1] = path_of(out, rig->out);
    path_of(errors, rig->errors);
    path_of(state, rig->state);
    write_input(rig->in, LINES);
    rig->messages = fopen("/dev/null", "w");
    rig->config = (struct mr_config){.brokers = rig->broker.kafka.brokers,
                                     .arguments = rig->arguments,
                                     .argument_count = 2,
                                     .request_topics = {{.name = "r", .tenant = "default"}},
                                     .request_topic_count = 1,
                                     .results_topic = "s",
                                     .tokens_topic = "t",
                                     .cancel_topic = "c",
                                     .batch_errors = "",
                                     .batch_topic = "",
                                     .batch_deadline_ns = 3600000000000,
                                     .max_record_bytes = 1 << 20};
    open_fleet(&rig->fleet, &rig->broker);
}

static void close_rig(struct rig *rig)
{
    close_fleet(&rig->fleet);
    fclose(rig->messages);
    close_broker(&rig->broker);
}

static enum mr_status run(struct rig *rig)
{
    const struct mr_batch_options options = {.config = &rig->config,
                                             .messages = rig->messages,
                                             .interrupts = work,
                                             .context = &rig->fleet,
                                             .timeout_ms = 5000};
    rig->err = (struct mr_error){0};
    return mr_batch_run(&options, &rig->complete, &rig->err);
}

static void run_well(struct rig *rig)
{
    if (run(rig) != MR_OK) fail_msg("%s", rig->err.detail);
}

static size_t count_of(const char *path, const char *word)
{
    if (access(path, F_OK) != 0) return 0;
    char *text = read_file(path);
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        count++;
    free(text);
    return count;
}

/* One line of the output for each line of the input, in any order. */
static void expect_all(const struct rig *rig)
{
    assert_int_equal(count_of(rig->out, "\n") + count_of(rig->errors, "\n"), LINES);
    for (size_t i = 1; i <= LINES; i++) {
        char id[32];
        snprintf(id, sizeof id, "\"custom_id\":\"c-%zu\"", i);
        assert_int_equal(count_of(rig->out, id) + count_of(rig->errors, id), 1);
    }
}

static void expect_no_key_twice(const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->requests; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(fleet->keys[i], fleet->keys[k]);
}

static void each_line_gets_an_answer_and_a_second_run_sends_nothing(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "whole");
    run_well(&rig);
    assert_true(rig.complete);
    expect_all(&rig);
    assert_int_equal(count_of(rig.out, "\"status_code\":200"), LINES);
    assert_int_equal(rig.fleet.requests, LINES);
    assert_int_equal(access(rig.errors, F_OK), -1);
    assert_int_equal(access(rig.state, F_OK), -1); /* nothing is left to continue */
    rig.config.brokers = "127.0.0.1:1";            /* not needed */
    run_well(&rig);
    assert_true(rig.complete);
    assert_int_equal(rig.fleet.requests, LINES);
    close_rig(&rig);
}

/* A full disk ends the run like a crash: with a torn line, and with requests in flight, whose
 * answers come while no batch runs. */
static void a_run_that_dies_is_continued_without_sending_twice(void **state)
{
    (void)state;
    struct rig rig;
    const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    uint32_t deaths = 0;
    open_rig(&rig, "dies");
    rig.config.concurrency = 4;
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t bytes = 1000; !rig.complete; bytes += 1500) {
        const struct rlimit limit = {bytes, RLIM_INFINITY};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const enum mr_status status = run(&rig);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
        assert_true(status == MR_OK || status == MR_BAD_FILE);
        deaths += status != MR_OK;
        work(&rig.fleet);
        mr_kafka_out_flush(rig.fleet.out, 5000);
    }
    assert_true(deaths >= 3);
    expect_all(&rig);
    expect_no_key_twice(&rig.fleet);
    assert_int_equal(rig.fleet.requests, LINES);
    close_rig(&rig);
}

static void a_lost_state_file_costs_time_only(void **state)
{
    (void)state;
    struct rig rig;
    const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY}, limit = {4000, RLIM_INFINITY};
    open_rig(&rig, "lost");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(run(&rig), MR_BAD_FILE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    assert_int_equal(unlink(rig.state), 0);
    run_well(&rig);
    assert_true(rig.complete);
    expect_all(&rig);
    expect_no_key_twice(&rig.fleet);
    close_rig(&rig);
}

static void retryable_errors_are_retried_under_new_ids(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "retried");
    rig.fleet.first_tries = RETRYABLE;
    run_well(&rig);
    assert_true(rig.complete);
    expect_all(&rig);
    expect_no_key_twice(&rig.fleet);
    assert_int_equal(rig.fleet.requests, 2 * LINES);
    close_rig(&rig);
}

static void errors_go_to_their_file_and_can_be_sent_again(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "errors");
    rig.fleet.first_tries = REJECTED;
    run_well(&rig);
    assert_false(rig.complete);
    expect_all(&rig);
    assert_int_equal(count_of(rig.errors, "\"status_code\":404"), LINES);
    run_well(&rig); /* does nothing */
    assert_false(rig.complete);
    assert_int_equal(rig.fleet.requests, LINES);
    rig.config.retry_errors = true;
    rig.fleet.first_tries = ANSWER;
    run_well(&rig);
    assert_true(rig.complete);
    expect_all(&rig);
    assert_int_equal(count_of(rig.out, "\n"), LINES);
    assert_int_equal(rig.fleet.requests, 2 * LINES);
    close_rig(&rig);
}

static void a_first_interrupt_waits_for_answers_and_a_second_cancels(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "interrupted");
    rig.config.concurrency = 4;
    rig.fleet.answers_left = 7;
    rig.fleet.interrupts = 2;
    run_well(&rig);
    assert_false(rig.complete);
    const size_t cancelled = count_of(rig.errors, "\"code\":\"batch_cancelled\"");
    assert_true(cancelled >= 1 && cancelled <= 4);
    assert_true(count_of(rig.out, "\n") <= 7);
    rig.fleet.answers_left = ALL;
    run_well(&rig);
    work(&rig.fleet);
    expect_all(&rig);
    assert_int_equal(rig.fleet.cancels, cancelled);
    assert_int_equal(count_of(rig.errors, "\n"), cancelled);
    close_rig(&rig);
}

static void cancelling_a_batch_gives_each_line_an_error(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "cancelled");
    rig.config.cancel_job = true;
    run_well(&rig);
    assert_false(rig.complete);
    expect_all(&rig);
    assert_int_equal(count_of(rig.errors, "\"code\":\"batch_cancelled\""), LINES);
    work(&rig.fleet);
    assert_int_equal(rig.fleet.requests, 0);
    close_rig(&rig);
}

static void lines_without_an_answer_expire_at_the_deadline(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "late");
    rig.config.batch_deadline_ns = 2000000000;
    rig.fleet.first_tries = SILENCE;
    run_well(&rig);
    assert_false(rig.complete);
    expect_all(&rig);
    assert_int_equal(count_of(rig.errors, "\"code\":\"batch_expired\""), LINES);
    close_rig(&rig);
}

static void lines_with_faults_stop_the_batch_unless_they_are_skipped(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "faulty");
    FILE *file = fopen(rig.in, "r+");
    assert_non_null(file);
    fwrite("[", 1, 1, file); /* instead of the first line's { */
    fclose(file);
    assert_int_equal(run(&rig), MR_INVALID_REQUEST);
    assert_non_null(strstr(rig.err.detail, "1 of 40 requests have faults"));
    rig.config.skip_invalid = true;
    run_well(&rig);
    assert_false(rig.complete);
    assert_int_equal(count_of(rig.out, "\n"), LINES - 1);
    assert_int_equal(count_of(rig.errors, "\"status_code\":400"), 1);
    assert_int_equal(rig.fleet.requests, LINES - 1);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_gets_an_answer_and_a_second_run_sends_nothing),
        cmocka_unit_test(a_run_that_dies_is_continued_without_sending_twice),
        cmocka_unit_test(a_lost_state_file_costs_time_only),
        cmocka_unit_test(retryable_errors_are_retried_under_new_ids),
        cmocka_unit_test(errors_go_to_their_file_and_can_be_sent_again),
        cmocka_unit_test(a_first_interrupt_waits_for_answers_and_a_second_cancels),
        cmocka_unit_test(cancelling_a_batch_gives_each_line_an_error),
        cmocka_unit_test(lines_without_an_answer_expire_at_the_deadline),
        cmocka_unit_test(lines_with_faults_stop_the_batch_unless_they_are_skipped),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
