#include "ops/families/model_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_model_config valid(const char *family)
{
    struct mr_model_config c = {0};
    const struct mr_text name = {family, strlen(family)};
    assert_int_equal(mr_model_family_find(&c.family, name, false, NULL), MR_OK);
    mr_model_config_begin(&c);
    c.layer_count = 4;
    c.hidden_size = 32;
    c.head_count = 2;
    c.kv_head_count = 1;
    c.head_dim = 24;
    c.ffn_size = 48;
    c.vocab_size = 40;
    c.context_tokens = 128;
    c.norm_epsilon = 1e-6f;
    c.attention_scale = 0.25f;
    c.ropes[0] = (struct mr_rope_config){.rotary_dim = 24, .theta = 10000.0};
    mr_model_config_assign_ropes(&c);
    return c;
}

static void rejected(const struct mr_model_config *config, const char *because)
{
    struct mr_error err = {0};
    assert_int_equal(mr_model_config_check(config, &err), MR_BAD_FILE);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

static void heads_are_padded_to_a_multiple_of_sixteen(void **state)
{
    (void)state;
    struct mr_model_config c = valid("llama");
    assert_int_equal(mr_model_config_check(&c, NULL), MR_OK);
    assert_int_equal(mr_model_config_padded_head(&c), 32);
    c.head_dim = 32;
    assert_int_equal(mr_model_config_padded_head(&c), 32);
}

static void limits_hold_for_every_field(void **state)
{
    (void)state;
    struct mr_model_config c = valid("mixtral");
    c.experts = (struct mr_expert_config){.count = 4, .top_k = 2, .ffn_size = 48};
    assert_int_equal(mr_model_config_check(&c, NULL), MR_OK);
    c.experts.top_k = 5;
    rejected(&c, "experts for a token");
    c.experts.top_k = 0;
    rejected(&c, "experts for a token");
    c = valid("qwen2");
    c.experts = (struct mr_expert_config){.count = 4, .top_k = 2, .ffn_size = 48};
    rejected(&c, "with experts");
    c = valid("llama");
    c.attention_scale = 0.0f;
    rejected(&c, "attention scale");
    c.attention_scale = 1.0f;
    c.logit_softcap = -1.0f;
    rejected(&c, "cap of logits");
}

static void rope_factors_must_be_positive(void **state)
{
    (void)state;
    struct mr_model_config c = valid("llama");
    struct mr_rope_config *rope = &c.ropes[0];
    rope->kind = MR_ROPE_LONG;
    rejected(&c, "original context");
    rope->original_context = 64.0;
    rejected(&c, "positive factor for each of 12 pairs");
    for (uint32_t i = 0; i < 12; i++)
        rope->divisors[i] = rope->long_divisors[i] = 1.0f;
    assert_int_equal(mr_model_config_check(&c, NULL), MR_OK);
    rope->long_divisors[11] = -1.0f;
    rejected(&c, "positive factor");
    *rope = (struct mr_rope_config){.kind = MR_ROPE_YARN, .rotary_dim = 24, .theta = 10000.0};
    rejected(&c, "factor");
    rope->factor = 2.0;
    rope->original_context = 64.0;
    rejected(&c, "betas");
}

static void layers_with_a_window_have_the_second_rope(void **state)
{
    (void)state;
    struct mr_model_config c = valid("gemma3_text");
    c.window = 8;
    mr_model_config_set_windows(&c, 0, 2);
    assert_true(c.windowed[0] && !c.windowed[1] && c.windowed[2] && !c.windowed[3]);
    c.rope_count = 2;
    c.ropes[1] = c.ropes[0];
    mr_model_config_assign_ropes(&c);
    assert_int_equal(c.rope_count, 1); /* both are the same */
    assert_int_equal(c.rope_of[0], 0);
    c.rope_count = 2;
    c.ropes[1].theta = 100.0;
    mr_model_config_assign_ropes(&c);
    assert_int_equal(c.rope_count, 2);
    assert_true(c.rope_of[0] == 1 && c.rope_of[1] == 0);
    c = valid("smollm3");
    assert_true(c.rope_of[2] == 0 && c.rope_of[3] == MR_NO_ROPE);
}

static void descriptions_of_different_ropes_differ(void **state)
{
    (void)state;
    struct mr_model_config c = valid("llama");
    char first[320], second[320];
    c.ropes[0].has_divisors = true;
    c.ropes[0].divisors[3] = 2.0f;
    mr_model_config_describe_rope(&c, 0, first, sizeof first);
    c.ropes[0].divisors[3] = 2.5f;
    mr_model_config_describe_rope(&c, 0, second, sizeof second);
    assert_string_not_equal(first, second);
    mr_model_config_describe_rope(&c, 0, first, sizeof first);
    assert_string_equal(first, second);
    c.ropes[0].attention_factor = 1.5;
    mr_model_config_describe_rope(&c, 0, first, sizeof first);
    assert_string_not_equal(first, second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_padded_to_a_multiple_of_sixteen),
        cmocka_unit_test(limits_hold_for_every_field),
        cmocka_unit_test(rope_factors_must_be_positive),
        cmocka_unit_test(layers_with_a_window_have_the_second_rope),
        cmocka_unit_test(descriptions_of_different_ropes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
