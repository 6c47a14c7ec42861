#include "worker/engine/machine.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* A folder that stands for the root of a machine. */
static char root[64];

static void write_text(const char *path, const char *text)
{
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static struct mr_machine machine(void)
{
    struct mr_machine read;
    mr_machine_read(&read, root);
    assert_true(read.core_count >= 1 && read.memory_bytes > 0);
    return read;
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/millrace-machine-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command); /* NOLINT: a folder of this test */
}

#define MOUNTS_2                                                                                   \
    "24 30 0:22 / /proc rw - proc proc rw\n"                                                       \
    "31 30 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

static void the_tightest_ancestor_of_version_2_counts(void **state)
{
    (void)state;
    write_text("/proc/self/cgroup", "0::/pods/worker.slice/job\n");
    write_text("/proc/self/mountinfo", MOUNTS_2);
    write_text("/sys/fs/cgroup/pods/cpu.max", "150000 100000\n");
    write_text("/sys/fs/cgroup/pods/memory.max", "4294967296\n");
    write_text("/sys/fs/cgroup/pods/worker.slice/cpu.max", "400000 100000\n");
    write_text("/sys/fs/cgroup/pods/worker.slice/memory.max", "1073741824\n");
    write_text("/sys/fs/cgroup/pods/worker.slice/job/cpu.max", "max 100000\n");
    write_text("/sys/fs/cgroup/pods/worker.slice/job/memory.max", "max\n");
    struct mr_machine read = machine();
    assert_true(read.cpu_quota > 1.49 && read.cpu_quota < 1.51);
    assert_true(read.memory_limit_bytes == 1u << 30);
    write_text("/sys/fs/cgroup/pods/worker.slice/job/cpu.max", "50000 200000\n");
    assert_true(machine().cpu_quota == 0.25);
}

static void a_group_without_limits_has_none(void **state)
{
    (void)state;
    write_text("/proc/self/cgroup", "0::/\n");
    write_text("/proc/self/mountinfo", MOUNTS_2);
    write_text("/sys/fs/cgroup/cgroup.procs", "1\n");
    struct mr_machine read = machine();
    assert_true(read.cpu_quota == 0);
    assert_int_equal(read.memory_limit_bytes, 0);
    write_text("/sys/fs/cgroup/cpu.max", "200000 100000\n"); /* a namespace of its own */
    assert_true(machine().cpu_quota == 2);
}

#define MOUNTS_1                                                                                   \
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"                                   \
    "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"        \
    "33 31 0:30 / /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n"                     \
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                            \
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static void version_1_has_a_file_for_quota_and_period(void **state)
{
    (void)state;
    write_text("/proc/self/cgroup", "9:cpuset:/docker/abc\n4:memory:/docker/abc\n"
                                    "3:cpu,cpuacct:/docker/abc/inner\n0::/\n");
    write_text("/proc/self/mountinfo", MOUNTS_1);
    write_text("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
    write_text("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    write_text("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n");
    write_text("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
    write_text("/sys/fs/cgroup/my memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_text("/sys/fs/cgroup/my memory/docker/abc/memory.limit_in_bytes", "536870912\n");
    write_text("/sys/fs/cgroup/unified/cpu.max", "1000 100000\n"); /* not this controller's */
    struct mr_machine read = machine();
    assert_true(read.cpu_quota == 2.5);
    assert_int_equal(read.memory_limit_bytes, 1u << 29);
    write_text("/sys/fs/cgroup/my memory/docker/abc/memory.limit_in_bytes",
               "9223372036854771712\n");
    assert_int_equal(machine().memory_limit_bytes, 0);
}

static void what_cannot_be_read_limits_nothing(void **state)
{
    (void)state;
    static const char *const groups[] = {
        "", "\n", "0:", "0::", "nonsense", "0::/../../x\n", "0::/none\n", "4:cpu:/docker/abcdef\n"};
    static const char *const mounts[] = {"", "\n", "31 23 0:28 / /x rw - cgroup2\n",
                                         "31 - cgroup2 cgroup2 rw\n", MOUNTS_2};
    static const char *const quotas[] = {"",           "max",      "100000",
                                         "x 100000",   "100000 0", "-5 100000",
                                         "nan 100000", "1e999 1",  "100000 max"};
    assert_true(machine().cpu_quota == 0);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        for (size_t k = 0; k < sizeof mounts / sizeof *mounts; k++) {
            write_text("/proc/self/cgroup", groups[i]);
            write_text("/proc/self/mountinfo", mounts[k]);
            struct mr_machine read = machine();
            assert_true(read.cpu_quota == 0 && read.memory_limit_bytes == 0);
        }
    write_text("/proc/self/cgroup", "0::/\n");
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++) {
        write_text("/sys/fs/cgroup/cpu.max", quotas[i]);
        if (machine().cpu_quota != 0) fail_msg("%s", quotas[i]);
    }
}

static void threads_are_the_cores_or_the_quota_rounded_up(void **state)
{
    (void)state;
    static const struct {
        uint32_t cores;
        double quota;
        uint32_t threads;
    } cases[] = {{64, 0, 64}, {64, 2, 2},     {64, 1.5, 2}, {64, 0.1, 1},
                 {2, 3.5, 2}, {1024, 0, 256}, {0, 0, 1},    {4, 1e300, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_machine one = {.core_count = cases[i].cores, .cpu_quota = cases[i].quota};
        assert_int_equal(mr_machine_thread_count(&one), cases[i].threads);
    }
    struct mr_machine one = {.memory_bytes = 1000};
    assert_int_equal(mr_machine_usable_bytes(&one), 1000);
    one.memory_limit_bytes = 400;
    assert_int_equal(mr_machine_usable_bytes(&one), 400);
    one.memory_limit_bytes = 4000;
    assert_int_equal(mr_machine_usable_bytes(&one), 1000);
    one.memory_bytes = 0;
    assert_int_equal(mr_machine_usable_bytes(&one), 4000);
}

#define IN_A_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_ROOT(the_tightest_ancestor_of_version_2_counts),
        IN_A_ROOT(a_group_without_limits_has_none),
        IN_A_ROOT(version_1_has_a_file_for_quota_and_period),
        IN_A_ROOT(what_cannot_be_read_limits_nothing),
        cmocka_unit_test(threads_are_the_cores_or_the_quota_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
