#include "worker/base/slice.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORT_NS 200000u

/* struct sched_attr of Linux 4.13, which some C libraries do not declare. */
struct slice_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* slice of a thread of the normal policy; 0: the usual length */
    uint64_t deadline, period;
    uint32_t util_min, util_max;
};

static void set_slice(uint64_t slice_ns)
{
    struct slice_attr attr = {0};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0 || attr.policy != 0) return;
    attr.size = sizeof attr;
    attr.runtime_ns = slice_ns;
    (void)syscall(SYS_sched_setattr, 0, &attr, 0); /* a failure only makes the thread wake later */
}

void mr_slice_short(void)
{
    set_slice(SHORT_NS);
}

void mr_slice_usual(void)
{
    set_slice(0);
}
