#include "tests/sim/fleet/platform.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#define WAKES_MAX 512
/* the descriptors of wakes start here, so that none is a real descriptor */
#define WAKE_BASE 100000

struct wake_slot {
    bool open, rung;
    uint64_t rung_ns; /* when the thread may run because of the signal */
};

static struct {
    uint64_t now_ns;
    struct sim_random random;
    struct sim_machine *current;
    struct wake_slot wakes[WAKES_MAX];
    int wake_end, open_wakes;
} platform;

struct mr_thread {
    struct sim_machine *machine;
    int wake;
};

/* ---- random numbers: SplitMix64 (Steele, Lea and Flood, 2014) ---- */

uint64_t sim_next(struct sim_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t sim_below(struct sim_random *random, uint32_t bound)
{
    return (uint32_t)((sim_next(random) >> 32) * bound >> 32);
}

uint64_t sim_between(struct sim_random *random, uint64_t least, uint64_t most)
{
    return least + sim_next(random) % (most - least + 1);
}

bool sim_chance(struct sim_random *random, uint32_t percent)
{
    return sim_below(random, 100) < percent;
}

/* ---- time ---- */

void platform_begin(uint64_t seed)
{
    memset(&platform, 0, sizeof platform);
    platform.now_ns = PLATFORM_START_NS;
    platform.random.state = seed;
}

uint64_t platform_ns(void)
{
    return platform.now_ns;
}

void platform_set_ns(uint64_t now_ns)
{
    MR_ASSERT(now_ns >= platform.now_ns);
    platform.now_ns = now_ns;
}

int64_t platform_unix_ms(void)
{
    return PLATFORM_START_MS + (int64_t)((platform.now_ns - PLATFORM_START_NS) / MS);
}

uint64_t mr_clock_ns(void)
{
    return platform.now_ns;
}

int64_t mr_clock_unix_ms(void)
{
    return platform_unix_ms() + (platform.current ? platform.current->skew_ms : 0);
}

struct mr_time mr_clock_now(void)
{
    return (struct mr_time){mr_clock_ns(), mr_clock_unix_ms()};
}

uint64_t mr_time_from_unix_ms(const struct mr_time *now, int64_t unix_ms)
{
    if (unix_ms == 0) return 0;
    int64_t ahead_ms = unix_ms - now->unix_ms;
    return ahead_ms > 0 ? now->ns + (uint64_t)ahead_ms * MS : now->ns;
}

struct timespec mr_clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
}

/* One thread runs the whole simulation, so nobody can signal the condition: time is up at once. */
bool mr_clock_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until_ns)
{
    (void)condition;
    (void)mutex;
    (void)until_ns;
    return false;
}

/* Steps do not sleep. */
void mr_clock_sleep_ms(uint32_t ms)
{
    (void)ms;
    MR_ASSERT(false);
}

uint32_t mr_clock_left_ms(uint64_t now_ns, uint64_t deadline_ns)
{
    if (deadline_ns <= now_ns) return 0;
    uint64_t left_ms = (deadline_ns - now_ns - 1) / MS + 1;
    return left_ms < INT32_MAX ? (uint32_t)left_ms : INT32_MAX;
}

struct sim_machine *platform_enter(struct sim_machine *machine)
{
    struct sim_machine *before = platform.current;
    platform.current = machine;
    return before;
}

struct sim_machine *platform_current(void)
{
    return platform.current;
}

/* ---- wakes ---- */

enum mr_status mr_wake_open(struct mr_wake *wake, struct mr_error *err)
{
    (void)err;
    int at = 0;
    while (at < platform.wake_end && platform.wakes[at].open)
        at++;
    MR_ASSERT(at < WAKES_MAX);
    if (at == platform.wake_end) platform.wake_end++;
    platform.wakes[at] = (struct wake_slot){.open = true};
    platform.open_wakes++;
    wake->fd = WAKE_BASE + at;
    return MR_OK;
}

void mr_wake_close(struct mr_wake *wake)
{
    if (wake->fd < WAKE_BASE) return;
    MR_ASSERT(platform.wakes[wake->fd - WAKE_BASE].open);
    platform.wakes[wake->fd - WAKE_BASE].open = false;
    platform.open_wakes--;
    wake->fd = -1;
}

/* The time until a thread wakes: mostly microseconds, sometimes a time slice or more. */
static uint64_t wake_delay(void)
{
    uint32_t kind = sim_below(&platform.random, 64);
    if (kind == 0) return sim_between(&platform.random, MS, 30 * MS);
    if (kind < 8) return sim_between(&platform.random, MS / 10, MS);
    return sim_between(&platform.random, 1000, 50000);
}

void mr_wake_ring(const struct mr_wake *wake)
{
    if (wake->fd < WAKE_BASE) return;
    struct wake_slot *slot = &platform.wakes[wake->fd - WAKE_BASE];
    MR_ASSERT(slot->open); /* in a real worker a signal after the close is a use after free */
    if (slot->rung) return;
    slot->rung = true;
    slot->rung_ns = platform.now_ns + wake_delay();
}

bool mr_wake_wait(const struct mr_wake *wake, uint64_t timeout_ns)
{
    (void)wake, (void)timeout_ns;
    MR_ASSERT(false); /* nothing sleeps in the simulation */
    return false;
}

bool mr_wake_wait_sockets(const struct mr_wake *wake, struct pollfd *fds, size_t count,
                          uint64_t timeout_ns)
{
    (void)fds, (void)count;
    return mr_wake_wait(wake, timeout_ns);
}

bool platform_is_clean(void)
{
    return platform.open_wakes == 0;
}

/* ---- threads ---- */

void platform_add_thread(struct sim_machine *machine, const char *name,
                         uint64_t (*step)(void *state, struct mr_time now), void *state,
                         const struct mr_wake *wake)
{
    MR_ASSERT(machine->thread_count < MACHINE_THREADS_MAX);
    machine->threads[machine->thread_count++] =
        (struct sim_thread){.name = name,
                            .step = step,
                            .state = state,
                            .wake = wake->fd - WAKE_BASE,
                            .due_ns = platform.now_ns + wake_delay()};
}

enum mr_status mr_thread_start(struct mr_thread **out, const struct mr_thread_options *options,
                               struct mr_error *err)
{
    (void)err;
    struct mr_thread *thread = malloc(sizeof *thread);
    MR_ASSERT(thread && platform.current);
    platform_add_thread(platform.current, options->name, options->step, options->state,
                        options->wake);
    *thread = (struct mr_thread){platform.current, options->wake->fd - WAKE_BASE};
    *out = thread;
    return MR_OK;
}

void mr_thread_stop(struct mr_thread *thread)
{
    if (!thread) return;
    struct sim_machine *machine = thread->machine;
    uint32_t at = 0;
    while (at < machine->thread_count && machine->threads[at].wake != thread->wake)
        at++;
    MR_ASSERT(at < machine->thread_count);
    memmove(&machine->threads[at], &machine->threads[at + 1],
            (machine->thread_count - at - 1) * sizeof *machine->threads);
    machine->thread_count--;
    free(thread);
}

bool mr_thread_stop_within(struct mr_thread *thread, uint32_t timeout_ms)
{
    (void)timeout_ms;
    mr_thread_stop(thread);
    return true;
}

struct sim_thread *platform_next(struct sim_machine *machine, uint64_t *due_ns)
{
    struct sim_thread *best = NULL;
    *due_ns = UINT64_MAX;
    for (uint32_t i = 0; i < machine->thread_count; i++) {
        struct sim_thread *thread = &machine->threads[i];
        const struct wake_slot *slot = &platform.wakes[thread->wake];
        uint64_t at_ns = thread->due_ns;
        if (slot->rung && slot->rung_ns < at_ns) at_ns = slot->rung_ns;
        if (at_ns < machine->paused_until_ns && at_ns != UINT64_MAX)
            at_ns = machine->paused_until_ns;
        if (at_ns < thread->not_before_ns && at_ns != UINT64_MAX) at_ns = thread->not_before_ns;
        if (at_ns >= *due_ns) continue;
        *due_ns = at_ns;
        best = thread;
    }
    return best;
}

void platform_run(struct sim_machine *machine, struct sim_thread *thread)
{
    platform.wakes[thread->wake].rung = false;
    void *state = thread->state;
    struct sim_machine *before = platform_enter(machine);
    uint64_t next_ns = thread->step(state, mr_clock_now());
    platform_enter(before);
    /* a step takes a little time, and a sleep ends a little late */
    uint64_t least_ns = platform.now_ns + sim_between(&platform.random, 2000, 20000);
    if (next_ns < least_ns) next_ns = least_ns;
    /* the step may have started or ended threads */
    for (uint32_t i = 0; i < machine->thread_count; i++)
        if (machine->threads[i].state == state && machine->threads[i].step == thread->step)
            machine->threads[i].due_ns = next_ns;
}
