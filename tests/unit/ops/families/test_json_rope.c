#include "ops/families/json_rope.h"

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
    *out = (struct mr_model_config){.head_dim = 16, .context_tokens = 4096, .rope_count = 1};
    assert_int_equal(mr_model_family_find(&out->family, name, false, NULL), MR_OK);
    assert_int_equal(mr_json_parse(&document, (struct mr_text){text, strlen(text)}, &limits, NULL),
                     MR_OK);
    enum mr_status status = mr_json_rope_read(out, mr_json_root(document), err);
    mr_json_destroy(document);
    return status;
}

static struct mr_model_config read_valid(const char *family, const char *text)
{
    struct mr_model_config config;
    struct mr_error err = {0};
    if (read_as(family, text, &config, &err) != MR_OK) fail_msg("%s", err.detail);
    return config;
}

static void yarn_has_defaults_and_mscales(void **state)
{
    (void)state;
    struct mr_model_config c =
        read_valid("llama", "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":8.0,"
                            "\"original_max_position_embeddings\":512}}");
    assert_int_equal(c.ropes[0].kind, MR_ROPE_YARN);
    assert_true(c.ropes[0].beta_fast == 32.0 && c.ropes[0].beta_slow == 1.0);
    assert_true(c.ropes[0].original_context == 512.0 && !c.ropes[0].keeps_fractions);
    assert_true(fabs(c.ropes[0].attention_factor - (0.1 * log(8.0) + 1.0)) < 1e-12);
    c = read_valid("llama", "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":8.0,"
                            "\"mscale\":0.5,\"mscale_all_dim\":1.0,\"truncate\":false}}");
    assert_true(c.ropes[0].keeps_fractions);
    assert_true(fabs(c.ropes[0].attention_factor -
                     (0.05 * log(8.0) + 1.0) / (0.1 * log(8.0) + 1.0)) < 1e-12);
    c = read_valid("gpt_oss", "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":32.0,"
                              "\"attention_factor\":1.25}}");
    assert_true(!c.ropes[0].keeps_fractions && c.ropes[0].attention_factor == 1.25);
    assert_true(c.ropes[0].theta == 150000.0);
}

static void yarn_extends_the_context(void **state)
{
    (void)state;
    /* Qwen's recipe; the context of read_as is 4096 tokens */
    struct mr_model_config c =
        read_valid("qwen2", "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,"
                            "\"original_max_position_embeddings\":4096}}");
    assert_int_equal(c.context_tokens, 16384);
    c = read_valid("qwen2", "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0}}");
    assert_int_equal(c.context_tokens, 4096);
    c = read_valid("qwen2", "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":1e9,"
                            "\"original_max_position_embeddings\":4096}}");
    assert_int_equal(c.context_tokens, 4096);
}

static void dynamic_scaling_is_plain_within_the_context(void **state)
{
    (void)state;
    struct mr_model_config c =
        read_valid("llama", "{\"rope_theta\":500.0,\"rope_scaling\":{\"type\":\"dynamic\","
                            "\"factor\":4.0}}");
    assert_int_equal(c.ropes[0].kind, MR_ROPE_PLAIN);
    assert_true(c.ropes[0].theta == 500.0 && c.ropes[0].factor == 0.0);
}

#define LISTS "\"short_factor\":[1.0,1.5],\"long_factor\":[2.0,4.0],\"type\":\"longrope\""
static void longrope_has_two_lists_and_a_factor(void **state)
{
    (void)state;
    struct mr_model_config c;
    struct mr_error err = {0};
    c = read_valid("phi3", "{\"partial_rotary_factor\":0.25,\"original_max_position_embeddings\":"
                           "1024,\"rope_scaling\":{" LISTS "}}");
    assert_int_equal(c.ropes[0].kind, MR_ROPE_LONG);
    assert_int_equal(c.ropes[0].rotary_dim, 4);
    assert_true(c.ropes[0].divisors[1] == 1.5f && c.ropes[0].long_divisors[1] == 4.0f);
    assert_true(c.ropes[0].original_context == 1024.0);
    assert_true(fabs(c.ropes[0].attention_factor - sqrt(1.0 + log(4.0) / log(1024.0))) < 1e-12);
    c = read_valid("phimoe", "{\"partial_rotary_factor\":0.25,\"rope_scaling\":{\"short_mscale\":"
                             "1.5,\"long_mscale\":1.25," LISTS "}}");
    assert_true(c.ropes[0].attention_factor == 1.5 && c.ropes[0].long_attention_factor == 1.25);
    assert_int_equal(read_as("phi3", "{\"rope_scaling\":{" LISTS "}}", &c, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "longrope needs 8 numbers"));
}

static void a_temperature_needs_the_original_context(void **state)
{
    (void)state;
    struct mr_model_config c = read_valid(
        "ministral3", "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4.0,"
                      "\"original_max_position_embeddings\":64,\"llama_4_scaling_beta\":0.5}}");
    assert_true(c.ropes[0].temperature == 0.5 && c.ropes[0].temperature_tokens == 64.0);
    c = read_valid("ministral3", "{\"rope_parameters\":{\"rope_type\":\"default\"}}");
    assert_true(c.ropes[0].temperature == 0.0);
}

static void alpha_raises_the_base_of_dynamic_scaling(void **state)
{
    (void)state;
    /* heads of 16 numbers: the base grows by 2^(16/14) */
    struct mr_model_config c =
        read_valid("hunyuan_v1_dense", "{\"rope_parameters\":{\"rope_type\":\"dynamic\","
                                       "\"rope_theta\":100.0,\"alpha\":2.0}}");
    assert_true(fabs(c.ropes[0].theta - 100.0 * pow(2.0, 16.0 / 14.0)) < 1e-9);
    assert_int_equal(c.ropes[0].kind, MR_ROPE_PLAIN);
}

static void positions_in_three_dimensions_are_plain_for_text(void **state)
{
    (void)state;
    struct mr_model_config c, plain = read_valid("qwen2_vl", "{}");
    c = read_valid("qwen2_vl", "{\"rope_scaling\":{\"type\":\"mrope\","
                               "\"mrope_section\":[4,2,2]}}");
    assert_memory_equal(&c.ropes[0], &plain.ropes[0], sizeof c.ropes[0]);
}

static void windows_may_have_a_rope_of_their_own(void **state)
{
    (void)state;
    static const char both[] =
        "{\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8.0,"
        "\"rope_theta\":7.0},\"sliding_attention\":{\"rope_type\":\"default\","
        "\"rope_theta\":5.0}}}";
    struct mr_model_config c = read_valid("gemma3_text", both);
    assert_int_equal(c.rope_count, 2);
    assert_int_equal(c.ropes[0].kind, MR_ROPE_LINEAR);
    assert_true(c.ropes[0].theta == 7.0 && c.ropes[1].theta == 5.0);
    assert_int_equal(c.ropes[1].kind, MR_ROPE_PLAIN);
    /* truncate has an effect next to the objects of the layer types, not in them */
    c = read_valid("gemma3_text",
                   "{\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"yarn\","
                   "\"factor\":8.0,\"truncate\":false}}}");
    assert_false(c.ropes[0].keeps_fractions);
    c = read_valid("gemma3_text", "{\"rope_parameters\":{\"truncate\":false,\"full_attention\":{"
                                  "\"rope_type\":\"yarn\",\"factor\":8.0}}}");
    assert_true(c.ropes[0].keeps_fractions && !c.ropes[1].keeps_fractions);
    c = read_valid("gemma3_text", "{\"rope_theta\":9.0,\"rope_local_base_freq\":3.0,"
                                  "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0}}");
    assert_true(c.ropes[0].theta == 9.0 && c.ropes[0].factor == 8.0);
    assert_true(c.ropes[1].theta == 3.0 && c.ropes[1].kind == MR_ROPE_PLAIN);
    c = read_valid("gemma3_text", "{}");
    assert_true(c.ropes[0].theta == 1e6 && c.ropes[1].theta == 1e4);
    c = read_valid("olmo3", "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8.0}}");
    assert_int_equal(c.ropes[0].kind, MR_ROPE_YARN);
    assert_int_equal(c.ropes[1].kind, MR_ROPE_PLAIN);
    assert_true(c.ropes[1].theta == c.ropes[0].theta && c.ropes[1].attention_factor == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yarn_has_defaults_and_mscales),
        cmocka_unit_test(yarn_extends_the_context),
        cmocka_unit_test(dynamic_scaling_is_plain_within_the_context),
        cmocka_unit_test(longrope_has_two_lists_and_a_factor),
        cmocka_unit_test(a_temperature_needs_the_original_context),
        cmocka_unit_test(alpha_raises_the_base_of_dynamic_scaling),
        cmocka_unit_test(positions_in_three_dimensions_are_plain_for_text),
        cmocka_unit_test(windows_may_have_a_rope_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
