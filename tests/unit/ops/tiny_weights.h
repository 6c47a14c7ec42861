/* tiny_weights - the tensors of a llama model of two layers, in memory. */
#ifndef MR_TESTS_OPS_TINY_WEIGHTS_H
#define MR_TESTS_OPS_TINY_WEIGHTS_H

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu_kernels/kernels.h"
#include "ops/families/config_json.h"
#include "ops/files/tensor_table.h"

#include "numbers.h"

#include <stdio.h>
#include <stdlib.h>

enum { TINY_LAYERS = 2, TINY_HIDDEN = 32, TINY_FFN = 48, TINY_VOCAB = 40, TINY_TENSORS_MAX = 40 };

struct tiny {
    struct mr_compute *compute; /* the CPU, fp32 */
    struct mr_model_config config;
    struct mr_tensor_table tensors;
    char names[TINY_TENSORS_MAX][64];
    float *numbers[TINY_TENSORS_MAX];
    uint64_t seed;
};

/* Opens the CPU; the caller closes it. */
static inline struct mr_compute *tiny_compute(bool bf16)
{
    struct mr_compute *compute;
    assert_int_equal(mr_cpu_backend.open(&compute, (struct mr_device){0},
                                         bf16 ? MR_NUMBER_BF16 : MR_NUMBER_F32, NULL),
                     MR_OK);
    return compute;
}

/* width 0: a vector. Random numbers: in [-1/4, 1/4] for a matrix, in [3/4, 5/4] for a vector. */
static inline void tiny_add(struct tiny *tiny, const char *name, uint32_t rows, uint32_t width)
{
    uint32_t index = tiny->tensors.count;
    struct mr_stored_tensor *tensor = mr_tensor_table_add(&tiny->tensors);
    size_t count = (size_t)rows * (width > 0 ? width : 1);
    snprintf(tiny->names[index], sizeof tiny->names[index], "%s", name);
    tiny->numbers[index] = calloc(count, sizeof(float));
    for (size_t i = 0; i < count; i++)
        tiny->numbers[index][i] = (width > 0 ? 0.0f : 1.0f) + 0.25f * number_next(&tiny->seed);
    *tensor = (struct mr_stored_tensor){.name = {tiny->names[index], strlen(name)},
                                        .storage = MR_STORAGE_F32,
                                        .dim_count = width > 0 ? 2 : 1,
                                        .dims = {rows, width},
                                        .bytes = (const unsigned char *)tiny->numbers[index],
                                        .size_bytes = count * sizeof(float)};
}

static inline void tiny_add_layer(struct tiny *tiny, uint32_t layer)
{
    static const struct {
        const char *name;
        uint32_t rows, width;
    } parts[] = {
        {"input_layernorm", TINY_HIDDEN, 0},       {"self_attn.q_proj", 2 * 16, TINY_HIDDEN},
        {"self_attn.k_proj", 16, TINY_HIDDEN},     {"self_attn.v_proj", 16, TINY_HIDDEN},
        {"self_attn.o_proj", TINY_HIDDEN, 2 * 16}, {"post_attention_layernorm", TINY_HIDDEN, 0},
        {"mlp.gate_proj", TINY_FFN, TINY_HIDDEN},  {"mlp.up_proj", TINY_FFN, TINY_HIDDEN},
        {"mlp.down_proj", TINY_HIDDEN, TINY_FFN},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%u.%s.weight", layer, parts[i].name);
        tiny_add(tiny, name, parts[i].rows, parts[i].width);
    }
}

/* The table is not sorted yet: a test may add tensors. */
static inline void tiny_open(struct tiny *tiny)
{
    static const char json[] =
        "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":32,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":16,"
        "\"intermediate_size\":48,\"vocab_size\":40,\"max_position_embeddings\":1024,"
        "\"tie_word_embeddings\":true}";
    const struct mr_json_limits limits = {4096, 64, 4};
    struct mr_json *document;
    *tiny = (struct tiny){.seed = 7, .compute = tiny_compute(false)};
    assert_int_equal(
        mr_json_parse(&document, (struct mr_text){json, sizeof json - 1}, &limits, NULL), MR_OK);
    assert_int_equal(mr_model_config_from_json(&tiny->config, mr_json_root(document), NULL), MR_OK);
    mr_json_destroy(document);
    assert_int_equal(mr_tensor_table_create(&tiny->tensors, TINY_TENSORS_MAX, NULL), MR_OK);
    tiny_add(tiny, "model.embed_tokens.weight", TINY_VOCAB, TINY_HIDDEN);
    tiny_add(tiny, "model.norm.weight", TINY_HIDDEN, 0);
    for (uint32_t layer = 0; layer < TINY_LAYERS; layer++)
        tiny_add_layer(tiny, layer);
}

static inline void tiny_close(struct tiny *tiny)
{
    for (size_t i = 0; i < TINY_TENSORS_MAX; i++)
        free(tiny->numbers[i]);
    mr_tensor_table_destroy(&tiny->tensors);
    tiny->compute->backend->close(tiny->compute);
}

/* The tensor of this name, which a test may change. The table must be sorted. */
static inline struct mr_stored_tensor *tiny_find(struct tiny *tiny, const char *name)
{
    const struct mr_stored_tensor *found = mr_tensor_table_find(&tiny->tensors, name);
    assert_non_null(found);
    return &tiny->tensors.entries[found - tiny->tensors.entries];
}

/* Reads a row of a layer of the CPU backend. */
static inline void tiny_row(const struct mr_linear *linear, uint32_t row, float *out)
{
    mr_cpu_linear_row((const struct mr_cpu_linear *)linear, row, out);
}

#endif
