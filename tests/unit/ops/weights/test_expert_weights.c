#include "ops/weights/expert_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>

#include "../tiny_weights.h"

enum { EXPERTS = 2 };

static void add_experts(struct tiny *tiny)
{
    static const struct {
        const char *name;
        uint32_t rows, width;
    } parts[] = {
        {"0.gate_proj", TINY_FFN, TINY_HIDDEN}, {"0.up_proj", TINY_FFN, TINY_HIDDEN},
        {"0.down_proj", TINY_HIDDEN, TINY_FFN}, {"1.gate_proj", TINY_FFN, TINY_HIDDEN},
        {"1.up_proj", TINY_FFN, TINY_HIDDEN},   {"1.down_proj", TINY_HIDDEN, TINY_FFN},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s.weight", parts[i].name);
        tiny_add(tiny, name, parts[i].rows, parts[i].width);
    }
    tiny_add(tiny, "model.layers.0.mlp.gate.weight", EXPERTS, TINY_HIDDEN);
    tiny->config.experts =
        (struct mr_expert_config){.count = EXPERTS, .top_k = 1, .ffn_size = TINY_FFN};
}

static enum mr_status load(struct tiny *tiny, struct mr_expert_weights *experts,
                           struct mr_error *err)
{
    assert_int_equal(mr_tensor_table_sort(&tiny->tensors, NULL), MR_OK);
    const struct mr_weights_spec spec = {
        .config = &tiny->config, .tensors = &tiny->tensors, .compute = tiny->compute};
    struct mr_weight_loader loader = {.spec = &spec, .err = err};
    assert_int_equal(mr_weight_loader_begin(&loader), MR_OK);
    *experts = (struct mr_expert_weights){0};
    enum mr_status status = mr_expert_weights_load(&loader, 0, experts);
    mr_weight_loader_end(&loader);
    return status;
}

static void each_expert_has_layers_of_its_own(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_expert_weights experts;
    struct mr_error err = {0};
    float packed[TINY_HIDDEN], stored[TINY_HIDDEN];
    tiny_open(&tiny);
    add_experts(&tiny);
    if (load(&tiny, &experts, &err) != MR_OK) fail_msg("%s", err.detail);
    tiny_row(experts.gate_up[1], 9, packed);
    mr_stored_tensor_row(tiny_find(&tiny, "model.layers.0.mlp.experts.1.up_proj.weight"), 4,
                         stored);
    assert_memory_equal(packed, stored, sizeof stored);
    assert_non_null(experts.router);
    assert_null(experts.shared_switch);
    mr_expert_weights_destroy(&experts, EXPERTS, &mr_cpu_backend);
    mr_expert_weights_destroy(&experts, EXPERTS, &mr_cpu_backend);
    tiny_close(&tiny);
}

static void a_missing_expert_is_named(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_expert_weights experts;
    struct mr_error err = {0};
    tiny_open(&tiny);
    add_experts(&tiny);
    tiny.config.experts.count = EXPERTS + 1;
    tiny.config.experts.shared_ffn_size = TINY_FFN;
    assert_int_equal(load(&tiny, &experts, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "model.layers.0.mlp.gate.weight"));
    mr_expert_weights_destroy(&experts, EXPERTS + 1, &mr_cpu_backend);
    tiny.config.experts.count = EXPERTS;
    assert_int_equal(load(&tiny, &experts, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "shared_expert.gate_proj.weight\" is missing"));
    mr_expert_weights_destroy(&experts, EXPERTS, &mr_cpu_backend);
    tiny_close(&tiny);
}

/* Changes the description of a tensor to Q4_0. */
static void store_as_q4_0(struct tiny *tiny, const char *name)
{
    for (uint32_t i = 0; i < tiny->tensors.count; i++)
        if (mr_text_is(tiny->tensors.entries[i].name, name))
            tiny->tensors.entries[i].storage = MR_STORAGE_Q4_0;
}

static uint64_t planned_bytes(struct tiny *tiny, bool *quantized)
{
    struct mr_expert_weights experts = {0};
    struct mr_error err = {0};
    const struct mr_weights_spec spec = {.config = &tiny->config,
                                         .tensors = &tiny->tensors,
                                         .compute = tiny->compute,
                                         .numbers = MR_WEIGHTS_STORED};
    struct mr_weight_loader loader = {.spec = &spec, .err = &err, .checks_only = true};
    assert_int_equal(mr_weight_loader_begin(&loader), MR_OK);
    if (mr_expert_weights_load(&loader, 0, &experts) != MR_OK) fail_msg("%s", err.detail);
    mr_weight_loader_end(&loader);
    mr_expert_weights_destroy(&experts, EXPERTS, &mr_cpu_backend);
    *quantized = loader.quantized;
    return loader.packed_bytes;
}

static void experts_in_tensors_of_their_own_are_planned_as_floats(void **state)
{
    (void)state;
    struct tiny tiny;
    bool quantized;
    tiny_open(&tiny);
    add_experts(&tiny);
    assert_int_equal(mr_tensor_table_sort(&tiny.tensors, NULL), MR_OK);
    const uint64_t floats = planned_bytes(&tiny, &quantized);
    assert_int_equal(floats, (EXPERTS * 3 * TINY_FFN + EXPERTS) * TINY_HIDDEN * sizeof(float));
    assert_false(quantized);
    store_as_q4_0(&tiny, "model.layers.0.mlp.experts.1.gate_proj.weight");
    store_as_q4_0(&tiny, "model.layers.0.mlp.experts.1.up_proj.weight");
    assert_int_equal(planned_bytes(&tiny, &quantized), floats);
    assert_false(quantized);
    tiny_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_expert_has_layers_of_its_own),
        cmocka_unit_test(a_missing_expert_is_named),
        cmocka_unit_test(experts_in_tensors_of_their_own_are_planned_as_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
