/* sweep - repeats a scripted life. In the nth repetition the nth memory allocation fails; then the
 * same is done with system calls and tensor calls. Every n is tried, until a life ends before its
 * nth call.
 *
 * A life ends the program with SWEEP_CHECK when a condition does not hold. In a build with
 * AddressSanitizer a leak also ends the program; leaks are searched after each group of lives. The
 * message names the kind, n and the call that failed. PROGRAM --all runs the slow lives too.
 * PROGRAM LIFE KIND N runs one life alone.
 *
 * Threads: one; a life may have its own. Memory: none that outlives a life. */
#ifndef MR_TESTS_SWEEP_SWEEP_H
#define MR_TESTS_SWEEP_SWEEP_H

#include "tests/sweep/points.h"

#include <stddef.h>

struct sweep_life {
    const char *name;
    /* Runs one life. It calls sweep_begin after it has created the objects of the test, and
     * sweep_end before it checks the outcome. */
    void (*live)(void);
    bool slow; /* swept only with --all */
};

void sweep_begin(void);
/* No call fails after this. Returns the call that failed, or NULL. */
const char *sweep_end(void);

_Noreturn void sweep_broken(const char *what, const char *file, int line);
#define SWEEP_CHECK(expression)                                                                    \
    ((expression) ? (void)0 : sweep_broken(#expression, __FILE__, __LINE__))

/* The result of main. */
int sweep_main(int argc, char **argv, const struct sweep_life *lives, size_t count);

#endif
