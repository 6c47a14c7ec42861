/* points - the calls of the product that can fail because of the machine: memory, system calls,
 * tensors. A sweep makes the nth of them fail.
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

/* Counts the calls of this kind from 1 on; the nth fails. nth 0: none does. */
void points_arm(enum point_kind kind, uint64_t nth);
/* Ends counting; returns how many calls there were. */
uint64_t points_disarm(void);
/* The call that failed; NULL: none has, since points_arm. */
const char *points_failed(void);
/* For fakes: counts one more call; true: it must fail. */
bool points_fail(enum point_kind kind, const char *name);
/* From now on the stack of a call that fails is printed. */
void points_trace(void);

#endif
