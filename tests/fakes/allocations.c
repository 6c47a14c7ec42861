#include "tests/fakes/allocations.h"

#include "codec/check.h"

#include <stddef.h>
#include <stdlib.h>

static volatile bool counting;
static volatile uint64_t counted;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static void note(const volatile void *block, size_t size)
{
    (void)block;
    (void)size;
    counted = counted + counting;
}

static void ignore(const volatile void *block)
{
    (void)block;
}

static void hook(void)
{
    MR_ASSERT(__sanitizer_install_malloc_and_free_hooks(note, ignore) > 0);
}
#else
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

void *malloc(size_t size)
{
    counted = counted + counting;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    counted = counted + counting;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    counted = counted + counting;
    return __libc_realloc(block, size);
}

static void hook(void)
{
}
#endif

void allocations_install(void)
{
    hook();
    allocations_count(true);
    void *volatile one = malloc(1);
    allocations_count(false);
    free(one);
    MR_ASSERT(counted == 1); /* it counts */
}

void allocations_count(bool on)
{
    counting = on;
}

uint64_t allocations_counted(void)
{
    return counted;
}
