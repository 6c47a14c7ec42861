#include "ops/weights/latent_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>

#include "../tiny_weights.h"

enum { HEADS = 3, RANK = 20, ROPE = 4, NOPE = 6, VALUE = 2, QUERY = 8, EACH = NOPE + VALUE };
enum { PADDED = 32 };
#define LAYER "model.layers.0.self_attn."

static void add_tensors(struct tiny *tiny)
{
    tiny->config.head_count = HEADS;
    tiny->config.residual_scale = 1.0f;
    tiny->config.latent = (struct mr_latent_shape){
        .rank = RANK, .rope_dim = ROPE, .nope_dim = NOPE, .value_dim = VALUE, .query_rank = QUERY};
    tiny_add(tiny, LAYER "q_a_proj.weight", QUERY, TINY_HIDDEN);
    tiny_add(tiny, LAYER "q_a_layernorm.weight", QUERY, 0);
    tiny_add(tiny, LAYER "q_b_proj.weight", HEADS * (NOPE + ROPE), QUERY);
    tiny_add(tiny, LAYER "kv_a_proj_with_mqa.weight", RANK + ROPE, TINY_HIDDEN);
    tiny_add(tiny, LAYER "kv_a_layernorm.weight", RANK, 0);
    tiny_add(tiny, LAYER "kv_b_proj.weight", HEADS * EACH, RANK);
    tiny_add(tiny, LAYER "o_proj.weight", TINY_HIDDEN, HEADS * VALUE);
}

static const float *numbers_of(const struct tiny *tiny, const char *name)
{
    for (uint32_t i = 0; i < tiny->tensors.count; i++)
        if (mr_text_is(tiny->tensors.entries[i].name, name))
            return (const float *)tiny->tensors.entries[i].bytes;
    fail_msg("no tensor %s", name);
    return NULL;
}

/* U_k is transposed and U_v is not; both are padded with zeros. */
static void check_heads(const struct mr_latent_weights *latent, const float *stored)
{
    float row[PADDED];
    for (uint32_t i = 0; i < HEADS * PADDED; i++) {
        const uint32_t head = i / PADDED, column = i % PADDED;
        mr_cpu_linear_row((const struct mr_cpu_linear *)latent->keys, i, row);
        for (uint32_t k = 0; k < NOPE; k++)
            assert_true(row[k] ==
                        (column < RANK ? stored[(head * EACH + k) * RANK + column] : 0.0f));
    }
    for (uint32_t i = 0; i < HEADS * 16; i++) {
        const uint32_t head = i / 16, index = i % 16;
        mr_cpu_linear_row((const struct mr_cpu_linear *)latent->values, i, row);
        for (uint32_t k = 0; k < PADDED; k++)
            assert_true(row[k] == (index < VALUE && k < RANK
                                       ? stored[(head * EACH + NOPE + index) * RANK + k]
                                       : 0.0f));
    }
}

static void the_matrices_of_heads_are_separated_and_padded(void **state)
{
    (void)state;
    struct tiny tiny;
    struct mr_latent_weights latent = {0};
    struct mr_linear *out = NULL;
    struct mr_error err = {0};
    float row[TINY_HIDDEN];
    tiny_open(&tiny);
    /* the tensors of plain attention have no use here */
    mr_tensor_table_destroy(&tiny.tensors);
    for (uint32_t i = 0; i < TINY_TENSORS_MAX; i++) {
        free(tiny.numbers[i]);
        tiny.numbers[i] = NULL;
    }
    assert_int_equal(mr_tensor_table_create(&tiny.tensors, TINY_TENSORS_MAX, NULL), MR_OK);
    add_tensors(&tiny);
    assert_int_equal(mr_tensor_table_sort(&tiny.tensors, NULL), MR_OK);
    const struct mr_weights_spec spec = {
        .config = &tiny.config, .tensors = &tiny.tensors, .compute = tiny.compute};
    struct mr_weight_loader loader = {.spec = &spec, .err = &err};
    assert_int_equal(mr_weight_loader_begin(&loader), MR_OK);
    if (mr_latent_weights_load(&loader, 0, &latent, &out) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_weight_loader_reject_unused(&loader), MR_OK);
    check_heads(&latent, numbers_of(&tiny, LAYER "kv_b_proj.weight"));
    mr_cpu_linear_row((const struct mr_cpu_linear *)latent.down, QUERY + 1, row);
    assert_memory_equal(row, numbers_of(&tiny, LAYER "kv_a_proj_with_mqa.weight") + TINY_HIDDEN,
                        sizeof row);
    assert_memory_equal((const float *)latent.norm,
                        numbers_of(&tiny, LAYER "kv_a_layernorm.weight"), RANK * sizeof(float));
    mr_weight_loader_end(&loader);
    mr_latent_weights_destroy(&latent, &mr_cpu_backend);
    mr_cpu_backend.linear_destroy(out);
    tiny_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_matrices_of_heads_are_separated_and_padded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
