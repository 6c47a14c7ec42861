/* platform - virtual time, and the steps of all threads of all simulated workers.
 *
 * Linked in place of worker/base/clock.c, wake.c and thread.c: the product's code reads this clock,
 * signals these wakes and starts these threads. A thread is a step function that the simulation
 * calls when its time has come or its wake was signalled. Nothing sleeps.
 *
 * A machine is one simulated process: it has threads, a unix clock that may jump, and may be paused
 * or dead. A dead machine's threads do not run, and its calls to Kafka or Redis have no effect. So
 * freeing its memory with the product's own functions is the same as a crash.
 *
 * Owner: one run at a time in one process. Memory: fixed tables. Errors: asserted. */
#ifndef MR_TESTS_SIM_FLEET_PLATFORM_H
#define MR_TESTS_SIM_FLEET_PLATFORM_H

#include "worker/base/clock.h"
#include "worker/base/thread.h"

#include <stdbool.h>
#include <stdint.h>

#define MS     ((uint64_t)1000000)
#define SECOND ((uint64_t)1000000000)

#define PLATFORM_START_NS ((uint64_t)1000 * SECOND)
#define PLATFORM_START_MS ((int64_t)1763740000000)

#define MACHINE_THREADS_MAX 12u

/* A stream of random numbers. */
struct sim_random {
    uint64_t state;
};
uint64_t sim_next(struct sim_random *random);
/* A random number in [0, bound); bound > 0. */
uint32_t sim_below(struct sim_random *random, uint32_t bound);
/* A random number in [least, most]. */
uint64_t sim_between(struct sim_random *random, uint64_t least, uint64_t most);
bool sim_chance(struct sim_random *random, uint32_t percent);

struct sim_thread {
    const char *name;
    uint64_t (*step)(void *state, struct mr_time now);
    void *state;
    int wake; /* index of its wake */
    uint64_t due_ns;
    uint64_t not_before_ns; /* the thread is in a call that blocks until then */
};

struct sim_machine {
    struct sim_thread threads[MACHINE_THREADS_MAX];
    uint32_t thread_count;
    int64_t skew_ms;          /* added to the broker's clock for this machine's unix clock */
    uint64_t paused_until_ns; /* no thread runs before */
    bool dead;
};

/* Begins a run: resets the time and closes all wakes. seed: for the delays of threads. */
void platform_begin(uint64_t seed);
uint64_t platform_ns(void);
void platform_set_ns(uint64_t now_ns);
/* The unix time of the broker, which never jumps. */
int64_t platform_unix_ms(void);
/* Sets the machine whose code runs from now on; NULL: none. Returns the previous one. */
struct sim_machine *platform_enter(struct sim_machine *machine);
struct sim_machine *platform_current(void);

void platform_add_thread(struct sim_machine *machine, const char *name,
                         uint64_t (*step)(void *state, struct mr_time now), void *state,
                         const struct mr_wake *wake);
/* The thread of the machine that runs next, and its time; NULL: none. */
struct sim_thread *platform_next(struct sim_machine *machine, uint64_t *due_ns);
/* Runs one step of the thread at the present time. */
void platform_run(struct sim_machine *machine, struct sim_thread *thread);
/* Whether every wake is closed. A wake that is open at the end of a run is a leak. */
bool platform_is_clean(void);

#endif
