#include "tests/unit/worker/producing.h"
#include "worker/cli/cli.h"
#include "worker/kafka/kafka_reader.h"

#include "codec/records/result.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

/* Answers one request with a result for each place in `sources`. */
struct worker {
    struct broker broker;
    struct producing producing;
    struct mr_kafka_reader *reader;
    pthread_t thread;
    struct {
        enum mr_status error;
        bool of_another; /* the source is another record */
    } results[2];
    size_t result_count;
    char request[512]; /* value of the request */
};

static void publish_result(struct worker *worker, const struct mr_kafka_record *request, size_t i)
{
    const bool failed = worker->results[i].error != MR_OK;
    const struct mr_choice choice = {.finish = failed ? MR_FINISH_REJECTED : MR_FINISH_EOS,
                                     .stop_token = MR_TOKEN_NONE};
    const struct mr_result result = {.id = request->key,
                                     .attempt = 1,
                                     .model = {"m", 1},
                                     .worker = {"w", 1},
                                     .choices = &choice,
                                     .choice_count = 1,
                                     .error = worker->results[i].error,
                                     .error_message = failed ? "no" : NULL,
                                     .source_topic = {request->topic, strlen(request->topic)},
                                     .source_partition = request->partition,
                                     .source_offset =
                                         request->offset + worker->results[i].of_another};
    struct mr_kafka_record record = {.topic = "millrace.results", .key = request->key};
    unsigned char *bytes = NULL;
    mr_result_encode(&result, MR_ENCODING_JSON, &bytes, &record.value.length, NULL);
    record.value.bytes = (const char *)bytes;
    mr_kafka_out_produce(worker->producing.out, &record, NULL, NULL);
    mr_kafka_out_flush(worker->producing.out, 10000);
    free(bytes);
}

static void *answer(void *context)
{
    struct worker *worker = context;
    struct mr_kafka_record record;
    int tries = 0;
    while (!mr_kafka_reader_take(worker->reader, 100, &record))
        if (++tries > 300) return NULL;
    snprintf(worker->request, sizeof worker->request, "%.*s", (int)record.value.length,
             record.value.bytes);
    for (size_t i = 0; i < worker->result_count; i++)
        publish_result(worker, &record, i);
    return NULL;
}

static void start(struct worker *worker)
{
    static const char *const topics[] = {"millrace.requests"};
    open_broker(&worker->broker);
    add_topic(&worker->broker, "millrace.requests", 1);
    add_topic(&worker->broker, "millrace.tokens", 1);
    add_topic(&worker->broker, "millrace.results", 1);
    open_producing(&worker->producing, &worker->broker);
    const struct mr_kafka_reader_options options = {.kafka = &worker->broker.kafka,
                                                    .topics = topics,
                                                    .topic_count = 1,
                                                    .from = MR_KAFKA_FROM_BEGINNING,
                                                    .timeout_ms = 5000};
    assert_int_equal(mr_kafka_reader_create(&worker->reader, &options, NULL), MR_OK);
    assert_int_equal(pthread_create(&worker->thread, NULL, answer, worker), 0);
}

static void finish(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    mr_kafka_reader_destroy(worker->reader);
    mr_kafka_out_destroy(worker->producing.out);
    close_broker(&worker->broker);
}

/* Runs `millrace send --brokers ... --timeout 20s` with further words, up to a NULL. */
static int send_words(const char *brokers, const char *const *more)
{
    char *none[] = {NULL};
    const char *words[16] = {"millrace", "send", "--brokers", brokers, "--timeout", "20s"};
    int count = 6;
    struct mr_config *config = NULL;
    struct mr_error err = {0};
    while (*more)
        words[count++] = *more++;
    if (mr_config_create(&config, count, (char *const *)(uintptr_t)words, none, &err) != MR_OK)
        fail_msg("%s", err.detail);
    int code = mr_cli_run(config);
    mr_config_destroy(config);
    return code;
}

static int send_to(struct worker *worker, const char *const *more)
{
    start(worker);
    int code = send_words(worker->broker.kafka.brokers, more);
    finish(worker);
    return code;
}

static void a_duplicate_of_this_request_ends_it_and_one_of_another_does_not(void **state)
{
    (void)state;
    static const char *const words[] = {"--id", "a", "hello", NULL};
    struct worker other = {.results = {{MR_DUPLICATE_ID, true}, {MR_OK, false}}, .result_count = 2};
    assert_int_equal(send_to(&other, words), MR_EXIT_DONE);
    struct worker own = {.results = {{MR_DUPLICATE_ID, false}}, .result_count = 1};
    assert_int_equal(send_to(&own, words), MR_EXIT_FAILED);
}

static void words_behind_two_dashes_are_the_prompt(void **state)
{
    (void)state;
    static const char *const words[] = {"max_tokens=3", "--", "x=5, what is 2x?", NULL};
    struct worker worker = {.results = {{MR_OK, false}}, .result_count = 1};
    assert_int_equal(send_to(&worker, words), MR_EXIT_DONE);
    assert_non_null(strstr(worker.request, "\"content\":\"x=5, what is 2x?\""));
    assert_non_null(strstr(worker.request, "\"max_tokens\":3"));
}

/* stdin is a file with this text while send runs. */
static int send_with_stdin(struct worker *worker, const char *text, const char *const *words)
{
    FILE *file = tmpfile();
    int old = dup(STDIN_FILENO);
    assert_true(file && old >= 0);
    fputs(text, file);
    rewind(file);
    dup2(fileno(file), STDIN_FILENO);
    rewind(stdin);
    int code = worker ? send_to(worker, words) : send_words("127.0.0.1:1", words);
    dup2(old, STDIN_FILENO);
    close(old);
    fclose(file);
    return code;
}

static void without_words_the_prompt_is_read_from_stdin(void **state)
{
    (void)state;
    static const char *const none[] = {NULL}, *const empty[] = {"", NULL};
    struct worker worker = {.results = {{MR_OK, false}}, .result_count = 1};
    assert_int_equal(send_with_stdin(&worker, "two\nlines\n", none), MR_EXIT_DONE);
    assert_non_null(strstr(worker.request, "\"content\":\"two\\nlines\""));
    assert_int_equal(send_with_stdin(NULL, "", none), MR_EXIT_USAGE);
    assert_int_equal(send_with_stdin(NULL, "unread", empty), MR_EXIT_USAGE);
}

static void an_id_that_no_request_can_have_is_refused(void **state)
{
    (void)state;
    static const char *const words[] = {"--id", "a\tb", "hello", NULL};
    assert_int_equal(send_words("127.0.0.1:1", words), MR_EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duplicate_of_this_request_ends_it_and_one_of_another_does_not),
        cmocka_unit_test(words_behind_two_dashes_are_the_prompt),
        cmocka_unit_test(without_words_the_prompt_is_read_from_stdin),
        cmocka_unit_test(an_id_that_no_request_can_have_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
