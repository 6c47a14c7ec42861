#include "ops/families/json_mixer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

static enum mr_status read_as(const char *family, const char *text, struct mr_model_config *out,
                              struct mr_error *err)
{
    const struct mr_json_limits limits = {4096, 256, 8};
    const struct mr_text name = {family, strlen(family)};
    struct mr_json *document;
    *out = (struct mr_model_config){.layer_count = 4, .hidden_size = 32, .norm_epsilon = 1e-5f};
    assert_int_equal(mr_model_family_find(&out->family, name, false, NULL), MR_OK);
    assert_int_equal(mr_json_parse(&document, (struct mr_text){text, strlen(text)}, &limits, NULL),
                     MR_OK);
    enum mr_status status = mr_json_mixer_read(out, mr_json_root(document), err);
    mr_json_destroy(document);
    return status;
}

static void check_layers(const struct mr_model_config *config, const char *attends)
{
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(config->mixes[i], attends[i] != 'a');
        assert_int_equal(config->skips_attention[i], attends[i] != 'a');
    }
}

static void old_and_new_names_of_layer_types_are_read(void **state)
{
    (void)state;
    struct mr_model_config c;
    assert_int_equal(read_as("lfm2",
                             "{\"conv_L_cache\":3,\"layer_types\":[\"conv\",\"full_attention\","
                             "\"conv\",\"linear_attention\"]}",
                             &c, NULL),
                     MR_OK);
    assert_int_equal(c.mixer.kind, MR_MIXER_CONV);
    assert_int_equal(c.mixer.taps, 3);
    assert_int_equal(c.mixer.value_dim, 32);
    check_layers(&c, "mamm");
    assert_int_equal(read_as("lfm2", "{\"full_attn_idxs\":[0,3]}", &c, NULL), MR_OK);
    check_layers(&c, "amma");
    assert_int_equal(read_as("qwen3_next", "{}", &c, NULL), MR_OK);
    check_layers(&c, "mmma");
    assert_int_equal(read_as("granitemoehybrid",
                             "{\"layer_types\":[\"mamba\",\"mamba\",\"attention\",\"mamba\"]}", &c,
                             NULL),
                     MR_OK);
    check_layers(&c, "mmam");
}

static void the_shape_of_mamba_2_is_read(void **state)
{
    (void)state;
    struct mr_model_config c;
    assert_int_equal(read_as("granitemoehybrid",
                             "{\"mamba_d_conv\":4,\"mamba_n_heads\":8,\"mamba_n_groups\":2,"
                             "\"mamba_d_state\":16,\"mamba_d_head\":\"auto\","
                             "\"time_step_limit\":[0.1,2.5]}",
                             &c, NULL),
                     MR_OK);
    assert_int_equal(c.mixer.value_dim, 8);
    assert_int_equal(c.mixer.key_dim, 16);
    assert_int_equal(c.mixer.norm_width, 64);
    assert_true(c.mixer.dt_min == 0.1f && c.mixer.dt_max == 2.5f && c.mixer.norm_after_gate);
    assert_int_equal(read_as("granitemoehybrid",
                             "{\"time_step_limit\":[0.0,{\"__float__\":\"Infinity\"}]}", &c, NULL),
                     MR_OK);
    assert_true(c.mixer.dt_min == 0.0f && isinf(c.mixer.dt_max));
}

static void an_unknown_layer_type_is_refused(void **state)
{
    (void)state;
    struct mr_model_config c;
    struct mr_error err;
    assert_int_equal(
        read_as("lfm2", "{\"layer_types\":[\"conv\",\"conv\",\"moe\",\"conv\"]}", &c, &err),
        MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "moe"));
    assert_int_equal(read_as("lfm2", "{\"layer_types\":[\"conv\"]}", &c, &err), MR_BAD_FILE);
}

static void layers_of_one_part_are_read(void **state)
{
    (void)state;
    struct mr_model_config c;
    assert_int_equal(read_as("mamba2", "{}", &c, NULL), MR_OK);
    check_layers(&c, "mmmm");
    assert_true(c.skips_ffn[0] && c.skips_ffn[3]);
    assert_int_equal(read_as("mamba2",
                             "{\"layers_block_type\":[\"moe\",\"mamba\",\"attention\",\"mlp\"]}",
                             &c, NULL),
                     MR_OK);
    assert_true(c.routed[0] && !c.routed[3] && !c.skips_ffn[0] && !c.skips_ffn[3]);
    assert_true(c.mixes[1] && !c.mixes[0] && c.skips_attention[1] && c.skips_ffn[1]);
    assert_true(!c.mixes[2] && !c.skips_attention[2] && c.skips_ffn[2]);
    struct mr_model_config letters;
    assert_int_equal(read_as("mamba2", "{\"hybrid_override_pattern\":\"EM*-\"}", &letters, NULL),
                     MR_OK);
    assert_memory_equal(letters.mixes, c.mixes, sizeof c.mixes);
    assert_memory_equal(letters.skips_attention, c.skips_attention, 4 * sizeof(bool));
    assert_memory_equal(letters.skips_ffn, c.skips_ffn, 4 * sizeof(bool));
    assert_int_equal(read_as("mamba2", "{\"hybrid_override_pattern\":\"EMX-\"}", &c, NULL),
                     MR_BAD_FILE);
    assert_int_equal(read_as("mamba2", "{\"hybrid_override_pattern\":\"EM*\"}", &c, NULL),
                     MR_BAD_FILE);
    assert_int_equal(
        read_as("lfm2", "{\"layer_types\":[\"moe\",\"conv\",\"conv\",\"conv\"]}", &c, NULL),
        MR_BAD_FILE);
}

static void layers_may_have_both_parts(void **state)
{
    (void)state;
    struct mr_model_config c;
    assert_int_equal(read_as("falcon_h1",
                             "{\"mamba_n_heads\":4,\"mamba_d_ssm\":96,\"mamba_d_head\":\"auto\","
                             "\"mamba_n_groups\":2,\"mamba_rms_norm\":true}",
                             &c, NULL),
                     MR_OK);
    assert_true(c.mixes[3] && !c.skips_attention[3] && !c.skips_ffn[3]);
    assert_int_equal(c.mixer.value_dim, 24);
    assert_int_equal(c.mixer.norm_width, 48);
    assert_false(c.mixer.norm_after_gate);
    assert_int_equal(read_as("falcon_h1", "{\"mamba_norm_before_gate\":false}", &c, NULL), MR_OK);
    assert_int_equal(c.mixer.norm_width, 0);
    assert_true(c.mixer.norm_after_gate);
}

static void beta_is_doubled_unless_the_file_says_no(void **state)
{
    (void)state;
    struct mr_model_config c;
    assert_int_equal(read_as("olmo_hybrid", "{}", &c, NULL), MR_OK);
    assert_true(c.mixer.doubled_beta && c.mixer.norm_epsilon == 1e-5f);
    assert_int_equal(read_as("olmo_hybrid", "{\"linear_allow_neg_eigval\":false}", &c, NULL),
                     MR_OK);
    assert_false(c.mixer.doubled_beta);
    assert_int_equal(read_as("qwen3_next", "{}", &c, NULL), MR_OK);
    assert_false(c.mixer.doubled_beta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_and_new_names_of_layer_types_are_read),
        cmocka_unit_test(the_shape_of_mamba_2_is_read),
        cmocka_unit_test(an_unknown_layer_type_is_refused),
        cmocka_unit_test(layers_of_one_part_are_read),
        cmocka_unit_test(layers_may_have_both_parts),
        cmocka_unit_test(beta_is_doubled_unless_the_file_says_no),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
