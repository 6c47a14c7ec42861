#include "ops/families/tensor_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_name(const struct mr_tensor_naming *naming, enum mr_weight_part part,
                        uint32_t layer, uint32_t index, const char *expected)
{
    char name[MR_TENSOR_NAME_BYTES];
    assert_true(mr_tensor_name(naming, part, layer, index, ".weight", name));
    assert_string_equal(name, expected);
}

static void names_have_the_numbers_of_layer_and_expert(void **state)
{
    (void)state;
    const struct mr_tensor_naming gguf = {.gguf = true}, folder = {0};
    assert_name(&gguf, MR_WEIGHT_Q, 12, 0, "blk.12.attn_q.weight");
    assert_name(&folder, MR_WEIGHT_HEAD, 0, 0, "lm_head.weight");
    assert_name(&folder, MR_WEIGHT_EXPERT_UP, 3, 511,
                "model.layers.3.mlp.experts.511.up_proj.weight");
}

static void exceptions_of_a_family_replace_usual_names(void **state)
{
    (void)state;
    const struct mr_weight_name exceptions[] = {
        {MR_WEIGHT_ROUTER, "a.%u.b", "c.%u.d"}, {MR_WEIGHT_EXPERT_UP, NULL, "e.%u.f.%u"}, {0}};
    const struct mr_tensor_naming gguf = {.exceptions = exceptions, .gguf = true};
    const struct mr_tensor_naming folder = {.exceptions = exceptions};
    char name[MR_TENSOR_NAME_BYTES];
    assert_name(&gguf, MR_WEIGHT_ROUTER, 1, 0, "a.1.b.weight");
    assert_name(&folder, MR_WEIGHT_ROUTER, 1, 0, "c.1.d.weight");
    assert_name(&folder, MR_WEIGHT_EXPERT_UP, 1, 2, "e.1.f.2.weight");
    assert_name(&folder, MR_WEIGHT_Q, 1, 0, "model.layers.1.self_attn.q_proj.weight");
    assert_false(mr_tensor_name(&gguf, MR_WEIGHT_EXPERT_UP, 1, 2, "", name));
    assert_string_equal(name, "");
}

static void a_part_may_have_two_names(void **state)
{
    (void)state;
    const struct mr_weight_name exceptions[] = {{MR_WEIGHT_HEAD, NULL, "a"},
                                                {MR_WEIGHT_UP, NULL, "b.%u"},
                                                {MR_WEIGHT_HEAD, NULL, "c"},
                                                {0}};
    struct mr_tensor_naming naming = {.exceptions = exceptions};
    assert_name(&naming, MR_WEIGHT_HEAD, 0, 0, "a.weight");
    naming.second = true;
    assert_name(&naming, MR_WEIGHT_HEAD, 0, 0, "c.weight");
    assert_name(&naming, MR_WEIGHT_UP, 4, 0, "b.4.weight");
}

static void files_may_leave_out_the_beginning_of_names(void **state)
{
    (void)state;
    const struct mr_tensor_naming naming = {.left_out = "model."};
    assert_name(&naming, MR_WEIGHT_FINAL_NORM, 0, 0, "norm.weight");
    assert_name(&naming, MR_WEIGHT_HEAD, 0, 0, "lm_head.weight");
}

static void text_parts_of_larger_models_have_prefixes(void **state)
{
    (void)state;
    const struct mr_tensor_naming outer = {.outer = "language_model."};
    const struct mr_tensor_naming inner = {.inner = "model.language_model."};
    assert_name(&outer, MR_WEIGHT_FINAL_NORM, 0, 0, "language_model.model.norm.weight");
    assert_name(&outer, MR_WEIGHT_HEAD, 0, 0, "language_model.lm_head.weight");
    assert_name(&inner, MR_WEIGHT_V, 2, 0, "model.language_model.layers.2.self_attn.v_proj.weight");
    assert_name(&inner, MR_WEIGHT_HEAD, 0, 0, "lm_head.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_the_numbers_of_layer_and_expert),
        cmocka_unit_test(exceptions_of_a_family_replace_usual_names),
        cmocka_unit_test(a_part_may_have_two_names),
        cmocka_unit_test(files_may_leave_out_the_beginning_of_names),
        cmocka_unit_test(text_parts_of_larger_models_have_prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
