#include "worker/base/slice.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline, period;
    uint32_t util_min, util_max;
};

static struct attr now(void)
{
    struct attr attr = {0};
    assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0), 0);
    return attr;
}

static void *look(void *out)
{
    *(struct attr *)out = now();
    return NULL;
}

static struct attr child(void)
{
    struct attr attr;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look, &attr), 0);
    pthread_join(thread, NULL);
    return attr;
}

/* Whether this kernel supports short slices. */
static bool kept(void)
{
    struct attr attr = now();
    attr.size = sizeof attr;
    attr.runtime_ns = 1500000;
    assert_int_equal(syscall(SYS_sched_setattr, 0, &attr, 0), 0);
    return now().runtime_ns == attr.runtime_ns;
}

static void new_threads_inherit_a_short_slice_until_it_is_reset(void **state)
{
    (void)state;
    const bool known = kept();
    mr_slice_usual();
    const uint64_t usual_ns = child().runtime_ns;
    mr_slice_short();
    if (known)
        assert_true(child().runtime_ns < usual_ns);
    else
        assert_true(child().runtime_ns == usual_ns);
    mr_slice_usual();
    assert_true(child().runtime_ns == usual_ns);
}

static void nothing_else_changes(void **state)
{
    (void)state;
    const int own = now().nice,
              wanted = own < 16 ? own + 3 : 19; /* the tests may run at any niceness */
    assert_int_equal(nice(3), wanted);
    const struct attr before = now();
    mr_slice_short();
    const struct attr during = child();
    mr_slice_usual();
    const struct attr after = now();
    assert_int_equal(during.policy, before.policy);
    assert_int_equal(during.nice, wanted);
    assert_int_equal(after.policy, before.policy);
    assert_int_equal(after.nice, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_threads_inherit_a_short_slice_until_it_is_reset),
        cmocka_unit_test(nothing_else_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
