/* Lines of the output in OpenAI's Batch format. */
#include "files.h"

#include "worker/batch/output_files.h"
#include "worker/batch/output_line.h"

#define JOB "0123456789abcdef"

static enum mr_status open_output(struct mr_batch_output *output, const char *name,
                                  struct mr_error *err)
{
    char path[PATH_BYTES];
    return mr_batch_output_open(output, path_of(name, path), "", -1, err);
}

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static void lines_have_openais_format(void **state)
{
    (void)state;
    const struct mr_batch_output_head head = {
        .job_name = JOB, .line = 3, .custom_id = {"c-\"3", 4}, .request_id = {"r", 1}};
    const struct mr_batch_output_head bare = {.job_name = JOB, .line = 4};
    struct mr_openai_error error;
    struct mr_buffer out;
    struct mr_bits done;
    struct mr_batch_output output;
    char path[PATH_BYTES];
    mr_buffer_init(&out, 1 << 16);
    mr_openai_error_of(&error, text_of("internal"), text_of("U+2028 is \xe2\x80\xa8"),
                       (struct mr_value){0});
    assert_int_equal(mr_batch_output_line_failure(&out, &head, &error, NULL), MR_OK);
    static const char failure[] =
        "{\"id\":\"batch_req_" JOB
        "-3\",\"custom_id\":\"c-\\\"3\",\"response\":{\"status_code\":500,"
        "\"request_id\":\"r\",\"body\":{\"error\":{\"message\":\"U+2028 is \\u2028\",\"type\":"
        "\"server_error\",\"param\":null,\"code\":\"internal\"}}},\"error\":null}\n";
    assert_int_equal(out.length, sizeof failure - 1);
    assert_memory_equal(out.bytes, failure, out.length);
    assert_int_equal(open_output(&output, "lines", NULL), MR_OK);
    assert_int_equal(mr_batch_output_append(&output, false, mr_buffer_text(&out), NULL), MR_OK);
    assert_int_equal(mr_batch_output_line_unanswered(&out, &bare, "batch_expired", "Late.", NULL),
                     MR_OK);
    assert_int_equal(mr_batch_output_append(&output, false, mr_buffer_text(&out), NULL), MR_OK);
    mr_batch_output_close(&output);
    char *content = read_file(path_of("lines", path));
    assert_non_null(strstr(content,
                           "{\"id\":\"batch_req_" JOB "-4\",\"custom_id\":null,\"response\":"
                           "null,\"error\":{\"code\":\"batch_expired\",\"message\":"
                           "\"Late.\"}}\n"));
    free(content);
    /* what is written is what is recalled */
    assert_true(mr_bits_create(&done, 4));
    assert_int_equal(open_output(&output, "lines", NULL), MR_OK);
    assert_int_equal(mr_batch_output_recall(&output, JOB, &done, NULL), MR_OK);
    assert_true(mr_bits_get(&done, 3) && mr_bits_get(&done, 4));
    mr_batch_output_close(&output);
    mr_bits_destroy(&done);
    mr_buffer_drop(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_openais_format),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
