#include "batching/scheduler/prediction.h"

#include "batching/sequence/scores.h"
#include "tests/fakes/scheduler_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PROMPT     200u
#define OUTPUT     100u
#define MS         1000000.0
#define SCORE_ROWS 50u

/* A request that waits, and a schedule in which nothing runs. Steps take 10 ms, 1 ms for each
 * decode row and 0.1 ms for each prompt token. */
struct fixture {
    struct scheduler_rig rig;
    struct mr_schedule schedule;
    struct mr_sequence *sequence;
};

static void begin(struct fixture *fixture)
{
    scheduler_rig_init(&fixture->rig);
    scheduler_rig_start(&fixture->rig);
    scheduler_rig_teach(&fixture->rig, 10, 1, 0.1);
    fixture->sequence = scheduler_rig_add(&fixture->rig, 1, PROMPT, OUTPUT, 0);
    fixture->schedule = (struct mr_schedule){.options = fixture->rig.options};
    fixture->schedule.options.deadline_admission = true;
    fixture->schedule.options.score_rows_max = SCORE_ROWS;
    fixture->schedule.output_share[0] = 0.5;
}

static bool is_late(struct fixture *fixture, double left_ms)
{
    fixture->sequence->job->deadline_ns = (uint64_t)(left_ms * MS);
    return mr_predict_is_late(&fixture->schedule, fixture->sequence);
}

static void a_learnt_share_of_max_tokens_is_expected(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    assert_int_equal(mr_predict_left(&fixture.schedule, fixture.sequence), OUTPUT / 2);
    fixture.schedule.output_share[0] = 0.1;
    assert_int_equal(mr_predict_left(&fixture.schedule, fixture.sequence), OUTPUT / 8);
    fixture.sequence->preemptions = 1;
    assert_int_equal(mr_predict_left(&fixture.schedule, fixture.sequence), OUTPUT);
    fixture.sequence->preemptions = 0;
    scheduler_rig_end(&fixture.rig);
}

/* 30 ms for the prompt, 49 steps of 11 ms for the other tokens. */
static void a_request_is_late_if_its_own_time_is_longer_than_what_is_left(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture);
    const double own_ms = 10 + 0.1 * PROMPT + 11 * (OUTPUT / 2 - 1);
    assert_true(is_late(&fixture, 0.9 * own_ms));
    assert_false(is_late(&fixture, 1.1 * own_ms));
    fixture.sequence->job->request->ignore_eos = true;
    assert_true(is_late(&fixture, 1.7 * own_ms));
    fixture.schedule.options.deadline_admission = false;
    assert_false(is_late(&fixture, 0.1 * own_ms));
    scheduler_rig_end(&fixture.rig);
}

/* A scored row takes 2 ms, and a step scores 50 rows. */
static void a_scored_prompt_takes_the_time_of_its_scored_rows(void **state)
{
    (void)state;
    struct fixture fixture;
    const struct mr_scores_spec spec = {.token_count = PROMPT};
    begin(&fixture);
    for (uint32_t i = 0; i < 100; i++) {
        const struct mr_step_work work = {.chunk = 60, .scored = 1 + i % 50, .history = 1800};
        mr_cost_model_observe(&fixture.rig.cost, &work, 10 + 6 + 2.0 * work.scored);
    }
    assert_int_equal(mr_scores_create(&fixture.sequence->scores, &spec, NULL), MR_OK);
    const double steps = (double)PROMPT / SCORE_ROWS;
    const double own_ms = 10 * steps + 2.1 * PROMPT + 11 * (OUTPUT / 2 - 1);
    assert_true(is_late(&fixture, 0.9 * own_ms));
    assert_false(is_late(&fixture, 1.1 * own_ms));
    mr_scores_destroy(fixture.sequence->scores);
    fixture.sequence->scores = NULL;
    scheduler_rig_end(&fixture.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_learnt_share_of_max_tokens_is_expected),
        cmocka_unit_test(a_request_is_late_if_its_own_time_is_longer_than_what_is_left),
        cmocka_unit_test(a_scored_prompt_takes_the_time_of_its_scored_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
