#include "tests/unit/worker/producing.h"
#include "worker/cli/cli.h"
#include "worker/kafka/kafka_reader.h"

#include "codec/records/result.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

struct tokens {
    uint32_t attempt, index;
    const char *text; /* of one token; NULL: none, the end of a list */
    int64_t resumed_at;
    uint32_t choice;
};

/* Answers one request with these token records, and then with these results. */
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
    const char *text;            /* of a result without an error; NULL: "" */
    const struct tokens *tokens; /* NULL: none */
    char request[512];           /* value of the request */
};

static void publish(struct worker *worker, const char *topic, struct mr_text id,
                    unsigned char *bytes, size_t length)
{
    const struct mr_kafka_record record = {
        .topic = topic, .key = id, .value = {(const char *)bytes, length}};
    mr_kafka_out_produce(worker->producing.out, &record, NULL, NULL);
    mr_kafka_out_flush(worker->producing.out, 10000);
    free(bytes);
}

static void publish_tokens(struct worker *worker, struct mr_text id, const struct tokens *tokens)
{
    static const uint32_t token_id = 7;
    const struct mr_token_record record = {.id = id,
                                           .attempt = tokens->attempt,
                                           .choice = tokens->choice,
                                           .index = tokens->index,
                                           .resumed_at = tokens->resumed_at,
                                           .token_ids = &token_id,
                                           .token_count = 1,
                                           .text = {tokens->text, strlen(tokens->text)}};
    unsigned char *bytes = NULL;
    size_t length = 0;
    mr_token_record_encode(&record, MR_ENCODING_JSON, &bytes, &length, NULL);
    publish(worker, "millrace.tokens", id, bytes, length);
}

static void publish_result(struct worker *worker, const struct mr_kafka_record *request, size_t i)
{
    const bool failed = worker->results[i].error != MR_OK;
    const char *text = failed || !worker->text ? "" : worker->text;
    const struct mr_choice choice = {.finish = failed ? MR_FINISH_REJECTED : MR_FINISH_EOS,
                                     .text = {text, strlen(text)},
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
    unsigned char *bytes = NULL;
    size_t length = 0;
    mr_result_encode(&result, MR_ENCODING_JSON, &bytes, &length, NULL);
    publish(worker, "millrace.results", request->key, bytes, length);
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
    for (const struct tokens *tokens = worker->tokens; tokens && tokens->text; tokens++)
        publish_tokens(worker, record.key, tokens);
    if (worker->tokens) usleep(300000); /* Kafka does not order the records of two topics */
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

/* The output of send on stdout. */
static void assert_printed(const struct tokens *tokens, const char *text, const char *printed)
{
    static const char *const words[] = {"--id", "a", "hello", NULL};
    struct worker worker = {
        .results = {{MR_OK, false}}, .result_count = 1, .text = text, .tokens = tokens};
    char output[256] = "";
    FILE *file = tmpfile();
    fflush(stdout);
    int old = dup(STDOUT_FILENO);
    assert_true(file && old >= 0);
    dup2(fileno(file), STDOUT_FILENO);
    int code = send_to(&worker, words);
    fflush(stdout);
    dup2(old, STDOUT_FILENO);
    close(old);
    rewind(file);
    size_t length = fread(output, 1, sizeof output - 1, file);
    fclose(file);
    assert_int_equal(code, MR_EXIT_DONE);
    assert_int_equal(length, strlen(printed));
    assert_string_equal(output, printed);
}

/* "[1]" is of the first attempt, "[2]" of the second. The result's text differs from what was
 * printed, so it follows in a line of its own. */
static void late_records_of_a_lower_attempt_are_skipped(void **state)
{
    (void)state;
    static const struct tokens tokens[] = {{1, 0, "[1]", -1, 0},
                                           {2, 0, "[2]", -1, 0},
                                           {1, 1, "late", -1, 0},
                                           {2, 1, " on", -1, 0},
                                           {1, 2, "late", -1, 0},
                                           {2, 2, " end", -1, 0},
                                           {0}};
    assert_printed(tokens, "x", "[1]\n[2] on end\nx\n");
}

static void an_attempt_that_resumes_is_printed(void **state)
{
    (void)state;
    static const struct tokens tokens[] = {
        {1, 0, "a", -1, 0}, {1, 1, "b", -1, 0}, {2, 2, "c", 2, 0}, {2, 3, "d", -1, 0}, {0}};
    assert_printed(tokens, "x", "abcd\nx\n");
}

/* Records of an earlier request under this id that was running when this one was sent, with any
 * attempt. */
static void tokens_of_another_request_are_not_printed(void **state)
{
    (void)state;
    static const struct tokens hidden[] = {
        {1, 5, "no", -1, 0}, {1, 6, "no", -1, 0}, {2, 7, "no", 7, 0}, {2, 8, "no", -1, 0}, {0}};
    assert_printed(hidden, "x", "x\n");
    static const struct tokens then_own[] = {
        {2, 5, "no", -1, 0}, {2, 6, "no", -1, 0}, {1, 0, "a", -1, 0}, {1, 1, "b", -1, 0}, {0}};
    assert_printed(then_own, "x", "ab\nx\n");
    static const struct tokens same_attempt[] = {
        {1, 5, "no", -1, 0}, {1, 0, "a", -1, 0}, {1, 1, "b", -1, 0}, {0}};
    assert_printed(same_attempt, "x", "ab\nx\n");
}

static void a_choice_of_another_request_that_begins_late_is_not_printed(void **state)
{
    (void)state;
    static const struct tokens tokens[] = {{1, 5, "no", -1, 0}, {1, 0, "no", -1, 1},
                                           {1, 6, "no", -1, 0}, {1, 0, "a", -1, 0},
                                           {1, 1, "b", -1, 0},  {0}};
    assert_printed(tokens, "x", "ab\nx\n");
}

/* Its worker crashed. */
static void another_request_that_is_run_again_is_not_printed(void **state)
{
    (void)state;
    static const struct tokens tokens[] = {{1, 5, "no", -1, 0}, {2, 0, "no", -1, 0},
                                           {2, 1, "no", -1, 0}, {1, 0, "a", -1, 0},
                                           {1, 1, "b", -1, 0},  {0}};
    assert_printed(tokens, "x", "ab\nx\n");
}

/* The first token of another request is read before this request's own attempt begins. */
static void a_lower_attempt_is_printed_after_the_first_token_of_another_request(void **state)
{
    (void)state;
    static const struct tokens tokens[] = {{2, 0, "no", -1, 0}, {2, 1, "no", -1, 0},
                                           {1, 0, "a", -1, 0},  {2, 2, "no", -1, 0},
                                           {1, 1, "b", -1, 0},  {0}};
    assert_printed(tokens, "ab", "nono\nab\n");
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

static void silence_is_noted_after_3_seconds(void **state)
{
    (void)state;
    static const char *const words[] = {"--id", "a", "--timeout", "4s", "hello", NULL};
    struct worker worker = {.result_count = 0}; /* reads the request and writes nothing */
    char output[512] = "";
    FILE *file = tmpfile();
    fflush(stderr);
    int old = dup(STDERR_FILENO);
    assert_true(file && old >= 0);
    dup2(fileno(file), STDERR_FILENO);
    int code = send_to(&worker, words);
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(file);
    assert_true(fread(output, 1, sizeof output - 1, file) > 0);
    fclose(file);
    assert_int_equal(code, MR_EXIT_FAILED);
    const char *silent = strstr(output, "no worker has answered yet; the request waits in "
                                        "millrace.requests\n");
    assert_non_null(silent);
    assert_non_null(strstr(silent, "no answer within --timeout"));
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
        cmocka_unit_test(late_records_of_a_lower_attempt_are_skipped),
        cmocka_unit_test(an_attempt_that_resumes_is_printed),
        cmocka_unit_test(tokens_of_another_request_are_not_printed),
        cmocka_unit_test(a_choice_of_another_request_that_begins_late_is_not_printed),
        cmocka_unit_test(another_request_that_is_run_again_is_not_printed),
        cmocka_unit_test(a_lower_attempt_is_printed_after_the_first_token_of_another_request),
        cmocka_unit_test(words_behind_two_dashes_are_the_prompt),
        cmocka_unit_test(without_words_the_prompt_is_read_from_stdin),
        cmocka_unit_test(silence_is_noted_after_3_seconds),
        cmocka_unit_test(an_id_that_no_request_can_have_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
