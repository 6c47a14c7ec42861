/* The engine's invariants are checked when it becomes idle. */
#include "batching/engine/engine_state.h"
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND_NS 1000000000u

static uint64_t step_idle(struct engine_rig *rig)
{
    uint64_t wake_ns = 0;
    assert_int_equal(mr_engine_step(rig->engine, rig->fake->now_ns, &wake_ns, NULL), MR_OK);
    return wake_ns;
}

static void an_idle_engine_is_checked_at_most_once_a_second(void **state)
{
    (void)state;
    static const unsigned char root[MR_HASH_BYTES] = {1};
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    rig.fake->now_ns = 5 * (uint64_t)SECOND_NS;
    assert_true(step_idle(&rig) == UINT64_MAX);
    /* a block that no sequence owns */
    struct mr_block_table *leak = mr_block_table_create(rig.engine->cache, root);
    assert_int_equal(mr_kv_cache_reserve(leak, 1), MR_OK);
    rig.fake->now_ns += SECOND_NS - 1;
    assert_true(step_idle(&rig) == UINT64_MAX);
    rig.fake->now_ns += 1;
    expect_assert_failure(step_idle(&rig));
    mr_block_table_destroy(leak, 0);
    assert_true(step_idle(&rig) == UINT64_MAX);
    rig_end(&rig);
}

static void an_engine_at_work_is_not_checked(void **state)
{
    (void)state;
    static const unsigned char root[MR_HASH_BYTES] = {1};
    uint32_t tokens[20];
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    rig.fake->now_ns = 5 * (uint64_t)SECOND_NS;
    rig_tokens(&rig, 1, tokens, 20);
    assert_int_equal(rig_submit(&rig, 0, mr_fake_request("a", tokens, 20)), MR_OK);
    struct mr_block_table *leak = mr_block_table_create(rig.engine->cache, root);
    assert_int_equal(mr_kv_cache_reserve(leak, 1), MR_OK);
    while (rig.result_count == 0 && rig.engine->stats.generated_tokens < 10)
        assert_true(rig_step(&rig));
    mr_block_table_destroy(leak, 0);
    rig_run(&rig);
    rig_end(&rig);
}

static void the_sink_hears_of_every_chunk_of_a_prompt(void **state)
{
    (void)state;
    static uint32_t tokens[1200];
    static const uint32_t sizes[] = {512, 512, 176};
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    rig.fake->now_ns = 5 * (uint64_t)SECOND_NS;
    rig_tokens(&rig, 1, tokens, 1200);
    assert_int_equal(rig_submit(&rig, 0, mr_fake_request("a", tokens, 1200)), MR_OK);
    rig_run(&rig);
    const struct rig_seen *seen = &rig.seen[0];
    assert_int_equal(seen->chunk_count, 3);
    uint64_t last_ns = 5 * (uint64_t)SECOND_NS;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(seen->chunks[i].tokens, sizes[i]);
        assert_true(seen->chunks[i].begin_ns >= last_ns);
        assert_true(seen->chunks[i].end_ns > seen->chunks[i].begin_ns);
        last_ns = seen->chunks[i].end_ns;
    }
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_engine_is_checked_at_most_once_a_second),
        cmocka_unit_test(an_engine_at_work_is_not_checked),
        cmocka_unit_test(the_sink_hears_of_every_chunk_of_a_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
