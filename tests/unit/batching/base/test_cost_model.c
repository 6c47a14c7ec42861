#include "batching/base/cost_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t random_state = 42;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

struct truth {
    double a, b, c, d;
};

static struct mr_step_work random_work(void)
{
    struct mr_step_work work = {0};
    for (uint32_t rows = random_below(33); rows > 0; rows--)
        mr_step_work_add(&work, 1, random_below(1000), true);
    if (random_below(2) == 0)
        mr_step_work_add(&work, 1 + random_below(512), random_below(2000), false);
    return work;
}

static double cost(const struct truth *truth, const struct mr_step_work *work)
{
    return truth->a + truth->b * work->rows + truth->c * work->chunk +
           truth->d * (double)work->history;
}

static void learn(struct mr_cost_model *model, const struct truth *truth, uint32_t steps,
                  double noise)
{
    for (uint32_t i = 0; i < steps; i++) {
        struct mr_step_work work = random_work();
        double share = 1.0 + noise * ((double)random_below(2001) / 1000.0 - 1.0);
        mr_cost_model_observe(model, &work, cost(truth, &work) * share);
    }
}

static void assert_predicts(const struct mr_cost_model *model, const struct truth *truth,
                            double within)
{
    for (uint32_t i = 0; i < 100; i++) {
        struct mr_step_work work = random_work();
        double real = cost(truth, &work);
        assert_true(fabs(mr_cost_model_predict(model, &work) - real) <= within * real);
    }
}

static const struct truth cpu = {10.0, 0.6, 0.5, 1e-4};
static const struct truth gpu = {3.5, 0.01, 0.018, 5e-7};

static void work_counts_rows_chunk_and_history(void **state)
{
    (void)state;
    struct mr_step_work work = {0};
    mr_step_work_add(&work, 1, 100, true);
    mr_step_work_add(&work, 64, 1000, false);
    assert_int_equal(work.rows, 1);
    assert_int_equal(work.chunk, 64);
    assert_int_equal(work.history, 100 + 64 * 1000 + 64 * 64 / 2);
}

static void it_learns_a_slow_and_a_fast_machine(void **state)
{
    (void)state;
    const struct truth *machines[] = {&cpu, &gpu};
    for (uint32_t i = 0; i < 2; i++) {
        struct mr_cost_model model;
        mr_cost_model_init(&model);
        learn(&model, machines[i], 300, 0.05);
        assert_predicts(&model, machines[i], 0.06);
    }
}

static void coefficients_are_those_of_one_unit(void **state)
{
    (void)state;
    struct mr_cost_model model;
    double learnt[MR_COST_TERMS];
    mr_cost_model_init(&model);
    learn(&model, &cpu, 600, 0.0);
    mr_cost_model_coefficients(&model, learnt);
    assert_true(fabs(learnt[0] - cpu.a) < 0.1 * cpu.a);
    assert_true(fabs(learnt[1] - cpu.b) < 0.1 * cpu.b);
    assert_true(fabs(learnt[2] - cpu.c) < 0.1 * cpu.c);
    assert_true(fabs(learnt[3] - cpu.d) < 0.1 * cpu.d);
}

static void it_follows_a_machine_that_becomes_slower(void **state)
{
    (void)state;
    struct mr_cost_model model;
    struct truth slower = {20.0, 1.2, 1.0, 2e-4};
    mr_cost_model_init(&model);
    learn(&model, &cpu, 300, 0.02);
    learn(&model, &slower, 400, 0.02);
    assert_predicts(&model, &slower, 0.08);
}

/* After any first step and at any speed, steps keep to the target: 4 times the decodes, or the time
 * of 24 tokens. The test decodes the first answer 60 times, then mixes prompts with 4 answers. */
static double longest_of_target(const struct truth *truth, uint32_t cached, uint32_t prompt,
                                double slower)
{
    struct mr_cost_model model;
    struct mr_step_work first = {0};
    double longest = 0;
    mr_cost_model_init(&model);
    mr_step_work_add(&first, prompt, cached, false);
    mr_cost_model_observe(&model, &first, slower * cost(truth, &first));
    for (uint32_t i = 0; i < 60; i++) {
        struct mr_step_work work = {.rows = 1, .history = cached + prompt + i};
        mr_cost_model_observe(&model, &work, cost(truth, &work));
    }
    for (uint32_t i = 0, done = 0; i < 150; i++) {
        struct mr_step_work work = {.rows = 4, .history = 800 + 4 * i}, with = work;
        mr_step_work_add(&with, 24, 0, false);
        double target = fmax(4 * cost(truth, &work), cost(truth, &with));
        double believed =
            fmax(4 * mr_cost_model_predict(&model, &work), mr_cost_model_predict(&model, &with));
        uint32_t chunk = mr_cost_model_chunk(&model, &work, done, UINT32_MAX, believed);
        chunk = chunk > 512 ? 512 : chunk;
        mr_step_work_add(&work, chunk, done, false);
        longest = fmax(longest, cost(truth, &work) / target);
        mr_cost_model_observe(&model, &work, cost(truth, &work));
        done = done + chunk < 1024 ? done + chunk : 0;
    }
    return longest;
}

static void the_first_steps_tell_the_speed_of_any_machine(void **state)
{
    (void)state;
    static const struct truth machines[] = {{3.24, 0.27, 1.0, 1e-6},    {39.0, 3.2, 12.0, 1.2e-5},
                                            {120.0, 10.0, 37.0, 4e-5},  {250.0, 10.0, 10.0, 4e-5},
                                            {650.0, 54.0, 200.0, 2e-4}, {5.0, 0.02, 0.025, 2e-7}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const struct truth *machine = &machines[i];
        assert_true(longest_of_target(machine, 0, 300, 1) < 1.25);
        assert_true(longest_of_target(machine, 0, 3, 1) < 1.25);
        assert_true(longest_of_target(machine, 2000, 1, 1) < 1.25);
        /* a first step that took longer than a full one should */
        assert_true(longest_of_target(machine, 0, 300, 3) < 1.5);
        assert_true(longest_of_target(machine, 0, 300, 20) < 2.0);
    }
}

/* Eight answers run all the time, and one step in 25 has a chunk. Equal steps do not determine the
 * four coefficients. The fit still follows a change of speed, however many equal steps came
 * before. */
static void it_follows_when_all_steps_are_equal(void **state)
{
    (void)state;
    struct mr_cost_model model;
    const struct mr_step_work decodes = {.rows = 8, .history = 4800};
    const struct mr_step_work both = {.rows = 8, .chunk = 256, .history = 4800 + 256 * 128};
    mr_cost_model_init(&model);
    for (uint32_t i = 0; i < 50000; i++) {
        const struct mr_step_work *work = i % 25 == 0 ? &both : &decodes;
        mr_cost_model_observe(&model, work, cost(&cpu, work));
    }
    for (uint32_t i = 0; i < 40; i++)
        mr_cost_model_observe(&model, &decodes, 2 * cost(&cpu, &decodes));
    double predicted = mr_cost_model_predict(&model, &decodes);
    assert_true(fabs(predicted - 2 * cost(&cpu, &decodes)) < 0.1 * predicted);
    for (uint32_t i = 0; i < 60; i++)
        mr_cost_model_observe(&model, &both, 2 * cost(&cpu, &both));
    predicted = mr_cost_model_predict(&model, &both);
    assert_true(fabs(predicted - 2 * cost(&cpu, &both)) < 0.2 * predicted);
}

/* Eight answers, with a chunk in every tenth step. Each step takes `slow` times the modelled
 * time. */
static void run_mixed(struct mr_cost_model *model, uint32_t steps, double slow)
{
    for (uint32_t i = 0; i < steps; i++) {
        const uint32_t chunk = i % 10 == 0 ? 64 + random_below(448) : 0;
        const struct mr_step_work work = {.rows = 8,
                                          .chunk = chunk,
                                          .history = 8 * (500 + random_below(500)) +
                                                     (uint64_t)chunk * random_below(2000)};
        double noise = 1.0 + 0.05 * ((double)random_below(2001) / 1000.0 - 1.0);
        mr_cost_model_observe(model, &work, slow * cost(&cpu, &work) * noise);
    }
}

static void a_machine_that_becomes_many_times_slower_is_followed_at_once(void **state)
{
    (void)state;
    static const double times[] = {3.0, 5.0, 20.0};
    const struct mr_step_work both = {.rows = 8, .chunk = 256, .history = 6000 + 256 * 1000};
    for (uint32_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct mr_cost_model model;
        mr_cost_model_init(&model);
        run_mixed(&model, 20000, 1.0);
        run_mixed(&model, 20, times[i]);
        double predicted = mr_cost_model_predict(&model, &both);
        assert_true(fabs(predicted - times[i] * cost(&cpu, &both)) < 0.2 * predicted);
        run_mixed(&model, 600, 1.0); /* and back */
        predicted = mr_cost_model_predict(&model, &both);
        assert_true(fabs(predicted - cost(&cpu, &both)) < 0.2 * predicted);
    }
}

/* The machine pauses for some steps while only answers are computed. The predicted time of a prompt
 * recovers without another prompt. */
static void a_pause_during_decodes_does_not_make_prompts_slow(void **state)
{
    (void)state;
    static const double times[] = {3.0, 5.0, 20.0};
    const struct mr_step_work both = {.rows = 8, .chunk = 256, .history = 6000 + 256 * 1000};
    for (uint32_t i = 0; i < sizeof times / sizeof *times; i++)
        for (uint32_t pause = 1; pause < 20; pause++) {
            struct mr_cost_model model;
            mr_cost_model_init(&model);
            run_mixed(&model, 5000, 1.0);
            for (uint32_t step = 0; step < pause + 40; step++) {
                struct mr_step_work work = {.rows = 8, .history = 8 * (500 + step)};
                double ms = cost(&cpu, &work) * (step < pause ? times[i] : 1.0);
                mr_cost_model_observe(&model, &work, ms);
            }
            double predicted = mr_cost_model_predict(&model, &both);
            assert_true(fabs(predicted - cost(&cpu, &both)) < 0.25 * cost(&cpu, &both));
        }
}

/* A prompt of eight steps, then twenty steps of an answer. Returns the largest factor by which a
 * prediction was off. */
static double run_prompt_and_answer(struct mr_cost_model *model, const struct truth *truth)
{
    double worst = 1.0;
    for (uint32_t step = 0; step < 28; step++) {
        struct mr_step_work work = {.rows = 1, .history = 2048 + step};
        if (step < 8)
            work = (struct mr_step_work){.chunk = 256, .history = 256 * (256 * step + 128)};
        double noise = 1.0 + 0.03 * ((double)random_below(2001) / 1000.0 - 1.0);
        double off = mr_cost_model_predict(model, &work) / cost(truth, &work);
        worst = fmax(worst, fmax(off, 1.0 / off));
        mr_cost_model_observe(model, &work, cost(truth, &work) * noise);
    }
    return worst;
}

/* Another process that uses memory bandwidth slows down answers; other causes slow down prompts. */
static void one_kind_of_step_becomes_slower_or_faster(void **state)
{
    (void)state;
    static const struct truth machines[] = {{10.0, 0.6, 2.5, 5e-4},
                                            {10.0, 0.6, 0.1, 2e-5},
                                            {30.0, 1.8, 0.5, 1e-4},
                                            {3.0, 0.2, 0.5, 1e-4}};
    for (uint32_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct mr_cost_model model;
        mr_cost_model_init(&model);
        for (uint32_t cycle = 0; cycle < 200; cycle++)
            run_prompt_and_answer(&model, &cpu);
        for (uint32_t cycle = 0; cycle < 3; cycle++)
            run_prompt_and_answer(&model, &machines[i]);
        for (uint32_t cycle = 0; cycle < 5; cycle++)
            assert_true(run_prompt_and_answer(&model, &machines[i]) < 1.3);
    }
}

static void what_a_rare_step_taught_is_kept(void **state)
{
    (void)state;
    struct mr_cost_model model;
    mr_cost_model_init(&model);
    learn(&model, &cpu, 300, 0.02);
    for (uint32_t i = 0; i < 20000; i++) {
        struct mr_step_work work = {.rows = 8, .history = 8 * (500 + i % 500)};
        double noise = 1.0 + 0.05 * ((double)random_below(2001) / 1000.0 - 1.0);
        mr_cost_model_observe(&model, &work, cost(&cpu, &work) * noise);
    }
    struct mr_step_work work = {.rows = 8, .chunk = 512, .history = 4000 + 512 * 256};
    assert_true(fabs(mr_cost_model_predict(&model, &work) - cost(&cpu, &work)) <
                0.1 * cost(&cpu, &work));
}

/* A GPU with measured times, in ms. Two of its costs are not terms of the model: the extra cost of
 * a step with a chunk, and the history of decode rows, which costs 20 times the history of a
 * chunk. */
static double gpu_step(uint32_t decodes, uint32_t decode_context, uint32_t chunk,
                       uint32_t chunk_context)
{
    double chunk_history = (double)chunk * (chunk_context + chunk / 2.0);
    double ms = 3.7 + 3.8e-5 * decodes * decode_context;
    return ms + (chunk > 0 ? 1.7 + 0.0148 * chunk + 2e-6 * chunk_history : 0.0);
}

static struct mr_step_work gpu_work(uint32_t decodes, uint32_t decode_context)
{
    struct mr_step_work work = {0};
    for (uint32_t i = 0; i < decodes; i++)
        mr_step_work_add(&work, 1, decode_context, true);
    return work;
}

/* Prompts of 8,192 tokens alone, then 64 sequences alone, then both, with chunks for steps of 20
 * ms. */
static void predictions_hold_where_the_terms_do_not_fit(void **state)
{
    (void)state;
    struct mr_cost_model model;
    uint32_t begin = 0, wrong = 0;
    mr_cost_model_init(&model);
    for (uint32_t i = 0; i < 96; i++) {
        struct mr_step_work work = {0};
        mr_step_work_add(&work, 2048, i % 4 * 2048, false);
        mr_cost_model_observe(&model, &work, gpu_step(0, 0, 2048, i % 4 * 2048));
    }
    for (uint32_t i = 0; i < 300; i++) {
        struct mr_step_work work = gpu_work(64, 256 + i);
        mr_cost_model_observe(&model, &work, gpu_step(64, 256 + i, 0, 0));
    }
    for (uint32_t i = 0; i < 400; i++) {
        struct mr_step_work work = gpu_work(64, 556 + i);
        uint32_t chunk = mr_cost_model_chunk(&model, &work, begin, UINT32_MAX, 20.0);
        chunk = chunk < 8192 - begin ? chunk : 8192 - begin;
        mr_step_work_add(&work, chunk, begin, false);
        double ms = gpu_step(64, 556 + i, chunk, begin);
        double error = mr_cost_model_predict(&model, &work) - ms;
        wrong += i >= 200 && fabs(error) > 0.1 * ms;
        mr_cost_model_observe(&model, &work, ms);
        begin = (begin + chunk) % 8192;
    }
    assert_true(wrong <= 10);
}

static void one_stalled_step_moves_it_little(void **state)
{
    (void)state;
    struct mr_cost_model model;
    mr_cost_model_init(&model);
    learn(&model, &cpu, 300, 0.02);
    struct mr_step_work work = {.rows = 16, .chunk = 256, .history = 100000};
    double before = mr_cost_model_predict(&model, &work);
    mr_cost_model_observe(&model, &work, 50.0 * before);
    assert_true(mr_cost_model_predict(&model, &work) < 1.5 * before);
}

static void what_is_not_a_time_is_ignored(void **state)
{
    (void)state;
    struct mr_cost_model model, before;
    mr_cost_model_init(&model);
    before = model;
    struct mr_step_work work = {.rows = 1};
    mr_cost_model_observe(&model, &work, 0.0);
    mr_cost_model_observe(&model, &work, -1.0);
    mr_cost_model_observe(&model, &work, (double)NAN);
    mr_cost_model_observe(&model, &work, (double)INFINITY);
    assert_memory_equal(&model, &before, sizeof model);
}

/* Ten thousand equal steps hold no information about the other coefficients, which must stay
 * finite. */
static void equal_steps_keep_the_fit_finite(void **state)
{
    (void)state;
    struct mr_cost_model model;
    mr_cost_model_init(&model);
    struct mr_step_work work = {.rows = 8, .history = 4000};
    for (uint32_t i = 0; i < 10000; i++)
        mr_cost_model_observe(&model, &work, cost(&cpu, &work));
    assert_true(fabs(mr_cost_model_predict(&model, &work) - cost(&cpu, &work)) < 0.5);
    struct mr_step_work other = {.rows = 8, .chunk = 512, .history = 200000};
    double predicted = mr_cost_model_predict(&model, &other);
    assert_true(isfinite(predicted) && predicted >= 0.0 && predicted < 2000.0);
    learn(&model, &cpu, 300, 0.02);
    assert_predicts(&model, &cpu, 0.08);
}

static void a_chunk_fills_the_time_and_not_more(void **state)
{
    (void)state;
    struct mr_cost_model model;
    mr_cost_model_init(&model);
    learn(&model, &cpu, 400, 0.0);
    uint32_t histories[] = {0, 500, 4000, 60000};
    for (uint32_t i = 0; i < 4; i++) {
        struct mr_step_work work = {.rows = 16, .history = 8000};
        double target = mr_cost_model_predict(&model, &work) + 40.0;
        uint32_t chunk = mr_cost_model_chunk(&model, &work, histories[i], UINT32_MAX, target);
        struct mr_step_work with = work, beyond = work;
        mr_step_work_add(&with, chunk, histories[i], false);
        mr_step_work_add(&beyond, chunk + 2, histories[i], false);
        assert_true(mr_cost_model_predict(&model, &with) <= target);
        assert_true(mr_cost_model_predict(&model, &beyond) > target);
    }
}

/* Every third chunk is scored, and a scored row takes three times as long as a plain one. */
static void scored_rows_have_a_cost_of_their_own(void **state)
{
    (void)state;
    struct mr_cost_model model;
    const double score_ms = 1.0;
    mr_cost_model_init(&model);
    for (uint32_t i = 0; i < 400; i++) {
        struct mr_step_work work = random_work();
        if (i % 3 == 0 && work.chunk > 0) work.scored = 1 + random_below(work.chunk);
        mr_cost_model_observe(&model, &work, cost(&cpu, &work) + score_ms * work.scored);
    }
    assert_predicts(&model, &cpu, 0.05);
    const struct mr_step_work work = {.rows = 16, .history = 8000};
    const double target = mr_cost_model_predict(&model, &work) + 40.0;
    const uint32_t all = mr_cost_model_chunk(&model, &work, 500, UINT32_MAX, target);
    for (uint32_t plain = 0; plain <= all; plain += 10) {
        const uint32_t chunk = mr_cost_model_chunk(&model, &work, 500, plain, target);
        struct mr_step_work with = work, beyond = work;
        mr_step_work_add(&with, chunk, 500, false);
        mr_step_work_add(&beyond, chunk + 2, 500, false);
        with.scored = chunk - plain;
        beyond.scored = chunk + 2 - plain;
        assert_true(chunk >= plain && chunk <= all);
        assert_true(mr_cost_model_predict(&model, &with) <= target);
        assert_true(mr_cost_model_predict(&model, &beyond) > target);
    }
    assert_int_equal(mr_cost_model_chunk(&model, &work, 500, all, target), all);
}

static void longer_histories_get_smaller_chunks(void **state)
{
    (void)state;
    struct mr_cost_model model;
    mr_cost_model_init(&model);
    learn(&model, &cpu, 400, 0.0);
    struct mr_step_work work = {.rows = 8, .history = 4000};
    uint32_t last = UINT32_MAX;
    for (uint32_t history = 0; history < 32000; history += 4000) {
        uint32_t chunk = mr_cost_model_chunk(&model, &work, history, UINT32_MAX, 60.0);
        assert_true(chunk < last);
        last = chunk;
    }
}

static void a_step_already_too_long_gets_no_chunk(void **state)
{
    (void)state;
    struct mr_cost_model model;
    mr_cost_model_init(&model);
    struct mr_step_work work = {.rows = 64};
    assert_int_equal(mr_cost_model_chunk(&model, &work, 0, UINT32_MAX, 1.0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_counts_rows_chunk_and_history),
        cmocka_unit_test(it_learns_a_slow_and_a_fast_machine),
        cmocka_unit_test(coefficients_are_those_of_one_unit),
        cmocka_unit_test(it_follows_a_machine_that_becomes_slower),
        cmocka_unit_test(the_first_steps_tell_the_speed_of_any_machine),
        cmocka_unit_test(it_follows_when_all_steps_are_equal),
        cmocka_unit_test(a_machine_that_becomes_many_times_slower_is_followed_at_once),
        cmocka_unit_test(a_pause_during_decodes_does_not_make_prompts_slow),
        cmocka_unit_test(one_kind_of_step_becomes_slower_or_faster),
        cmocka_unit_test(what_a_rare_step_taught_is_kept),
        cmocka_unit_test(predictions_hold_where_the_terms_do_not_fit),
        cmocka_unit_test(one_stalled_step_moves_it_little),
        cmocka_unit_test(what_is_not_a_time_is_ignored),
        cmocka_unit_test(equal_steps_keep_the_fit_finite),
        cmocka_unit_test(a_chunk_fills_the_time_and_not_more),
        cmocka_unit_test(scored_rows_have_a_cost_of_their_own),
        cmocka_unit_test(longer_histories_get_smaller_chunks),
        cmocka_unit_test(a_step_already_too_long_gets_no_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
