/* Two tenants in virtual time: whatever red floods the engine with, a request of blue's, which runs
 * nothing else, has its first token within three steps and its own time at blue's share, and is not
 * preempted while it stays within that share. A prompt with more blocks than blue's share may wait
 * for red's answers to end.
 *
 *     sim_test_tenants                      the first seeds, and the throughput over all of them
 *     sim_test_tenants FIRST COUNT          so many seeds from this one on
 *     sim_test_tenants FIRST COUNT rates    prints the tokens a second of each seed instead of the
 *                                           throughput, to compare it with another version's
 *
 * One seed determines the pool, the model's costs, what the tenants have taught the forecast, red's
 * 10 to 300 requests (prompts of 10 to 7,000 tokens, answers of 100 to 3,000, with deadlines or
 * not) and when blue's requests come. As in the worker, red's requests are submitted while the
 * engine has room for that tenant. */
#include "batching/scheduler/shares.h"
#include "tests/fakes/engine_rig.h"
#include "tests/sim/sim_engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS        60u
#define RED          0u
#define BLUE         1u
#define REDS_MAX     300u
#define TAUGHT_MAX   40u
#define PROBES       5u
#define PROMPT_MAX   7000u
#define OUTPUT_MAX   3000u
#define PROBE_TICKET 1000u
#define STEPS_MAX    4000u /* a run ends here at the latest */
#define WAIT_STEPS   3.0
/* How much longer than alone blue's prompt may take. Prefill gets at least three quarters of a step
 * with decodes, and a tenant half of that. A chunk that ends on a part of a block leaves up to a
 * quarter of its room unused. */
#define SHARE_FACTOR (1 / (0.75 * 0.5 * 0.75))
#define THROUGHPUT   0.95

struct red {
    uint32_t prompt, output,
        lasts;           /* lasts: tokens after which it is cancelled; 0: not cancelled */
    uint64_t timeout_ns; /* 0: no deadline */
    uint32_t tokens;
    bool cancelled;
};

struct world {
    struct sim_random random;
    struct mr_engine_options options;
    struct mr_fake_options costs;
    struct mr_tokenizer *tokenizer;
    struct mr_fake_model *fake;
    struct mr_engine *engine;
    struct red reds[TAUGHT_MAX + REDS_MAX]; /* the first taught_count teach the forecast */
    uint32_t red_count, taught_count, submitted, ended;
    uint32_t steps;
    double longest_ms;     /* of the steps since the current probe was submitted */
    uint64_t probed_ns;    /* when it came */
    uint64_t first_ns;     /* when it had its first token; 0: not yet */
    uint32_t probes;       /* ended */
    uint32_t asked_tokens; /* max_tokens of the present probe */
    uint32_t taken_back;   /* preemptions of probes within blue's share of the blocks */
    uint32_t large;        /* probes whose prompt is larger than blue's share */
    uint64_t tokens;       /* computed of prompts and answers, of all requests */
    uint32_t tokens_ids[PROMPT_MAX];
};

static uint32_t between(struct sim_random *random, uint32_t least, uint32_t most)
{
    return least + sim_below(random, most - least + 1);
}

/* Small numbers are as likely as large ones. */
static uint32_t magnitude(struct sim_random *random, uint32_t least, uint32_t most)
{
    uint32_t top = least;
    while (top < most && sim_below(random, 4) > 0)
        top = top > most / 2 ? most : top * 2;
    return between(random, least, top);
}

/* ---- the sink ---- */

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    struct world *world = context;
    (void)request;
    world->tokens += record->token_count;
    if (ticket >= PROBE_TICKET) {
        if (world->first_ns == 0) world->first_ns = world->fake->now_ns;
        return;
    }
    world->reds[ticket].tokens += (uint32_t)record->token_count;
}

static bool fits_share(const struct world *world, uint32_t tokens)
{
    const uint32_t share = world->options.block_count / 2;
    return mr_blocks_for(tokens) <= share - share / MR_WATERMARK_PART;
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct world *world = context;
    world->tokens += result->prompt_tokens;
    const uint32_t used = (uint32_t)result->prompt_tokens + world->asked_tokens;
    if (ticket < PROBE_TICKET) {
        world->ended++;
    } else {
        world->probes++;
        if (fits_share(world, used)) world->taken_back += result->preemptions;
    }
    mr_request_destroy(request);
}

/* ---- one run ---- */

static void choose(struct world *world, uint64_t seed)
{
    struct sim_random *random = &world->random;
    random->state = seed * 2654435761u + 99;
    const uint32_t sequences = between(random, 4, 40);
    world->options = (struct mr_engine_options){
        .block_count = RIG_BLOCKS(between(random, 10240, 24576)),
        .context_tokens = PROMPT_MAX + OUTPUT_MAX,
        .sequences_max = sequences,
        .rows_max = 512 + sequences,
        .chunk_tokens = 512,
        .prefills_max = 1,
        .step_target_ms = MR_STEP_TARGET_AUTO,
        .prefill_batch_max = 8,
        .prefill_bytes_max = (uint64_t)4 << 30,
        .prefix_cache = true,
        .queue_count_max = 1024,
        .queue_bytes_max = (uint64_t)1 << 30,
        .queue_pools_max = 4,
        .tenant_count = 2,
        .ageing_ns = 10000000000u,
        .defaults.temperature = 1.0f,
        .defaults.top_p = 1.0f,
    };
    world->costs = (struct mr_fake_options){.block_count = world->options.block_count,
                                            .vocab_size = 200,
                                            .sequences_max = sequences,
                                            .step_ms = between(random, 2, 20),
                                            .row_ms = 0.1 * between(random, 1, 20),
                                            .token_ms = 0.1 * between(random, 1, 12),
                                            .history_ms = 1e-5 * sim_below(random, 5),
                                            .steps_ahead = sim_below(random, 3)};
    world->taught_count = sim_below(random, TAUGHT_MAX + 1);
    world->red_count = world->taught_count + magnitude(random, 10, REDS_MAX);
    const uint32_t prompt_max = magnitude(random, 10, PROMPT_MAX);
    const uint32_t output_max = between(random, 100, OUTPUT_MAX);
    const bool timed = sim_below(random, 3) == 0, ends_early = sim_below(random, 2);
    for (uint32_t i = 0; i < world->red_count; i++) {
        struct red *red = &world->reds[i];
        const bool teaches = i < world->taught_count;
        red->prompt = between(random, 10, teaches ? 20 : prompt_max);
        red->output = between(random, 100, teaches ? 300 : output_max);
        if (teaches && ends_early) red->lasts = between(random, 1, 10);
        if (!teaches && timed) red->timeout_ns = between(random, 1, 30) * (uint64_t)1000000000;
    }
}

static void open_world(struct world *world, uint64_t seed, uint32_t tenants)
{
    static const uint32_t end_ids[] = {MR_FAKE_END};
    memset(world, 0, sizeof *world);
    choose(world, seed);
    world->tokenizer = mr_fake_tokenizer();
    world->fake = mr_fake_model_create(&world->costs);
    world->fake->now_ns = 1000000;
    world->options.tenant_count = tenants;
    world->options.tokenizer = world->tokenizer;
    world->options.eos_ids = end_ids;
    world->options.eos_count = 1;
    world->options.model = mr_fake_model_port(world->fake);
    struct mr_sink sink = {.context = world, .delta = on_delta, .result = on_result};
    assert_int_equal(mr_engine_create(&world->engine, &world->options, &sink, NULL), MR_OK);
}

static void close_world(struct world *world)
{
    mr_engine_check(world->engine);
    mr_engine_destroy(world->engine);
    mr_fake_model_destroy(world->fake);
    mr_tokenizer_destroy(world->tokenizer);
}

/* False: the queue is full. */
static bool submit(struct world *world, uint64_t ticket, const struct red *what)
{
    char id[16];
    const uint32_t tenant = ticket >= PROBE_TICKET && world->options.tenant_count > 1 ? BLUE : RED;
    const uint64_t now_ns = world->fake->now_ns;
    for (uint32_t i = 0; i < what->prompt; i++)
        world->tokens_ids[i] = 2 + (uint32_t)((ticket * 131 + i * 17 + ticket * i % 89) % 197);
    snprintf(id, sizeof id, "%u", (unsigned)ticket);
    struct mr_request *request = mr_fake_request(id, world->tokens_ids, what->prompt);
    request->ignore_eos = true;
    request->max_tokens = what->output;
    struct mr_submission submission = {.request = request,
                                       .ticket = ticket,
                                       .tenant = tenant == BLUE ? "blue" : "red",
                                       .tenant_index = tenant,
                                       .arrival_ns = now_ns,
                                       .deadline_ns =
                                           what->timeout_ns > 0 ? now_ns + what->timeout_ns : 0};
    enum mr_status status = mr_engine_submit(world->engine, &submission, NULL);
    if (status == MR_OK) return true;
    assert_int_equal(status, MR_FULL);
    mr_request_destroy(request);
    return false;
}

static void feed(struct world *world)
{
    const uint32_t most =
        world->ended < world->taught_count ? world->taught_count : world->red_count;
    while (world->submitted < most &&
           submit(world, world->submitted, &world->reds[world->submitted]))
        world->submitted++;
}

static void cancel_taught(struct world *world)
{
    for (uint32_t i = 0; i < world->submitted && i < world->taught_count; i++) {
        struct red *red = &world->reds[i];
        char id[16];
        if (red->lasts == 0 || red->tokens < red->lasts || red->cancelled) continue;
        snprintf(id, sizeof id, "%u", i);
        red->cancelled = true;
        (void)mr_engine_cancel(world->engine, RED, (struct mr_text){id, strlen(id)});
    }
}

static void step(struct world *world)
{
    struct mr_error err = {0};
    uint64_t wake_ns, before_ns = world->fake->now_ns;
    feed(world);
    cancel_taught(world);
    assert_int_equal(mr_engine_step(world->engine, before_ns, &wake_ns, &err), MR_OK);
    if (world->fake->now_ns == before_ns) world->fake->now_ns += 10000;
    double ms = (double)(world->fake->now_ns - before_ns) / 1e6;
    if (ms > world->longest_ms) world->longest_ms = ms;
    world->steps++;
}

/* Time of the prompt alone, computed in chunks of blue's smallest share. */
static double own_ms(const struct world *world, uint32_t prompt)
{
    const struct mr_fake_options *costs = &world->costs;
    return costs->token_ms * prompt + costs->history_ms * prompt * (prompt / 2.0) +
           costs->step_ms * (1 + prompt / 256.0);
}

/* Submits a request of blue's and steps until it has ended. Returns how much longer than three
 * steps its first token took, in its own times at its share; at most 1 is right. 0: the prompt is
 * larger than blue's share. */
static double probe(struct world *world, uint32_t index)
{
    struct sim_random *random = &world->random;
    const struct red what = {.prompt = magnitude(random, 10, PROMPT_MAX),
                             .output = magnitude(random, 1, 600)};
    const uint32_t due = world->probes + 1;
    world->asked_tokens = what.output;
    world->first_ns = 0;
    world->longest_ms = 0;
    world->probed_ns = world->fake->now_ns;
    while (!submit(world, PROBE_TICKET + index, &what)) /* without tenants only */
        step(world);
    while (world->first_ns == 0 && world->steps < STEPS_MAX)
        step(world);
    const uint64_t first_ns = world->first_ns > 0 ? world->first_ns : world->fake->now_ns;
    const double waited_ms = (double)(first_ns - world->probed_ns) / 1e6;
    /* steps in flight when it came are not counted as its own */
    const double steps = WAIT_STEPS + world->costs.steps_ahead;
    const double allowed_ms = SHARE_FACTOR * own_ms(world, what.prompt);
    while (world->probes < due && world->steps < STEPS_MAX)
        step(world);
    world->large += !fits_share(world, what.prompt);
    if (!fits_share(world, what.prompt)) return 0;
    const double ratio = (waited_ms - steps * world->longest_ms) / allowed_ms;
    if (ratio > 1 && world->options.tenant_count > 1)
        printf(
            "prompt of %u tokens: first token after %.0f ms, steps of up to %.0f ms, own %.0f ms\n",
            what.prompt, waited_ms, world->longest_ms, own_ms(world, what.prompt));
    return ratio;
}

/* The largest ratio of the probes of one seed. *rate: tokens a second. Adds to *large the probes
 * that are not judged. */
static double run_seed(uint64_t seed, uint32_t tenants, double *rate, uint32_t *large)
{
    struct world *world = malloc(sizeof *world);
    double worst = 0;
    assert_non_null(world);
    open_world(world, seed, tenants);
    while (world->ended < world->taught_count && world->steps < STEPS_MAX)
        step(world);
    for (uint32_t i = 0; i < PROBES && world->steps < STEPS_MAX; i++) {
        for (uint32_t wait = magnitude(&world->random, 5, 800); wait > 0; wait--)
            step(world);
        double ratio = probe(world, i);
        worst = ratio > worst ? ratio : worst;
    }
    struct mr_engine_stats stats = mr_engine_stats(world->engine);
    *rate = (double)(stats.prompt_tokens + stats.generated_tokens - stats.recomputed_tokens) /
            ((double)world->fake->now_ns / 1e9);
    if (tenants > 1 && world->taken_back > 0) {
        printf("seed %llu: a probe within its share was preempted\n", (unsigned long long)seed);
        worst = INFINITY;
    }
    *large += world->large;
    close_world(world);
    free(world);
    return worst;
}

static uint64_t first_seed = 0, seed_count = SEEDS;
static bool prints_rates = false;

static void a_tenant_below_its_share_waits_for_no_other(void **state)
{
    (void)state;
    uint32_t failures = 0, large = 0;
    double shared = 0, single = 0, worst = 0;
    for (uint64_t seed = first_seed; seed < first_seed + seed_count; seed++) {
        double rate, alone = 1;
        double ratio = run_seed(seed, 2, &rate, &large);
        if (prints_rates)
            printf("rate %llu %.3f\n", (unsigned long long)seed, rate);
        else
            (void)run_seed(seed, 1, &alone, &(uint32_t){0});
        shared += rate / alone;
        single += 1;
        worst = ratio > worst ? ratio : worst;
        if (ratio <= 1) continue;
        failures++;
        printf("seed %llu: the first token took %.2f times what it may\n", (unsigned long long)seed,
               ratio);
    }
    printf("%llu seeds, %u failures, worst ratio %.2f, %u of %llu probes larger than the share\n",
           (unsigned long long)seed_count, failures, worst, large,
           (unsigned long long)seed_count * PROBES);
    if (!prints_rates) printf("throughput %.3f of that without tenants\n", shared / single);
    assert_int_equal(failures, 0);
    assert_true(shared >= THROUGHPUT * single);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_below_its_share_waits_for_no_other)};
    if (argc > 2) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = strtoull(argv[2], NULL, 10);
    }
    prints_rates = argc > 3;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
