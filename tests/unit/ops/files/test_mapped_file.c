#include "ops/files/mapped_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_its_bytes),
        cmocka_unit_test(a_path_that_is_not_a_file_is_rejected_by_name),
        cmocka_unit_test(a_git_lfs_pointer_is_rejected_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
