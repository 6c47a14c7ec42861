#include "worker/bench/bench_engine.h"

#include "tests/unit/worker/bench/no_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_missing_model_ends_the_bench(void **state)
{
    (void)state;
    struct mr_error err;
    assert_int_equal(mr_bench_engine(&no_model, stdout, &err), MR_BAD_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_missing_model_ends_the_bench)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
