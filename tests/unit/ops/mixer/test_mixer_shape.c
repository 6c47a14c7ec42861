#include "ops/mixer/mixer_shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_short_convolution_has_three_parts_in_a_row(void **state)
{
    (void)state;
    const struct mr_mixer_shape shape = {.kind = MR_MIXER_CONV, .taps = 3, .value_dim = 20};
    assert_int_equal(mr_mixer_row_width(&shape), 60);
    assert_int_equal(mr_mixer_out_width(&shape), 20);
    assert_int_equal(mr_mixer_gates_width(&shape), 0);
    assert_int_equal(mr_mixer_channels(&shape), 20);
    assert_int_equal(mr_mixer_state_floats(&shape), 2 * 32);
}

static void the_parts_of_a_row_follow_each_other(void **state)
{
    (void)state;
    const struct mr_mixer_shape ssd = {
        .kind = MR_MIXER_SSD, .taps = 4, .heads = 6, .key_heads = 2, .key_dim = 5, .value_dim = 3};
    assert_int_equal(mr_mixer_row_width(&ssd), 18 + 18 + 10 + 10);
    assert_int_equal(mr_mixer_gates_width(&ssd), 6);
    assert_int_equal(mr_mixer_first_channel(&ssd), 18);
    assert_int_equal(mr_mixer_value_at(&ssd, 5), 18 + 15);
    assert_int_equal(mr_mixer_key_at(&ssd, 2), 36);
    assert_int_equal(mr_mixer_key_at(&ssd, 3), 36 + 5);
    assert_int_equal(mr_mixer_query_at(&ssd, 5), 46 + 5);
    struct mr_mixer_shape delta = ssd;
    delta.kind = MR_MIXER_DELTA;
    assert_int_equal(mr_mixer_gates_width(&delta), 12);
    assert_int_equal(mr_mixer_query_at(&delta, 0), 18);
    assert_int_equal(mr_mixer_key_at(&delta, 4), 28 + 5);
    assert_int_equal(mr_mixer_value_at(&delta, 1), 38 + 3);
    delta.tiled = true;
    assert_int_equal(mr_mixer_key_at(&delta, 4), 28);
    assert_int_equal(mr_mixer_state_floats(&delta), 3 * 48 + 6 * 5 * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_convolution_has_three_parts_in_a_row),
        cmocka_unit_test(the_parts_of_a_row_follow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
