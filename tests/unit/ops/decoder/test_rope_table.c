#include "ops/decoder/rope_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

/* Checks sine and cosine at index `at` of the tables. */
static void assert_angle(const struct mr_rope_table *table, size_t at, double angle)
{
    assert_true(fabs((double)table->cos[at] - cos(angle)) < 1e-6);
    assert_true(fabs((double)table->sin[at] - sin(angle)) < 1e-6);
}

static void angles_shrink_by_pair_and_grow_by_position(void **state)
{
    (void)state;
    struct mr_rope_config config = {.rotary_dim = 4, .theta = 100.0};
    struct mr_rope_table table;
    assert_int_equal(mr_rope_table_create(&table, &config, 8, NULL), MR_OK);
    assert_int_equal(table.position_count, 8);
    assert_angle(&table, 0, 0.0);
    assert_angle(&table, 7 * 2, 7.0);
    assert_angle(&table, 7 * 2 + 1, 0.7);
    mr_rope_table_destroy(&table);
}

static void linear_scaling_divides_positions(void **state)
{
    (void)state;
    struct mr_rope_config config = {
        .kind = MR_ROPE_LINEAR, .rotary_dim = 4, .theta = 100.0, .factor = 4.0};
    struct mr_rope_table table;
    assert_int_equal(mr_rope_table_create(&table, &config, 8, NULL), MR_OK);
    assert_angle(&table, 6 * 2, 1.5);
    mr_rope_table_destroy(&table);
}

/* With theta 2^16 and 8 numbers the frequencies are 1, 1/16, 1/256 and 1/4096. With an original
 * context of 2048, wavelengths below 512 are kept, those above 2048 are scaled, those between are
 * blended. */
static void llama3_scaling_stretches_long_wavelengths_only(void **state)
{
    (void)state;
    struct mr_rope_config config = {.kind = MR_ROPE_LLAMA3,
                                    .rotary_dim = 8,
                                    .theta = 65536.0,
                                    .factor = 8.0,
                                    .low_freq = 1.0,
                                    .high_freq = 4.0,
                                    .original_context = 2048.0};
    struct mr_rope_table table;
    assert_int_equal(mr_rope_table_create(&table, &config, 2, NULL), MR_OK);
    double wavelength = 2 * 3.14159265358979 * 256;
    double smooth = (2048.0 / wavelength - 1.0) / 3.0;
    assert_angle(&table, 4, 1.0);
    assert_angle(&table, 5, 1.0 / 16);
    assert_angle(&table, 6, (1 - smooth) / 256 / 8 + smooth / 256);
    assert_angle(&table, 7, 1.0 / 4096 / 8);
    mr_rope_table_destroy(&table);
}

static void divisors_divide_frequencies(void **state)
{
    (void)state;
    struct mr_rope_config config = {
        .rotary_dim = 4, .theta = 100.0, .has_divisors = true, .divisors = {1.0f, 5.0f}};
    struct mr_rope_table table;
    assert_int_equal(mr_rope_table_create(&table, &config, 8, NULL), MR_OK);
    assert_angle(&table, 5 * 2, 5.0);
    assert_angle(&table, 5 * 2 + 1, 0.1);
    mr_rope_table_destroy(&table);
}

static void an_odd_rotary_size_is_misuse(void **state)
{
    (void)state;
    struct mr_rope_config config = {.rotary_dim = 3, .theta = 100.0};
    struct mr_rope_table table;
    expect_assert_failure(mr_rope_table_create(&table, &config, 8, NULL));
}

/* With theta 2^16 and 8 numbers the frequencies are 1, 1/16, 1/256 and 1/4096. In 2^11 tokens a
 * pair of frequency f makes 2^11 f / 2 pi turns: 326, 20.4, 1.27 and 0.08. */
static void yarn_stretches_pairs_that_turn_little(void **state)
{
    (void)state;
    struct mr_rope_config config = {.kind = MR_ROPE_YARN,
                                    .rotary_dim = 8,
                                    .theta = 65536.0,
                                    .factor = 8.0,
                                    .beta_fast = 32.0,
                                    .beta_slow = 1.0,
                                    .original_context = 2048.0};
    struct mr_rope_table table;
    assert_int_equal(mr_rope_table_create(&table, &config, 2, NULL), MR_OK);
    /* The bounds are the pairs of 32 turns, 0.84, and of one turn, 2.09: rounded to 0 and 3. */
    assert_angle(&table, 4, 1.0);
    assert_angle(&table, 5, (2.0 / 3 + 1.0 / 3 / 8) / 16);
    assert_angle(&table, 6, (1.0 / 3 + 2.0 / 3 / 8) / 256);
    assert_angle(&table, 7, 1.0 / 4096 / 8);
    mr_rope_table_destroy(&table);
    config.keeps_fractions = true;
    assert_int_equal(mr_rope_table_create(&table, &config, 2, NULL), MR_OK);
    double low = 8 * log(2048.0 / (32 * 2 * 3.14159265358979)) / (2 * log(65536.0));
    double high = 8 * log(2048.0 / (2 * 3.14159265358979)) / (2 * log(65536.0));
    double ramp = (1.0 - low) / (high - low);
    assert_angle(&table, 5, (1 - ramp + ramp / 8) / 16);
    mr_rope_table_destroy(&table);
}

static void longrope_has_factors_for_short_and_for_long_contexts(void **state)
{
    (void)state;
    struct mr_rope_config config = {.kind = MR_ROPE_LONG,
                                    .rotary_dim = 4,
                                    .theta = 100.0,
                                    .original_context = 8.0,
                                    .divisors = {1.0f, 2.0f},
                                    .long_divisors = {4.0f, 5.0f}};
    struct mr_rope_table table;
    assert_int_equal(mr_rope_table_create(&table, &config, 8, NULL), MR_OK);
    assert_false(mr_rope_table_is_long(&config, 8));
    assert_angle(&table, 3 * 2, 3.0);
    assert_angle(&table, 3 * 2 + 1, 0.15);
    mr_rope_table_destroy(&table);
    assert_int_equal(mr_rope_table_create(&table, &config, 9, NULL), MR_OK);
    assert_true(mr_rope_table_is_long(&config, 9));
    assert_angle(&table, 3 * 2, 0.75);
    assert_angle(&table, 3 * 2 + 1, 0.06);
    mr_rope_table_destroy(&table);
}

static void the_attention_factor_multiplies_sines_and_cosines(void **state)
{
    (void)state;
    struct mr_rope_config config = {.rotary_dim = 2, .theta = 100.0, .attention_factor = 1.5};
    struct mr_rope_table table;
    assert_int_equal(mr_rope_table_create(&table, &config, 2, NULL), MR_OK);
    assert_true(fabs((double)table.cos[1] - 1.5 * cos(1.0)) < 1e-6);
    assert_true(fabs((double)table.sin[1] - 1.5 * sin(1.0)) < 1e-6);
    assert_null(table.q_scales);
    mr_rope_table_destroy(&table);
    config = (struct mr_rope_config){.kind = MR_ROPE_LONG,
                                     .rotary_dim = 2,
                                     .theta = 100.0,
                                     .original_context = 2.0,
                                     .attention_factor = 1.5,
                                     .long_attention_factor = 0.5,
                                     .divisors = {1.0f},
                                     .long_divisors = {1.0f}};
    for (uint32_t positions = 2; positions < 4; positions++) {
        assert_int_equal(mr_rope_table_create(&table, &config, positions, NULL), MR_OK);
        assert_true(table.cos[0] == (positions > 2 ? 0.5f : 1.5f));
        mr_rope_table_destroy(&table);
    }
}

static void a_temperature_grows_with_each_original_context(void **state)
{
    (void)state;
    struct mr_rope_config config = {
        .rotary_dim = 2, .theta = 100.0, .temperature = 0.5, .temperature_tokens = 4.0};
    struct mr_rope_table table;
    assert_int_equal(mr_rope_table_create(&table, &config, 9, NULL), MR_OK);
    assert_true(table.q_scales[0] == 1.0f && table.q_scales[3] == 1.0f);
    assert_true(fabs((double)table.q_scales[4] - (1.0 + 0.5 * log(2.0))) < 1e-6);
    assert_true(fabs((double)table.q_scales[8] - (1.0 + 0.5 * log(3.0))) < 1e-6);
    mr_rope_table_destroy(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(angles_shrink_by_pair_and_grow_by_position),
        cmocka_unit_test(linear_scaling_divides_positions),
        cmocka_unit_test(llama3_scaling_stretches_long_wavelengths_only),
        cmocka_unit_test(divisors_divide_frequencies),
        cmocka_unit_test(an_odd_rotary_size_is_misuse),
        cmocka_unit_test(yarn_stretches_pairs_that_turn_little),
        cmocka_unit_test(longrope_has_factors_for_short_and_for_long_contexts),
        cmocka_unit_test(the_attention_factor_multiplies_sines_and_cosines),
        cmocka_unit_test(a_temperature_grows_with_each_original_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
