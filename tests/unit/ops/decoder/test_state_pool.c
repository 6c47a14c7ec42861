#include "ops/decoder/state_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tiny_weights.h"

static struct mr_model_config config_of(void)
{
    struct mr_model_config config = {.layer_count = 3, .mixes = {true, false, true}};
    config.mixer = (struct mr_mixer_shape){.kind = MR_MIXER_CONV, .taps = 3, .value_dim = 16};
    return config;
}

static void the_pool_takes_its_share_of_the_memory(void **state)
{
    (void)state;
    const struct mr_model_config config = config_of();
    const uint64_t slot = 2 * 2 * 16 * sizeof(float);
    uint64_t bytes = 1000 * slot;
    assert_int_equal(mr_state_pool_slot_bytes(&config), slot);
    assert_int_equal(mr_state_pool_divide(&config, 4, &bytes), 4 + 150);
    assert_int_equal(bytes, 1000 * slot - 154 * slot);
    bytes = 100 * slot;
    assert_int_equal(mr_state_pool_divide(&config, 40, &bytes), 50);
    bytes = 1;
    assert_int_equal(mr_state_pool_divide(&config, 40, &bytes), 1);
    assert_int_equal(bytes, 0);
    bytes = 100;
    assert_int_equal(mr_state_pool_divide(&(struct mr_model_config){0}, 4, &bytes), 0);
    assert_int_equal(bytes, 100);
}

static void a_state_serves_the_token_that_follows(void **state)
{
    (void)state;
    struct mr_compute *compute = tiny_compute(false);
    const struct mr_model_config config = config_of();
    struct mr_state_pool pool;
    assert_int_equal(mr_state_pool_create(&pool, compute, &config, 2, NULL), MR_OK);
    mr_state_pool_begin(&pool);
    expect_assert_failure(mr_state_pool_advance(&pool, 0, 5, 1));
    mr_state_pool_advance(&pool, 0, 0, 7);
    expect_assert_failure(mr_state_pool_advance(&pool, 0, 7, 1)); /* twice in a step */
    mr_state_pool_begin(&pool);
    expect_assert_failure(mr_state_pool_advance(&pool, 0, 6, 1));
    mr_state_pool_advance(&pool, 0, 7, 1);
    mr_state_pool_begin(&pool);
    mr_state_pool_copy(&pool, 0, 1);
    mr_state_pool_advance(&pool, 1, 8, 1);
    mr_state_pool_destroy(&pool);
    mr_cpu_backend.close(compute);
}

static void a_state_is_exported_and_imported(void **state)
{
    (void)state;
    struct mr_compute *compute = tiny_compute(false);
    const struct mr_model_config config = config_of();
    struct mr_state_pool pool;
    float in[64], out[64];
    assert_int_equal(mr_state_pool_create(&pool, compute, &config, 2, NULL), MR_OK);
    assert_int_equal(pool.slot_bytes, sizeof in);
    for (uint32_t i = 0; i < 64; i++)
        in[i] = (float)i;
    mr_state_pool_import(&pool, 1, 9, in);
    mr_state_pool_copy(&pool, 1, 0);
    mr_state_pool_export(&pool, 0, out);
    assert_memory_equal(in, out, sizeof in);
    mr_state_pool_begin(&pool);
    mr_state_pool_advance(&pool, 0, 9, 1);
    mr_state_pool_destroy(&pool);
    mr_cpu_backend.close(compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pool_takes_its_share_of_the_memory),
        cmocka_unit_test(a_state_serves_the_token_that_follows),
        cmocka_unit_test(a_state_is_exported_and_imported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
