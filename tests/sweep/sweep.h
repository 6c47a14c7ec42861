/* sweep - lives a scripted life again and again; in its nth repetition the nth memory allocation
 * fails, then the same with system calls and tensor calls. Every n is tried, until a life ends
 * before its nth call.
 *
 * A life ends the program with SWEEP_CHECK when it is not as it must be. A program with
 * AddressSanitizer also ends with an error at a leak, which is looked for after each group of
 * lives. PROGRAM --all lives the slow lives too. What is printed then names the kind, n and the
 * call that failed; PROGRAM LIFE KIND N lives that one alone.
 *
 * Threads: one; a life may have its own. Memory: none that outlives a life. */
#ifndef MR_TESTS_SWEEP_SWEEP_H
#define MR_TESTS_SWEEP_SWEEP_H

#include "tests/sweep/points.h"

#include <stddef.h>

struct sweep_life {
    const char *name;
    /* Lives once. It calls sweep_begin when everything that is not the product's is made, and
     * sweep_end before it judges. */
    void (*live)(void);
    bool slow; /* swept only with --all */
};

void sweep_begin(void);
/* From here on no call fails; returns the call that did, or NULL. */
const char *sweep_end(void);

_Noreturn void sweep_broken(const char *what, const char *file, int line);
#define SWEEP_CHECK(expression)                                                                    \
    ((expression) ? (void)0 : sweep_broken(#expression, __FILE__, __LINE__))

/* The result of main. */
int sweep_main(int argc, char **argv, const struct sweep_life *lives, size_t count);

#endif
