#include "tests/fakes/lock_delays.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static atomic_bool enabled;
static atomic_uint_least64_t thread_count;
static _Thread_local uint64_t random_state;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

void lock_delays_set(bool on)
{
    atomic_store(&enabled, on);
}

/* One call in 16 gives the core to another thread, one in 64 sleeps for up to 60 us. */
static void pause_sometimes(void)
{
    if (!atomic_load_explicit(&enabled, memory_order_relaxed)) return;
    if (random_state == 0) random_state = 1 + atomic_fetch_add(&thread_count, 1);
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t drawn = (uint32_t)(random_state >> 40);
    if (drawn % 16 != 0) return;
    if (drawn % 64 == 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(drawn / 64 % 60) * 1000}, NULL);
    else
        sched_yield();
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    pause_sometimes();
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int result = __real_pthread_mutex_unlock(mutex);
    pause_sometimes();
    return result;
}
