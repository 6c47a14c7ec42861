/* Two engines share a remote cache with injected faults (lost, delayed and flushed items, refused
 * calls, wrong answers) in virtual time; a seed determines each run. Every answer equals that of
 * the fake model for the same tokens, and the engines' invariants hold after every step.
 * `sim_test_shared_cache SEED` runs one seed. */
#include "tests/fakes/engine_rig.h"

#include "codec/check.h"
#include "kvcache/kv_window.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define WORLDS 60u
#else
#define WORLDS 150u
#endif
#define REQUESTS     60u
#define PROMPT_MAX   1500u
#define ROWS_MAX     1700u
#define WINDOW       (MR_BLOCK_TOKENS + 44u)
#define OUTPUT_MAX   24u
#define TEXTS        4u
#define CANCEL_EVERY 11u

struct spec {
    uint32_t prompt[PROMPT_MAX], count, output;
    bool cancelled;
};

struct world {
    uint64_t random;
    struct fake_remote *remotes[2];
    struct engine_rig rigs[2];
    struct spec *specs; /* [2 * REQUESTS] */
    bool slides;        /* some layers have a sliding window */
};

struct totals {
    uint64_t requests, loaded_tokens, missing, waits_ended, unused, stored, refused, preemptions;
    uint64_t entries, direct_bytes, staged_bytes, failures;
};

static uint32_t below(struct world *world, uint32_t bound)
{
    world->random = world->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(world->random >> 33) % bound;
}

static struct fake_remote_options make_tier(struct world *world)
{
    bool calm = below(world, 4) == 0;
    return (struct fake_remote_options){
        .latency_ns = 1000 + below(world, 3000000),
        .bytes_per_second = 1e4 * (double)(1 + below(world, 20000)),
        .unmeasured = below(world, 4) == 0,
        .lose_percent = calm ? 0 : below(world, 60),
        .late_percent = calm ? 0 : below(world, 40),
        .refuse_percent = calm ? 0 : below(world, 30),
        .lie_percent = calm ? 0 : below(world, 50),
        .items_max = below(world, 3) == 0 ? 3 + below(world, 20) : 0,
        .down = below(world, 20) == 0,
        .seed = below(world, 1000000),
    };
}

/* steps_ahead: of both models, see model_port.h */
static void make_rig(struct world *world, uint32_t index, uint32_t steps_ahead)
{
    static const int32_t chunks[] = {64, 255, 256, 512, 0};
    const uint32_t step = mr_kv_window_blocks(WINDOW, ROWS_MAX);
    struct engine_rig *rig = &world->rigs[index];
    rig_init(rig);
    const uint32_t context = rig->options.context_tokens / MR_BLOCK_TOKENS;
    const uint32_t slots_min =
        (step < context ? step : context) + 1; /* fewer slots cannot hold a sequence */
    rig->options.sequences_max = 1 + below(world, 6);
    rig->options.block_count = PROMPT_MAX / MR_BLOCK_TOKENS + 2 + below(world, 16);
    rig->options.rows_max = ROWS_MAX;
    rig->options.chunk_tokens = chunks[below(world, 5)];
    rig->options.prefills_max = 1 + below(world, 3);
    rig->options.prompt_cache_entries = below(world, 2) * 4;
    rig->options.remote_staging_bytes = below(world, 4) == 0 ? 1 : (uint64_t)1 << 17;
    rig->options.force_preempt_every = below(world, 3) == 0 ? 3 + below(world, 5) : 0;
    rig->options.queue_count_max = REQUESTS;
    rig->options.window_tokens = WINDOW;
    rig->options.window_slots = world->slides ? slots_min + below(world, 9) : 0;
    rig->fake_options.vocab_size = 40;
    rig->fake_options.steps_ahead = steps_ahead;
    rig->fake_options.remote = below(world, 4) == 0;
    rig->remote = world->remotes[index];
    rig_start(rig);
    fake_remote_set_clock(rig->remote, &rig->fake->now_ns);
}

static void submit(struct world *world, uint32_t index, uint32_t ticket)
{
    static const char *const tenants[] = {"one", "two"};
    struct engine_rig *rig = &world->rigs[index];
    struct spec *spec = &world->specs[index * REQUESTS + ticket];
    uint32_t shared = below(world, PROMPT_MAX - 100), own = below(world, 3) * below(world, 40);
    char id[24];
    if (below(world, 3) == 0) shared = (1 + below(world, 5)) * MR_BLOCK_TOKENS;
    rig_tokens(rig, 1 + below(world, TEXTS), spec->prompt, shared);
    rig_tokens(rig, 100 + below(world, 1000), spec->prompt + shared, own);
    spec->count = shared + own > 0 ? shared + own : 1;
    if (shared + own == 0) spec->prompt[0] = 3;
    spec->output = 1 + below(world, OUTPUT_MAX);
    snprintf(id, sizeof id, "r%u", ticket);
    struct mr_request *request = mr_fake_request(id, spec->prompt, spec->count);
    request->max_tokens = spec->output;
    request->ignore_eos = true;
    request->cache_read = below(world, 10) != 0;
    request->cache_write = below(world, 10) != 0;
    if (below(world, 3) == 0) request->session = (struct mr_text){"s", 1};
    MR_ASSERT(rig_submit_as(rig, (struct mr_submission){.request = request,
                                                        .ticket = ticket,
                                                        .tenant = tenants[below(world, 2)]}) ==
              MR_OK);
}

static bool step(struct world *world, uint32_t index)
{
    bool more = rig_step(&world->rigs[index]);
    mr_engine_check(world->rigs[index].engine);
    return more;
}

/* Steps both engines in turn; at random times flushes the remote cache or cancels a request. */
static void run_world(struct world *world)
{
    uint32_t submitted[2] = {0, 0}, steps = 0;
    for (bool more = true; more; steps++) {
        more = false;
        for (uint32_t index = 0; index < 2; index++) {
            if (submitted[index] < REQUESTS && below(world, 4) == 0)
                submit(world, index, submitted[index]++);
            if (submitted[index] > 0 && below(world, CANCEL_EVERY * 8) == 0) {
                uint32_t ticket = below(world, submitted[index]);
                char id[24];
                snprintf(id, sizeof id, "r%u", ticket);
                if (mr_engine_cancel(world->rigs[index].engine, 0,
                                     (struct mr_text){id, strlen(id)}))
                    world->specs[index * REQUESTS + ticket].cancelled = true;
            }
            more = step(world, index) || submitted[index] < REQUESTS || more;
        }
        if (below(world, 200) == 0) fake_remote_flush(world->remotes[0]);
        MR_ASSERT(steps < 200000);
    }
}

/* Steps until the remote cache has answered all requests. */
static void drain_remote(struct world *world, uint32_t index)
{
    struct engine_rig *rig = &world->rigs[index];
    for (uint64_t next_ns; (next_ns = fake_remote_next_ns(rig->remote)) != UINT64_MAX;) {
        if (next_ns > rig->fake->now_ns) rig->fake->now_ns = next_ns;
        step(world, index);
    }
}

static bool is_right(const struct world *world, uint32_t index, uint32_t ticket)
{
    const struct engine_rig *rig = &world->rigs[index];
    const struct spec *spec = &world->specs[index * REQUESTS + ticket];
    const struct rig_seen *seen = &rig->seen[ticket];
    const struct rig_choice *choice = &seen->choices[0];
    uint32_t expected[OUTPUT_MAX];
    if (seen->results != 1 || choice->token_count > spec->output) return false;
    if (!spec->cancelled && choice->token_count != spec->output) return false;
    if (seen->result.cached_tokens > spec->count ||
        seen->result.cached_tokens_redis > seen->result.cached_tokens)
        return false;
    rig_expect(rig, spec->prompt, spec->count, expected, choice->token_count);
    return memcmp(choice->tokens, expected, choice->token_count * sizeof *expected) == 0;
}

static void count(struct world *world, uint32_t index, struct totals *totals)
{
    struct mr_engine_stats stats = mr_engine_stats(world->rigs[index].engine);
    totals->loaded_tokens += stats.remote.loaded_tokens;
    totals->entries += stats.remote.loaded_entries;
    totals->missing += stats.remote.missing_values;
    totals->waits_ended += stats.remote.waits_ended;
    totals->unused += stats.remote.unused_values;
    totals->stored += stats.remote.stored_values;
    totals->refused += stats.remote.lookups_refused + stats.remote.stores_refused;
    totals->preemptions += stats.preemptions;
    totals->direct_bytes += stats.remote.direct_bytes;
    totals->staged_bytes += stats.remote.staged_bytes;
    bool idle = stats.cache.held_count == 0 && world->rigs[index].fake->wrong_reads == 0;
    totals->failures += !idle;
}

static void run_seed(uint64_t seed, struct totals *totals)
{
    struct world *world = calloc(1, sizeof *world);
    MR_ASSERT(world != NULL);
    world->specs = calloc((size_t)2 * REQUESTS, sizeof *world->specs);
    MR_ASSERT(world->specs != NULL);
    world->random = seed * 0x9e3779b97f4a7c15u + 1;
    struct fake_remote_options first = make_tier(world), second = make_tier(world);
    world->remotes[0] = fake_remote_create(&first, NULL);
    world->remotes[1] = fake_remote_create(&second, world->remotes[0]);
    world->slides = below(world, 2) == 0;
    for (uint32_t index = 0; index < 2; index++)
        make_rig(world, index, (uint32_t)(seed % (MR_STEPS_AHEAD_MAX + 1)));
    run_world(world);
    for (uint32_t index = 0; index < 2; index++) {
        for (uint32_t ticket = 0; ticket < REQUESTS; ticket++) {
            bool right = is_right(world, index, ticket);
            totals->requests++;
            totals->failures += !right;
            if (!right) printf("seed %" PRIu64 ": request %u of engine %u\n", seed, ticket, index);
        }
        drain_remote(world, index);
        count(world, index, totals);
    }
    for (uint32_t index = 2; index-- > 0;) {
        rig_end(&world->rigs[index]);
        fake_remote_destroy(world->remotes[index]);
    }
    free(world->specs);
    free(world);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t worlds = argc > 1 ? 1 : WORLDS;
    struct totals totals = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (uint64_t seed = first; seed < first + worlds; seed++)
        run_seed(seed, &totals);
    printf("%" PRIu64 " requests, %" PRIu64 " tokens and %" PRIu64 " entries loaded, %" PRIu64
           " items missing, %" PRIu64 " unused, %" PRIu64 " waits ended, %" PRIu64
           " items stored, %" PRIu64 " calls refused, %" PRIu64 " preemptions, %" PRIu64
           " failures\n",
           totals.requests, totals.loaded_tokens, totals.entries, totals.missing, totals.unused,
           totals.waits_ended, totals.stored, totals.refused, totals.preemptions, totals.failures);
    if (argc > 1) return totals.failures != 0;
    bool happened = totals.loaded_tokens > 0 && totals.entries > 0 && totals.missing > 0 &&
                    totals.waits_ended > 0 && totals.refused > 0 && totals.preemptions > 0 &&
                    totals.direct_bytes > 0 && totals.staged_bytes > 0;
    if (!happened) printf("an expected event never happened\n");
    return totals.failures == 0 && happened ? 0 : 1;
}
