#include "tests/sweep/sweep.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GROUP 256u /* lives between two searches for leaks */

static struct {
    const char *life;
    enum point_kind kind;
    uint64_t n;
    bool begun;
} now;

#if defined(__SANITIZE_ADDRESS__)
int __lsan_do_recoverable_leak_check(void);
void __sanitizer_set_death_callback(void (*callback)(void));

static bool leaks(void)
{
    return __lsan_do_recoverable_leak_check() != 0;
}
#else
static bool leaks(void)
{
    return false;
}
#endif

/* Prints which life is running. Uses only calls that are allowed in a signal handler. */
static void say_where(void)
{
    char line[160];
    if (!now.life) return;
    int length = snprintf(line, sizeof line, "sweep: in life %s %s %llu; failed: %s\n", now.life,
                          point_kind_name(now.kind), (unsigned long long)now.n,
                          points_failed() ? points_failed() : "nothing");
    if (write(STDERR_FILENO, line, (size_t)length) < 0) _exit(3);
}

static void on_abort(int number)
{
    say_where();
    signal(number, SIG_DFL);
    raise(number);
}

void sweep_broken(const char *what, const char *file, int line)
{
    points_disarm();
    fprintf(stderr, "sweep: %s:%d: not true: %s\n", file, line, what);
    say_where();
    _exit(1);
}

void sweep_begin(void)
{
    now.begun = true;
    points_arm(now.kind, now.n);
}

const char *sweep_end(void)
{
    points_disarm();
    return points_failed();
}

/* Runs one life. Returns the number of calls that could have failed. */
static uint64_t live(const struct sweep_life *life, enum point_kind kind, uint64_t n)
{
    now.life = life->name;
    now.kind = kind;
    now.n = n;
    now.begun = false;
    life->live();
    if (!now.begun) sweep_broken("the life has begun", __FILE__, __LINE__);
    return points_disarm();
}

static void search_leaks(uint64_t from, uint64_t to)
{
    if (!leaks()) return;
    fprintf(stderr, "sweep: a leak in one of life %s %s %llu to %llu\n", now.life,
            point_kind_name(now.kind), (unsigned long long)from, (unsigned long long)to);
    _exit(1);
}

static void sweep(const struct sweep_life *life, enum point_kind kind)
{
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    uint64_t count = live(life, kind, 0), n = 0, searched = 0;
    do {
        live(life, kind, ++n);
        if (n - searched < GROUP && points_failed()) continue;
        search_leaks(searched + 1, n);
        searched = n;
    } while (points_failed() || n < count);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%-24s %-7s %6llu calls, each failed once, %.1f s\n", life->name, point_kind_name(kind),
           (unsigned long long)(n - 1),
           (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec));
    fflush(stdout);
}

static int live_one(char **argv, const struct sweep_life *lives, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int kind = 0; kind < POINT_KINDS; kind++) {
            if (strcmp(argv[1], lives[i].name) != 0) continue;
            if (strcmp(argv[2], point_kind_name((enum point_kind)kind)) != 0) continue;
            points_trace();
            live(&lives[i], (enum point_kind)kind, strtoull(argv[3], NULL, 10));
            printf("failed: %s\n", points_failed() ? points_failed() : "nothing");
            return leaks();
        }
    fprintf(stderr, "usage: %s [--all | LIFE [memory|system|tensor [N]]]\n", argv[0]);
    return 2;
}

int sweep_main(int argc, char **argv, const struct sweep_life *lives, size_t count)
{
    signal(SIGABRT, on_abort);
    signal(SIGPIPE, SIG_IGN);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_set_death_callback(say_where);
#endif
    if (argc == 4) return live_one(argv, lives, count);
    bool all = argc == 2 && strcmp(argv[1], "--all") == 0;
    for (size_t i = 0; i < count; i++) {
        bool named = argc > 1 && strcmp(argv[1], lives[i].name) == 0;
        if (!all && !named && (argc > 1 || lives[i].slow)) continue;
        for (int kind = 0; kind < POINT_KINDS; kind++)
            if (argc < 3 || strcmp(argv[2], point_kind_name((enum point_kind)kind)) == 0)
                sweep(&lives[i], (enum point_kind)kind);
    }
    return 0;
}
