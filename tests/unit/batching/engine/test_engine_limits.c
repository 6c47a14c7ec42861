/* Time limits: longest wait, longest run, and requests that cannot end before their deadline. */
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct mr_request *make(const struct engine_rig *rig, const char *id, uint64_t salt,
                               uint32_t count)
{
    uint32_t tokens[2048];
    rig_tokens(rig, salt, tokens, count);
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->ignore_eos = true;
    return request;
}

static void a_topic_s_limits_on_wait_and_run_hold(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.sequences_max = 1;
    rig_start(&rig);
    uint64_t now_ns = rig.fake->now_ns;
    rig_submit_as(&rig, (struct mr_submission){.request = make(&rig, "run", 1, 5),
                                               .ticket = 0,
                                               .start_by_ns = now_ns + 1000000,
                                               .run_limit_ns = 55000000});
    rig_step(&rig); /* started in time: now only the run limit counts */
    rig_submit_as(&rig, (struct mr_submission){.request = make(&rig, "wait", 2, 5),
                                               .ticket = 1,
                                               .deadline_ns = now_ns + 900000000,
                                               .start_by_ns = now_ns + 35000000});
    rig_submit_as(&rig, (struct mr_submission){.request = make(&rig, "in time", 3, 5),
                                               .ticket = 2,
                                               .start_by_ns = now_ns + 200000000});
    rig_run(&rig);
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_DEADLINE);
    assert_int_equal(rig.seen[0].result.error, MR_DEADLINE_EXCEEDED);
    assert_in_range(rig.seen[0].choices[0].token_count, 3, 6);
    assert_int_equal(rig.seen[1].choices[0].finish, MR_FINISH_DEADLINE);
    assert_int_equal(rig.seen[1].started, 0);
    assert_int_equal(rig.seen[2].choices[0].finish, MR_FINISH_LENGTH);
    rig_end(&rig);
}

/* 40 answers fit the cost model. */
static void teach(struct engine_rig *rig)
{
    for (uint32_t i = 10; i < 50; i++) {
        char id[16];
        snprintf(id, sizeof id, "teach-%u", i);
        rig_submit(rig, i, make(rig, id, 100 + i, 20 + i * 13 % 200));
    }
    rig_run(rig);
}

static enum mr_finish run_with_deadline(bool admission, uint64_t in_ns)
{
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.deadline_admission = admission;
    rig_start(&rig);
    teach(&rig);
    struct mr_request *request = make(&rig, "late", 7, 50);
    request->max_tokens = 40;
    request->ignore_eos = true;
    rig_submit_as(&rig, (struct mr_submission){.request = request,
                                               .ticket = 9,
                                               .deadline_ns = rig.fake->now_ns + in_ns});
    rig_run(&rig);
    enum mr_finish finish = rig.seen[9].choices[0].finish;
    assert_true(finish == MR_FINISH_LENGTH || rig.seen[9].result.error == MR_DEADLINE_EXCEEDED);
    assert_int_equal(rig.seen[9].started, !admission || finish == MR_FINISH_LENGTH);
    rig_end(&rig);
    return finish;
}

static void a_request_that_cannot_end_in_time_is_not_started_when_so_configured(void **state)
{
    (void)state;
    /* 40 steps of about 11 ms and a prefill of 35 ms. */
    assert_int_equal(run_with_deadline(true, 300000000), MR_FINISH_DEADLINE);
    assert_int_equal(run_with_deadline(false, 300000000), MR_FINISH_DEADLINE); /* started */
    assert_int_equal(run_with_deadline(true, 800000000), MR_FINISH_LENGTH);
}

/* Three places: one request runs, and the next two may not start yet. No further starts are
 * requested. */
static void a_request_that_may_not_start_waits_and_the_others_run(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.sequences_max = 3;
    rig.options.prefills_max = 8;
    rig_start(&rig);
    uint64_t now_ns = rig.fake->now_ns;
    rig_submit(&rig, 0, make(&rig, "run", 1, 5));
    rig_step(&rig);
    rig.hold_starts = true;
    for (uint32_t i = 1; i < 6; i++) {
        char id[16];
        snprintf(id, sizeof id, "wait-%u", i);
        rig_submit_as(&rig, (struct mr_submission){.request = make(&rig, id, 1 + i, 5),
                                                   .ticket = i,
                                                   .deadline_ns = now_ns + 900000000});
    }
    for (uint32_t i = 0; i < 3; i++)
        rig_step(&rig);
    assert_true(rig.seen[0].choices[0].streamed_count > 2);
    for (uint32_t i = 1; i < 6; i++)
        assert_int_equal(rig.seen[i].asked > 0, i < 3);
    mr_engine_cancel(rig.engine, 0, (struct mr_text){"wait-1", 6});
    rig_step(&rig);
    assert_int_equal(rig.seen[1].choices[0].finish, MR_FINISH_CANCELLED);
    assert_int_equal(rig.seen[1].started, 0);
    rig.hold_starts = false;
    for (uint32_t i = 0; i < 2; i++)
        rig_step(&rig);
    assert_int_equal(rig.seen[2].started, 1);
    rig.hold_starts = true;
    rig_run(&rig); /* requests not started by now end at their deadlines */
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_LENGTH);
    assert_int_equal(rig.seen[2].choices[0].finish, MR_FINISH_LENGTH);
    assert_int_equal(rig.seen[5].choices[0].finish, MR_FINISH_DEADLINE);
    assert_int_equal(rig.seen[5].started, 0);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_s_limits_on_wait_and_run_hold),
        cmocka_unit_test(a_request_that_cannot_end_in_time_is_not_started_when_so_configured),
        cmocka_unit_test(a_request_that_may_not_start_waits_and_the_others_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
