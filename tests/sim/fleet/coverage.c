#include "tests/sim/fleet/coverage.h"

const char *coverage_text(enum coverage_kind kind)
{
    static const char *const texts[COVERAGE_COUNT] = {
#define X(name, text) text,
        COVERAGE_LIST(X)
#undef X
    };
    return texts[kind];
}
