#include "grid.h"

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES ((size_t)128 << 10)
#define COPIES_MAX  256u /* of a thread, at one time */

enum thread_state { THREAD_READY, THREAD_AT_BARRIER, THREAD_IN_WARP, THREAD_ENDED };

struct copy {
    void *to;
    const void *from;
    size_t bytes, size;
    unsigned batch;
};

struct thread {
    void *stack_pointer; /* while the thread does not run */
    void *fake_stack;    /* AddressSanitizer's */
    enum thread_state state;
    const char *file; /* where it waits */
    int line;
    uint32_t mask;
    uint64_t value;               /* that it passes to the other lanes */
    uint64_t received[GRID_WARP]; /* values of all lanes */
    struct copy copies[COPIES_MAX];
    unsigned copy_count, batch; /* batch: that of the next copy */
};

/* The running launch. There is one harness, as there is one device. */
static struct {
    struct thread threads[GRID_THREADS_MAX];
    unsigned thread_count;
    unsigned current;
    const struct grid_launch *launch;
    void *scheduler_pointer, *scheduler_fake_stack;
    const void *scheduler_bottom;
    size_t scheduler_bytes;
    unsigned char *stacks;
    const char *failure;
    char text[300];
    enum grid_order order;
    uint64_t random;
} grid;

struct grid_place grid_here;
__attribute__((aligned(16))) unsigned char mr_cuda_shared[GRID_SHARED_BYTES];

/* ---- coroutines ---- */

/* Saves the registers that a function must keep, and the stack pointer in *save; continues where
 * the stack `load` was saved. */
void grid_switch(void **save, void *load);
__asm__(".text\n"
        ".globl grid_switch\n"
        ".type grid_switch, @function\n"
        "grid_switch:\n"
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n"
        "mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
        "ret\n"
        ".size grid_switch, .-grid_switch\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");

static unsigned char *stack_of(unsigned thread)
{
    return grid.stacks + thread * STACK_BYTES;
}

/* Switches to the scheduler. Returns when the thread is resumed. */
static void suspend(enum thread_state state)
{
    struct thread *self = &grid.threads[grid.current];
    self->state = state;
    __sanitizer_start_switch_fiber(state == THREAD_ENDED ? NULL : &self->fake_stack,
                                   grid.scheduler_bottom, grid.scheduler_bytes);
    grid_switch(&self->stack_pointer, grid.scheduler_pointer);
    __sanitizer_finish_switch_fiber(self->fake_stack, NULL, NULL);
}

static void thread_main(void)
{
    __sanitizer_finish_switch_fiber(NULL, &grid.scheduler_bottom, &grid.scheduler_bytes);
    grid.launch->kernel(grid.launch->context);
    suspend(THREAD_ENDED);
    abort();
}

static struct grid_index thread_index(unsigned thread, const struct grid_index *block)
{
    return (struct grid_index){thread % block->x, thread / block->x % block->y,
                               thread / block->x / block->y};
}

static void resume(unsigned thread)
{
    struct thread *next = &grid.threads[thread];
    grid.current = thread;
    grid_here.thread = thread_index(thread, &grid.launch->block);
    __sanitizer_start_switch_fiber(&grid.scheduler_fake_stack, stack_of(thread), STACK_BYTES);
    grid_switch(&grid.scheduler_pointer, next->stack_pointer);
    __sanitizer_finish_switch_fiber(grid.scheduler_fake_stack, NULL, NULL);
}

/* Prepares a thread so that its first resume calls thread_main. */
static void thread_start(unsigned thread)
{
    void (*entry)(void) = thread_main;
    /* A function is entered with a stack pointer 8 below a multiple of 16. */
    unsigned char *top = stack_of(thread) + STACK_BYTES - 16;
    memset(&grid.threads[thread], 0, offsetof(struct thread, copies));
    grid.threads[thread].copy_count = grid.threads[thread].batch = 0;
    memset(top - 6 * sizeof entry, 0, 8 * sizeof entry);
    memcpy(top, &entry, sizeof entry); /* grid_switch returns to it */
    grid.threads[thread].stack_pointer = top - 6 * sizeof entry;
}

/* ---- what threads call ---- */

static void fail(const char *what, const char *file, int line)
{
    if (grid.failure) return;
    snprintf(grid.text, sizeof grid.text, "%s:%d: %s (thread %u of block %u,%u,%u)", file, line,
             what, grid.current, grid_here.block.x, grid_here.block.y, grid_here.block.z);
    fprintf(stderr, "%s\n", grid.text);
    grid.failure = grid.text;
}

static void wait_at(enum thread_state state, const char *file, int line)
{
    struct thread *self = &grid.threads[grid.current];
    self->file = file;
    self->line = line;
    suspend(state);
}

void grid_barrier(const char *file, int line)
{
    wait_at(THREAD_AT_BARRIER, file, line);
}

void grid_check_lane(uint32_t mask, unsigned lane, const char *file, int line)
{
    if (lane < GRID_WARP && (mask >> lane & 1)) return;
    fail("a lane is read that takes no part", file, line);
}

const uint64_t *grid_exchange(uint32_t mask, uint64_t value, const char *file, int line)
{
    struct thread *self = &grid.threads[grid.current];
    grid_check_lane(mask, grid.current % GRID_WARP, file, line);
    self->mask = mask;
    self->value = value;
    wait_at(THREAD_IN_WARP, file, line);
    return self->received;
}

void grid_copy_later(void *to, const void *from, size_t bytes, size_t size)
{
    struct thread *self = &grid.threads[grid.current];
    if (self->copy_count == COPIES_MAX) abort();
    self->copies[self->copy_count++] = (struct copy){to, from, bytes, size, self->batch};
}

void grid_end_batch(void)
{
    grid.threads[grid.current].batch++;
}

void grid_copy_batches(unsigned left)
{
    struct thread *self = &grid.threads[grid.current];
    unsigned kept = 0;
    for (unsigned i = 0; i < self->copy_count; i++) {
        const struct copy copy = self->copies[i];
        if (copy.batch + left >= self->batch) {
            self->copies[kept++] = copy;
            continue;
        }
        memset(copy.to, 0, copy.size);
        if (copy.bytes > 0) memcpy(copy.to, copy.from, copy.bytes);
    }
    self->copy_count = kept;
}

/* ---- the scheduler ---- */

static uint64_t next_random(void)
{
    grid.random ^= grid.random << 13;
    grid.random ^= grid.random >> 7;
    grid.random ^= grid.random << 17;
    return grid.random;
}

static bool is_same_place(const struct thread *a, const struct thread *b)
{
    return a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0);
}

/* Completes the operation in which the thread waits if every lane of its mask waits there too. */
static void release_lanes(unsigned thread)
{
    struct thread *warp = &grid.threads[thread / GRID_WARP * GRID_WARP];
    const struct thread *self = &grid.threads[thread];
    const uint32_t mask = self->mask;
    for (unsigned lane = 0; lane < GRID_WARP; lane++) {
        if (!(mask >> lane & 1)) continue;
        const struct thread *other = &warp[lane];
        if (other->state != THREAD_IN_WARP) return;
        if (other->mask != mask || !is_same_place(self, other)) {
            fail("the lanes of the mask are in different operations", self->file, self->line);
            return;
        }
    }
    uint64_t values[GRID_WARP] = {0};
    for (unsigned lane = 0; lane < GRID_WARP; lane++)
        if (mask >> lane & 1) values[lane] = warp[lane].value;
    for (unsigned lane = 0; lane < GRID_WARP; lane++)
        if (mask >> lane & 1) {
            memcpy(warp[lane].received, values, sizeof values);
            warp[lane].state = THREAD_READY;
        }
}

/* Releases all threads if all of them wait at the barrier. Returns false when the block has ended.
 */
static bool release_block(void)
{
    const struct thread *first = &grid.threads[0]; /* of those that wait at a barrier */
    unsigned ended = 0;
    for (unsigned i = 0; i < grid.thread_count; i++) {
        const struct thread *thread = &grid.threads[i];
        ended += thread->state == THREAD_ENDED;
        if (thread->state == THREAD_ENDED && thread->copy_count > 0)
            fail("a thread ends with copies that it has not waited for", __FILE__, __LINE__);
        if (first->state == THREAD_ENDED) first = thread;
        if (thread->state == THREAD_IN_WARP)
            fail("a lane waits for lanes that never come", thread->file, thread->line);
    }
    if (ended == grid.thread_count || grid.failure) return false;
    for (unsigned i = 0; i < grid.thread_count; i++) {
        const struct thread *thread = &grid.threads[i];
        if (thread->state == THREAD_ENDED) {
            fail("a thread ends while others wait at a barrier", first->file, first->line);
            return false;
        }
        if (!is_same_place(first, thread)) {
            fail("threads wait at different barriers", thread->file, thread->line);
            return false;
        }
    }
    for (unsigned i = 0; i < grid.thread_count; i++)
        grid.threads[i].state = THREAD_READY;
    return true;
}

/* Runs each of the warp's threads that can run, once. Returns whether any could. */
static bool run_warp(unsigned begin)
{
    const unsigned left = grid.thread_count - begin;
    const unsigned lanes = left < GRID_WARP ? left : GRID_WARP;
    const unsigned start = grid.order == GRID_RANDOM ? (unsigned)(next_random() % lanes) : 0;
    const bool falling =
        grid.order == GRID_FALLING || (grid.order == GRID_RANDOM && next_random() % 2 == 0);
    bool ran = false;
    for (unsigned i = 0; i < lanes && !grid.failure; i++) {
        const unsigned lane = (falling ? lanes - 1 - i : i) + start;
        const unsigned thread = begin + lane % lanes;
        if (grid.threads[thread].state != THREAD_READY) continue;
        resume(thread);
        ran = true;
        if (grid.threads[thread].state == THREAD_IN_WARP) release_lanes(thread);
    }
    return ran;
}

/* Runs all warps until every thread waits at a barrier or has ended. In rising and falling order a
 * warp runs as far as it can before the next one starts. */
static void run_to_barrier(void)
{
    const unsigned warps = (grid.thread_count + GRID_WARP - 1) / GRID_WARP;
    for (bool ran = true; ran && !grid.failure;) {
        ran = false;
        const unsigned start = grid.order == GRID_RANDOM ? (unsigned)(next_random() % warps) : 0;
        for (unsigned i = 0; i < warps; i++) {
            const unsigned warp = grid.order == GRID_FALLING ? warps - 1 - i : (i + start) % warps;
            while (run_warp(warp * GRID_WARP)) {
                ran = true;
                if (grid.order == GRID_RANDOM && next_random() % 4 == 0) break;
            }
        }
    }
}

static void run_block(const struct grid_launch *launch, struct grid_index block)
{
    memset(mr_cuda_shared, 0xff, launch->shared_bytes);
    grid_here.block = block;
    for (unsigned i = 0; i < grid.thread_count; i++)
        thread_start(i);
    do
        run_to_barrier();
    while (!grid.failure && release_block());
}

void grid_set_order(enum grid_order order, uint64_t seed)
{
    grid.order = order;
    grid.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static const char *check_launch(const struct grid_launch *launch)
{
    const struct grid_index *size = &launch->grid, *block = &launch->block;
    const uint64_t threads = (uint64_t)block->x * block->y * block->z;
    if (threads == 0 || threads > GRID_THREADS_MAX) return "no block has so many threads";
    if (size->x == 0 || size->y == 0 || size->z == 0 || size->x > 0x7fffffffu || size->y > 65535 ||
        size->z > 65535)
        return "no grid has such a size";
    if (launch->shared_bytes > GRID_SHARED_BYTES) return "too much dynamic shared memory";
    return NULL;
}

const char *grid_run(const struct grid_launch *launch)
{
    const char *problem = check_launch(launch);
    if (problem) return problem;
    if (!grid.stacks) {
        grid.stacks = mmap(NULL, GRID_THREADS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (grid.stacks == MAP_FAILED) abort();
    }
    if (grid.failure) /* the threads of the failed launch never left their stacks */
        __asan_unpoison_memory_region(grid.stacks, GRID_THREADS_MAX * STACK_BYTES);
    grid.failure = NULL;
    grid.launch = launch;
    grid.thread_count = launch->block.x * launch->block.y * launch->block.z;
    grid_here.block_size = launch->block;
    grid_here.grid_size = launch->grid;
    __asan_poison_memory_region(mr_cuda_shared, GRID_SHARED_BYTES);
    __asan_unpoison_memory_region(mr_cuda_shared, launch->shared_bytes);
    const uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
    for (uint64_t i = 0; i < blocks && !grid.failure; i++) {
        const uint64_t at = grid.order == GRID_FALLING ? blocks - 1 - i : i;
        run_block(launch, (struct grid_index){(unsigned)(at % launch->grid.x),
                                              (unsigned)(at / launch->grid.x % launch->grid.y),
                                              (unsigned)(at / launch->grid.x / launch->grid.y)});
    }
    return grid.failure;
}
