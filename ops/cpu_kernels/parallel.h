/* parallel - parallel loops: the calling thread and a team of helper threads each take some items.
 *
 * A step has about two hundred parallel loops of 20 to 500 us, so an idle helper spins for a while
 * before it sleeps. A loop ends when all items are done; it does not wait for helpers that have
 * taken no item. A helper whose core is busy with another program therefore delays nothing; the
 * other threads do its share. (With a barrier after each loop, as in OpenMP, a machine that also
 * ran five other busy programs reached 3.7 tokens a second instead of 19.)
 *
 * State:   one team for the process, created by mr_parallel_set_thread_count.
 * Threads: any thread may run a loop. When the team is busy with a loop of another thread, or the
 *          call comes from inside a loop, the caller runs all items alone. */
#ifndef MR_OPS_CPU_KERNELS_PARALLEL_H
#define MR_OPS_CPU_KERNELS_PARALLEL_H

#include "codec/status.h"

#include <stddef.h>
#include <stdint.h>

#define MR_PARALLEL_THREADS_MAX 256u

/* Sets the number of threads of every later loop, including the caller; initially 1. Waits until a
 * loop of another thread has ended. MR_BAD_CONFIG above MR_PARALLEL_THREADS_MAX: nothing changes.
 * MR_NOMEM: a thread could not be created, and loops run on the caller alone. */
enum mr_status mr_parallel_set_thread_count(uint32_t thread_count, struct mr_error *err);
uint32_t mr_parallel_thread_count(void);
/* Returns the calling thread's index in the team, below mr_parallel_thread_count(); 0 outside
 * loops. */
uint32_t mr_parallel_thread_index(void);

/* Returns the number of cores in the affinity mask of the calling thread, at least 1. */
uint32_t mr_parallel_core_count(void);

/* Runs the items [begin, end) of a loop. One loop may call it several times on a thread. */
typedef void (*mr_parallel_body)(void *context, size_t begin, size_t end);

/* Calls body on ranges that cover [0, count) exactly once, and returns when all items are done;
 * count is below 2^32. The length of a range is the number of remaining items divided by twice the
 * threads, at least `grain` (0 means 1): guided self-scheduling (Polychronopoulos and Kuck, 1987).
 * Threads of odd index take ranges from the end. With count <= grain, body runs once, on the
 * caller. */
void mr_parallel_for(size_t count, size_t grain, mr_parallel_body body, void *context);

#endif
