/* cpu_backend - the backend (ops/backend/backend.h) of our own CPU kernels (ops/cpu_kernels/).
 * Every operation is complete when its call returns, so `finish` does nothing and cannot fail.
 *
 * Objects: linear layers and KV pools are those of ops/cpu_kernels/, vectors are arrays of floats.
 * Threads: the parallel team of the process (ops/cpu_kernels/parallel.h).
 * Errors:  MR_NOMEM; MR_BAD_CONFIG for other devices and for f16; those of ops/cpu_kernels/. */
#ifndef MR_OPS_CPU_CPU_BACKEND_H
#define MR_OPS_CPU_CPU_BACKEND_H

#include "ops/backend/backend.h"

extern const struct mr_backend mr_cpu_backend;

#endif
