/* The identity and the state file of a batch. */
#include "files.h"

#include "worker/batch/job.h"

#define JOB "0123456789abcdef"

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static void ids_follow_from_content_and_line(void **state)
{
    (void)state;
    const unsigned char digest[MR_SHA256_BYTES] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    static const char *const others[] = {"batch-" JOB "-12",
                                         "batch-" JOB "-12-",
                                         "batch-" JOB "--1",
                                         "batch-0000000000000000-12-1",
                                         "batch-" JOB "-12-1x",
                                         "batch-" JOB "-12-4294967296",
                                         "",
                                         "batch-"};
    char path[PATH_BYTES], id[MR_BATCH_JOB_ID_BYTES];
    struct mr_batch_job job;
    uint64_t line;
    uint32_t try;
    assert_int_equal(mr_batch_job_open(&job, digest, path_of("j", path), NULL), MR_OK);
    assert_string_equal(job.name, JOB);
    assert_false(job.is_known);
    const size_t length = mr_batch_job_request_id(&job, 12, 1, id);
    assert_string_equal(id, "batch-" JOB "-12-1");
    assert_true(mr_batch_job_read_id(&job, (struct mr_text){id, length}, &line, &try));
    assert_int_equal(line, 12);
    assert_int_equal(try, 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(mr_batch_job_read_id(&job, text_of(others[i]), &line, &try));
    mr_batch_job_close(&job);
}

static void the_state_survives_and_is_of_one_input(void **state)
{
    (void)state;
    unsigned char digest[MR_SHA256_BYTES] = {1};
    char path[PATH_BYTES], file[PATH_BYTES];
    struct mr_batch_job job, again;
    struct mr_error err;
    assert_int_equal(mr_batch_job_open(&job, digest, path_of("s", path), NULL), MR_OK);
    snprintf(job.topic, sizeof job.topic, "t");
    job.begun_ms = 1700000000000;
    job.first_try = 8;
    assert_true(mr_batch_job_offsets_resize(&job.requests, 2, 5));
    assert_true(mr_batch_job_offsets_resize(&job.results, 3, 7));
    job.results.next[1] = 9;
    assert_int_equal(mr_batch_job_save(&job, NULL), MR_OK);
    assert_int_equal(mr_batch_job_save(&job, NULL), MR_OK);
    assert_int_equal(mr_batch_job_open(&again, digest, path, NULL), MR_OK);
    assert_true(again.is_known);
    assert_string_equal(again.topic, "t");
    assert_int_equal(again.begun_ms, 1700000000000);
    assert_int_equal(again.first_try, 8);
    assert_int_equal(again.requests.count, 2);
    assert_int_equal(again.requests.next[1], 5);
    assert_int_equal(again.results.count, 3);
    assert_int_equal(again.results.next[1], 9);
    mr_batch_job_close(&again);
    digest[0] = 2;
    assert_int_equal(mr_batch_job_open(&again, digest, path, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "is of another input"));
    write_file(path_of("s.state", file), "{\"version\":", 11);
    assert_int_equal(mr_batch_job_open(&again, digest, path, &err), MR_BAD_FILE);
    mr_batch_job_remove(&job);
    assert_int_equal(access(file, F_OK), -1);
    mr_batch_job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_follow_from_content_and_line),
        cmocka_unit_test(the_state_survives_and_is_of_one_input),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
