/* Linked into every unit test in place of codec/check.c: a failed MR_ASSERT becomes cmocka's, so
 * that expect_assert_failure() sees it. */
#include "codec/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

void mr_check_failed(const char *expression, const char *file, int line)
{
    mock_assert(0, expression, file, line);
    abort();
}
