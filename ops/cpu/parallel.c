#include "ops/cpu/parallel.h"

#include "codec/check.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks at a word before sleeping on it, some 100 us: longer than what lies between two loops. */
#define LOOKS 3000u

/* The door of a loop: whether helpers may come in, whether the caller sleeps until the last has
 * left, and how many are inside. */
#define OPEN   0x80000000u
#define ASLEEP 0x40000000u
#define INSIDE 0x3fffffffu

static struct {
    pthread_t helpers[MR_PARALLEL_THREADS_MAX];
    atomic_uint helper_count;
    atomic_bool busy; /* a loop is running, or the team is being changed */
    atomic_bool ending;
    atomic_uint loops;    /* begun so far; helpers sleep on it */
    atomic_uint sleepers; /* on it */
    atomic_uint door;     /* the caller sleeps on it */
    /* The loop at hand; changed while nobody is inside. */
    mr_parallel_body body;
    void *context;
    size_t count, grain;
    /* Items taken from the front, in the low half, and from the back. */
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
#endif
}

/* From the front or, threads of odd index, from the back: what two threads meet again in loop after
 * loop, or in part after part, is mostly in the cache of the one that met it before. */
static void take_parts(void)
{
    const uint64_t count = team.count, shares = 2u * (uint64_t)mr_parallel_thread_count();
    const bool back = thread_index % 2 != 0;
    uint64_t taken = atomic_load_explicit(&team.taken, memory_order_relaxed);
    for (;;) {
        const uint64_t front_taken = taken & UINT32_MAX, back_taken = taken >> 32;
        const uint64_t left = count - front_taken - back_taken;
        if (left == 0) return;
        uint64_t part = left / shares;
        if (part < team.grain) part = team.grain;
        if (part > left) part = left;
        if (!atomic_compare_exchange_weak_explicit(&team.taken, &taken,
                                                   taken + (back ? part << 32 : part),
                                                   memory_order_relaxed, memory_order_relaxed))
            continue;
        const uint64_t begin = back ? count - back_taken - part : front_taken;
        team.body(team.context, begin, begin + part);
        taken = atomic_load_explicit(&team.taken, memory_order_relaxed);
    }
}

/* ---- a helper ---- */

/* Returns how many loops have begun, which is no longer `seen`. */
static unsigned await_loop(unsigned seen)
{
    for (unsigned i = 0; i < LOOKS; i++) {
        const unsigned loops = atomic_load(&team.loops);
        if (loops != seen) return loops;
        pause_briefly();
    }
    atomic_fetch_add(&team.sleepers, 1); /* before the last look, which the kernel takes */
    while (atomic_load(&team.loops) == seen)
        sleep_on(&team.loops, seen);
    atomic_fetch_sub(&team.sleepers, 1);
    return atomic_load(&team.loops);
}

static bool enter(void)
{
    unsigned door = atomic_load(&team.door);
    while (door & OPEN)
        if (atomic_compare_exchange_weak(&team.door, &door, door + 1)) return true;
    return false;
}

static void leave(void)
{
    const unsigned door = atomic_fetch_sub(&team.door, 1);
    if ((door & ASLEEP) && (door & INSIDE) == 1) wake(&team.door);
}

static void *help(void *index)
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

/* Nobody comes in any more; returns when everybody has left. */
static void close_door(void)
{
    unsigned door = atomic_fetch_and(&team.door, ~OPEN) & ~OPEN;
    for (unsigned i = 0; door & INSIDE; i++) {
        if (i < LOOKS) {
            pause_briefly();
            door = atomic_load(&team.door);
        } else if (atomic_compare_exchange_weak(&team.door, &door, door | ASLEEP)) {
            sleep_on(&team.door, door | ASLEEP);
            door = atomic_load(&team.door);
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
    atomic_store(&team.door, OPEN);
    atomic_fetch_add(&team.loops, 1);
    if (atomic_load(&team.sleepers) > 0) wake(&team.loops);
    take_parts();
    close_door();
    atomic_store(&team.busy, false);
}

/* ---- the team ---- */

static void dismiss(void)
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
        sched_yield(); /* a loop of another thread */
    dismiss();
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; i + 1 < thread_count && status == MR_OK; i++) {
        if (pthread_create(&team.helpers[i], NULL, help, (void *)(uintptr_t)(i + 1)) != 0) {
            status = mr_fail(err, MR_NOMEM, "no thread beside %u", i + 1);
            break;
        }
        pthread_setname_np(team.helpers[i], "compute");
        atomic_fetch_add(&team.helper_count, 1);
    }
    if (status != MR_OK) dismiss();
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
