#include "worker/base/slice.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORT_NS 200000u

/* Argument of the system call sched_setattr: struct sched_attr of Linux 4.13, which some C
 * libraries do not declare. */
struct slice_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    /* length of a time slice for a thread of the normal scheduling policy; 0: the system's default
     * length */
    uint64_t runtime_ns;
    uint64_t deadline, period;
    uint32_t util_min, util_max;
};

static void set_slice(uint64_t slice_ns)
{
    struct slice_attr attr = {0};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0 || attr.policy != 0) return;
    attr.size = sizeof attr;
    attr.runtime_ns = slice_ns;
    /* ignore a failure: then the thread only gets a core a little later after it wakes */
    (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

void mr_slice_short(void)
{
    set_slice(SHORT_NS);
}

void mr_slice_usual(void)
{
    set_slice(0);
}
