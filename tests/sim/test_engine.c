/* Hundreds of simulated engines, each from one seed. `sim_test_engine SEED` runs one and prints its
 * options; `sim_test_engine FIRST COUNT` runs a range. */
#include "tests/sim/sim_engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SEEDS 600u

struct totals {
    uint64_t requests, finished[MR_FINISH_COUNT], preemptions, cached, refused, steps, hits;
    uint64_t fed;              /* rows whose input token was not known yet at the launch */
    uint64_t drafts, accepted; /* of speculation */
};

static void count(const struct sim_world *world, struct totals *totals)
{
    struct mr_engine_stats stats = mr_engine_stats(world->engine);
    totals->requests += world->request_count;
    totals->preemptions += stats.preemptions;
    totals->cached += stats.cached_tokens;
    totals->hits += stats.prompt_cache_hits;
    totals->steps += stats.steps;
    totals->drafts += stats.draft_tokens;
    totals->accepted += stats.accepted_draft_tokens;
    totals->fed += world->fake->fed_count;
    for (uint32_t i = 0; i < MR_FINISH_COUNT; i++)
        totals->finished[i] += stats.finished[i];
    for (uint32_t i = 0; i < world->request_count; i++)
        totals->refused += !world->requests[i].accepted;
}

static bool run(uint64_t seed, struct totals *totals, bool verbose)
{
    char text[200];
    struct sim_world *world = sim_create(seed);
    const struct mr_engine_options *options = &world->options;
    if (verbose)
        printf("seed %" PRIu64 ": %u blocks, context %u, %u sequences, %u rows, chunk %d\n", seed,
               options->block_count, options->context_tokens, options->sequences_max,
               options->rows_max, options->chunk_tokens);
    sim_run(world);
    const char *wrong = sim_check(world, text, sizeof text);
    count(world, totals);
    if (wrong != NULL) printf("seed %" PRIu64 ": %s\n", seed, wrong);
    sim_destroy(world);
    return wrong == NULL;
}

/* A simulation in which an event never happens does not test it. */
static bool everything_happened(const struct totals *totals)
{
    bool all = totals->preemptions > 0 && totals->cached > 0 && totals->refused > 0 &&
               totals->hits > 0 && totals->fed > 0 && totals->accepted > 0 &&
               totals->accepted < totals->drafts;
    static const enum mr_finish finishes[] = {
        MR_FINISH_EOS,      MR_FINISH_LENGTH,    MR_FINISH_STOP_TOKEN,    MR_FINISH_CONTEXT_FULL,
        MR_FINISH_DEADLINE, MR_FINISH_CANCELLED, MR_FINISH_POOL_EXHAUSTED};
    for (size_t i = 0; i < sizeof finishes / sizeof *finishes; i++)
        if (totals->finished[finishes[i]] == 0) {
            printf("no request ended with %s\n", mr_finish_text(finishes[i]));
            all = false;
        }
    return all;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t worlds = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : SEEDS;
    struct totals totals = {0};
    uint64_t failures = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (uint64_t seed = first; seed < first + worlds; seed++)
        failures += !run(seed, &totals, argc == 2);
    printf("%" PRIu64 " worlds, %" PRIu64 " requests, %" PRIu64 " steps, %" PRIu64
           " preemptions, %" PRIu64 " cached tokens, %" PRIu64 " whole prompts known, %" PRIu64
           " rows fed by the step before, %" PRIu64 " drafts, %" PRIu64 " of them right, %" PRIu64
           " refused, %" PRIu64 " worlds failed\n",
           worlds, totals.requests, totals.steps, totals.preemptions, totals.cached, totals.hits,
           totals.fed, totals.drafts, totals.accepted, totals.refused, failures);
    if (argc == 1 && !everything_happened(&totals)) failures++;
    return failures == 0 ? 0 : 1;
}
