/* allocations - how often a stretch of a test allocates memory, whoever in the process does it.
 *
 * OpenSSL makes a small state at every start of a digest and offers no way round it: what it takes
 * through its own functions is not counted.
 *
 * Owner: one thread; one a process. A program that uses this has its malloc replaced. */
#ifndef MR_TESTS_FAKES_ALLOCATIONS_H
#define MR_TESTS_FAKES_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* First of all in main, before OpenSSL is used. */
void allocations_install(void);
void allocations_count(bool on);
/* So far, while counting was on. */
uint64_t allocations_counted(void);

#endif
