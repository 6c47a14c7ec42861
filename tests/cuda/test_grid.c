/* Tests the harness itself: host/grid.h detects each fault that it lists. */
#include "host/grid.h"

#include <stdio.h>
#include <string.h>

const char *faulty_run(unsigned number, unsigned *out);

/* The error of the launch of each kernel of faulty_kernels.cu; NULL: it succeeds. */
static const char *const expected[] = {
    NULL,
    "threads wait at different barriers",
    "a thread ends while others wait at a barrier",
    "a lane waits for lanes that never come",
    "a lane is read that takes no part",
    "the lanes of the mask are in different operations",
    "too much dynamic shared memory",
    NULL,
    "a thread ends with copies that it has not waited for",
    NULL,
};
#define COUNT     (sizeof expected / sizeof *expected)
#define BLOCKS    6u
#define MISSING   7u
#define EARLY     9u
#define THREADS   (BLOCKS * 64u)
#define BLOCK_SUM (64u * 63u / 2u + 1u)

int main(void)
{
    unsigned failed = 0;
    for (unsigned order = 0; order < GRID_ORDERS; order++)
        for (unsigned i = 0; i < COUNT; i++) {
            unsigned out = 0;
            grid_set_order((enum grid_order)order, i + 1);
            const char *said = faulty_run(i, &out);
            const bool as_expected = expected[i] ? said && strstr(said, expected[i]) : !said;
            const bool right = i == 0         ? out == BLOCKS * BLOCK_SUM
                               : i == MISSING ? out > 0
                               : i == EARLY   ? out == THREADS
                                              : true;
            if (as_expected && right) continue;
            failed++;
            fprintf(stderr, "kernel %u, order %u: \"%s\", result %u\n", i, order,
                    said ? said : "success", out);
        }
    printf("%u failed\n", failed);
    return failed ? 1 : 0;
}
