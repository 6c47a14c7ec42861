/* Simulated fleets, each from one seed: sim_test_fleet [FIRST [COUNT [JOBS]]].
 *
 * Without arguments it runs SEEDS seeds, one of them twice, and checks that both runs are equal.
 * With FIRST alone it runs that seed and prints the scenario and the trace. JOBS is the number of
 * processes that share the seeds. A process reduces its first failing seed: it leaves out requests
 * and faults as long as the run still fails in the same way. */
#include "tests/sim/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS 300u
/* from this number of seeds on, every counted event must have occurred */
#define COVERING_SEEDS 2000u

static struct scenario scenario;
static char wrong[512];

static bool run(bool trace, struct coverage *coverage, uint64_t *hash)
{
    struct fleet_options options = {.trace = trace};
    return fleet_run(&scenario, &options, coverage, wrong, sizeof wrong, hash);
}

/* ---- shrinking ---- */

/* Whether the scenario still fails, with the same first word. */
static bool still_fails(const char *first)
{
    struct coverage coverage = {0};
    uint64_t hash;
    scenario_settle(&scenario);
    bool right = run(false, &coverage, &hash);
    size_t length = strcspn(first, ":");
    return !right && strcspn(wrong, ":") == length && memcmp(wrong, first, length) == 0;
}

/* Leaves out the element if the scenario still fails without it. */
static bool leave_out(bool *left_out, const char *first)
{
    if (*left_out) return false;
    *left_out = true;
    if (still_fails(first)) return true;
    *left_out = false;
    return false;
}

static void shrink(void)
{
    char first[sizeof wrong];
    bool smaller = true;
    memcpy(first, wrong, sizeof first);
    while (smaller) {
        smaller = false;
        for (uint32_t i = 0; i < scenario.fault_count; i++)
            smaller |= leave_out(&scenario.faults[i].left_out, first);
        for (uint32_t i = scenario.plan_count; i > 0; i--)
            smaller |= leave_out(&scenario.plans[i - 1].left_out, first);
    }
    still_fails(first);
    printf("the smallest scenario that fails: %s\n", wrong);
    scenario_print(&scenario);
}

/* ---- running ---- */

static bool run_seed(uint64_t seed, bool trace, struct coverage *coverage, uint64_t *hash)
{
    scenario_make(&scenario, seed);
    if (trace) scenario_print(&scenario);
    bool right = run(trace, coverage, hash);
    if (trace) printf("hash %016" PRIx64 "\n", *hash);
    if (right) return true;
    printf("seed %" PRIu64 ": %s\n", seed, wrong);
    return false;
}

static bool is_deterministic(uint64_t seed)
{
    struct coverage coverage = {0};
    uint64_t first, second;
    run_seed(seed, false, &coverage, &first);
    run_seed(seed, false, &coverage, &second);
    if (first != second) printf("seed %" PRIu64 " gives two different runs\n", seed);
    return first == second;
}

struct totals {
    struct coverage coverage;
    uint64_t failures, hashes;
};

/* Runs the seeds first, first + stride and so on below end. */
static void run_seeds(uint64_t first, uint64_t end, uint64_t stride, struct totals *totals)
{
    uint64_t hash = 0;
    for (uint64_t seed = first; seed < end; seed += stride) {
        if (!run_seed(seed, false, &totals->coverage, &hash)) {
            if (totals->failures++ == 0) shrink();
        }
        totals->hashes ^= hash;
    }
}

static void add(struct totals *sum, const struct totals *one)
{
    for (int kind = 0; kind < COVERAGE_COUNT; kind++)
        sum->coverage.counts[kind] += one->coverage.counts[kind];
    sum->failures += one->failures;
    sum->hashes ^= one->hashes;
}

/* The same in several processes, each of which writes its totals to a pipe. A process that dies
 * counts as one failure. */
static void run_jobs(uint64_t first, uint64_t end, uint64_t jobs, struct totals *totals)
{
    int ends[2];
    struct totals one = {0};
    if (pipe(ends) != 0) exit(2);
    for (uint64_t i = 0; i < jobs; i++) {
        if (fork() != 0) continue;
        run_seeds(first + i, end, jobs, &one);
        /* smaller than PIPE_BUF, so the write is atomic */
        if (write(ends[1], &one, sizeof one) != (ssize_t)sizeof one) _exit(2);
        fleet_free_shared();
        exit(0);
    }
    close(ends[1]);
    for (uint64_t i = 0; i < jobs; i++)
        if (read(ends[0], &one, sizeof one) == (ssize_t)sizeof one)
            add(totals, &one);
        else
            totals->failures++;
    close(ends[0]);
    while (wait(NULL) > 0)
        ;
}

static uint32_t count_missing(const struct coverage *coverage, bool show)
{
    uint32_t missing = 0;
    for (int kind = 0; kind < COVERAGE_COUNT; kind++) {
        missing += coverage->counts[kind] == 0;
        if (show)
            printf("%12" PRIu64 "  %s\n", coverage->counts[kind],
                   coverage_text((enum coverage_kind)kind));
    }
    return missing;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : SEEDS;
    uint64_t jobs = argc > 3 ? strtoull(argv[3], NULL, 10) : 1, hash;
    struct totals totals = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2) {
        bool right = run_seed(first, true, &totals.coverage, &hash);
        if (!right) shrink();
        fleet_free_shared();
        return !right;
    }
    if (jobs > 1)
        run_jobs(first, first + count, jobs, &totals);
    else
        run_seeds(first, first + count, 1, &totals);
    if (argc == 1) totals.failures += !is_deterministic(first);
    bool covering = count >= COVERING_SEEDS;
    uint32_t missing = count_missing(&totals.coverage, covering);
    printf("%" PRIu64 " seeds, %" PRIu64
           " failed, %u of %d kinds of events missing, hash %016" PRIx64 "\n",
           count, totals.failures, missing, COVERAGE_COUNT, totals.hashes);
    fleet_free_shared();
    return totals.failures > 0 || (covering && missing > 0);
}
