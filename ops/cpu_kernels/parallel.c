#include "ops/cpu_kernels/parallel.h"

#include "codec/check.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Polls of an atomic word before a thread sleeps: about 100 us, longer than the time between two
 * parallel loops. */
#define SPINS 3000u

/* Bits of team.state for the current loop. OPEN: helpers may enter the loop. CALLER_SLEEPS: the
 * caller sleeps until the last helper has left. INSIDE: number of helpers in the loop. */
#define OPEN          0x80000000u
#define CALLER_SLEEPS 0x40000000u
#define INSIDE        0x3fffffffu

static struct {
    pthread_t helpers[MR_PARALLEL_THREADS_MAX];
    atomic_uint helper_count;
    atomic_bool busy; /* a loop is running, or the number of threads is being changed */
    atomic_bool ending;
    atomic_uint loops;    /* number of loops begun so far; helpers sleep on this futex word */
    atomic_uint sleepers; /* number of helpers that sleep on `loops` */
    /* OPEN | CALLER_SLEEPS | number of helpers inside the loop; the caller sleeps on this futex
     * word. */
    atomic_uint state;
    /* Arguments of the current loop; written only while no helper is inside the loop. */
    mr_parallel_body body;
    void *context;
    size_t count, grain;
    /* Items already taken from the front of the loop (low 32 bits) and from its end (high 32
     * bits). */
    _Alignas(64) atomic_uint_fast64_t taken;
} team;

static _Thread_local uint32_t thread_index;

static void sleep_on(atomic_uint *word, unsigned value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void pause_briefly(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* waits about as long; `yield` does nothing on most cores */
#endif
}

/* Takes ranges of items from the front of the loop, or from its end in threads of odd index, and
 * runs them until none is left. A thread then mostly gets the items that it had in the previous
 * loop, whose data is still in its core's cache. */
static void take_parts(void)
{
    const uint64_t count = team.count, shares = 2u * (uint64_t)mr_parallel_thread_count();
    const bool from_end = thread_index % 2 != 0;
    uint64_t taken = atomic_load_explicit(&team.taken, memory_order_relaxed);
    for (;;) {
        const uint64_t front_taken = taken & UINT32_MAX, end_taken = taken >> 32;
        const uint64_t left = count - front_taken - end_taken;
        if (left == 0) return;
        uint64_t part = left / shares;
        if (part < team.grain) part = team.grain;
        if (part > left) part = left;
        if (!atomic_compare_exchange_weak_explicit(&team.taken, &taken,
                                                   taken + (from_end ? part << 32 : part),
                                                   memory_order_relaxed, memory_order_relaxed))
            continue;
        const uint64_t begin = from_end ? count - end_taken - part : front_taken;
        team.body(team.context, begin, begin + part);
        taken = atomic_load_explicit(&team.taken, memory_order_relaxed);
    }
}

/* ---- a helper ---- */

/* Waits until the number of loops begun differs from `seen`; returns the new number. */
static unsigned await_loop(unsigned seen)
{
    for (unsigned i = 0; i < SPINS; i++) {
        const unsigned loops = atomic_load(&team.loops);
        if (loops != seen) return loops;
        pause_briefly();
    }
    /* Count this thread as a sleeper before the check of `loops`, so that no wake-up is lost. */
    atomic_fetch_add(&team.sleepers, 1);
    while (atomic_load(&team.loops) == seen)
        sleep_on(&team.loops, seen);
    atomic_fetch_sub(&team.sleepers, 1);
    return atomic_load(&team.loops);
}

static bool enter(void)
{
    unsigned state = atomic_load(&team.state);
    while (state & OPEN)
        if (atomic_compare_exchange_weak(&team.state, &state, state + 1)) return true;
    return false;
}

static void leave(void)
{
    const unsigned state = atomic_fetch_sub(&team.state, 1);
    if ((state & CALLER_SLEEPS) && (state & INSIDE) == 1) wake(&team.state);
}

static void *run_helper(void *index)
{
    thread_index = (uint32_t)(uintptr_t)index;
    for (unsigned seen = 0; !atomic_load(&team.ending);) {
        if (enter()) {
            take_parts();
            leave();
        }
        seen = await_loop(seen);
    }
    return NULL;
}

/* ---- the caller ---- */

/* Closes the current loop to further helpers, and returns when all helpers have left it. */
static void close_loop(void)
{
    unsigned state = atomic_fetch_and(&team.state, ~OPEN) & ~OPEN;
    for (unsigned i = 0; state & INSIDE; i++) {
        if (i < SPINS) {
            pause_briefly();
            state = atomic_load(&team.state);
        } else if (atomic_compare_exchange_weak(&team.state, &state, state | CALLER_SLEEPS)) {
            sleep_on(&team.state, state | CALLER_SLEEPS);
            state = atomic_load(&team.state);
        }
    }
}

void mr_parallel_for(size_t count, size_t grain, mr_parallel_body body, void *context)
{
    MR_ASSERT(count <= UINT32_MAX);
    if (count == 0) return;
    if (count <= grain || atomic_load(&team.helper_count) == 0 ||
        atomic_exchange(&team.busy, true)) {
        body(context, 0, count);
        return;
    }
    team.body = body;
    team.context = context;
    team.count = count;
    team.grain = grain > 0 ? grain : 1;
    atomic_store(&team.taken, 0);
    atomic_store(&team.state, OPEN);
    atomic_fetch_add(&team.loops, 1);
    if (atomic_load(&team.sleepers) > 0) wake(&team.loops);
    take_parts();
    close_loop();
    atomic_store(&team.busy, false);
}

/* ---- the team ---- */

static void stop_helpers(void)
{
    const unsigned helpers = atomic_load(&team.helper_count);
    atomic_store(&team.ending, true);
    atomic_fetch_add(&team.loops, 1);
    wake(&team.loops);
    for (unsigned i = 0; i < helpers; i++)
        pthread_join(team.helpers[i], NULL);
    atomic_store(&team.helper_count, 0);
    atomic_store(&team.ending, false);
}

enum mr_status mr_parallel_set_thread_count(uint32_t thread_count, struct mr_error *err)
{
    MR_ASSERT(thread_count > 0);
    if (thread_count > MR_PARALLEL_THREADS_MAX)
        return mr_fail(err, MR_BAD_CONFIG, "%u threads: at most %u", thread_count,
                       MR_PARALLEL_THREADS_MAX);
    if (thread_count == mr_parallel_thread_count()) return MR_OK;
    while (atomic_exchange(&team.busy, true))
        sched_yield(); /* another thread runs a parallel loop: wait for its end */
    stop_helpers();
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; i + 1 < thread_count && status == MR_OK; i++) {
        if (pthread_create(&team.helpers[i], NULL, run_helper, (void *)(uintptr_t)(i + 1)) != 0) {
            status = mr_fail(err, MR_NOMEM, "cannot create compute thread %u of %u", i + 2,
                             thread_count);
            break;
        }
        pthread_setname_np(team.helpers[i], "compute");
        atomic_fetch_add(&team.helper_count, 1);
    }
    if (status != MR_OK) stop_helpers();
    atomic_store(&team.busy, false);
    return status;
}

uint32_t mr_parallel_thread_count(void)
{
    return atomic_load(&team.helper_count) + 1;
}

uint32_t mr_parallel_thread_index(void)
{
    return thread_index;
}

uint32_t mr_parallel_core_count(void)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
    int count = CPU_COUNT(&cores);
    return count > 0 ? (uint32_t)count : 1;
}
