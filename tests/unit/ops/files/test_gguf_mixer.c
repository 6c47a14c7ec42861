#include "ops/files/gguf_mixer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/scratch.h"

struct entry {
    const char *key;
    uint32_t numbers[3]; /* a number, or an array of three if the others are not 0 */
};

/* Writes a file with these keys and tensors of one number, and reads its recurrent layers. */
static struct mr_model_config read_as(const char *architecture, const struct entry *entries,
                                      const char *const *tensors)
{
    static struct bytes bytes;
    struct scratch scratch;
    struct mr_error err = {0};
    uint64_t keys = 0, count = 0;
    struct mr_model_config config = {.layer_count = 3, .hidden_size = 32, .head_count = 4};
    const struct mr_text name = {architecture, strlen(architecture)};
    bytes.size = 0;
    put(&bytes, "GGUF\3\0\0\0", 8);
    put_u64(&bytes, 0);
    put_u64(&bytes, 0);
    for (; entries[keys].key; keys++) {
        const uint32_t *numbers = entries[keys].numbers;
        const bool array = numbers[1] > 0 || numbers[2] > 0;
        put_text(&bytes, entries[keys].key);
        put_u32(&bytes, array ? MR_GGUF_ARRAY : MR_GGUF_U32);
        if (array) {
            put_u32(&bytes, MR_GGUF_U32);
            put_u64(&bytes, 3);
        }
        for (uint32_t i = 0; i < (array ? 3 : 1); i++)
            put_u32(&bytes, numbers[i]);
    }
    for (; tensors[count]; count++) {
        put_text(&bytes, tensors[count]);
        put_u32(&bytes, 1);
        put_u64(&bytes, 1);
        put_u32(&bytes, 0);
        put_u64(&bytes, count * 32);
    }
    memcpy(bytes.data + 8, &count, sizeof count);
    memcpy(bytes.data + 16, &keys, sizeof keys);
    put_padding(&bytes, 32);
    for (uint64_t i = 0; i < count * 8; i++)
        put_float(&bytes, 0.0f);
    scratch_open(&scratch);
    struct mr_gguf *gguf;
    if (mr_gguf_open(&gguf, scratch_write(&scratch, "f", bytes.data, bytes.size), &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(mr_model_family_find(&config.family, name, true, &err), MR_OK);
    mr_gguf_mixer_read(&config, gguf, name, mr_gguf_tensors(gguf));
    mr_gguf_close(gguf);
    scratch_close(&scratch);
    return config;
}

static void tensors_show_what_a_layer_has(void **state)
{
    (void)state;
    const struct entry entries[] = {
        {"lfm2.shortconv.l_cache", {3}}, {"lfm2.attention.head_count_kv", {0, 2, 0}}, {0}};
    const char *const tensors[] = {"blk.0.shortconv.conv.weight", "blk.0.ffn_down.weight",
                                   "blk.1.attn_k.weight",         "blk.1.ffn_down_exps.weight",
                                   "blk.2.shortconv.conv.weight", NULL};
    const struct mr_model_config c = read_as("lfm2", entries, tensors);
    assert_true(c.mixes[0] && !c.mixes[1] && c.mixes[2]);
    assert_true(c.skips_attention[0] && !c.skips_attention[1] && c.skips_attention[2]);
    assert_true(!c.skips_ffn[0] && !c.skips_ffn[1] && c.skips_ffn[2]);
    assert_int_equal(c.kv_head_count, 2);
    assert_int_equal(c.mixer.taps, 3);
    assert_int_equal(c.mixer.value_dim, 32);
}

static void keys_have_the_sizes(void **state)
{
    (void)state;
    const struct entry entries[] = {{"qwen35.ssm.conv_kernel", {4}},
                                    {"qwen35.ssm.inner_size", {48}},
                                    {"qwen35.ssm.time_step_rank", {6}},
                                    {"qwen35.ssm.group_count", {2}},
                                    {"qwen35.ssm.state_size", {16}},
                                    {"qwen35.attention.head_count_kv", {1}},
                                    {0}};
    const char *const tensors[] = {"blk.0.ssm_conv1d.weight", NULL};
    const struct mr_mixer_shape shape = read_as("qwen35", entries, tensors).mixer;
    assert_int_equal(shape.kind, MR_MIXER_DELTA);
    assert_int_equal(shape.taps, 4);
    assert_int_equal(shape.heads, 6);
    assert_int_equal(shape.key_heads, 2);
    assert_int_equal(shape.key_dim, 16);
    assert_int_equal(shape.value_dim, 8);
    assert_int_equal(shape.norm_width, 8);
    assert_true(shape.tiled);
}

static void the_norm_of_falcon_h1_is_a_tensor(void **state)
{
    (void)state;
    const struct entry entries[] = {{"falcon-h1.ssm.inner_size", {48}},
                                    {"falcon-h1.ssm.time_step_rank", {6}},
                                    {"falcon-h1.ssm.group_count", {2}},
                                    {0}};
    const char *const without[] = {"blk.0.ssm_conv1d.weight", "blk.0.attn_k.weight", NULL};
    const char *const with[] = {"blk.0.ssm_norm.weight", NULL};
    const struct mr_model_config c = read_as("falcon-h1", entries, without);
    assert_true(c.mixes[0] && !c.skips_attention[0]);
    assert_int_equal(c.mixer.norm_width, 0);
    const struct mr_mixer_shape shape = read_as("falcon-h1", entries, with).mixer;
    assert_int_equal(shape.norm_width, 24);
    assert_true(shape.norm_after_gate && !shape.tiled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_show_what_a_layer_has),
        cmocka_unit_test(keys_have_the_sizes),
        cmocka_unit_test(the_norm_of_falcon_h1_is_a_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
