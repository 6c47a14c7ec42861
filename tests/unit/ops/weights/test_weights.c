#include "ops/weights/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../tiny_weights.h"

static struct mr_weights_spec spec_of(struct tiny *tiny)
{
    assert_int_equal(mr_tensor_table_sort(&tiny->tensors, NULL), MR_OK);
    return (struct mr_weights_spec){
        .config = &tiny->config, .tensors = &tiny->tensors, .compute = tiny->compute};
}

static void rejected(struct tiny *tiny, const char *because)
{
    struct mr_weights_spec spec = spec_of(tiny);
    struct mr_weights weights;
    struct mr_error err = {0};
    assert_int_equal(mr_weights_load(&weights, &spec, &err), MR_BAD_FILE);
    assert_null(weights.layers);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
    struct mr_error checked = {0};
    assert_int_equal(mr_weights_check(&spec, NULL, &checked), MR_BAD_FILE);
    assert_string_equal(checked.detail, err.detail);
}

/* Checks that row `row` of the packed layer equals row `from` of the tensor. */
static void assert_row(const struct mr_linear *linear, uint32_t row,
                       const struct mr_stored_tensor *tensor, uint32_t from)
{
    float packed[TINY_FFN], stored[TINY_FFN];
    tiny_row(linear, row, packed);
    mr_stored_tensor_row(tensor, from, stored);
    assert_memory_equal(packed, stored, tensor->dims[1] * sizeof(float));
}

static void packed_rows_have_the_order_of_the_decoder(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weights weights;
    tiny_open(&tiny);
    struct mr_weights_spec spec = spec_of(&tiny);
    struct mr_error err = {0};
    if (mr_weights_load(&weights, &spec, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_weights_check(&spec, NULL, NULL), MR_OK);
    const struct mr_layer_weights *layer = &weights.layers[1];
    assert_row(layer->qkv, 31, tiny_find(&tiny, "model.layers.1.self_attn.q_proj.weight"), 31);
    assert_row(layer->qkv, 32, tiny_find(&tiny, "model.layers.1.self_attn.k_proj.weight"), 0);
    assert_row(layer->qkv, 48, tiny_find(&tiny, "model.layers.1.self_attn.v_proj.weight"), 0);
    assert_row(layer->gate_up, 6, tiny_find(&tiny, "model.layers.1.mlp.gate_proj.weight"), 3);
    assert_row(layer->gate_up, 7, tiny_find(&tiny, "model.layers.1.mlp.up_proj.weight"), 3);
    assert_row(layer->down, 5, tiny_find(&tiny, "model.layers.1.mlp.down_proj.weight"), 5);
    assert_row(weights.head, 39, tiny_find(&tiny, "model.embed_tokens.weight"), 39);
    assert_ptr_equal(weights.head, weights.embedding);
    assert_null(layer->q_norm);
    assert_int_equal(weights.parameter_count,
                     40 * 32 + 32 + 2 * (2 * 32 + 64 * 32 + 32 * 32 + 3 * 48 * 32));
    mr_weights_destroy(&weights);
    mr_weights_destroy(&weights);
    tiny_close(&tiny);
}

static void an_untied_head_has_its_own_weights(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weights weights;
    tiny_open(&tiny);
    tiny.config.tied_head = false;
    tiny_add(&tiny, "lm_head.weight", TINY_VOCAB, TINY_HIDDEN);
    struct mr_weights_spec spec = spec_of(&tiny);
    assert_int_equal(mr_weights_load(&weights, &spec, NULL), MR_OK);
    assert_ptr_not_equal(weights.head, weights.embedding);
    assert_row(weights.head, 3, tiny_find(&tiny, "lm_head.weight"), 3);
    mr_weights_destroy(&weights);
    tiny_close(&tiny);
}

static void watch(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    uint64_t *seen = context;
    assert_true(done_bytes > *seen && done_bytes <= total_bytes);
    *seen = done_bytes;
}

static void progress_ends_at_the_total(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weights weights;
    uint64_t seen = 0, total = 0;
    tiny_open(&tiny);
    struct mr_weights_spec spec = spec_of(&tiny);
    spec.progress = watch;
    spec.progress_context = &seen;
    assert_int_equal(mr_weights_load(&weights, &spec, NULL), MR_OK);
    for (uint32_t i = 0; i < tiny.tensors.count; i++)
        total += tiny.tensors.entries[i].size_bytes;
    assert_int_equal(seen, total);
    mr_weights_destroy(&weights);
    tiny_close(&tiny);
}

static void a_missing_tensor_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {
        "model.layers.1.mlp.down_proj.weight", "model.layers.0.self_attn.v_proj.weight",
        "model.layers.1.input_layernorm.weight", "model.norm.weight", "model.embed_tokens.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct tiny tiny;
        tiny_open(&tiny);
        assert_int_equal(mr_tensor_table_sort(&tiny.tensors, NULL), MR_OK);
        tiny_find(&tiny, names[i])->name = (struct mr_text){"x", 1};
        rejected(&tiny, names[i]);
        tiny_close(&tiny);
    }
}

static void the_error_of_a_wrong_shape_names_both_shapes(void **state)
{
    (void)state;
    struct tiny tiny;
    tiny_open(&tiny);
    assert_int_equal(mr_tensor_table_sort(&tiny.tensors, NULL), MR_OK);
    struct mr_stored_tensor *k = tiny_find(&tiny, "model.layers.0.self_attn.k_proj.weight");
    k->dims[0] = 32;
    k->dims[1] = 16;
    rejected(&tiny, "[32, 16], the model needs [16, 32]");
    k->dims[0] = 16;
    k->dims[1] = 32;
    k->storage = MR_STORAGE_OTHER;
    rejected(&tiny, "another type");
    k->storage = MR_STORAGE_F32;
    struct mr_stored_tensor *norm = tiny_find(&tiny, "model.norm.weight");
    norm->dim_count = 2;
    norm->dims[1] = 1;
    rejected(&tiny, "model.norm.weight");
    tiny_close(&tiny);
}

static void a_tensor_that_the_model_does_not_use_is_rejected(void **state)
{
    (void)state;
    static const char *const unused[] = {"model.layers.2.mlp.down_proj.weight",
                                         "model.layers.0.self_attn.q_norm.weight",
                                         "blk.0.attn_q.weight"};
    for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++) {
        struct tiny tiny;
        tiny_open(&tiny);
        tiny_add(&tiny, unused[i], 16, 0);
        rejected(&tiny, "is not used by a llama model");
        tiny_close(&tiny);
    }
}

static void stored_rotary_frequencies_are_ignored(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weights weights;
    tiny_open(&tiny);
    tiny_add(&tiny, "model.layers.0.self_attn.rotary_emb.inv_freq", 8, 0);
    struct mr_weights_spec spec = spec_of(&tiny);
    assert_int_equal(mr_weights_load(&weights, &spec, NULL), MR_OK);
    mr_weights_destroy(&weights);
    tiny_close(&tiny);
}

static void a_bias_of_the_wrong_size_is_rejected(void **state)
{
    (void)state;
    struct tiny tiny;
    tiny_open(&tiny);
    tiny_add(&tiny, "model.layers.1.self_attn.k_proj.bias", 32, 0);
    rejected(&tiny, "k_proj.bias");
    tiny_close(&tiny);
}

static void the_bytes_of_weights_are_known_before_they_are_read(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_weights weights;
    struct mr_weights_size size;
    tiny_open(&tiny);
    struct mr_weights_spec spec = spec_of(&tiny);
    spec.numbers = MR_WEIGHTS_INT8;
    assert_int_equal(mr_weights_check(&spec, &size, NULL), MR_OK);
    assert_true(size.quantized);
    spec.numbers = MR_WEIGHTS_STORED;
    assert_int_equal(mr_weights_check(&spec, &size, NULL), MR_OK);
    assert_int_equal(mr_weights_load(&weights, &spec, NULL), MR_OK);
    assert_int_equal(size.parameter_count, weights.parameter_count);
    assert_int_equal(size.bytes, size.parameter_count * sizeof(float));
    assert_true(weights.packed_bytes >= size.bytes && !size.quantized);
    mr_weights_destroy(&weights);
    const uint64_t floats = size.bytes;
    struct mr_stored_tensor *stored =
        (struct mr_stored_tensor *)tiny_find(&tiny, "model.layers.1.self_attn.o_proj.weight");
    stored->storage = MR_STORAGE_Q4_0;
    assert_int_equal(mr_weights_check(&spec, &size, NULL), MR_OK);
    const uint64_t count = (uint64_t)TINY_HIDDEN * TINY_HIDDEN;
    assert_int_equal(size.bytes, floats - count * sizeof(float) + count * 18 / 32);
    assert_true(size.quantized);
    tiny_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_weights_are_known_before_they_are_read),
        cmocka_unit_test(packed_rows_have_the_order_of_the_decoder),
        cmocka_unit_test(an_untied_head_has_its_own_weights),
        cmocka_unit_test(progress_ends_at_the_total),
        cmocka_unit_test(a_missing_tensor_is_named),
        cmocka_unit_test(the_error_of_a_wrong_shape_names_both_shapes),
        cmocka_unit_test(a_tensor_that_the_model_does_not_use_is_rejected),
        cmocka_unit_test(stored_rotary_frequencies_are_ignored),
        cmocka_unit_test(a_bias_of_the_wrong_size_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
