#include "ops/model/torch_module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void a_second_call_returns_the_same_backend(void **state)
{
    (void)state;
    const struct mr_backend *first, *second;
    struct mr_error err;
    assert_int_equal(mr_torch_module_backend(&first, &err), MR_OK);
    assert_int_equal(mr_torch_module_backend(&second, &err), MR_OK);
    assert_string_equal(first->name, MR_TORCH_BACKEND_NAME);
    assert_ptr_equal(first, second);
}

/* In a copy of this program that lies alone in a folder: its exit status is 0 if the error names
 * the library. */
static int find_no_library(void)
{
    const struct mr_backend *backend;
    struct mr_error err;
    if (mr_torch_module_backend(&backend, &err) != MR_BACKEND || backend) return 1;
    if (mr_torch_module_cuda_kernels()) return 1;
    return !strstr(err.detail, "backend torch") || !strstr(err.detail, "millrace-torch.so");
}

static void a_missing_library_is_an_error_that_names_it(void **state)
{
    (void)state;
    char folder[] = "/tmp/torch_module_XXXXXX", command[256];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof(command), "cp /proc/%d/exe %s/copy && %s/copy alone", (int)getpid(),
             folder, folder);
    const int status = system(command);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "alone") == 0) return find_no_library();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_call_returns_the_same_backend),
        cmocka_unit_test(a_missing_library_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
