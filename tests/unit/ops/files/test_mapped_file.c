#include "ops/files/mapped_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/ops/scratch.h"

static void a_file_is_its_bytes(void **state)
{
    (void)state;
    struct scratch scratch;
    scratch_open(&scratch);
    const char *path = scratch_write(&scratch, "file", "tokens", 6);
    struct mr_mapped_file file;
    assert_int_equal(mr_mapped_file_open(&file, path, NULL), MR_OK);
    assert_int_equal(file.size, 6);
    assert_memory_equal(file.bytes, "tokens", 6);
    assert_int_equal(mr_mapped_file_text(&file).length, 6);
    mr_mapped_file_close(&file);
    assert_null(file.bytes);
    mr_mapped_file_close(&file);
    scratch_close(&scratch);
}

static void a_path_that_is_not_a_file_is_rejected_by_name(void **state)
{
    (void)state;
    struct scratch scratch;
    struct mr_mapped_file file;
    struct mr_error err = {0};
    scratch_open(&scratch);
    assert_int_equal(mr_mapped_file_open(&file, scratch.folder, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "regular"));
    assert_int_equal(mr_mapped_file_open(&file, "no such file", &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "no such file"));
    const char *path = scratch_write(&scratch, "empty", "", 0);
    assert_int_equal(mr_mapped_file_open(&file, path, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "empty"));
    assert_null(file.bytes);
    scratch_close(&scratch);
}

static void a_git_lfs_pointer_is_rejected_with_what_to_do(void **state)
{
    (void)state;
    static const char pointer[] = "version https://git-lfs.example/spec/v1\noid sha256:0\nsize 9\n";
    struct scratch scratch;
    struct mr_mapped_file file;
    struct mr_error err = {0};
    scratch_open(&scratch);
    const char *path = scratch_write(&scratch, "model.gguf", pointer, sizeof pointer - 1);
    assert_int_equal(mr_mapped_file_open(&file, path, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "git lfs pull"));
    assert_null(file.bytes);
    scratch_close(&scratch);
}

static void held_bytes_outlive_a_truncation_and_others_are_refused(void **state)
{
    (void)state;
    struct scratch scratch;
    struct mr_mapped_file file;
    struct mr_error err = {0};
    static unsigned char bytes[20000], out[20000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i % 251);
    scratch_open(&scratch);
    const char *path = scratch_write(&scratch, "model.gguf", bytes, sizeof bytes);
    assert_int_equal(mr_mapped_file_map(&file, path, NULL), MR_OK);
    assert_int_equal(mr_mapped_file_hold(&file, 5000, 3000, NULL), MR_OK);
    assert_memory_equal(file.bytes, bytes, sizeof bytes);
    assert_int_equal(mr_mapped_file_read(&file, 19990, 10, out, NULL), MR_OK);
    assert_memory_equal(out, bytes + 19990, 10);
    assert_int_equal(mr_mapped_file_check(&file, NULL), MR_OK);

    assert_int_equal(truncate(path, 100), 0);
    assert_memory_equal(file.bytes + 5000, bytes + 5000, 3000);
    assert_int_equal(mr_mapped_file_hold(&file, 4000, 16000, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, path));
    assert_non_null(strstr(err.detail, "became shorter"));
    assert_memory_equal(file.bytes + 5000, bytes + 5000, 3000); /* not half replaced */
    assert_int_equal(mr_mapped_file_read(&file, 90, 20, out, &err), MR_BAD_FILE);
    assert_int_equal(mr_mapped_file_read(&file, 90, 10, out, &err), MR_OK);
    assert_int_equal(mr_mapped_file_check(&file, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "changed"));
    mr_mapped_file_close(&file);
    scratch_close(&scratch);
}

static void an_opened_file_is_read_whole(void **state)
{
    (void)state;
    struct scratch scratch;
    struct mr_mapped_file file;
    scratch_open(&scratch);
    const char *path = scratch_write(&scratch, "config.json", "{\"a\": 1}", 8);
    assert_int_equal(mr_mapped_file_open(&file, path, NULL), MR_OK);
    assert_int_equal(truncate(path, 0), 0);
    assert_memory_equal(file.bytes, "{\"a\": 1}", 8);
    mr_mapped_file_close(&file);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_its_bytes),
        cmocka_unit_test(a_path_that_is_not_a_file_is_rejected_by_name),
        cmocka_unit_test(held_bytes_outlive_a_truncation_and_others_are_refused),
        cmocka_unit_test(an_opened_file_is_read_whole),
        cmocka_unit_test(a_git_lfs_pointer_is_rejected_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
