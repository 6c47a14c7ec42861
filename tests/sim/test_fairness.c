/* Two tenants in virtual time: one floods the engine, the other sends a few requests. The waiting
 * time of the few is compared with their waiting time alone on half of the machine.
 *
 * As in the worker, each tenant's requests are in a separate log and are submitted while the engine
 * has room for that tenant. */
#include "batching/queue/fair_share.h"
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLOOD     1000u
#define FEW       10u
#define SEQUENCES 8u
#define PLACES    16u
#define PROMPT    48u
#define STEPS_MAX 100000u

enum tenant { FLOODING, MODEST, TENANTS };

/* One tenant's log, and the progress of its requests. */
struct log {
    uint32_t count, submitted, started, ended;
    uint32_t output; /* tokens of each answer; 0: varied, 8 to 71 */
    uint64_t offered_ns;
    double wait_ms_sum;
    uint64_t tokens; /* generated so far */
};

struct world {
    struct mr_engine_options options;
    struct mr_tokenizer *tokenizer;
    struct mr_fake_model *fake;
    struct mr_engine *engine;
    struct log logs[TENANTS];
    uint32_t weights[TENANTS];
};

/* ---- the sink: a ticket is tenant * 10000 + index ---- */

static struct log *log_of(struct world *world, uint64_t ticket)
{
    return &world->logs[ticket / 10000];
}

static bool may_start(void *context, uint64_t ticket)
{
    struct world *world = context;
    struct log *log = log_of(world, ticket);
    log->started++;
    log->wait_ms_sum += (double)(world->fake->now_ns - log->offered_ns) / 1e6;
    return true;
}

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    (void)request;
    log_of(context, ticket)->tokens += record->token_count;
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    assert_int_equal(result->choices[0].finish, MR_FINISH_LENGTH);
    log_of(context, ticket)->ended++;
    mr_request_destroy(request);
}

/* ---- the engine ---- */

/* part: 1 for the whole machine; 2 for half of its sequences, pool and rows per step. */
static void start(struct world *world, uint32_t part)
{
    static const uint32_t end_ids[] = {MR_FAKE_END};
    *world = (struct world){.tokenizer = mr_fake_tokenizer(), .weights = {1, 1}};
    world->options = (struct mr_engine_options){.tokenizer = world->tokenizer,
                                                .block_count = RIG_BLOCKS(16384) / part,
                                                .context_tokens = 1024,
                                                .sequences_max = SEQUENCES / part,
                                                .rows_max = 1024 / part,
                                                .chunk_tokens = (int32_t)(512 / part),
                                                .prefills_max = 1,
                                                .prefill_batch_max = 8,
                                                .prefill_bytes_max = (uint64_t)1 << 40,
                                                .queue_count_max = PLACES,
                                                .queue_bytes_max = (uint64_t)1 << 30,
                                                .queue_pools_max = 4,
                                                .tenant_count = TENANTS,
                                                .tenant_weights = world->weights,
                                                .ageing_ns = 10000000000u,
                                                .defaults.temperature = 1.0f,
                                                .defaults.top_p = 1.0f,
                                                .eos_ids = end_ids,
                                                .eos_count = 1};
}

static void open_engine(struct world *world)
{
    struct mr_fake_options fake = {.block_count = world->options.block_count,
                                   .vocab_size = 200,
                                   .sequences_max = world->options.sequences_max,
                                   .step_ms = 10,
                                   .row_ms = 0.5,
                                   .token_ms = 0.3};
    struct mr_sink sink = {
        .context = world, .delta = on_delta, .result = on_result, .may_start = may_start};
    world->fake = mr_fake_model_create(&fake);
    world->fake->now_ns = 1000000;
    world->options.model = mr_fake_model_port(world->fake);
    assert_int_equal(mr_engine_create(&world->engine, &world->options, &sink, NULL), MR_OK);
}

static void end(struct world *world)
{
    mr_engine_check(world->engine);
    mr_engine_destroy(world->engine);
    mr_fake_model_destroy(world->fake);
    mr_tokenizer_destroy(world->tokenizer);
}

static void submit(struct world *world, enum tenant tenant, uint32_t index)
{
    char id[16];
    uint32_t tokens[PROMPT];
    struct log *log = &world->logs[tenant];
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = 2 + (tenant * 7919 + index * 131 + i * 17) % 197;
    snprintf(id, sizeof id, "%d-%u", tenant, index);
    struct mr_request *request = mr_fake_request(id, tokens, PROMPT);
    request->ignore_eos = true;
    request->max_tokens = log->output ? log->output : 8 + index * 37 % 64;
    struct mr_submission submission = {.request = request,
                                       .ticket = (uint64_t)tenant * 10000 + index,
                                       .tenant = "",
                                       .tenant_index = tenant,
                                       .arrival_ns = world->fake->now_ns};
    assert_int_equal(mr_engine_submit(world->engine, &submission, NULL), MR_OK);
}

/* Like intake, submits one request of each tenant with room, in turn. */
static void feed(struct world *world)
{
    for (uint64_t room = UINT64_MAX; room != 0;) {
        room = mr_engine_room(world->engine);
        for (uint32_t i = 0; i < TENANTS; i++) {
            struct log *log = &world->logs[i];
            if (log->submitted == log->count || log->offered_ns > world->fake->now_ns)
                room &= ~((uint64_t)1 << i);
            else if (room >> i & 1)
                submit(world, i, log->submitted++);
        }
    }
}

/* Steps until all requests of this tenant have started. */
static void run_until_started(struct world *world, enum tenant tenant)
{
    struct mr_error err = {0};
    uint64_t wake_ns;
    for (uint32_t steps = 0; world->logs[tenant].started < world->logs[tenant].count; steps++) {
        assert_true(steps < STEPS_MAX);
        feed(world);
        assert_int_equal(mr_engine_step(world->engine, world->fake->now_ns, &wake_ns, &err), MR_OK);
    }
}

static double mean_wait_ms(const struct log *log)
{
    return log->wait_ms_sum / log->count;
}

static double wait_alone_ms(uint32_t output)
{
    struct world world;
    start(&world, 2);
    world.logs[MODEST] = (struct log){.count = FEW, .output = output, .offered_ns = 1000000};
    open_engine(&world);
    run_until_started(&world, MODEST);
    double wait_ms = mean_wait_ms(&world.logs[MODEST]);
    end(&world);
    return wait_ms;
}

/* after_ms: time from the start of the flood to the arrival of the few requests. */
static double wait_in_flood_ms(uint32_t flood_output, uint32_t few_output, double after_ms)
{
    struct world world;
    start(&world, 1);
    world.logs[FLOODING] =
        (struct log){.count = FLOOD, .output = flood_output, .offered_ns = 1000000};
    world.logs[MODEST] = (struct log){
        .count = FEW, .output = few_output, .offered_ns = 1000000 + (uint64_t)(after_ms * 1e6)};
    open_engine(&world);
    run_until_started(&world, MODEST);
    assert_true(world.logs[FLOODING].submitted < FLOOD); /* the flood has not ended yet */
    double wait_ms = mean_wait_ms(&world.logs[MODEST]);
    end(&world);
    return wait_ms;
}

/* Asserts that the few requests wait at most `most` times as long as alone. */
static void compare(uint32_t flood_output, uint32_t few_output, double after_ms, double most)
{
    double alone = wait_alone_ms(few_output);
    double flood = wait_in_flood_ms(flood_output, few_output, after_ms);
    printf("answers of %u and %u tokens, %.0f ms into the flood: %.0f ms, alone on half %.0f ms, "
           "ratio %.2f\n",
           flood_output, few_output, after_ms, flood, alone, flood / alone);
    assert_true(flood <= most * alone);
}

static void the_few_wait_at_most_twice_as_long_as_alone_on_half_the_machine(void **state)
{
    (void)state;
    compare(32, 32, 0, 2);
    compare(0, 0, 0, 2);
    for (double after_ms = 1000; after_ms < 3000; after_ms += 97)
        compare(0, 0, after_ms, 2);
}

static void a_flood_of_long_answers_does_not_count_as_a_flood_of_short_ones(void **state)
{
    (void)state;
    compare(64, 32, 0, 2);
    compare(16, 32, 1500, 2);
}

/* Answers of 400 tokens occupy all sequences when the few requests arrive. Without rebalancing the
 * few would wait 17 times as long as alone. */
static void long_answers_do_not_block_other_tenants_until_they_end(void **state)
{
    (void)state;
    for (double after_ms = 1000; after_ms < 3000; after_ms += 397)
        compare(400, 32, after_ms, 3);
}

/* Both tenants flood the engine. Tokens are shared by weight, for answers of any length. */
static void assert_shares(uint32_t first_output, uint32_t second_output, uint32_t weight)
{
    struct world world;
    struct mr_error err = {0};
    uint64_t wake_ns;
    start(&world, 1);
    world.weights[MODEST] = weight;
    world.logs[FLOODING] =
        (struct log){.count = FLOOD, .output = first_output, .offered_ns = 1000000};
    world.logs[MODEST] =
        (struct log){.count = FLOOD, .output = second_output, .offered_ns = 1000000};
    open_engine(&world);
    for (uint32_t i = 0; i < 1500; i++) {
        feed(&world);
        assert_int_equal(mr_engine_step(world.engine, world.fake->now_ns, &wake_ns, &err), MR_OK);
    }
    double cost[TENANTS];
    for (uint32_t i = 0; i < TENANTS; i++)
        cost[i] = (double)world.logs[i].tokens * MR_OUTPUT_TOKEN_COST +
                  (double)world.logs[i].started * PROMPT * MR_PROMPT_TOKEN_COST;
    printf("answers of %u and %u tokens, weights 1 and %u: costs %.0f and %.0f\n", first_output,
           second_output, weight, cost[FLOODING], cost[MODEST]);
    assert_true(cost[MODEST] > 0.9 * weight * cost[FLOODING]);
    assert_true(cost[MODEST] < 1.1 * weight * cost[FLOODING]);
    end(&world);
}

static void two_floods_share_by_weight(void **state)
{
    (void)state;
    assert_shares(32, 32, 1);
    assert_shares(64, 8, 1);
    assert_shares(32, 32, 3);
}

static void without_tenants_the_few_wait_behind_the_flood(void **state)
{
    (void)state;
    struct world world;
    start(&world, 1);
    world.options.tenant_count = 1;
    world.options.queue_count_max = FLOOD + FEW;
    world.options.queue_pools_max = 0;
    world.logs[FLOODING] = (struct log){.count = FLOOD, .output = 8, .offered_ns = 1000000};
    open_engine(&world);
    for (uint32_t i = 0; i < FLOOD; i++)
        submit(&world, FLOODING, i);
    world.logs[FLOODING].submitted = FLOOD;
    run_until_started(&world, FLOODING);
    /* Otherwise requests of the other tenant would wait for the last one of the flood. */
    assert_true((double)world.fake->now_ns / 1e6 > 10 * wait_alone_ms(8));
    while (world.logs[FLOODING].ended < FLOOD) {
        uint64_t wake_ns;
        assert_int_equal(mr_engine_step(world.engine, world.fake->now_ns, &wake_ns, NULL), MR_OK);
    }
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_few_wait_at_most_twice_as_long_as_alone_on_half_the_machine),
        cmocka_unit_test(a_flood_of_long_answers_does_not_count_as_a_flood_of_short_ones),
        cmocka_unit_test(long_answers_do_not_block_other_tenants_until_they_end),
        cmocka_unit_test(two_floods_share_by_weight),
        cmocka_unit_test(without_tenants_the_few_wait_behind_the_flood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
