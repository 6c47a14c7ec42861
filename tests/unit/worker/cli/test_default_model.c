#include "worker/cli/default_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Works in an empty folder. The test program's own folder may be next to a .deps with the model, so
 * the test puts models only into the working directory, which is searched first. */
static int enter_empty_folder(void **state)
{
    static char folder[PATH_MAX];
    strncpy(folder, "/tmp/default_model_XXXXXX", sizeof folder - 1);
    if (!mkdtemp(folder) || chdir(folder) != 0) return -1;
    *state = folder;
    return 0;
}

static int leave_folder(void **state)
{
    unlink(".deps/model/" MR_DEFAULT_MODEL ".gguf");
    rmdir(".deps/model");
    rmdir(".deps");
    return chdir("/") != 0 || rmdir(*state) != 0 ? -1 : 0;
}

static void put_model_here(void)
{
    assert_int_equal(mkdir(".deps", 0700), 0);
    assert_int_equal(mkdir(".deps/model", 0700), 0);
    FILE *file = fopen(".deps/model/" MR_DEFAULT_MODEL ".gguf", "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void the_working_directory_is_searched_first(void **state)
{
    (void)state;
    char path[PATH_MAX];
    put_model_here();
    assert_int_equal(mr_default_model_find(path, sizeof path, NULL), MR_OK);
    assert_string_equal(path, ".deps/model/" MR_DEFAULT_MODEL ".gguf");
}

static void the_model_found_is_readable(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct mr_error err = {0};
    if (mr_default_model_find(path, sizeof path, &err) == MR_OK) {
        assert_int_not_equal(path[0], '.'); /* found next to the program */
        assert_int_equal(access(path, R_OK), 0);
    } else {
        assert_int_equal(err.status, MR_BAD_CONFIG);
        assert_non_null(strstr(err.detail, "--model"));
    }
}

static void a_path_that_does_not_fit_is_not_found(void **state)
{
    (void)state;
    char path[16];
    struct mr_error err = {0};
    put_model_here();
    assert_int_equal(mr_default_model_find(path, sizeof path, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "--model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_working_directory_is_searched_first, enter_empty_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(the_model_found_is_readable, enter_empty_folder,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(a_path_that_does_not_fit_is_not_found, enter_empty_folder,
                                        leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
