#include "ops/cpu_kernels/linear.h"
#include "ops/weights/weight_loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>

#include "../tiny_weights.h"

static void begin(struct mr_weight_loader *loader, struct mr_weights_spec *spec, struct tiny *tiny,
                  struct mr_error *err)
{
    assert_int_equal(mr_tensor_table_sort(&tiny->tensors, NULL), MR_OK);
    *spec = (struct mr_weights_spec){
        .config = &tiny->config, .tensors = &tiny->tensors, .compute = tiny->compute};
    *loader = (struct mr_weight_loader){.spec = spec, .err = err};
    assert_int_equal(mr_weight_loader_begin(loader), MR_OK);
}

static void vectors_get_an_offset(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weight_loader loader;
    struct mr_weights_spec spec;
    struct mr_error err = {0};
    float *vector = NULL, stored[TINY_HIDDEN];
    tiny_open(&tiny);
    begin(&loader, &spec, &tiny, &err);
    const struct mr_weight_place norm = {MR_WEIGHT_ATTENTION_NORM, 1, 0};
    assert_int_equal(mr_weight_loader_read(&loader, norm, TINY_HIDDEN, 1.0f, &vector), MR_OK);
    mr_stored_tensor_row(tiny_find(&tiny, "model.layers.1.input_layernorm.weight"), 0, stored);
    assert_true(vector[3] == stored[3] + 1.0f);
    assert_int_equal(loader.parameter_count, TINY_HIDDEN);
    free(vector);
    assert_int_equal(mr_weight_loader_read(&loader, norm, TINY_HIDDEN + 1, 0.0f, &vector),
                     MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "[32], the model needs [33]"));
    mr_weight_loader_end(&loader);
    tiny_close(&tiny);
}

static void a_part_of_a_stacked_tensor_is_a_layer(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weight_loader loader;
    struct mr_weights_spec spec;
    struct mr_error err = {0};
    struct mr_linear *linear;
    float packed[TINY_HIDDEN], stored[TINY_HIDDEN];
    tiny_open(&tiny);
    tiny_add(&tiny, "model.layers.0.mlp.experts.gate_up_proj", 3 * 2 * TINY_FFN, TINY_HIDDEN);
    tiny_add(&tiny, "model.layers.0.mlp.experts.gate_up_proj_bias", 3, 2 * TINY_FFN);
    assert_int_equal(mr_tensor_table_sort(&tiny.tensors, NULL), MR_OK);
    struct mr_stored_tensor *stacked = tiny_find(&tiny, "model.layers.0.mlp.experts.gate_up_proj");
    stacked->dim_count = 3;
    stacked->dims[0] = 3;
    stacked->dims[1] = 2 * TINY_FFN;
    stacked->dims[2] = TINY_HIDDEN;
    begin(&loader, &spec, &tiny, &err);
    const enum mr_weight_part part = MR_WEIGHT_ALL_GATE_UP;
    const struct mr_linear_plan plan = {
        .index = 2,
        .stacked = 3,
        .width = TINY_HIDDEN,
        .shares = {{part, TINY_FFN, 0, 2 * TINY_FFN, false, false},
                   {part, TINY_FFN, TINY_FFN, 2 * TINY_FFN, false, false}},
        .share_count = 2,
        .alternate = true};
    if (mr_weight_loader_linear(&loader, &plan, &linear) != MR_OK) fail_msg("%s", err.detail);
    tiny_row(linear, 2 * 5 + 1, packed); /* row 5 of up of matrix 2 */
    stacked = tiny_find(&tiny, "model.layers.0.mlp.experts.gate_up_proj");
    mr_stored_tensor_row(stacked, 2 * 2 * TINY_FFN + TINY_FFN + 5, stored);
    assert_memory_equal(packed, stored, sizeof stored);
    mr_cpu_backend.linear_destroy(linear);
    assert_true(mr_weight_loader_transposed(&loader, &plan));
    mr_weight_loader_end(&loader);
    tiny_close(&tiny);
}

static void a_transposed_matrix_is_read_by_columns(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weight_loader loader;
    struct mr_weights_spec spec;
    struct mr_error err = {0};
    struct mr_linear *linear;
    float packed[TINY_HIDDEN], stored[TINY_FFN];
    tiny_open(&tiny);
    begin(&loader, &spec, &tiny, &err);
    const struct mr_linear_plan plan = {.width = TINY_HIDDEN,
                                        .shares = {{.part = MR_WEIGHT_DOWN, .rows = TINY_FFN}},
                                        .share_count = 1,
                                        .transposed = true};
    if (mr_weight_loader_linear(&loader, &plan, &linear) != MR_OK) fail_msg("%s", err.detail);
    tiny_row(linear, 7, packed);
    for (uint32_t i = 0; i < TINY_HIDDEN; i++) {
        mr_stored_tensor_row(tiny_find(&tiny, "model.layers.0.mlp.down_proj.weight"), i, stored);
        assert_true(packed[i] == stored[7]);
    }
    mr_cpu_backend.linear_destroy(linear);
    const struct mr_linear_plan parts = {
        .width = TINY_HIDDEN,
        .shares = {{.part = MR_WEIGHT_DOWN, .rows = 2, .first = 5, .all = TINY_FFN},
                   {.part = MR_WEIGHT_DOWN, .rows = 3, .first = 1, .all = TINY_FFN}},
        .share_count = 2,
        .transposed = true};
    if (mr_weight_loader_linear(&loader, &parts, &linear) != MR_OK) fail_msg("%s", err.detail);
    mr_stored_tensor_row(tiny_find(&tiny, "model.layers.0.mlp.down_proj.weight"), 2, stored);
    tiny_row(linear, 1, packed);
    assert_true(packed[2] == stored[6]);
    tiny_row(linear, 4, packed);
    assert_true(packed[2] == stored[3]);
    mr_cpu_backend.linear_destroy(linear);
    mr_weight_loader_end(&loader);
    tiny_close(&tiny);
}

static void tensors_of_other_parts_are_ignored_in_wrapped_models_only(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weight_loader loader;
    struct mr_weights_spec spec;
    struct mr_error err = {0};
    tiny_open(&tiny);
    tiny_add(&tiny, "vision_tower.patch.weight", 4, 4);
    begin(&loader, &spec, &tiny, &err);
    for (uint32_t i = 0; i < tiny.tensors.count; i++)
        loader.used[i] = memcmp(tiny.tensors.entries[i].name.bytes, "vision", 6) != 0;
    assert_int_equal(mr_weight_loader_reject_unused(&loader), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "vision_tower.patch.weight"));
    tiny.config.wraps_text = true;
    assert_int_equal(mr_weight_loader_reject_unused(&loader), MR_OK);
    mr_weight_loader_end(&loader);
    tiny_close(&tiny);
}

static void causal_masks_are_ignored_and_biases_are_not(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weight_loader loader;
    struct mr_weights_spec spec;
    struct mr_error err = {0};
    tiny_open(&tiny);
    tiny_add(&tiny, "h.0.attn.bias", 8, 8);
    begin(&loader, &spec, &tiny, &err);
    struct mr_stored_tensor *mask = tiny_find(&tiny, "h.0.attn.bias");
    for (uint32_t i = 0; i < tiny.tensors.count; i++)
        loader.used[i] = &tiny.tensors.entries[i] != mask;
    assert_int_equal(mr_weight_loader_reject_unused(&loader), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "h.0.attn.bias"));
    mask->dim_count = 4;
    assert_int_equal(mr_weight_loader_reject_unused(&loader), MR_OK);
    mr_weight_loader_end(&loader);
    tiny_close(&tiny);
}

static void the_text_part_of_a_larger_model_is_found_under_its_prefix(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"language_model.model.", "model.language_model."};
    for (size_t p = 0; p < sizeof prefixes / sizeof prefixes[0]; p++) {
        struct tiny tiny;
        struct mr_weight_loader loader;
        struct mr_weights_spec spec;
        struct mr_error err = {0};
        tiny_open(&tiny);
        tiny.config.wraps_text = true;
        for (uint32_t i = 0; i < tiny.tensors.count; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", prefixes[p], tiny.names[i] + strlen("model."));
            memcpy(tiny.names[i], name, sizeof name);
            tiny.tensors.entries[i].name.length = strlen(name);
        }
        begin(&loader, &spec, &tiny, &err);
        assert_true(mr_weight_loader_has(&loader, (struct mr_weight_place){MR_WEIGHT_K, 1, 0}));
        assert_false(mr_weight_loader_has(&loader, (struct mr_weight_place){MR_WEIGHT_K, 2, 0}));
        mr_weight_loader_end(&loader);
        tiny_close(&tiny);
    }
}

/* Loads a layer of one part and returns its site. */
static uint32_t site_of(struct mr_weight_loader *loader, enum mr_weight_part part, uint32_t rows)
{
    const struct mr_linear_plan plan = {.width = part == MR_WEIGHT_DOWN ? TINY_FFN : TINY_HIDDEN,
                                        .shares = {{.part = part, .rows = rows}},
                                        .share_count = 1};
    struct mr_linear *linear;
    assert_int_equal(mr_weight_loader_linear(loader, &plan, &linear), MR_OK);
    const uint32_t site = ((const struct mr_cpu_linear *)linear)->site;
    assert_int_equal(loader->spec->sites->plans[site].shares[0].part, site > 0 ? part : 0);
    loader->spec->compute->backend->linear_destroy(linear);
    return site;
}

static void layers_have_sites_in_the_order_of_loading(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weight_loader loader;
    struct mr_weights_spec spec;
    struct mr_error err = {0};
    struct mr_layer_sites sites = {0};
    tiny_open(&tiny);
    tiny.config.tied_head = false;
    tiny_add(&tiny, "lm_head.weight", TINY_VOCAB, TINY_HIDDEN);
    begin(&loader, &spec, &tiny, &err);
    spec.sites = &sites;
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(site_of(&loader, MR_WEIGHT_DOWN, TINY_HIDDEN), 3 + i);
    assert_int_equal(site_of(&loader, MR_WEIGHT_EMBEDDING, TINY_VOCAB), 0);
    assert_int_equal(site_of(&loader, MR_WEIGHT_HEAD, TINY_VOCAB), 2);
    assert_int_equal(sites.count, 103);
    assert_int_equal(sites.plans[MR_SITE_EMBEDDING].shares[0].part, MR_WEIGHT_EMBEDDING);
    mr_layer_sites_destroy(&sites);
    mr_layer_sites_destroy(&sites);
    mr_weight_loader_end(&loader);
    tiny_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_get_an_offset),
        cmocka_unit_test(a_part_of_a_stacked_tensor_is_a_layer),
        cmocka_unit_test(a_transposed_matrix_is_read_by_columns),
        cmocka_unit_test(tensors_of_other_parts_are_ignored_in_wrapped_models_only),
        cmocka_unit_test(layers_have_sites_in_the_order_of_loading),
        cmocka_unit_test(causal_masks_are_ignored_and_biases_are_not),
        cmocka_unit_test(the_text_part_of_a_larger_model_is_found_under_its_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
