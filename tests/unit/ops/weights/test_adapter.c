#include "ops/weights/adapter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tiny_weights.h"
#include "ops/weights/weights.h"

#define BEFORE "base_model.model.model.layers."

struct fixture {
    struct tiny base, adapter; /* the tensors of the two */
    struct mr_weights weights;
    struct mr_layer_sites sites;
    struct mr_adapter_files files; /* only tensors and a GGUF scale of 1: no files */
};

static void open_fixture(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    tiny_open(&fixture->base);
    assert_int_equal(mr_tensor_table_sort(&fixture->base.tensors, NULL), MR_OK);
    const struct mr_weights_spec spec = {.config = &fixture->base.config,
                                         .tensors = &fixture->base.tensors,
                                         .compute = fixture->base.compute,
                                         .sites = &fixture->sites};
    assert_int_equal(mr_weights_load(&fixture->weights, &spec, NULL), MR_OK);
    tiny_open(&fixture->adapter);
    for (uint32_t i = 0; i < fixture->adapter.tensors.count; i++) {
        free(fixture->adapter.numbers[i]);
        fixture->adapter.numbers[i] = NULL;
    }
    fixture->adapter.tensors.count = 0;
    fixture->files.tensors = &fixture->adapter.tensors;
    fixture->files.path = (char *)"adapter";
}

static void close_fixture(struct fixture *fixture)
{
    mr_layer_sites_destroy(&fixture->sites);
    mr_weights_destroy(&fixture->weights);
    tiny_close(&fixture->adapter);
    tiny_close(&fixture->base);
}

static enum mr_status load(struct fixture *fixture, struct mr_adapter_weights **out,
                           struct mr_error *err)
{
    const struct mr_adapter_base base = {&fixture->base.config, &fixture->sites,
                                         fixture->base.compute};
    assert_int_equal(mr_tensor_table_sort(&fixture->adapter.tensors, NULL), MR_OK);
    return mr_adapter_weights_create(out, &base, &fixture->files, err);
}

static void rejected(struct fixture *fixture, const char *because)
{
    struct mr_adapter_weights *weights;
    struct mr_error err = {0};
    assert_int_equal(load(fixture, &weights, &err), MR_BAD_FILE);
    assert_null(weights);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
    assert_non_null(strstr(err.detail, "adapter"));
}

static void an_adapter_changes_the_layers_that_it_names(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mr_adapter_weights *weights;
    struct mr_error err = {0};
    open_fixture(&fixture);
    tiny_add(&fixture.adapter, BEFORE "1.mlp.up_proj.lora_A.weight", 3, TINY_HIDDEN);
    tiny_add(&fixture.adapter, BEFORE "1.mlp.up_proj.lora_B.weight", TINY_FFN, 3);
    tiny_add(&fixture.adapter, BEFORE "0.self_attn.o_proj.lora_A.weight", 5, TINY_HIDDEN);
    tiny_add(&fixture.adapter, BEFORE "0.self_attn.o_proj.lora_B.weight", TINY_HIDDEN, 5);
    if (load(&fixture, &weights, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(weights->layer_count, 2);
    assert_int_equal(weights->rank, 5);
    assert_int_equal(weights->parameter_count, 3 * (TINY_HIDDEN + TINY_FFN) + 5 * 2 * TINY_HIDDEN);
    assert_true(weights->bytes > weights->parameter_count * sizeof(float));
    uint32_t changed = 0;
    for (uint32_t site = 0; site < weights->adapter.site_count; site++)
        changed += weights->adapter.sites[site] != NULL;
    assert_int_equal(changed, 2);
    mr_adapter_weights_destroy(weights);
    close_fixture(&fixture);
}

static void a_tensor_without_a_place_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture);
    tiny_add(&fixture.adapter, BEFORE "7.mlp.up_proj.lora_A.weight", 3, TINY_HIDDEN);
    tiny_add(&fixture.adapter, BEFORE "7.mlp.up_proj.lora_B.weight", TINY_FFN, 3);
    rejected(&fixture, "layers.7.mlp.up_proj.lora_A.weight\" has no place");
    close_fixture(&fixture);
}

static void half_of_a_pair_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture);
    tiny_add(&fixture.adapter, BEFORE "0.mlp.up_proj.lora_A.weight", 3, TINY_HIDDEN);
    rejected(&fixture, "has no counterpart");
    close_fixture(&fixture);
}

static void shapes_must_fit_the_base(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture);
    tiny_add(&fixture.adapter, BEFORE "0.mlp.up_proj.lora_A.weight", 3, TINY_HIDDEN);
    tiny_add(&fixture.adapter, BEFORE "0.mlp.up_proj.lora_B.weight", TINY_FFN + 1, 3);
    rejected(&fixture, "does not fit a layer of");
    close_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_adapter_changes_the_layers_that_it_names),
        cmocka_unit_test(a_tensor_without_a_place_is_refused),
        cmocka_unit_test(half_of_a_pair_is_refused),
        cmocka_unit_test(shapes_must_fit_the_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
