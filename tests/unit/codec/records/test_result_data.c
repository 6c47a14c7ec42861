/* The member `data` of a result, for each task and for texts with errors. */
#include "answers.h"

#include "codec/records/result_data.h"
#include "codec/wire/writer.h"

static const float first[] = {0.25f, 0.75f}, second[] = {2.0f};
static const struct mr_text labels[] = {{"bad", 3}, {"good", 4}};

static void written_is(const struct mr_result_data *data, const char *expected)
{
    struct mr_writer writer;
    unsigned char *bytes;
    size_t length;
    struct mr_error err;
    mr_writer_init(&writer, MR_ENCODING_JSON, 4096);
    mr_writer_map(&writer, 1);
    assert_true(mr_result_data_put(&writer, data));
    assert_int_equal(mr_writer_take(&writer, &bytes, &length, &err), MR_OK);
    assert_string_equal((char *)bytes, expected);
    free(bytes);
}

static void a_text_has_a_vector_or_its_own_error(void **state)
{
    (void)state;
    const struct mr_data_entry entries[] = {
        {.index = 0, .numbers = first, .count = 2},
        {.index = 1, .error = MR_PROMPT_TOO_LONG, .message = "long"}};
    struct mr_result_data data = {.entries = entries, .count = 2};
    written_is(&data, "{\"data\":[{\"index\":0,\"embedding\":[0.25,0.75]},{\"index\":1,\"error\":"
                      "{\"code\":\"prompt_too_long\",\"message\":\"long\",\"retryable\":false}}]}");
    data.base64 = true;
    data.count = 1;
    written_is(&data, "{\"data\":[{\"index\":0,\"embedding\":\"AACAPgAAQD8=\"}]}");
}

static void classes_name_the_most_probable_label(void **state)
{
    (void)state;
    const struct mr_data_entry entry = {.index = 0, .numbers = first, .count = 2};
    struct mr_result_data data = {
        .entries = &entry, .count = 1, .form = MR_DATA_CLASSES, .labels = labels, .label_count = 2};
    written_is(&data, "{\"data\":[{\"index\":0,\"label\":\"good\",\"num_classes\":2,"
                      "\"probs\":[0.25,0.75]}]}");
}

static void ranks_repeat_documents_on_request(void **state)
{
    (void)state;
    const struct mr_data_entry entry = {.index = 1, .numbers = second, .count = 1};
    const struct mr_input documents[] = {{.second = {"a", 1}}, {.second = {"b", 1}}};
    struct mr_result_data data = {.entries = &entry, .count = 1, .form = MR_DATA_RANKS};
    written_is(&data, "{\"data\":[{\"index\":1,\"relevance_score\":2}]}");
    data.documents = documents;
    written_is(&data,
               "{\"data\":[{\"index\":1,\"relevance_score\":2,\"document\":{\"text\":\"b\"}}]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_has_a_vector_or_its_own_error),
        cmocka_unit_test(classes_name_the_most_probable_label),
        cmocka_unit_test(ranks_repeat_documents_on_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
