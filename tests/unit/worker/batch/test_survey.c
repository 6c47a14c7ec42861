/* All lines of a batch are checked before one is sent. */
#include "files.h"

#include "worker/batch/survey.h"

#include <inttypes.h>

#define CALL(id, body)                                                                             \
    "{\"custom_id\":\"" id                                                                         \
    "\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":" body "}\n"
#define HI "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"

static const struct mr_batch_item_rules rules = {
    .priority = "low", .timeout_ms = 1000, .record_bytes_max = 2000, .now_ms = 1700000000000};

static void note(void *context, uint64_t line, const struct mr_error *fault)
{
    char *out = context;
    const size_t length = strlen(out);
    snprintf(out + length, 8192 - length, "%" PRIu64 ": %s\n", line, fault->detail);
}

static struct mr_survey run(const char *text, char faults[8192])
{
    char path[PATH_BYTES];
    struct mr_unpacked *file;
    struct mr_survey survey;
    struct mr_error err = {0};
    faults[0] = '\0';
    write_file(path_of("in.jsonl", path), text, strlen(text));
    assert_int_equal(mr_unpacked_open(&file, path, NULL), MR_OK);
    const struct mr_survey_options options = {
        .file = file, .line_bytes = 4000, .rules = &rules, .fault = note, .context = faults};
    if (mr_survey_run(&survey, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    mr_unpacked_close(file);
    return survey;
}

static void valid_lines_have_no_faults(void **state)
{
    (void)state;
    char faults[8192];
    struct mr_survey survey = run(
        CALL("a", HI) "\n" CALL("b", HI) HI
        "\n{\"prompt\":\"a\",\"min_tokens\":500,\"deadline_ms\":"
        "1700000001000}\n"
        "{\"custom_id\":\"c\",\"url\":\"/v1/"
        "embeddings\",\"body\":{\"input\":\"a\",\"model\":\"m\"}}\n"
        "{\"custom_id\":\"d\",\"url\":\"/v1/responses\",\"body\":{\"input\":\"a\",\"store\":true}}",
        faults);
    assert_string_equal(faults, "");
    assert_int_equal(survey.call_count, 6);
    assert_int_equal(survey.line_count, 7);
    assert_int_equal(survey.invalid.set_count, 0);
    mr_survey_destroy(&survey);
}

static void every_fault_is_named_with_its_line(void **state)
{
    (void)state;
    char faults[8192];
    struct mr_survey survey = run(
        "{\n"                                                         /* 1 */
        "[]\n"                                                        /* 2 */
        "{\"custom_id\":7,\"url\":\"/v1/completions\",\"body\":{}}\n" /* 3 */
        "{\"custom_id\":\"a\",\"url\":\"/v1/images\",\"body\":{}}\n"  /* 4 */
        "{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/v1/completions\",\"body\":{}}\n"
        "{\"custom_id\":\"b\",\"url\":\"/v1/completions\",\"body\":[]}\n" CALL(
            "c", "{\"messages\":[],\"stream\":true}") /* 7 */
        CALL("d",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"top_p\":7}") "{\"custom_id\":"
                                                                                   "\"e\xff\","
                                                                                   "\"url\":\"/v1/"
                                                                                   "completions\","
                                                                                   "\"body\":{}}\n"
                                                                                   "{\"input\":"
                                                                                   "\"a\"}\n" /* 10
                                                                                               */
        CALL("d", HI) /* 11: as line 8 */
        CALL("f", HI),
        faults);
    static const char *const expected[] = {"1: JSON ",
                                           "2: JSON record that is not an object",
                                           "3: custom_id is missing or not a text",
                                           "4: url must be ",
                                           "5: method must be POST",
                                           "6: body must be an object",
                                           "7: stream must be false",
                                           "8: top_p must be ",
                                           "9: the line is not UTF-8",
                                           "10: the line has no body",
                                           "11: custom_id is also that of line 8"};
    const char *at = faults;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        if (strncmp(at, expected[i], strlen(expected[i])) != 0) fail_msg("%s: %s", expected[i], at);
        assert_true(mr_bits_get(&survey.invalid, i + 1));
        at = strchr(at, '\n') + 1;
    }
    /* lines 4 and 5 have one custom_id too, which is reported once for each line */
    assert_string_equal(at, "");
    assert_int_equal(survey.invalid.set_count, 11);
    assert_false(mr_bits_get(&survey.invalid, 12));
    mr_survey_destroy(&survey);
}

static void a_line_that_the_topic_does_not_take_is_a_fault_with_the_limit(void **state)
{
    (void)state;
    char faults[8192], text[9000], one[2501] = "", two[5001] = "";
    memset(one, 'a', sizeof one - 1);
    memset(two, 'b', sizeof two - 1);
    snprintf(text, sizeof text, "{\"prompt\":\"%s\"}\n{\"prompt\":\"%s\"}\n", one, two);
    struct mr_survey survey = run(text, faults);
    assert_non_null(strstr(faults, "1: record is 26"));
    assert_non_null(strstr(faults, "at most 2000 are allowed"));
    assert_non_null(strstr(faults, "2: the line is longer than 4000 bytes"));
    mr_survey_destroy(&survey);
}

static void a_fault_is_found_again_for_the_error_file(void **state)
{
    (void)state;
    char faults[8192];
    struct mr_survey survey = run(CALL("a", HI) CALL("a", HI) CALL("b", "{}"), faults);
    struct mr_batch_item item;
    struct mr_error err = {0};
    size_t warnings;
    const struct mr_line line = {.number = 2, .text = {CALL("a", HI), strlen(CALL("a", HI))}};
    assert_int_equal(mr_survey_fault_of(&survey, &line, &rules, &item, &warnings, &err),
                     MR_INVALID_REQUEST);
    assert_string_equal(err.detail, "custom_id is also that of line 1");
    assert_true(mr_text_is(item.custom_id, "a"));
    mr_batch_item_close(&item);
    mr_survey_destroy(&survey);
}

static void the_digest_is_of_the_content(void **state)
{
    (void)state;
    char faults[8192];
    struct mr_survey first = run(HI "\n", faults), second = run(HI "\n", faults),
                     third = run(HI, faults);
    assert_memory_equal(first.digest, second.digest, sizeof first.digest);
    assert_memory_not_equal(first.digest, third.digest, sizeof first.digest);
    mr_survey_destroy(&first);
    mr_survey_destroy(&second);
    mr_survey_destroy(&third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_lines_have_no_faults),
        cmocka_unit_test(every_fault_is_named_with_its_line),
        cmocka_unit_test(a_line_that_the_topic_does_not_take_is_a_fault_with_the_limit),
        cmocka_unit_test(a_fault_is_found_again_for_the_error_file),
        cmocka_unit_test(the_digest_is_of_the_content),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
