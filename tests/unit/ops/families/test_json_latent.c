#include "ops/families/json_latent.h"

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
    *out = (struct mr_model_config){.layer_count = 4, .hidden_size = 64, .head_count = 4};
    assert_int_equal(mr_model_family_find(&out->family, name, false, NULL), MR_OK);
    assert_int_equal(mr_json_parse(&document, (struct mr_text){text, strlen(text)}, &limits, NULL),
                     MR_OK);
    enum mr_status status = mr_json_latent_read(out, mr_json_root(document), err);
    mr_json_destroy(document);
    return status;
}

#define SIZES                                                                                      \
    "\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,\"v_head_dim\":128"

static void the_sizes_of_deepseek_v2_lite_are_read(void **state)
{
    (void)state;
    struct mr_model_config c;
    assert_int_equal(read_as("deepseek_v2", "{" SIZES ",\"q_lora_rank\":null}", &c, NULL), MR_OK);
    assert_int_equal(c.latent.rank, 512);
    assert_int_equal(c.latent.query_rank, 0);
    assert_true(c.latent.pairs);
    assert_int_equal(c.head_dim, 192);
    assert_int_equal(c.kv_head_count, 4);
    assert_int_equal(mr_latent_key(&c.latent), 576);
    assert_true(fabsf(c.attention_scale - 1.0f / sqrtf(192.0f)) < 1e-7f);
}

/* 1.590 for V2-Lite (factor 40, mscale_all_dim 0.707). */
static void yarn_scales_the_scores_by_the_square_of_its_magnitude(void **state)
{
    (void)state;
    struct mr_model_config c;
    assert_int_equal(read_as("deepseek_v2",
                             "{" SIZES ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,"
                             "\"mscale\":0.707,\"mscale_all_dim\":0.707}}",
                             &c, NULL),
                     MR_OK);
    assert_true(fabsf(c.attention_scale * sqrtf(192.0f) - 1.5896f) < 1e-3f);
    assert_int_equal(read_as("deepseek_v2",
                             "{" SIZES ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40}}", &c,
                             NULL),
                     MR_OK);
    assert_true(fabsf(c.attention_scale * sqrtf(192.0f) - 1.0f) < 1e-6f);
}

static void pair_order_is_an_option_of_v3_only(void **state)
{
    (void)state;
    struct mr_model_config c;
    static const char text[] = "{" SIZES ",\"rope_interleave\":false}";
    assert_int_equal(read_as("deepseek_v3", text, &c, NULL), MR_OK);
    assert_false(c.latent.pairs);
    assert_int_equal(read_as("deepseek_v2", text, &c, NULL), MR_OK);
    assert_true(c.latent.pairs);
    assert_int_equal(read_as("minicpm3", text, &c, NULL), MR_OK);
    assert_false(c.latent.pairs);
}

static void minicpm_has_multipliers(void **state)
{
    (void)state;
    struct mr_model_config c;
    assert_int_equal(read_as("minicpm3",
                             "{\"kv_lora_rank\":32,\"scale_emb\":3,\"scale_depth\":1.0,"
                             "\"dim_model_base\":16}",
                             &c, NULL),
                     MR_OK);
    assert_int_equal(c.latent.value_dim, 16);
    assert_true(c.embedding_scale == 3.0f);
    assert_true(c.residual_scale == 0.5f);
    assert_true(c.logit_scale == 0.25f);
    assert_int_equal(read_as("minicpm3", "{\"kv_lora_rank\":32,\"scale_depth\":null}", &c, NULL),
                     MR_OK);
    assert_true(c.embedding_scale == 12.0f);
    assert_true(c.residual_scale == 1.0f);
}

static void a_file_without_a_rank_is_rejected(void **state)
{
    (void)state;
    struct mr_model_config c;
    struct mr_error err = {0};
    assert_int_equal(read_as("deepseek_v2", "{}", &c, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "kv_lora_rank"));
    assert_int_equal(read_as("llama", "{}", &c, &err), MR_OK);
    assert_int_equal(c.latent.rank, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sizes_of_deepseek_v2_lite_are_read),
        cmocka_unit_test(yarn_scales_the_scores_by_the_square_of_its_magnitude),
        cmocka_unit_test(pair_order_is_an_option_of_v3_only),
        cmocka_unit_test(minicpm_has_multipliers),
        cmocka_unit_test(a_file_without_a_rank_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
