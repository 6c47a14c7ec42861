#include "ops/decoder/kv_groups.h"

#include "ops/cpu/cpu_backend.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BT   ((uint32_t)MR_BLOCK_TOKENS)
#define STEP 64u

/* Bytes of one layer of a block in fp32, with one head of 16 dims. */
#define LAYER_BYTES ((size_t)2 * 16 * 4 * MR_BLOCK_TOKENS)

static struct mr_model_config config_of(uint32_t layers, uint32_t window, uint32_t context_blocks)
{
    struct mr_model_config config = {.layer_count = layers,
                                     .kv_head_count = 1,
                                     .head_dim = 16,
                                     .window = window,
                                     .context_tokens = context_blocks * BT};
    for (uint32_t i = 0; i < layers; i++)
        config.windowed[i] = window > 0;
    return config;
}

static struct mr_kv_groups groups_of(const struct mr_model_config *config, uint64_t bytes)
{
    struct mr_compute compute = {&mr_cpu_backend, MR_NUMBER_F32};
    struct mr_kv_groups groups;
    struct mr_error err;
    const struct mr_kv_groups_spec spec = {
        .config = config, .step_tokens = STEP, .kv_bytes = bytes};
    if (mr_kv_groups_create(&groups, &compute, &spec, &err) != MR_OK) fail_msg("%s", err.detail);
    return groups;
}

static void without_a_window_all_layers_are_in_blocks(void **state)
{
    (void)state;
    struct mr_model_config config = config_of(3, 0, 16);
    struct mr_kv_groups groups = groups_of(&config, 7 * 3 * LAYER_BYTES + 5);
    assert_null(groups.sliding);
    assert_int_equal(groups.block_count, 7);
    assert_int_equal(groups.slot_count, 0);
    assert_int_equal(groups.block_bytes, 3 * LAYER_BYTES);
    assert_true(!groups.layers[2].slides && groups.layers[2].index == 2);
    mr_kv_groups_destroy(&groups);
}

static void a_window_as_long_as_the_context_gives_one_group(void **state)
{
    (void)state;
    struct mr_model_config config = config_of(2, 16 * BT, 16);
    struct mr_kv_groups groups = groups_of(&config, 10 * 2 * LAYER_BYTES);
    assert_null(groups.sliding);
    assert_int_equal(groups.block_count, 10);
    mr_kv_groups_destroy(&groups);
    config = config_of(2, 13 * BT + 1,
                       16); /* with a step and the source of a copy as long as the context */
    groups = groups_of(&config, 10 * 2 * LAYER_BYTES);
    assert_null(groups.sliding);
    mr_kv_groups_destroy(&groups);
}

static void layers_are_grouped_by_their_windows(void **state)
{
    (void)state;
    struct mr_model_config config = config_of(4, BT, 32);
    config.windowed[1] = false;
    struct mr_kv_groups groups = groups_of(&config, 1 << 20);
    static const struct mr_kv_layer wanted[] = {{true, 0}, {false, 0}, {true, 1}, {true, 2}};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(groups.layers[i].slides, wanted[i].slides);
        assert_int_equal(groups.layers[i].index, wanted[i].index);
    }
    assert_int_equal(groups.block_bytes, 4 * LAYER_BYTES);
    assert_int_equal(mr_kv_groups_export_bytes(&groups, BT), groups.block_bytes);
    mr_kv_groups_destroy(&groups);
}

static void memory_is_divided_and_never_exceeded(void **state)
{
    (void)state;
    struct mr_model_config config = config_of(4, BT, 32);
    config.windowed[1] = config.windowed[3] = false;
    for (uint32_t blocks = 8; blocks < 200; blocks += 7) {
        uint64_t bytes = blocks * 4 * LAYER_BYTES;
        struct mr_kv_groups groups = groups_of(&config, bytes);
        assert_true(groups.slot_count < groups.block_count);
        assert_true(groups.slot_count >= (BT - 1 + STEP) / BT + 3);
        uint64_t taken = (uint64_t)(groups.block_count + groups.slot_count) * 2 * LAYER_BYTES;
        assert_int_equal(groups.pool_bytes, taken);
        assert_true(taken <= bytes && taken + 4 * LAYER_BYTES > bytes);
        mr_kv_groups_destroy(&groups);
    }
}

static void when_every_layer_slides_slots_take_all_the_memory(void **state)
{
    (void)state;
    struct mr_model_config config = config_of(2, BT, 64);
    struct mr_kv_groups groups = groups_of(&config, 20 * 2 * LAYER_BYTES);
    assert_null(groups.full);
    assert_int_equal(groups.slot_count, 20);
    assert_true(groups.block_count >= 64); /* more tokens than the slots can hold */
    mr_kv_groups_destroy(&groups);
    groups = groups_of(&config, 1); /* slots of a window, a step, and the source of a copy */
    assert_int_equal(groups.slot_count, (BT - 1 + STEP) / BT + 3);
    mr_kv_groups_destroy(&groups);
}

static void both_groups_are_copied_and_stored(void **state)
{
    (void)state;
    struct mr_model_config config = config_of(3, BT, 32);
    config.windowed[0] = false;
    struct mr_kv_groups groups = groups_of(&config, 64 * 3 * LAYER_BYTES);
    const struct mr_kv_place one = {1, 4, 0}, two = {9, 2, 0}, mixed[] = {{1, 2, 0}, {9, 4, 0}};
    size_t bytes = mr_kv_groups_export_bytes(&groups, BT);
    unsigned char *in = malloc(bytes), *out = calloc(1, bytes);
    for (size_t i = 0; i < bytes; i++)
        in[i] = (unsigned char)(i * 7 + i / 251);
    mr_kv_groups_import(&groups, one, BT, in);
    mr_kv_groups_copy(&groups, one, two, BT);
    mr_kv_groups_export(&groups, two, BT, out);
    assert_memory_equal(out, in, bytes);
    for (uint32_t i = 0; i < 2; i++) { /* block and slot of a place are independent */
        mr_kv_groups_export(&groups, mixed[i], BT, out);
        assert_memory_equal(out, in, bytes);
    }
    mr_kv_groups_export(&groups, (struct mr_kv_place){1, 0, 0}, BT, out);
    assert_memory_equal(out, in, LAYER_BYTES);
    assert_memory_not_equal(out + LAYER_BYTES, in + LAYER_BYTES, LAYER_BYTES);
    free(out);
    free(in);
    mr_kv_groups_destroy(&groups);
}

static void both_groups_are_stored_in_int8(void **state)
{
    (void)state;
    struct mr_model_config config = config_of(3, BT, 32);
    config.windowed[0] = false;
    struct mr_kv_groups groups = groups_of(&config, 64 * 3 * LAYER_BYTES);
    const struct mr_kv_place one = {1, 4, 0}, two = {9, 2, 0};
    size_t bytes = mr_kv_groups_export_bytes(&groups, BT), values = bytes / sizeof(float);
    float *in = malloc(bytes), *out = malloc(bytes);
    for (size_t i = 0; i < values; i++)
        in[i] = (float)(i * 7919 % 2003) / 1000.0f - 1.0f;
    mr_kv_groups_import(&groups, one, BT, (unsigned char *)in);
    groups.exports_int8 = true;
    size_t packed_bytes = mr_kv_groups_export_bytes(&groups, BT);
    assert_int_equal(packed_bytes, bytes / 4 + (size_t)3 * 2 * BT * 2); /* the scales of K and V */
    unsigned char *packed = malloc(packed_bytes);
    assert_true(mr_kv_groups_export(&groups, one, BT, packed));
    mr_kv_groups_import(&groups, two, BT, packed);
    groups.exports_int8 = false;
    assert_true(mr_kv_groups_export(&groups, two, BT, (unsigned char *)out));
    assert_memory_not_equal(out, in, bytes);
    for (size_t i = 0; i < values; i++)
        assert_true(out[i] - in[i] < 0.005f && in[i] - out[i] < 0.005f);
    in[values - 1] = INFINITY; /* a number of the last sliding layer */
    mr_kv_groups_import(&groups, one, BT, (unsigned char *)in);
    groups.exports_int8 = true;
    assert_false(mr_kv_groups_export(&groups, one, BT, packed));
    free(packed);
    free(out);
    free(in);
    mr_kv_groups_destroy(&groups);
}

/* DeepSeek-V2-Lite: 27 layers of a latent of 512 numbers and a rotary key of 64, in bf16; in int8 a
 * byte each and a scale. Full keys and values of 16 heads would take nine times as much. */
static void a_latent_pool_holds_one_row_for_all_heads(void **state)
{
    (void)state;
    struct mr_model_config config = config_of(27, 0, 16);
    struct mr_compute compute = {&mr_cpu_backend, MR_NUMBER_BF16};
    struct mr_kv_groups_spec spec = {.config = &config, .step_tokens = STEP, .kv_bytes = 1 << 30};
    struct mr_kv_groups groups;
    config.kv_head_count = 16;
    config.head_dim = 192;
    config.latent =
        (struct mr_latent_shape){.rank = 512, .rope_dim = 64, .nope_dim = 128, .value_dim = 128};
    mr_kv_groups_plan(&groups, &compute, &spec);
    assert_int_equal(groups.block_bytes / MR_BLOCK_TOKENS, (512 + 64) * 2 * 27);
    spec.int8 = true;
    mr_kv_groups_plan(&groups, &compute, &spec);
    assert_int_equal(groups.block_bytes / MR_BLOCK_TOKENS, (512 + 64 + 2) * 27);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_window_all_layers_are_in_blocks),
        cmocka_unit_test(a_window_as_long_as_the_context_gives_one_group),
        cmocka_unit_test(layers_are_grouped_by_their_windows),
        cmocka_unit_test(memory_is_divided_and_never_exceeded),
        cmocka_unit_test(when_every_layer_slides_slots_take_all_the_memory),
        cmocka_unit_test(a_latent_pool_holds_one_row_for_all_heads),
        cmocka_unit_test(both_groups_are_copied_and_stored),
        cmocka_unit_test(both_groups_are_stored_in_int8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
