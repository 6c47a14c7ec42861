/* fault - the failure that ends this worker. Only the first call of _raise reports one.
 *
 * Owner: intake thread. Memory: the struct. */
#ifndef MR_WORKER_BASE_FAULT_H
#define MR_WORKER_BASE_FAULT_H

#include "codec/status.h"

#include <stdbool.h>

struct mr_fault {
    void (*report)(void *context, const struct mr_error *err);
    void *context;
    bool raised;
};

static inline void mr_fault_raise(struct mr_fault *fault, const struct mr_error *err)
{
    if (fault->raised) return;
    fault->raised = true;
    fault->report(fault->context, err);
}

#endif
