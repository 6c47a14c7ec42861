/* parallel - loops over the cores: a team of threads that help the one that runs the model.
 *
 * A step has some two hundred parallel loops of 20 to 500 us, so helpers look out for the next one
 * a while before they sleep. A loop ends when its items are done, not when every helper has come:
 * one that another program keeps off its core costs its part of the speed and no more. (A barrier
 * after each loop, as OpenMP has: 3.7 tokens a second instead of 19 beside five other busy
 * programs.)
 *
 * State:   one team for the process. Owner: none; made by mr_parallel_set_thread_count.
 * Threads: any may loop; when the team is at work for another, or from inside a loop, the caller
 *          does all of it alone. */
#ifndef MR_OPS_CPU_PARALLEL_H
#define MR_OPS_CPU_PARALLEL_H

#include "codec/status.h"

#include <stddef.h>
#include <stdint.h>

#define MR_PARALLEL_THREADS_MAX 256u

/* Threads of every loop from now on, the caller among them; 1 at first. Waits for the end
 * of one that another thread has begun. MR_BAD_CONFIG above MR_PARALLEL_THREADS_MAX: nothing
 * changes. MR_NOMEM: then there is the caller alone. */
enum mr_status mr_parallel_set_thread_count(uint32_t thread_count, struct mr_error *err);
uint32_t mr_parallel_thread_count(void);
/* Of the calling thread in the loop that it runs in, below mr_parallel_thread_count(); 0 outside.
 */
uint32_t mr_parallel_thread_index(void);

/* One contiguous part [begin, end) of the work. A thread may be given several, one after another.
 */
typedef void (*mr_parallel_body)(void *context, size_t begin, size_t end);

/* Calls body on parts that cover [0, count) exactly once and returns when all are done; count is
 * below 2^32. A part is what is left divided by twice the threads, at least `grain` (0 counts as
 * 1): guided self-scheduling (Polychronopoulos and Kuck, 1987). Threads of odd index take theirs
 * from the back. With count <= grain body runs once, on the caller. */
void mr_parallel_for(size_t count, size_t grain, mr_parallel_body body, void *context);

#endif
