/* Requests near their deadline in virtual time: how many end in time when the queue knows their
 * deadlines, and when it does not and the client cancels them at the deadline.
 *
 *     sim_test_deadlines                the first seeds
 *     sim_test_deadlines FIRST COUNT    COUNT seeds from FIRST on
 *
 * A burst of requests arrives, more than the engine can run at once. One seed determines the costs
 * of the model, the lengths, how fast the burst arrives (within a tenth to half of the time in
 * which the engine can answer it), and the deadlines. A fifth of the requests has a deadline: after
 * its arrival and twice its own time, at most twice the time in which the engine can answer the
 * burst. */
#include "tests/fakes/fake_model.h"
#include "tests/fakes/fake_request.h"
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

#define SEEDS      20u
#define REQUESTS   400u
#define SEQUENCES  8u
#define PROMPT_MAX 200u
#define OUTPUT_MAX 120u

/* The bars: those that end in time, and the wait of the others, compared with an order that knows
 * no deadlines. */
#define IN_TIME_MORE 1.2
#define WAIT_MORE    1.1

struct timed {
    uint32_t prompt, output;
    uint64_t arrival_ns, deadline_ns; /* deadline_ns: 0: none */
    bool in_time, ended;
    double wait_ms;
};

struct world {
    struct sim_random random;
    struct mr_fake_options costs;
    struct mr_tokenizer *tokenizer;
    struct mr_fake_model *fake;
    struct mr_engine *engine;
    struct timed requests[REQUESTS];
    uint32_t submitted, ended;
};

struct outcome {
    uint32_t with_deadline, in_time;
    double others_wait_ms;
};

/* Time of the request in steps with all places taken. */
static double own_ms(const struct world *world, const struct timed *request)
{
    const struct mr_fake_options *costs = &world->costs;
    const double step_ms = costs->step_ms + costs->row_ms * SEQUENCES;
    return costs->token_ms * request->prompt + step_ms * request->output;
}

static double uniform(struct sim_random *random)
{
    return (1 + sim_below(random, 1000000)) / 1000001.0;
}

static void choose(struct world *world, uint64_t seed)
{
    struct sim_random *random = &world->random;
    double sum_ms = 0, at_ms = 0;
    random->state = seed * 2654435761u + 7;
    world->costs = (struct mr_fake_options){.block_count = 16384 / MR_BLOCK_TOKENS,
                                            .vocab_size = 200,
                                            .sequences_max = SEQUENCES,
                                            .step_ms = 2 + sim_below(random, 20),
                                            .row_ms = 0.1 * (1 + sim_below(random, 20)),
                                            .token_ms = 0.1 * (1 + sim_below(random, 10))};
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct timed *request = &world->requests[i];
        request->prompt = 10 + sim_below(random, PROMPT_MAX - 10);
        request->output = 4 + sim_below(random, OUTPUT_MAX - 4);
        sum_ms += own_ms(world, request);
    }
    const double burst_ms = sum_ms / SEQUENCES, part = 0.1 + 0.4 * uniform(random);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct timed *request = &world->requests[i];
        at_ms -= log(uniform(random)) * part * burst_ms / REQUESTS;
        request->arrival_ns = 1000000 + (uint64_t)(at_ms * 1e6);
        const double within_ms = 2 * own_ms(world, request) + 2 * burst_ms * uniform(random);
        if (i % 5 == 0) request->deadline_ns = request->arrival_ns + (uint64_t)(within_ms * 1e6);
    }
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct world *world = context;
    struct timed *timed = &world->requests[ticket];
    timed->ended = true;
    timed->in_time = result->choices[0].finish == MR_FINISH_LENGTH;
    timed->wait_ms = result->queue_ms;
    world->ended++;
    mr_request_destroy(request);
}

static void open_engine(struct world *world)
{
    static const uint32_t end_ids[] = {MR_FAKE_END};
    world->tokenizer = mr_fake_tokenizer();
    world->fake = mr_fake_model_create(&world->costs);
    world->fake->now_ns = 1000000;
    struct mr_engine_options options = {.tokenizer = world->tokenizer,
                                        .block_count = world->costs.block_count,
                                        .context_tokens = PROMPT_MAX + OUTPUT_MAX,
                                        .sequences_max = SEQUENCES,
                                        .rows_max = 1024,
                                        .chunk_tokens = 512,
                                        .prefills_max = 1,
                                        .step_target_ms = MR_STEP_TARGET_AUTO,
                                        .prefill_batch_max = 8,
                                        .prefill_bytes_max = (uint64_t)1 << 40,
                                        .queue_count_max = REQUESTS,
                                        .queue_bytes_max = (uint64_t)1 << 30,
                                        .ageing_ns = 10000000000u,
                                        .defaults.temperature = 1.0f,
                                        .defaults.top_p = 1.0f,
                                        .eos_ids = end_ids,
                                        .eos_count = 1,
                                        .model = mr_fake_model_port(world->fake)};
    struct mr_sink sink = {.context = world, .result = on_result};
    assert_int_equal(mr_engine_create(&world->engine, &options, &sink, NULL), MR_OK);
}

static void submit(struct world *world, uint32_t index, bool by_slack)
{
    char id[16];
    uint32_t tokens[PROMPT_MAX];
    const struct timed *timed = &world->requests[index];
    for (uint32_t i = 0; i < timed->prompt; i++)
        tokens[i] = 2 + (index * 131 + i * 17) % 197;
    snprintf(id, sizeof id, "%u", index);
    struct mr_request *request = mr_fake_request(id, tokens, timed->prompt);
    request->ignore_eos = true;
    request->max_tokens = timed->output;
    const struct mr_submission submission = {.request = request,
                                             .ticket = index,
                                             .tenant = "",
                                             .arrival_ns = timed->arrival_ns,
                                             .deadline_ns = by_slack ? timed->deadline_ns : 0};
    assert_int_equal(mr_engine_submit(world->engine, &submission, NULL), MR_OK);
}

/* The client's part where the queue does not know the deadlines. */
static void cancel_late(struct world *world)
{
    for (uint32_t i = 0; i < world->submitted; i++) {
        const struct timed *timed = &world->requests[i];
        char id[16];
        if (timed->ended || timed->deadline_ns == 0 || timed->deadline_ns > world->fake->now_ns)
            continue;
        snprintf(id, sizeof id, "%u", i);
        (void)mr_engine_cancel(world->engine, 0, (struct mr_text){id, strlen(id)});
    }
}

static void run(uint64_t seed, bool by_slack, struct outcome *outcome)
{
    struct world *world = calloc(1, sizeof *world);
    uint64_t wake_ns;
    assert_non_null(world);
    choose(world, seed);
    open_engine(world);
    while (world->ended < REQUESTS) {
        const uint64_t before_ns = world->fake->now_ns;
        for (; world->submitted < REQUESTS &&
               world->requests[world->submitted].arrival_ns <= before_ns;
             world->submitted++)
            submit(world, world->submitted, by_slack);
        if (!by_slack) cancel_late(world);
        assert_int_equal(mr_engine_step(world->engine, before_ns, &wake_ns, NULL), MR_OK);
        if (world->fake->now_ns == before_ns) world->fake->now_ns += 100000;
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct timed *timed = &world->requests[i];
        outcome->with_deadline += timed->deadline_ns > 0;
        outcome->in_time += timed->deadline_ns > 0 && timed->in_time;
        if (timed->deadline_ns == 0) outcome->others_wait_ms += timed->wait_ms;
        assert_true(timed->in_time || timed->deadline_ns > 0);
    }
    mr_engine_check(world->engine);
    mr_engine_destroy(world->engine);
    mr_fake_model_destroy(world->fake);
    mr_tokenizer_destroy(world->tokenizer);
    free(world);
}

static uint64_t first_seed = 0, seed_count = SEEDS;

static void more_requests_end_in_time_and_the_others_wait_little_longer(void **state)
{
    (void)state;
    struct outcome by_slack = {0}, by_arrival = {0};
    for (uint64_t seed = first_seed; seed < first_seed + seed_count; seed++) {
        run(seed, true, &by_slack);
        run(seed, false, &by_arrival);
    }
    const double more = (double)by_slack.in_time / by_arrival.in_time;
    const double longer = by_slack.others_wait_ms / by_arrival.others_wait_ms;
    printf("%llu seeds, %u requests with a deadline: %u end in time, without slack %u (%.2f "
           "times); the others wait %.2f times as long\n",
           (unsigned long long)seed_count, by_slack.with_deadline, by_slack.in_time,
           by_arrival.in_time, more, longer);
    assert_true(more >= IN_TIME_MORE);
    assert_true(longer <= WAIT_MORE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_requests_end_in_time_and_the_others_wait_little_longer)};
    if (argc > 2) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = strtoull(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
