/* machine - how much of the machine this process may use: cores of its affinity mask, CPU quota and
 * memory limit of its control groups.
 *
 * A container with a quota of 2 CPUs on 64 cores has an affinity mask of 64 cores; 64 threads would
 * use up the quota in a fraction of each period and then stand still until the next one. The limits
 * of a control group bind all groups below it, so the least of the process's group and its
 * ancestors counts: cpu.max and memory.max of version 2 (Linux,
 * Documentation/admin-guide/cgroup-v2), cpu.cfs_quota_us and memory.limit_in_bytes of version 1;
 * /proc/self/cgroup names the group, /proc/self/mountinfo where its files are.
 *
 * Threads: any. Memory: none kept. Errors: none; a file that cannot be read is treated as no
 * limit. */
#ifndef MR_WORKER_ENGINE_MACHINE_H
#define MR_WORKER_ENGINE_MACHINE_H

#include <stdint.h>

struct mr_machine {
    uint32_t core_count;         /* cores of the affinity mask, at least 1 */
    double cpu_quota;            /* in cores; 0: no quota */
    uint64_t memory_bytes;       /* of the machine; 0: not known */
    uint64_t memory_limit_bytes; /* of the control groups; 0: no limit */
};

/* root: the folder in which /proc and the mounted control groups are looked up; "" except in
 * tests. */
void mr_machine_read(struct mr_machine *out, const char *root);

/* Returns the threads that can compute at the same time: the cores, at most the quota rounded up.
 */
uint32_t mr_machine_thread_count(const struct mr_machine *machine);
/* Returns the memory that the process may use; 0: not known. */
uint64_t mr_machine_usable_bytes(const struct mr_machine *machine);

#endif
