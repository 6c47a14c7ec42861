/* levels - a loop over the instruction sets that this machine runs, for the tests of kernels. */
#ifndef MR_TESTS_UNIT_OPS_LEVELS_H
#define MR_TESTS_UNIT_OPS_LEVELS_H

#include "ops/cpu_kernels/kernels.h"

#define EACH_LEVEL(level)                                                                          \
    for (enum mr_cpu_level level = MR_CPU_SCALAR; level <= MR_CPU_AMX; level++)                    \
        if (mr_cpu_level(level) == level)

#endif
