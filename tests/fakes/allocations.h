/* allocations - counts memory allocations of the whole process during a part of a test.
 *
 * Owner: one thread; one user in a process. Replaces malloc in the programs that link it. */
#ifndef MR_TESTS_FAKES_ALLOCATIONS_H
#define MR_TESTS_FAKES_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Call first in main. */
void allocations_install(void);
void allocations_count(bool on);
/* Allocations so far while counting was on. */
uint64_t allocations_counted(void);

#endif
