/* points - the calls of the product that can fail because of the machine: memory allocations,
 * system calls, tensor calls. A sweep makes the nth of them fail.
 *
 * The sweep programs link copies of the product's libraries in which points.txt has renamed the
 * calls; the calls of tests and fakes are not renamed. Tensor calls are those of a fake model.
 *
 * Threads: any. Memory: none. */
#ifndef MR_TESTS_SWEEP_POINTS_H
#define MR_TESTS_SWEEP_POINTS_H

#include <stdbool.h>
#include <stdint.h>

enum point_kind { POINT_MEMORY, POINT_SYSTEM, POINT_TENSOR, POINT_KINDS };
const char *point_kind_name(enum point_kind kind);

/* Counts the calls of this kind from 1 on and makes the nth fail. nth 0: no call fails. */
void points_arm(enum point_kind kind, uint64_t nth);
/* Stops counting and returns the number of calls. */
uint64_t points_disarm(void);
/* The call that has failed since points_arm; NULL: none. */
const char *points_failed(void);
/* For fakes: counts one more call. True: this call must fail. */
bool points_fail(enum point_kind kind, const char *name);
/* Prints the stack of each call that fails from now on. */
void points_trace(void);

#endif
