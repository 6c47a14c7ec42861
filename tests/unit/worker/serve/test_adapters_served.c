/* A worker with adapters answers requests of the base and of an adapter in one batch, under their
 * names. */
#include "tests/unit/worker/producing.h"
#include "tests/unit/worker/serving.h"
#include "worker/kafka/kafka_reader.h"
#include "worker/serve/drain.h"
#include "worker/serve/worker.h"

#define BASE    "tests/golden/models/llama3_rope_sharded"
#define ADAPTER "tuned=tests/golden/adapters/llama3_rope_sharded/a00"
#define REQUEST(id, model)                                                                         \
    "{\"id\":\"" id "\",\"prompt\":\"Hello\",\"max_tokens\":12,\"temperature\":0,"                 \
    "\"ignore_eos\":true,\"stream\":false" model "}"

static bool has(const struct mr_kafka_record *record, const char *text)
{
    return memmem(record->value.bytes, record->value.length, text, strlen(text)) != NULL;
}

/* Copies the text of the answer. */
static void text_of_answer(const struct mr_kafka_record *record, char out[512])
{
    static const char key[] = "\"text\":\"";
    const char *found = memmem(record->value.bytes, record->value.length, key, sizeof key - 1);
    assert_non_null(found);
    const char *text = found + sizeof key - 1, *end = record->value.bytes + record->value.length;
    size_t length = 0;
    while (text + length < end && text[length] != '"' && length < 511)
        length += text[length] == '\\' ? 2 : 1;
    snprintf(out, 512, "%.*s", (int)length, text);
}

static void requests_choose_an_adapter_by_their_model(void **state)
{
    (void)state;
    static const char *const topic = "millrace.results";
    static const char *const more[] = {"--adapter", ADAPTER, "--model-name", "base", "--dtype",
                                       "fp32",      NULL};
    static const char *const names[] = {"base", "tuned", "tuned", "base"};
    struct serving serving;
    struct producing producing;
    struct mr_worker *worker = NULL;
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_record record;
    struct mr_error err = {0};
    enum mr_exit exit_code;
    char texts[4][512] = {""};
    open_serving(&serving, BASE, more);
    const struct mr_worker_options worker_options = {
        .config = serving.config, .join_group = false, .log = serving.log};
    if (mr_worker_create(&worker, &worker_options, &exit_code, &err) != MR_OK)
        fail_msg("%s", err.detail);
    const struct mr_kafka_reader_options options = {.kafka = &serving.broker.kafka,
                                                    .topics = &topic,
                                                    .topic_count = 1,
                                                    .from = MR_KAFKA_FROM_BEGINNING,
                                                    .timeout_ms = 5000};
    assert_int_equal(mr_kafka_reader_create(&reader, &options, NULL), MR_OK);
    open_producing(&producing, &serving.broker);
    produce(&producing, "millrace.requests", 0, "k", REQUEST("0", ""));
    produce(&producing, "millrace.requests", 0, "k", REQUEST("1", ",\"model\":\"tuned\""));
    produce(&producing, "millrace.requests", 0, "k", REQUEST("2", ",\"model\":\"tuned\""));
    produce(&producing, "millrace.requests", 0, "k", REQUEST("3", ",\"model\":\"base\""));
    produce(&producing, "millrace.requests", 0, "k", REQUEST("4", ",\"model\":\"other\""));
    for (uint32_t answers = 0; answers < 5; answers++) {
        while (!mr_kafka_reader_take(reader, 1000, &record))
            assert_int_equal(mr_worker_health(worker, NULL), MR_OK);
        const uint32_t id = (uint32_t)(record.key.bytes[0] - '0');
        assert_true(id < 5);
        assert_true(has(&record, id == 4 ? "model_not_found" : names[id]));
        if (id < 4) text_of_answer(&record, texts[id]);
    }
    assert_string_equal(texts[0], texts[3]);
    assert_string_equal(texts[1], texts[2]);
    assert_string_not_equal(texts[0], texts[1]);
    assert_int_equal(mr_worker_drain(worker, 20000000000u, NULL, NULL, NULL), MR_EXIT_DONE);
    mr_kafka_reader_destroy(reader);
    mr_kafka_out_destroy(producing.out);
    close_serving(&serving);
}

static void a_bad_adapter_ends_the_start(void **state)
{
    (void)state;
    static const char *const more[] = {"--adapter", "a=no/such/folder", NULL};
    struct serving serving;
    struct mr_worker *worker = NULL;
    struct mr_error err = {0};
    enum mr_exit exit_code;
    open_serving(&serving, BASE, more);
    const struct mr_worker_options options = {
        .config = serving.config, .join_group = false, .log = serving.log};
    assert_int_equal(mr_worker_create(&worker, &options, &exit_code, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "no/such/folder"));
    close_serving(&serving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_choose_an_adapter_by_their_model),
        cmocka_unit_test(a_bad_adapter_ends_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
