#include "codec/check.h"

#include <stdio.h>
#include <stdlib.h>

void mr_check_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
    abort();
}
