/* The output and the error file of a batch. */
#include "files.h"

#include "worker/batch/output_files.h"

#include <fcntl.h>

#define JOB          "0123456789abcdef"
#define LINE(number) "{\"id\":\"batch_req_" JOB "-" number "\",\"custom_id\":\"c\"}\n"

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

static void lines_of_earlier_runs_are_found_and_a_torn_one_is_cut(void **state)
{
    (void)state;
    char path[PATH_BYTES], errors[PATH_BYTES];
    struct mr_batch_output output;
    struct mr_bits done;
    write_file(path_of("out", path), LINE("2") LINE("70") "{\"id\":\"batch_req_" JOB "-5",
               2 * strlen(LINE("2")) + 1 + 36);
    write_file(path_of("out.errors", errors), LINE("7"), strlen(LINE("7")));
    assert_true(mr_bits_create(&done, 100));
    assert_int_equal(open_output(&output, "out", NULL), MR_OK);
    assert_int_equal(mr_batch_output_recall(&output, JOB, &done, NULL), MR_OK);
    assert_true(mr_bits_get(&done, 2) && mr_bits_get(&done, 70) && mr_bits_get(&done, 7));
    assert_int_equal(done.set_count, 3);
    assert_int_equal(output.answers.lines, 2);
    assert_int_equal(output.errors.lines, 1);
    assert_int_equal(mr_batch_output_append(&output, false, text_of(LINE("5")), NULL), MR_OK);
    assert_int_equal(mr_batch_output_sync(&output, NULL), MR_OK);
    mr_batch_output_close(&output);
    mr_bits_destroy(&done);
    char *content = read_file(path);
    assert_string_equal(content, LINE("2") LINE("70") LINE("5"));
    free(content);
}

static void lines_of_another_input_are_refused(void **state)
{
    (void)state;
    static const char *const others[] = {"{\"id\":\"batch_req_fedcba9876543210-2\"}\n",
                                         "{\"id\":\"batch_req_" JOB "-101\"}\n",
                                         "{\"id\":\"batch_req_" JOB "-0\"}\n",
                                         "hello\n",
                                         "\n",
                                         LINE("2") LINE("2")};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[PATH_BYTES];
        struct mr_batch_output output;
        struct mr_bits done;
        struct mr_error err;
        write_file(path_of("other", path), others[i], strlen(others[i]));
        assert_true(mr_bits_create(&done, 100));
        assert_int_equal(open_output(&output, "other", NULL), MR_OK);
        assert_int_equal(mr_batch_output_recall(&output, JOB, &done, &err), MR_BAD_FILE);
        mr_batch_output_close(&output);
        mr_bits_destroy(&done);
        char *content = read_file(path);
        assert_string_equal(content, others[i]); /* nothing is cut off */
        free(content);
    }
}

static void a_long_line_is_found_by_its_beginning(void **state)
{
    (void)state;
    char path[PATH_BYTES], *text = malloc(3 << 20);
    struct mr_batch_output output;
    struct mr_bits done;
    assert_non_null(text);
    static const char first[] = LINE("1"), third[] = "\n" LINE("3");
    const size_t length = strlen(first) - 1, filled = length + (2 << 20) + 77;
    memcpy(text, first, length);
    memset(text + length, 'x', filled - length);
    memcpy(text + filled, third, sizeof third);
    write_file(path_of("big", path), text, strlen(text));
    assert_true(mr_bits_create(&done, 3));
    assert_int_equal(open_output(&output, "big", NULL), MR_OK);
    assert_int_equal(mr_batch_output_recall(&output, JOB, &done, NULL), MR_OK);
    assert_true(mr_bits_get(&done, 1) && mr_bits_get(&done, 3));
    mr_batch_output_close(&output);
    mr_bits_destroy(&done);
    free(text);
}

static void a_second_run_and_the_input_itself_are_refused(void **state)
{
    (void)state;
    char path[PATH_BYTES], link[PATH_BYTES];
    struct mr_batch_output first, second;
    struct mr_error err;
    assert_int_equal(open_output(&first, "locked", NULL), MR_OK);
    assert_int_equal(open_output(&second, "locked", &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "another millrace batch is writing to it"));
    mr_batch_output_close(&first);
    assert_int_equal(open_output(&second, "locked", &err), MR_OK);
    mr_batch_output_close(&second);
    write_file(path_of("in", path), "{}\n", 3);
    assert_int_equal(symlink(path, path_of("link", link)), 0);
    const int input = open(path, O_RDONLY);
    assert_int_equal(mr_batch_output_open(&first, link, "", input, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "is the input too"));
    char out[PATH_BYTES];
    assert_int_equal(mr_batch_output_open(&first, path_of("x", out), link, input, &err),
                     MR_BAD_FILE);
    assert_int_equal(mr_batch_output_open(&first, path_of("x", out), out, input, &err),
                     MR_BAD_FILE);
    assert_int_equal(mr_batch_output_open(&first, path_of("x.gz", out), "", input, &err),
                     MR_BAD_FILE);
    assert_int_equal(mr_batch_output_open(&first, folder, "", input, &err), MR_BAD_FILE);
    close(input);
    char *content = read_file(path);
    assert_string_equal(content, "{}\n");
    free(content);
}

static void errors_have_a_file_of_their_own_from_the_first_one_on(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct mr_batch_output output;
    assert_int_equal(open_output(&output, "e", NULL), MR_OK);
    assert_int_equal(access(path_of("e.errors", path), F_OK), -1);
    assert_int_equal(mr_batch_output_append(&output, true, text_of("x\n"), NULL), MR_OK);
    char *content = read_file(path);
    assert_string_equal(content, "x\n");
    free(content);
    assert_int_equal(mr_batch_output_drop_errors(&output, NULL), MR_OK);
    assert_int_equal(mr_batch_output_append(&output, true, text_of("y\n"), NULL), MR_OK);
    mr_batch_output_close(&output);
    content = read_file(path);
    assert_string_equal(content, "y\n");
    free(content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_earlier_runs_are_found_and_a_torn_one_is_cut),
        cmocka_unit_test(lines_of_another_input_are_refused),
        cmocka_unit_test(a_long_line_is_found_by_its_beginning),
        cmocka_unit_test(a_second_run_and_the_input_itself_are_refused),
        cmocka_unit_test(errors_have_a_file_of_their_own_from_the_first_one_on),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
