/* One line of a batch's input. */
#include "files.h"

#include "worker/batch/item.h"

static const struct mr_batch_item_rules rules = {
    .priority = "low", .timeout_ms = 5000, .record_bytes_max = 1000, .now_ms = 1700000000000};

static void expect_record(const char *line, const char *custom_id, const char *expected)
{
    struct mr_batch_item item;
    struct mr_error err = {0};
    char *record;
    size_t length, warnings;
    if (mr_batch_item_open(&item, (struct mr_text){line, strlen(line)}, 17, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_true(mr_text_is(item.custom_id, custom_id));
    assert_int_equal(mr_batch_item_check(&item, &rules, &warnings, &err), MR_OK);
    assert_int_equal(warnings, 0);
    assert_int_equal(
        mr_batch_item_record(&item, &rules, (struct mr_text){"r", 1}, &record, &length, NULL),
        MR_OK);
    assert_string_equal(record, expected);
    free(record);
    mr_batch_item_close(&item);
}

static void a_line_becomes_a_record_of_low_priority_with_a_deadline(void **state)
{
    (void)state;
    expect_record("{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{"
                  "\"prompt\":\"a\"}}",
                  "c",
                  "{\"prompt\":\"a\",\"id\":\"r\",\"stream\":false,\"priority\":\"low\","
                  "\"timeout_ms\":5000}");
    expect_record("{\"prompt\":\"a\",\"priority\":\"high\",\"timeout_ms\":7}", "line-17",
                  "{\"prompt\":\"a\",\"priority\":\"high\",\"timeout_ms\":7,\"id\":\"r\","
                  "\"stream\":false}");
}

static void fields_without_effect_are_counted(void **state)
{
    (void)state;
    static const char line[] = "{\"prompt\":\"a\",\"user\":\"u\",\"max_tokns\":3}";
    struct mr_batch_item item;
    size_t warnings;
    assert_int_equal(mr_batch_item_open(&item, (struct mr_text){line, sizeof line - 1}, 1, NULL),
                     MR_OK);
    assert_int_equal(mr_batch_item_check(&item, &rules, &warnings, NULL), MR_OK);
    assert_int_equal(warnings, 2);
    mr_batch_item_close(&item);
}

static void a_broken_line_keeps_its_custom_id_for_the_error_file(void **state)
{
    (void)state;
    static const char line[] = "{\"custom_id\":\"c\",\"url\":\"/v1/x\",\"body\":{}}";
    struct mr_batch_item item;
    assert_int_equal(mr_batch_item_open(&item, (struct mr_text){line, sizeof line - 1}, 1, NULL),
                     MR_UNSUPPORTED);
    assert_true(mr_text_is(item.custom_id, "c"));
    mr_batch_item_close(&item);
    assert_int_equal(mr_batch_item_open(&item, (struct mr_text){"{\"a\0\":1}", 8}, 1, NULL),
                     MR_MALFORMED);
    assert_int_equal(item.custom_id.length, 0);
    mr_batch_item_close(&item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_becomes_a_record_of_low_priority_with_a_deadline),
        cmocka_unit_test(fields_without_effect_are_counted),
        cmocka_unit_test(a_broken_line_keeps_its_custom_id_for_the_error_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
