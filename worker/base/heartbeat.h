/* heartbeat - when each thread began its current step, so that /livez can find a thread that hangs.
 *
 * A sleeping thread has no step and is never late. A thread is stuck when one step has lasted
 * longer than the bound of that thread, because a function that it called has not returned.
 *
 * Threads: any; the fields are atomic. Memory: the struct; its owner keeps it until every thread
 * that has a place in it has ended. Errors: none. */
#ifndef MR_WORKER_BASE_HEARTBEAT_H
#define MR_WORKER_BASE_HEARTBEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MR_HEARTBEATS_MAX 128u

struct mr_heartbeat {
    atomic_bool used;
    const char *_Atomic name;       /* static */
    atomic_uint_least64_t bound_ns; /* longest time of one step */
    atomic_uint_least64_t since_ns; /* when the current step began; 0: the thread sleeps */
};

/* Zeroed: no thread has a place. */
struct mr_heartbeats {
    struct mr_heartbeat all[MR_HEARTBEATS_MAX];
};

/* Assigns a place to a thread. NULL if beats is NULL or has no free place; the thread is then not
 * watched. */
struct mr_heartbeat *mr_heartbeat_add(struct mr_heartbeats *beats, const char *name,
                                      uint64_t bound_ns);
/* Frees the place. beat may be NULL in these three. */
void mr_heartbeat_remove(struct mr_heartbeat *beat);
void mr_heartbeat_begin(struct mr_heartbeat *beat, uint64_t now_ns);
void mr_heartbeat_end(struct mr_heartbeat *beat);

/* Returns the name of a stuck thread, or NULL. *since_ns: when that thread's step began. */
const char *mr_heartbeat_stuck(struct mr_heartbeats *beats, uint64_t now_ns, uint64_t *since_ns);

#endif
