#include "ops/weights/mixer_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "../tiny_weights.h"

enum { HEADS = 4, KEY_HEADS = 2, KEY = 3, VALUE = 2, TAPS = 3 };

static const struct mr_weight_name names[] = {
    {MR_WEIGHT_MIXER_IN, NULL, "qkvz"},         {MR_WEIGHT_MIXER_GATES, NULL, "ba"},
    {MR_WEIGHT_MIXER_TAPS, NULL, "conv"},       {MR_WEIGHT_MIXER_A, NULL, "A_log"},
    {MR_WEIGHT_MIXER_DT_BIAS, NULL, "dt_bias"}, {MR_WEIGHT_MIXER_NORM, NULL, "norm"},
    {MR_WEIGHT_MIXER_OUT, NULL, "out"},         {0}};

/* The tensors of the grouped delta rule: q, k, v, z of the first key head, then of the second. */
static void add_tensors(struct tiny *tiny, struct mr_model_family *family)
{
    *family = *tiny->config.family;
    family->names = names;
    tiny->config.family = family;
    tiny->config.mixer = (struct mr_mixer_shape){.kind = MR_MIXER_DELTA,
                                                 .taps = TAPS,
                                                 .heads = HEADS,
                                                 .key_heads = KEY_HEADS,
                                                 .key_dim = KEY,
                                                 .value_dim = VALUE,
                                                 .norm_width = VALUE};
    tiny_add(tiny, "qkvz.weight", mr_mixer_row_width(&tiny->config.mixer), TINY_HIDDEN);
    tiny_add(tiny, "ba.weight", 2 * HEADS, TINY_HIDDEN);
    tiny_add(tiny, "conv.weight", mr_mixer_channels(&tiny->config.mixer), TAPS);
    tiny_add(tiny, "A_log", HEADS, 0);
    tiny_add(tiny, "dt_bias", HEADS, 0);
    tiny_add(tiny, "norm.weight", VALUE, 0);
    tiny_add(tiny, "out.weight", TINY_HIDDEN, HEADS * VALUE);
}

static const float *numbers_of(const struct tiny *tiny, const char *name)
{
    for (uint32_t i = 0; i < tiny->tensors.count; i++)
        if (mr_text_is(tiny->tensors.entries[i].name, name))
            return (const float *)tiny->tensors.entries[i].bytes;
    fail_msg("no tensor %s", name);
    return NULL;
}

static void check_row(const struct mr_linear *linear, uint32_t row, const float *stored)
{
    float packed[TINY_HIDDEN];
    mr_cpu_linear_row((const struct mr_cpu_linear *)linear, row, packed);
    assert_memory_equal(packed, stored, sizeof packed);
}

static void grouped_rows_become_z_q_k_v(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_model_family family;
    struct mr_mixer_weights mixer = {0};
    struct mr_error err = {0};
    tiny_open(&tiny);
    add_tensors(&tiny, &family);
    assert_int_equal(mr_tensor_table_sort(&tiny.tensors, NULL), MR_OK);
    const struct mr_weights_spec spec = {
        .config = &tiny.config, .tensors = &tiny.tensors, .compute = tiny.compute};
    struct mr_weight_loader loader = {.spec = &spec, .err = &err};
    assert_int_equal(mr_weight_loader_begin(&loader), MR_OK);
    if (mr_mixer_weights_load(&loader, 0, &mixer) != MR_OK) fail_msg("%s", err.detail);
    const float *in = numbers_of(&tiny, "qkvz.weight"), *ba = numbers_of(&tiny, "ba.weight");
    /* a group has q and k of 3 rows, v and z of 2 heads of 2 rows: 14 rows */
    check_row(mixer.in, 0, in + 10 * TINY_HIDDEN);                /* z of head 0 */
    check_row(mixer.in, 4, in + (14 + 10) * TINY_HIDDEN);         /* z of head 2 */
    check_row(mixer.in, 8, in);                                   /* q of key head 0 */
    check_row(mixer.in, 8 + 3, in + 14 * TINY_HIDDEN);            /* q of key head 1 */
    check_row(mixer.in, 14, in + 3 * TINY_HIDDEN);                /* k of key head 0 */
    check_row(mixer.in, 20 + 5, in + (14 + 6 + 1) * TINY_HIDDEN); /* v of head 2, number 1 */
    check_row(mixer.gates, 2, ba + 4 * TINY_HIDDEN);              /* beta of head 2 */
    check_row(mixer.gates, 4 + 1, ba + 3 * TINY_HIDDEN);          /* decay of head 1 */
    const float *taps = (const float *)mixer.taps, *conv = numbers_of(&tiny, "conv.weight");
    assert_true(taps[2 * mr_mixer_channels(&tiny.config.mixer) + 5] == conv[5 * TAPS + 2]);
    assert_true(((const float *)mixer.decay)[1] == -expf(numbers_of(&tiny, "A_log")[1]));
    assert_true(((const float *)mixer.norm)[2 * VALUE + 1] == numbers_of(&tiny, "norm.weight")[1]);
    assert_null(mixer.bias);
    assert_null(mixer.skip);
    mr_weight_loader_end(&loader);
    mr_mixer_weights_destroy(&mixer, &mr_cpu_backend);
    tiny_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(grouped_rows_become_z_q_k_v)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
